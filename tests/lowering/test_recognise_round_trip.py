"""What `lower` says, `recognise` reads: the same cells, for every target."""

import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import TARGETS, lower, recognise
from hitherto.lowering.recognise import Bits
from hitherto.lowering.recognise.reading import read
from hitherto.mask import axes, bind_batch, difference, parse
from strategies import seeded_case

NAMED = [
    ("Causal()", 9, 9, 0),
    ("Causal()", 5, 9, 4),
    ("Causal()", 9, 5, 0),
    ("Window(3)", 9, 9, 0),
    ("Window(3)", 5, 9, 4),
    ("Band(None, -3)", 6, 9, 3),
    ("Band(2, 1)", 9, 9, 0),
    ("Everything()", 4, 7, 3),
    ("Causal() | Prefix(3)", 9, 9, 0),
    ("Segments.from_lengths([3, 4, 2])", 9, 9, 0),
    ("Causal() & Segments.from_lengths([3, 4, 2])", 9, 9, 0),
    ("Causal() & Segments.padded([3, 7, 9], side='left')", 9, 9, 0),
    ("Causal() & (Window(3) | Prefix(2))", 300, 300, 0),
]
LIBRARIES = {
    "jax": "jax", "splash": "jax", "xformers": "xformers",
    "flex": "torch.nn.attention.flex_attention", "attention_bias": "torch.nn.attention.bias",
}  # fmt: skip
NOT_READ = {
    "flash4": "its mask_mod is text for another compiler, which is never run here",
}


def lowered(mask, target, q_len, k_len, q_start):
    """Lower, with empty rows accepted where the target asks; skip where it cannot say the mask."""
    for options in ({}, {"empty": "accept"}, {"empty": "mean"}):
        try:
            return lower(mask, target, q_len, k_len, q_start, **options)
        except (Unsupported, TypeError, ValueError) as error:
            last = error
    if isinstance(last, Unsupported):
        return None
    return None if "empty" in str(last) else pytest.fail(repr(last))


def wrong_cell(mask, target, grid):
    """Return the first cell that is read otherwise than it was said; None where all agree."""
    q_len, k_len, q_start = grid
    said = lowered(mask, target, *grid)
    says_nothing = isinstance(said, dict) and not said
    if said is None or says_nothing or (target == "magi" and (axes(mask)[0] or 1) > 1):
        return None
    said = Bits(said, k_len) if target == "bits" else said
    if target == "mha" and said["attn_mask"] is not None and said["attn_mask"].ndim == 3:
        shape = bind_batch(mask, *grid).index.shape
        said = said | {"attn_mask": said["attn_mask"].unflatten(0, (-1, shape[1]))}
    found = read(said, true="attends", q_len=q_len, k_len=k_len, q_start=q_start)
    return difference(found, bind_batch(mask, *grid))


@pytest.mark.parametrize("target", sorted(set(TARGETS) - set(NOT_READ)))
def test_named_masks_are_read_back_from(target):
    """Flattened batches, corners, polarity, window counts: each target has its own."""
    if target in LIBRARIES:
        pytest.importorskip(LIBRARIES[target], reason=f"{target} needs its library")
    for text, *grid in NAMED:
        assert wrong_cell(parse(text), target, tuple(grid)) is None, (text, grid)


@pytest.mark.parametrize("target", sorted(set(TARGETS) - set(NOT_READ)))
def test_random_masks_are_read_back_from(target):
    if target in LIBRARIES:
        pytest.importorskip(LIBRARIES[target], reason=f"{target} needs its library")
    for seed in range(10):
        case = seeded_case(seed, leaves=4, batch=1 + seed % 3, heads=1 + seed % 2)
        assert wrong_cell(case.mask, target, case.grid) is None, case


@pytest.mark.parametrize("target", ["dense", "additive", "bits", "csr", "flex", "flashmask"])
def test_recognise_gives_the_mask_that_was_lowered(target):
    mask = parse("Causal() & (Window(5) | Prefix(2))")
    said = lower(mask, target, 30, 30)
    said = Bits(said, 30) if target == "bits" else said
    found = recognise(said)
    assert found.exact
    assert found.mask == mask
