import numpy as np
import pytest
import torch

from audit import models
from audit.models import Attention, model
from audit.replayed import shows
from hitherto.audit import Stages, audit
from hitherto.mask import Window

OPTIONS = {"lengths": (17,), "modes": ("stages",)}


class Cached:
    """Cached generation of a small model; `fault` names what goes wrong."""

    def __init__(self, whole, fault=""):
        self.whole, self.fault, self.kept = whole, fault, {}

    def stages(self, **more):
        return Stages(start=lambda batch, kind: {"n": 0, "past": {}}, step=self.step, **more)

    def step(self, state, tokens):
        start, n = state["n"], tokens.shape[1]
        places = torch.arange(start, start + n)
        if self.fault == "position" and start:
            places = places - 1
        with torch.no_grad():
            x = self.whole.embed(torch.as_tensor(tokens)) + self.whole.places(places)
            for i, mixer in enumerate(self.whole.mixers):
                past = state["past"].setdefault(i, [])
                rule = mixer.rule
                mixer.rule = self.rule(rule, start, n)
                x = x + mixer(x, past, start)
                mixer.rule = rule
            out = self.whole.head(x)
        state["n"] += n
        return out.numpy()

    def rule(self, rule, start, n):
        match self.fault:
            case "unmasked prefill":
                return lambda q, k: k < start + n + 0 * q
            case "corner" if start:
                return lambda q, k: k <= q - start
            case "window":
                return models.causal
        return rule


def report(fault="", rule=models.causal, declared=None, modes=("stages",), **more):
    whole = model(lambda: Attention(rule), lambda: Attention(rule))
    stages = lambda copy: Cached(copy, fault).stages(**more)  # noqa: E731
    declared = () if declared is None else (declared,)
    return audit(whole, *declared, stages=stages, lengths=(17,), modes=modes)


def test_stages_that_agree_are_clean():
    clean = report()
    assert clean.verdict == "clean", str(clean)
    assert any("decode" in line and "several tokens" in line for line in clean.covered)


@pytest.mark.parametrize(
    ("fault", "cause", "mode"),
    [
        ("unmasked prefill", "prefill ignores the mask", "prefill"),
        ("corner", "top-left alignment", "chunks of 2"),
        ("position", "cache offset", "chunks of 2"),
    ],
)
def test_stages_that_disagree_are_found_with_their_cause(fault, cause, mode):
    found = report(fault).findings[0]
    assert (found.kind, found.cause, found.mode) == ("inconsistent", cause, mode), str(found)


def test_window_of_the_forward_alone_is_found():
    rule, declared = models.window(4), Window(4)
    found = report("window", rule, declared).findings[0]
    assert found.cause == "window applied at one stage only"
    assert report("", rule, declared).verdict == "clean"


def test_stage_finding_names_the_module():
    assert report("corner").findings[0].module == "mixers.0 (Attention)"


def test_stages_of_one_module_are_compared_in_its_own_precision():
    """Ready-made stages belong to the module they hold: they are not compared with a copy."""
    for fault in ("", "corner"):
        whole = model()
        stages = Cached(whole, fault).stages()
        assert bool(audit(whole, stages=stages, **OPTIONS).findings) == bool(fault)


def test_cache_used_twice_must_forget():
    def emptied(state):
        state.update(n=0, past={})
        return state

    clean = report(modes=("reuse",), reuse=emptied)
    assert clean.verdict == "clean", str(clean)
    dirty = report(modes=("reuse",), reuse=lambda state: {**state, "n": 0})
    assert [f.cause for f in dirty.findings] == ["cache reused dirty"]


def test_generation_must_pick_what_the_forward_ranks_first():
    whole = model()

    def greedy(tokens, n, wrong=False):
        for _ in range(n):
            with torch.no_grad():
                last = whole(torch.as_tensor(tokens))[:, -1]
            picked = last.argmin(-1) if wrong else last.argmax(-1)
            tokens = np.concatenate([tokens, picked.numpy()[:, None]], 1)
        return tokens[:, -n:]

    cached = Cached(whole)
    for wrong in (False, True):
        stages = cached.stages(generate=lambda x, n, wrong=wrong: greedy(x, n, wrong))
        found = audit(whole, stages=stages, lengths=(17,), modes=("generate",)).findings
        assert [f.probe for f in found] == ["generate"] * wrong


def test_memory_never_written_must_not_be_read(tmp_path):
    class Dirty(Attention):
        def forward(self, x):
            buffer = torch.empty(x.shape[1], x.shape[2])
            buffer[1:] = 0
            return super().forward(x) + (buffer if self.reads else 0 * buffer.nan_to_num())

    for reads in (False, True):
        Dirty.reads = reads
        found = audit(model(Dirty), lengths=(9,), modes=("poison",)).findings
        assert ("reads memory never written" in {f.cause for f in found}) == reads
        assert all(not shows(f, model(Dirty), tmp_path) for f in found)


def test_unused_slots_of_a_cache_must_not_be_read(tmp_path):
    whole = model()

    def with_slots(reads):
        cached = Cached(whole)
        stages = cached.stages(poison=lambda state, value: state.update(slot=value))

        def step(state, tokens):
            return cached.step(state, tokens) + reads * state.get("slot", 0.0)

        import dataclasses

        return dataclasses.replace(stages, step=step)

    assert audit(whole, stages=with_slots(False), **OPTIONS | {"modes": ("poison",)}).clean
    dirty = audit(whole, stages=with_slots(True), **OPTIONS | {"modes": ("poison",)})
    assert {f.cause for f in dirty.findings} == {"reads memory never written"}
    for finding in dirty.findings:
        assert not shows(finding, whole, tmp_path, stages=with_slots(True))


def test_stage_that_fails_is_not_covered():
    def fails(state, tokens):
        raise RuntimeError("no step")

    stages = Stages(start=lambda batch, kind: None, step=fails)
    failed = audit(model(), stages=stages, **OPTIONS)
    assert any("no step" in why for _, why in failed.not_covered)


def test_own_decoder_is_clean_in_every_stage():
    from hitherto.model import Decoder, DecoderConfig

    config = DecoderConfig(
        vocab_size=19, width=8, num_layers=2, num_heads=2,
        layer_masks=("Causal() & Window(5)", "Causal()"),
    )  # fmt: skip
    own = Decoder(config)
    clean = audit(
        own, own.masks, lengths=(13,), modes=("map", "layer", "stages", "packing", "padding")
    )
    assert clean.verdict == "clean", str(clean)
    assert sum("stages" in line for line in clean.covered) == 2
    assert any("packing" in line for line in clean.covered)
    assert any("padding" in line for line in clean.covered)
