"""Bad arguments: each is refused when the mask is made, by name, with the rule and a fix."""

import re

import numpy as np
import pytest

from hitherto.mask import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Keys,
    MaskError,
    Not,
    PerHead,
    Predicate,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Shift,
    Strided,
    Table,
    Timeline,
    Tree,
    Window,
    bind,
    evaluate,
)

NAN, INF = float("nan"), float("inf")
BAD = [
    (lambda: Window(0), "Window.width"),
    (lambda: Window(-4), "Window.width"),
    (lambda: Window(2.0), "Window.width"),
    (lambda: Window(True), "Window.width"),
    (lambda: Window(None), "Window.width"),
    (lambda: Window(10**30), "Window.width"),
    (lambda: Band("1", 0), "Band.before"),
    (lambda: Band(0, 1.5), "Band.after"),
    (lambda: Band(-2, 1), "Band"),
    (lambda: Prefix(-1), "Prefix.length"),
    (lambda: Chunks(0), "Chunks.size"),
    (lambda: Chunks(-3), "Chunks.size"),
    (lambda: Chunks(4, start=0.5), "Chunks.start"),
    (lambda: BlockCausal(0), "BlockCausal.size"),
    (lambda: Dilated(0, 1), "Dilated.width"),
    (lambda: Dilated(1, 0), "Dilated.step"),
    (lambda: Strided(-1), "Strided.step"),
    (lambda: RandomBlocks(0, 1, 0), "RandomBlocks.block"),
    (lambda: RandomBlocks(1, -1, 0), "RandomBlocks.count"),
    (lambda: RandomBlocks(1, 1, "x"), "RandomBlocks.seed"),
    (lambda: Segments([]), "Segments.ids"),
    (lambda: Segments([0.0, 1.0]), "Segments.ids"),
    (lambda: Segments([True, False]), "Segments.ids"),
    (lambda: Segments([-2, 0]), "Segments.ids"),
    (lambda: Segments([[0, 1], [0]]), "Segments.ids"),
    (lambda: Segments(np.zeros((2, 2, 2), int)), "Segments.ids"),
    (lambda: Segments("ab"), "Segments.ids"),
    (lambda: Segments([0], k_ids=[0.5]), "Segments.k_ids"),
    (lambda: Segments([[0], [0]], k_ids=[[0], [0], [0]]), "Segments.k_ids"),
    (lambda: Segments.from_lengths([2, -1]), "lengths"),
    (lambda: Segments.from_lengths([[2], [1]]), "lengths"),
    (lambda: Segments.from_lengths([2.5]), "lengths"),
    (lambda: Segments.padded([3, -1]), "lengths"),
    (lambda: Segments.padded([]), "lengths"),
    (lambda: Segments.padded([3], width=2), "lengths"),
    (lambda: Segments.padded([3], width="4"), "width"),
    (lambda: Segments.padded([3], width=4.5), "width"),
    (lambda: Segments.padded([3], side="up"), "side"),
    (lambda: Queries([0, 1]), "Queries.where"),
    (lambda: Queries(3), "Queries.where"),
    (lambda: Keys(None), "Keys.where"),
    (lambda: Keys("abc"), "Keys.where"),
    (lambda: Keys([True, [False]]), "Keys.where"),
    (lambda: Keys(np.ones((1, 1, 1), bool)), "Keys.where"),
    (lambda: Keys(range(0, 10**30)), "Keys.where"),
    (lambda: Timeline([0.0, NAN], [0.0]), "Timeline.q_time"),
    (lambda: Timeline([0.0], [INF]), "Timeline.k_time"),
    (lambda: Timeline([], [0.0]), "Timeline.q_time"),
    (lambda: Timeline(["x"], [0.0]), "Timeline.q_time"),
    (lambda: Timeline([10**400], [0.0]), "Timeline.q_time"),
    (lambda: Timeline([[0.0], [1.0]], [[0.0]] * 3), "Timeline.k_time"),
    (lambda: Timeline([0.0], [0.0], lookahead=NAN), "Timeline.lookahead"),
    (lambda: Timeline([0.0], [0.0], lookahead="1"), "Timeline.lookahead"),
    (lambda: Timeline([0.0], [0.0], lookahead=10**400), "Timeline.lookahead"),
    (lambda: Tree([], 0), "Tree.parents"),
    (lambda: Tree([0], 0), "Tree.parents"),
    (lambda: Tree([1, 0], 0), "Tree.parents"),
    (lambda: Tree([-1, 2, 3, 1], 0), "Tree.parents"),
    (lambda: Tree([-1, 2], 0), "Tree.parents"),
    (lambda: Tree([-2], 0), "Tree.parents"),
    (lambda: Tree([-1.0], 0), "Tree.parents"),
    (lambda: Tree([[-1]], 0), "Tree.parents"),
    (lambda: Tree([-1], -1), "Tree.start"),
    (lambda: Table([[0, 1]]), "Table.array"),
    (lambda: Table([[True], [True, False]]), "Table.array"),
    (lambda: Table(np.ones(3, bool)), "Table.array"),
    (lambda: Table(np.ones((0, 3), bool)), "Table.array"),
    (lambda: Predicate(3, "three"), "Predicate.function"),
    (lambda: Predicate(np.less_equal, "a b"), "Predicate.name"),
    (lambda: Shift(3), "Shift.mask"),
    (lambda: Shift(Causal(), q=0.5), "Shift.q"),
    (lambda: PerHead([]), "PerHead.masks"),
    (lambda: PerHead([Causal(), 3]), r"PerHead.masks\[1\]"),
    (lambda: PerHead([PerHead([Causal()])]), r"PerHead.masks\[0\]"),
    (lambda: Not(3), "Not.mask"),
]


