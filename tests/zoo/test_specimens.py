"""The zoo itself: every planted fault is really there, and every clean twin is really clean.

Measured by hand in float64, without `hitherto.audit`: one input changed at a time, all outputs
watched, pads and documents and cached steps compared with the plain forward.
"""

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import torch

from hitherto.mask import evaluate, is_causal
from zoo import SPECIMENS
from zoo.decoder import CHANNELS, VOCAB, Decoder
from zoo.door import LENGTHS, numbered, ways, with_scores_scaled

ROUNDING = 1e-9  # of the outputs' scale, in float64; the faintest fault moves 1e-7
LENGTH = 40


def drawn(length, batch=2, seed=0, floats=False):
    torch.manual_seed(seed)
    if floats:
        return torch.randn(batch, length, CHANNELS, dtype=torch.float64)
    return torch.randint(VOCAB, (batch, length))


def changed(tokens, at):
    """The same input with other values at these slots."""
    other = tokens.clone()
    if tokens.is_floating_point():
        other[:, at] = torch.randn_like(other[:, at])
    else:
        other[:, at] = (other[:, at] + torch.randint(1, VOCAB, other[:, at].shape)) % VOCAB
    return other


def moved(one, other):
    """Largest change of each output position, relative to the outputs' scale."""
    gap = (one - other).abs().flatten(2).amax((0, 2)) / one.square().mean().sqrt()
    return gap.numpy()


def influence(run, tokens, draws=3):
    """float (queries, keys): how far each input position moves each output position."""
    length = tokens.shape[1]
    grid = np.zeros((length, length))
    base = run(tokens)
    for key in range(length):
        for _ in range(draws):
            grid[:, key] = np.maximum(grid[:, key], moved(base, run(changed(tokens, key))))
    return grid


def influence_at_once(run, tokens, draws=3):
    """As `influence`, from one row, with one forward for all keys: for models of one row each."""
    length = tokens.shape[1]
    grid = np.zeros((length, length))
    for _ in range(draws):
        rows = torch.cat([tokens[:1], *(changed(tokens[:1], key) for key in range(length))])
        base, *others = run(rows).split(1)
        grid = np.maximum(grid, np.stack([moved(base, other) for other in others], 1))
    return grid


def reachable(declared, length, depth):
    """What may matter through so many layers, each with a residual stream beside it."""
    reach = np.eye(length, dtype=bool)
    for mask in declared if isinstance(declared, tuple) else (declared,) * depth:
        step = evaluate(mask, np.arange(length), np.arange(length)) | np.eye(length, dtype=bool)
        reach = (step.astype(int) @ reach.astype(int)) > 0
    return reach


class Measured:
    """Faults of one specimen, by kind, with the largest movement of each."""

    def __init__(self, specimen):
        self.specimen, self.found = specimen, {}

    def note(self, kind, size, floor=ROUNDING):
        if size > floor:
            self.found[kind] = max(self.found.get(kind, 0.0), float(size))

    def model(self, train=False):
        built = self.specimen.build()
        if not isinstance(built, torch.nn.Module):
            return lambda tokens: torch.from_numpy(built(tokens.numpy()))
        if hasattr(built, "time_axis"):
            return lambda x: built.double()(x.mT).mT
        return built.double().train(train)

    def plain(self, run, length, draws=3, batch=2, ask=influence):
        tokens = drawn(length, batch, floats=self.specimen.floats)
        grid = ask(run, tokens, draws)
        may = reachable(self.specimen.declared, length, self.specimen.depth)
        self.note("leak", grid[~may].max(initial=0.0))
        if (grid[may] < 1e-13).any():
            self.note("blind", 1.0)


def seeded(model):
    """Run with the same dropout every time."""

    def run(tokens):
        torch.manual_seed(5)
        return output(model(tokens))

    return run


def output(value):
    if isinstance(value, tuple):
        return value[0]
    return value["logits"] if isinstance(value, dict) else value


def look_forward(measured):
    for length in (6, max(LENGTH, *measured.specimen.lengths)):
        measured.plain(seeded(measured.model()), length, ask=influence_at_once)


def look_train(measured):
    measured.plain(seeded(measured.model(train=True)), 20)


def look_batch(measured):
    model = measured.model()
    measured.plain(model, 12, batch=1, draws=6)
    tokens = drawn(12, batch=3)
    other = tokens.clone()
    other[1:] = changed(tokens[1:], slice(None))
    measured.note("leak", moved(model(tokens)[:1], model(other)[:1]).max())


def look_scaled(measured):
    measured.plain(with_scores_scaled(measured.model(), 500.0), 12)


