"""The table of targets, what is listed as exact, and how a refusal reads."""

from importlib import import_module

import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import ANY_MASK, TARGETS, lower, targets
from hitherto.mask import (
    Causal,
    Dilated,
    Everything,
    Nothing,
    PerHead,
    Prefix,
    Segments,
    Strided,
    Window,
)


def test_every_target_has_its_function():
    """A name in the table that nothing answers to."""
    for module, function in TARGETS.values():
        assert callable(getattr(import_module(f"hitherto.lowering.{module}"), function))
    assert set(TARGETS) >= ANY_MASK


@pytest.mark.parametrize(
    ("mask", "grid", "can", "cannot"),
    [
        (Causal(), (5, 9), "flash xformers attention_bias varlen flashmask magi flashinfer", ""),
        (Causal() & Window(3), (5, 9), "flash xformers varlen flash4", "attention_bias"),
        (Causal() | Prefix(5), (7, 9), "flashmask flex magi", "flash xformers attention_bias"),
        (PerHead([Causal(), Window(2)]), (5, 5), "flex flashmask sdpa", "flash varlen magi"),
        (Strided(2), (9, 9), "flex dense magi", "flash flashmask varlen"),
        (Everything(), (4, 9), "flash mha magi", "attention_bias"),
    ],
)
def test_targets_lists_those_that_are_exact(mask, grid, can, cannot):
    """A target that is listed and then refuses, or left out although it is exact."""
    listed = targets(mask, *grid)
    assert set(can.split()) <= set(listed)
    assert not set(cannot.split()) & set(listed)
    for name in set(TARGETS) - set(listed):
        with pytest.raises((Unsupported, ImportError)):
            lower(mask, name, *grid)


def test_any_mask_targets_take_any_mask():
    """A name in ANY_MASK that refuses after all."""
    hard = PerHead([Dilated(3, 2) & Segments([[0] * 7, [-1] * 7]), Strided(3), Nothing()])
    for name in sorted(ANY_MASK - {"jax", "keras"}):
        lower(hard, name, 7, 7)


def test_a_refusal_names_the_first_cell_and_what_can():
    """ "Not supported", and nothing to go on with."""
    with pytest.raises(Unsupported) as caught:
        lower(Causal() & (Window(3) | Prefix(1)), "flash", 4, 9)
    text = str(caught.value)
    assert "query 5, key 1 hidden" in text
    assert "without a gap" in text
    assert "'flex'" in text
    with pytest.raises(Unsupported, match="batch 1"):
        lower(Segments([[0] * 4, [1, 0, 1, 0]]), "varlen", 4, 4)


def test_an_unknown_target_lists_the_known_ones():
    """A KeyError."""
    with pytest.raises(ValueError, match="dense, additive, bits"):
        lower(Causal(), "flash-attn", 4, 4)


def test_lowering_has_no_side_effect_of_import():
    """torch imported to list the names of targets."""
    import subprocess
    import sys

    code = "import sys, hitherto.lowering; sys.exit('torch' in sys.modules or 'jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