def four_parts(error: pytest.ExceptionInfo, argument: str) -> bool:
    """`argument rule; got what came. What to do.`"""
    pattern = rf"[^;]*{argument}[^;]* (must|has|may|takes)\b.*; got .+\. [A-Z].*\."
    return bool(re.fullmatch(pattern, str(error.value), re.DOTALL))


@pytest.mark.parametrize(
    ("build", "argument"), BAD, ids=[f"{i}-{a}" for i, (_, a) in enumerate(BAD)]
)
def test_bad_argument_is_refused_by_name(build, argument):
    """A mask that means something else, or a numpy error that names nothing the user wrote."""
    with pytest.raises(MaskError) as error:
        build()
    assert four_parts(error, argument), str(error.value)


DATA_SHORT = [
    (Segments([0, 0, 1]), "Segments"),
    (Segments([0, 0, 1, 1], k_ids=[0, 0]), "Segments.k_ids"),
    (Queries([True, True]), "Queries.where"),
    (Keys([True, True]), "Keys.where"),
    (Timeline([0.0, 1.0], [0.0, 1.0, 2.0, 3.0]), "Timeline.q_time"),
    (Timeline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0]), "Timeline.k_time"),
    (Tree([-1], 1), "Tree.parents"),
    (Table(np.ones((3, 4), bool)), "Table.array"),
    (Table(np.ones((4, 3), bool)), "Table.array"),
    (Shift(Segments([0, 0, 1, 1]), q=-1), "Segments.ids"),
    (Shift(Segments([0, 0, 1, 1]), k=1), "Segments"),
    (Causal() & ~Segments([0, 0, 1]), "Segments"),
    (Prefix(0) & Segments([0, 0, 1]), "Segments"),
    (Segments([[0, 0, 1], [0, 1, 1]]), "Segments"),
    (PerHead([Causal(), Segments([0, 0, 1])]), "Segments"),
]


@pytest.mark.parametrize(("mask", "argument"), DATA_SHORT, ids=[str(m) for m, _ in DATA_SHORT])
def test_position_beyond_the_data_is_refused(mask, argument):
    """A guess (wrap-around, clamping, padding) for positions that have no id, time or row."""
    for ask in (lambda: evaluate(mask, np.arange(4), np.arange(4)), lambda: bind(mask, 4, 4)):
        with pytest.raises(MaskError) as error:
            ask()
        assert four_parts(error, argument), str(error.value)