def look_layers(measured):
    """Each attention's own rule against the mask declared for its layer."""
    slots = np.arange(12)
    for block, mask in zip(measured.model().blocks, measured.specimen.declared, strict=True):
        seen = block.mix.rule(torch.arange(12)[:, None], torch.arange(12)[None]).numpy()
        declared = evaluate(mask, slots, slots)
        measured.note("leak", (seen & ~declared).max())
        measured.note("blind", (declared & ~seen).max())


def look_bfloat16(measured):
    model = measured.model().bfloat16()
    measured.plain(lambda tokens: model(tokens).double(), 12)


def look_maps(measured):
    model = measured.model()
    measured.plain(lambda tokens: model(tokens, output_attentions=True), 12)


def look_again(measured):
    model = measured.model()
    tokens = drawn(12)
    first = model(tokens)
    for _ in range(4):
        model(changed(tokens, slice(None)))
        measured.note("unstable", moved(first, model(tokens)).max())


def look_truncated(measured):
    model = measured.model()
    tokens = drawn(12)
    measured.note("leak", moved(model(tokens)[:, :7], model(tokens[:, :7])).max())


def look_padded(measured):
    """Left and right pads, of two contents, on one row and on several."""
    model = measured.model()
    padded = ways(model).padded
    for batch in (1, 3):
        tokens = drawn(12, batch)
        alone = model(tokens)
        for left, right in ((1, 0), (5, 0), (0, 4)):
            wide, real = surrounded(tokens, left, right)
            inside = slice(left, left + 12)
            out = padded(wide, real)[:, inside]
            filled = padded(torch.where(real, wide, 3), real)[:, inside]
            measured.note("leak", moved(out, filled).max())
            measured.note("inconsistent", moved(out, alone).max())
            later = changed(wide, left + 11)
            if not may_look_ahead(measured):
                early = slice(left, left + 11)
                gap = moved(padded(wide, real)[:, early], padded(later, real)[:, early])
                measured.note("leak", gap.max())


def may_look_ahead(measured):
    return not is_causal(measured.specimen.declared).value


def surrounded(tokens, left, right):
    wide = torch.nn.functional.pad(tokens, (left, right), value=0)
    slots = torch.arange(wide.shape[1])
    return wide, ((slots >= left) & (slots < left + tokens.shape[1])).expand(len(tokens), -1)


def look_packed(measured, door="packed"):
    """Each document alone against the same document packed, in one row and in two."""
    model = measured.model()
    packed = getattr(ways(model), door)
    rows, lengths = drawn(sum(LENGTHS)), [LENGTHS, LENGTHS[::-1]]
    each = torch.cat([packed(row[None], [own]) for row, own in zip(rows, lengths, strict=True)])
    measured.note("inconsistent", moved(each, packed(rows, lengths)).max())
    tokens = drawn(sum(LENGTHS), 1)
    out = packed(tokens, [LENGTHS])
    edges = np.cumsum((0, *LENGTHS))
    for i, (a, b) in enumerate(pairwise(edges)):
        measured.note("inconsistent", moved(out[:, a:b], model(tokens[:, a:b])).max())
        here = (numbered([LENGTHS])[0] == i).nonzero()[:, 0]
        others = (numbered([LENGTHS])[0] != i).nonzero()[:, 0]
        there = packed(changed(tokens, others), [LENGTHS])
        measured.note("leak", moved(out[:, here], there[:, here]).max())


def look_packed_masked(measured):
    look_packed(measured, "packed_masked")


def look_resumed(measured):
    """A prompt of 5 beside 3 pads, then single steps: against the row alone, and other pads."""
    look_stages(measured)
    model = measured.model()
    prompt, step = ways(model).prompt, ways(model).step
    tokens = drawn(12)
    alone = model(tokens)
    for left, right in ((3, 0), (0, 3)):
        wide, real = surrounded(tokens[:, :5], left, right)
        outs = []
        for held in (wide, torch.where(real, wide, 3)):
            memory = model.memory()
            first = prompt(memory, held, real)[:, left : left + 5]
            rest = [step(memory, tokens[:, i : i + 1]) for i in range(5, 12)]
            outs.append(torch.cat([first, *rest], 1))
        measured.note("inconsistent", moved(alone, outs[0]).max())
        measured.note("leak", moved(*outs).max())


def look_compiled(measured):
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        measured.plain(measured.model(), 12)


def look_exported(measured):
    model, tokens = measured.model(), drawn(LENGTH)
    plain = model(tokens)
    for block in model.blocks:
        block.mix.exported = True
    measured.note("inconsistent", moved(plain, model(tokens)).max())


