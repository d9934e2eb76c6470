import numpy as np
import pytest

from hitherto.audit.declared import Declared, grid
from hitherto.audit.guess import of_blind, of_leak
from hitherto.audit.influence import hidden_changes
from hitherto.audit.ledger import Ledger
from hitherto.audit.plan import choose_lengths, sizes_of
from hitherto.audit.subject import Subject
from hitherto.errors import MaskError
from hitherto.mask import Causal, Chunks, Everything, PerHead, Prefix, Segments, Window


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_window_reaches_its_width_less_one_a_layer(depth):
    reach = Declared.of(Window(4), depth).reach(20)
    assert (reach == grid(Window(depth * 3 + 1), 20, 20)).all()


def test_unknown_depth_is_the_closure():
    assert (Declared.of(Window(2), None).reach(9) == np.tri(9, dtype=bool)).all()
    assert (Declared.of(Everything(), None).reach(9)).all()


def test_layers_compose_by_paths():
    """Against all paths, one by one."""
    masks = (Causal() & Chunks(3), Window(2) | Prefix(1))
    first, then = (grid(mask, 7, 7) | np.eye(7, dtype=bool) for mask in masks)
    slow = np.zeros((7, 7), bool)
    for q, k, middle in np.ndindex(7, 7, 7):
        slow[q, k] |= then[q, middle] and first[middle, k]
    assert (Declared.of(masks, None).reach(7) == slow).all()


def test_heads_are_joined():
    mask = PerHead((Window(1), Window(3)))
    assert (Declared.of(mask, 1).reach(6) == grid(Window(3), 6, 6)).all()


@pytest.mark.parametrize("wrong", ["Causal()", (), [Causal(), 3]])
def test_declared_must_be_masks(wrong):
    with pytest.raises(MaskError, match="declared"):
        Declared.of(wrong, None)


def test_declared_of_batch_rows_is_refused():
    with pytest.raises(MaskError, match="one row"):
        grid(Segments(np.array([[0, 0, 1], [0, 1, 1]])), 3, 3)


@pytest.mark.parametrize(
    "mask", [Causal(), Window(3), Causal() & Segments(np.repeat([0, 1], 10)), Prefix(4)]
)
def test_changes_cover_every_hidden_pair_and_touch_no_visible_one(mask):
    """With enough changes; each leaves still exactly what sees none of it."""
    reach = grid(mask, 20, 20)
    covered = np.zeros_like(reach)
    for change in hidden_changes(reach, 100):
        assert not (reach[change.still][:, change.keys]).any()
        covered |= change.still[:, None] & change.keys
    assert (covered == ~reach).all()


def test_changes_are_no_more_than_asked_and_keep_the_ends():
    changes = hidden_changes(np.tri(256, dtype=bool), 56, edges=(64,))
    assert len(changes) == 56
    cuts = [int(np.argmax(change.keys)) for change in changes]
    assert {1, 255, 63, 64} <= set(cuts)
    assert {cut % 4 for cut in cuts} == set(range(4))
    assert len({cut % 16 for cut in cuts}) == 16


def subject(**fields):
    return Subject(name="x", run=None, draw=None, redraw=None, kind="ids", **fields)


def test_lengths_lie_around_every_size():
    declared = Declared.of(Causal() & (Window(20) | Prefix(4)), None)
    assert sizes_of(declared.masks[0]) == {20, 4}
    lengths = choose_lengths(subject(sizes=(50,)), declared, Ledger())
    assert {8, 130, 20, 21, 50, 51} <= set(lengths)
    assert len(lengths) <= 14


def test_lengths_respect_limits_and_say_what_is_left_out():
    ledger = Ledger()
    lengths = choose_lengths(subject(sizes=(64,), min_length=10, max_length=40),
                             Declared.of(Causal(), None), ledger)  # fmt: skip
    assert (min(lengths), max(lengths)) == (10, 40)
    assert any("lengths 63" in what for what, _ in ledger.not_covered)


def test_lengths_of_a_mask_with_data_are_the_datas():
    declared = Declared.of(Causal() & Segments(np.zeros(12, int)), None)
    assert choose_lengths(subject(), declared, Ledger()) == [12]


TRI = np.tri(24, dtype=bool)
BACK = np.subtract.outer(np.arange(24), np.arange(24))


@pytest.mark.parametrize(
    ("measured", "declared", "cause"),
    [
        (np.ones((24, 24), bool), TRI, "mask dropped"),
        (BACK >= -1, TRI, "off by one"),
        (BACK >= -3, TRI, "convolution reaches ahead"),
        (BACK < 0, TRI, "polarity"),
        (TRI | (BACK <= -20), TRI, "wraps around"),
        (TRI & (BACK < 7), TRI & (BACK < 6), "window counts more keys"),
        (TRI, TRI & (BACK < 6), "window dropped"),
        (np.arange(24) // 6 <= np.arange(24)[:, None] // 6, TRI, "sees its whole block"),
    ],
)
def test_cause_of_a_leak_follows_its_shape(measured, declared, cause):
    sizes = measured * np.random.default_rng(0).uniform(1, 9, (24, 24))
    assert of_leak(sizes, declared, None)[0] == cause


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("a.norm (GroupNorm)", "pools or normalises over time"),
        ("a.moe (TopKRouter)", "routing over the sequence"),
        ("a.act (Softmax)", "softmax over the wrong axis"),
        ("a.mix (SpectralFilter)", "wraps around"),
        ("a.attn (SelfAttention)", "mask dropped"),
    ],
)
def test_cause_of_a_full_leak_follows_the_module(module, cause):
    sizes = np.random.default_rng(0).uniform(1, 9, (24, 24))
    assert of_leak(sizes, TRI, module)[0] == cause


@pytest.mark.parametrize(
    ("seen", "declared", "cause"),
    [
        (np.eye(24, dtype=bool), TRI, "past hidden"),
        (TRI & (BACK < 5), TRI & (BACK < 6), "window counts fewer keys"),
        (
            TRI & (BACK < 6),
            TRI & ((BACK < 6) | (np.arange(24) < 2)[None]),
            "prefix or sinks hidden",
        ),
        (TRI & (np.arange(24) != 9)[:, None], TRI, "sees no key"),
        (TRI & (BACK != 4), TRI, "wrong mask"),
    ],
)
def test_cause_of_blindness_follows_its_shape(seen, declared, cause):
    assert of_blind(declared & ~seen, seen, declared)[0] == cause