def test_data_of_just_the_right_length_is_enough():
    """Control of the test above: data for queries up to q_stop and keys up to k_len suffices."""
    assert bind(Segments([0, 0, 1, 1], k_ids=[0, 0]), 4, 2, q_start=0).shape == (4, 2)
    assert bind(Queries([True] * 4), 4, 9, q_start=0).shape == (4, 9)
    assert bind(Keys([True] * 4), 2, 4, q_start=1).shape == (2, 4)
    assert bind(Tree([-1], 3), 4, 4).shape == (4, 4)
    assert bind(Table(np.ones((4, 3), bool)), 2, 3, q_start=2).shape == (2, 3)
    assert bind(Segments([0, 0, 1]) & Queries(range(0, 99)), 3, 3).shape == (3, 3)


BAD_GRIDS = [
    ((-1, 4), {}, "q_len"),
    ((4, -1), {}, "k_len"),
    ((2.0, 4), {}, "q_len"),
    ((2, "4"), {}, "k_len"),
    ((True, 4), {}, "q_len"),
    ((5, 4), {}, "q_start|q_len"),
    ((2, 4), {"q_start": -1}, "q_start"),
    ((2, 4), {"q_start": 1.5}, "q_start"),
    ((2, 4), {"q_start": 10**30}, "q_start"),
]


@pytest.mark.parametrize(("sizes", "more", "argument"), BAD_GRIDS)
def test_bind_refuses_a_grid_that_has_no_meaning(sizes, more, argument):
    """Queries that fall outside the sequence and silently see nothing or all."""
    with pytest.raises(MaskError) as error:
        bind(Causal(), *sizes, **more)
    assert four_parts(error, f"({argument})"), str(error.value)


@pytest.mark.parametrize("positions", [[[0]], [0.5], ["0"], 3, None])
def test_evaluate_refuses_what_is_not_a_list_of_positions(positions):
    """Broadcasting a 2-D array of positions into a grid of the wrong rank."""
    with pytest.raises(MaskError) as error:
        evaluate(Causal(), positions, [0])
    assert four_parts(error, "q_pos"), str(error.value)


def test_predicate_that_answers_wrongly_is_named():
    """An arithmetic rule (q - k) taken as truth values, or a grid of another shape."""
    for rule in (np.subtract, lambda q, k: np.ones(5, bool), lambda q, k: None):
        for ask in (evaluate, lambda m, q, k: bind(m, 2, 2)):
            with pytest.raises(MaskError) as error:
                ask(Predicate(rule, "wrong"), np.arange(2), np.arange(2))
            assert four_parts(error, "Predicate wrong"), str(error.value)


def test_axes_that_disagree_are_refused():
    """A batch of 2 broadcast against a batch of 3."""
    two, three = Segments([[0], [0]]), Segments([[0], [0], [0]])
    heads = PerHead([Causal()] * 2) & PerHead([Causal()] * 3)
    for mask, name in ((two & three, "batch"), (heads, "head")):
        for ask in (lambda m: evaluate(m, [0], [0]), lambda m: bind(m, 1, 1)):
            with pytest.raises(MaskError) as error:
                ask(mask)
            assert four_parts(error, name), str(error.value)


@pytest.mark.parametrize("use", [bool, lambda m: m and m, lambda m: not m, lambda m: 1 if m else 0])
def test_mask_has_no_truth_value(use):
    """`a and b` quietly returning b."""
    with pytest.raises((TypeError, MaskError), match="&"):
        use(Causal())


@pytest.mark.parametrize("other", [3, None, np.ones((2, 2), bool), "Causal()"])
def test_mask_combines_with_masks_only(other):
    """A bool array taken as a mask of unknown alignment."""
    for combine in (lambda: Causal() & other, lambda: Causal() | other, lambda: Causal() - other):
        with pytest.raises((TypeError, MaskError)):
            combine()