def look_stages(measured):
    """Prefill, pieces and single steps against the plain forward."""
    model = measured.model()
    start, step = ways(model).start, ways(model).step
    tokens = drawn(20)
    full = output(model(tokens))
    for cuts in ((), tuple(range(1, 20)), (7, 12, 13), (3, 6, 9), (1, 2, 16)):
        memory = start(2)
        parts = torch.tensor_split(tokens, cuts, 1)
        out = torch.cat([output(step(memory, part)) for part in parts], 1)
        measured.note("inconsistent", moved(full, out).max() if out.shape == full.shape else 1.0)
    again = step(memory.clear(), tokens)
    if again.shape == full.shape:
        measured.note("inconsistent", moved(full, again).max())
    if type(model).generate is not Decoder.generate or not measured.found:
        measured.note("inconsistent", float(greedy_differs(model, tokens)))


def greedy_differs(model, tokens, count=4):
    """Whether generation chooses another token than the plain forward, run afresh each time."""
    longer = tokens
    for _ in range(count):
        longer = torch.cat([longer, output(model(longer))[:, -1:].argmax(-1)], 1)
    return not torch.equal(model.generate(tokens, count), longer[:, -count:])


def look_loss(measured):
    """The loss of a row by hand, with one shift; and what other labels do."""
    from zoo.labels import by_row

    model = measured.model()
    tokens, labels = drawn(12, 3), drawn(12, 3, seed=1)
    loss = model.loss(tokens, labels)
    by_hand = by_row(model(tokens)[:, :-1], labels[:, 1:])
    measured.note("label", (loss - by_hand).abs().max())
    out = model.outputs(tokens, labels)
    measured.note("label", moved(out, model.outputs(tokens, changed(labels, slice(None)))).max())


def look_source(measured):
    """Self, cross and encoder maps, and the source's pads."""
    model = measured.model()
    source, target = drawn(9), drawn(7, seed=1)
    grid = influence(lambda t: model(t, source), target)
    measured.note("leak", grid[~np.tri(7, dtype=bool)].max())
    base, across = model(target, source), np.zeros((7, 9))
    inside = influence(lambda s: model.encode(s)[0], source)
    for key in range(9):
        across[:, key] = moved(base, model(target, changed(source, key)))
    may = reachable(measured.specimen.declared["encoder"], 9, 1)
    if (across < 1e-13).any() or (inside[may] < 1e-13).any():
        measured.note("blind", 1.0)
    wide, real = surrounded(source, 0, 4)
    gap = moved(base, model(target, wide, real=real)).max()
    measured.note("inconsistent", gap)
    filled = model(target, torch.where(real, wide, 3), real=real)
    measured.note("leak", moved(model(target, wide, real=real), filled).max())


def look_suffix(measured):
    """All later inputs replaced by one and the same."""
    model, tokens = measured.model(), drawn(12)
    for value in range(VOCAB):
        later = torch.where(torch.arange(12) >= 2, value, tokens)
        measured.note("leak", moved(model(tokens), model(later))[:2].max())


def look_gradient(measured):
    """Gradients of all weights, and of one output by the inputs after it."""
    model = measured.model()
    out = model(drawn(12))
    weights = tuple(p for p in model.parameters() if p.requires_grad)
    found = torch.autograd.grad(out.sum(), weights, allow_unused=True, retain_graph=True)
    if any(not grad.isfinite().all() for grad in found if grad is not None):
        measured.note("broken", 1.0)
    embedded = model.embed(drawn(12)).detach().requires_grad_()
    model.stream = lambda tokens: embedded
    (back,) = torch.autograd.grad(model(drawn(12))[:, 4].square().sum(), embedded)
    measured.note("leak", back[:, 5:].abs().nan_to_num().max())


LOOKS = {name[5:]: look for name, look in list(globals().items()) if name.startswith("look_")}


def measure(specimen):
    measured = Measured(specimen)
    rooms = [d for d in specimen.doors if d in LOOKS]
    if not {"source", "again"} & set(rooms):
        rooms.insert(0, "forward")
    for door in rooms:
        with torch.set_grad_enabled(door == "gradient"):
            LOOKS[door](measured)
    return measured.found


JUDGED = [s for s in SPECIMENS if s.kind not in ("broken",) or "gradient" in s.doors]


@pytest.mark.parametrize("specimen", JUDGED, ids=lambda s: s.name)
def test_specimen_is_what_it_says(specimen):
    """A specimen without its fault, or a clean twin with one, would make the audit's tests void."""
    found = measure(specimen)
    if specimen.kind == "clean":
        assert not found
    else:
        assert specimen.kind in found
        assert set(found) <= {specimen.kind, *specimen.also}


def test_specimen_names_are_unique():
    assert len({s.name for s in SPECIMENS}) == len(SPECIMENS)
