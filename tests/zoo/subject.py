"""A specimen as `hitherto.audit` wants it: the model, and the doors that the specimen names."""

import copy
from dataclasses import replace

import numpy as np
import torch

from hitherto.audit import Source, Stages, Subject, adapt
from zoo.caches import StaticMemory
from zoo.decoder import CHANNELS, VOCAB, Decoder
from zoo.door import ways
from zoo.specimen import Specimen


def subject(specimen: Specimen, model=None) -> Subject:
    """Return the subject of a specimen, or the same one around another copy of its model."""
    model = specimen.build() if model is None else model
    if "source" in specimen.doors:
        return translator(specimen, model)
    size = {"width": CHANNELS} if specimen.floats else {"vocab": VOCAB}
    plain = adapt(model, name=specimen.name, **size)
    if not isinstance(model, Decoder):
        return replace(plain, depth=specimen.depth)
    extra = {name: door(specimen, model) for name, door in DOORS.items() if name in specimen.doors}
    more = {key: value for fields in extra.values() for key, value in fields.items()}
    return replace(
        plain,
        depth=specimen.depth,
        rebuild=lambda other: subject(specimen, other),
        code="adapt(model)",
        **more,
    )


def on_arrays(function):
    """Let a function of tensors take and return arrays, with the same dropout at every call."""

    def run(*arrays):
        tensors = (torch.as_tensor(np.asarray(a)) for a in arrays)
        with torch.no_grad(), torch.random.fork_rng():
            torch.default_generator.manual_seed(0)  # torch.manual_seed asks every device: slow
            out = function(*tensors)
        out = out[0] if isinstance(out, tuple) else out
        return (out if out.element_size() > 2 else out.float()).numpy()

    return run


def padded(specimen, model):
    return {"padded": on_arrays(ways(model).padded)}


def packed(specimen, model):
    run = ways(model).packed
    return {"packed": lambda x, lengths: on_arrays(lambda t: run(t, lengths))(x)}


def packed_masked(specimen, model):
    run = ways(model).packed_masked
    return {"packed_masked": lambda x, lengths: on_arrays(lambda t: run(t, lengths))(x)}


def resumed(specimen, model):
    """Stages whose first piece may hold pads."""
    prompt = ways(model).prompt
    (offered,) = stages(specimen, model).values()

    def padded(memory, x, real):
        return on_arrays(lambda t, r: prompt(memory, t, r))(x, real)

    return {"stages": replace(offered, padded=padded)}


def stages(specimen, model):
    step = ways(model).step
    static = model.memory is StaticMemory
    offered = Stages(
        start=lambda batch, kind: model.memory(),
        step=lambda memory, x: on_arrays(lambda t: step(memory, t))(x),
        kinds=("static",) if static else ("growing",),
        reuse=lambda memory: memory.clear(),
        poison=poison if static else None,
        generate=lambda x, count: on_arrays(lambda t: model.generate(t, count))(x),
    )
    return {"stages": offered}


def poison(memory, value):
    memory.filled = value


def loss(specimen, model):
    return {"loss": on_arrays(model.loss), "labelled": on_arrays(model.outputs), "shift": 1}


def maps(specimen, model):
    def variant():
        plain = adapt(model, name=specimen.name, vocab=VOCAB)
        run = on_arrays(lambda tokens: model(tokens, output_attentions=True))
        return replace(
            plain, run=run, rebuild=lambda other: maps(specimen, other)["variants"]["maps"]()
        )

    return {"variants": {"maps": variant}}


def exported(specimen, model):
    """An artefact made of the same weights: here a copy whose mixers know that they are one."""

    def variant():
        artefact = copy.deepcopy(model)
        for block in artefact.blocks:
            block.mix.exported = True
        return subject(replace(specimen, doors=()), artefact)

    return {"variants": {"exported": variant}}


DOORS = {
    "padded": padded,
    "packed": packed,
    "packed_masked": packed_masked,
    "stages": stages,
    "resumed": resumed,
    "loss": loss,
    "maps": maps,
    "exported": exported,
}


def translator(specimen, model):
    """An encoder-decoder: the target is the input, beside a source that stays the same."""
    fixed = np.random.default_rng(0).integers(VOCAB, size=(1, 9))
    run = on_arrays(lambda source, target: model(target, source))
    ids = adapt(Decoder(), vocab=VOCAB)
    other = Source(
        draw=ids.draw,
        redraw=ids.redraw,
        run=run,
        encode=on_arrays(lambda source: model.encode(source)[0]),
        padded=on_arrays(lambda source, real, target: model(target, source, real=real)),
    )
    return Subject(
        name=specimen.name,
        run=lambda target: run(np.repeat(fixed, len(target), 0), target),
        draw=ids.draw,
        redraw=ids.redraw,
        kind="ids",
        module=model,
        rebuild=lambda copy: subject(specimen, copy),
        source=other,
    )
