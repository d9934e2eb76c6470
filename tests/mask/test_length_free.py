"""Facts about every length: is a mask causal, and which keys may a cache forget?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto.mask import (
    Causal,
    Mask,
    MaskError,
    Predicate,
    RandomBlocks,
    Segments,
    evaluate,
    is_causal,
    live_keys,
    parse,
)
from oracle import first_future, ranges
from strategies import Case, cases, seeded_case

SIDES = (3, 5, 8, 13)
AHEAD = 3000
"""Queries looked at by brute force: beyond the period of three rules of period <= 15."""


def parts(mask: Mask) -> list[Mask]:
    """Return the mask and every mask inside it."""
    inner = [getattr(mask, name, None) for name in ("left", "right", "mask")]
    inner += getattr(mask, "masks", ())
    return [mask] + [part for i in inner if isinstance(i, Mask) for part in parts(i)]


def is_opaque(mask: Mask) -> bool:
    return any(isinstance(part, (Predicate, RandomBlocks)) for part in parts(mask))


def longest(mask: Mask, sizes: range) -> np.ndarray:
    """Evaluate on the largest grid from 0 that the mask's data allow, up to the last of sizes."""
    q_len = k_len = sizes[0]
    for size in sizes:
        q_len = size if covers(mask, size - 1, 0) else q_len
        k_len = size if covers(mask, 0, size - 1) else k_len
    return evaluate(mask, np.arange(q_len), np.arange(k_len))


def covers(mask: Mask, q: int, k: int) -> bool:
    try:
        evaluate(mask, [q], [k])
    except MaskError:
        return False
    return True


def check_causal(mask: Mask) -> bool:
    """A yes has no counterexample on a long grid; a no has one that is real. Is it decided?"""
    answer = is_causal(mask)
    if answer.value is True:
        cells = longest(mask, range(1, 65))
        cells = cells.any((0, 1)) if cells.ndim == 4 else cells
        assert first_future(cells, 0) is None
    if answer.value is False:
        q, k = answer.witness
        assert k > q >= 0
        assert evaluate(mask, [q], [k]).any()
    return answer.value is not None


def seen_later(mask: Mask, q: int) -> list[tuple[int, int]]:
    """Look at every query from q on, as far as the data or AHEAD reach."""
    stop = q + AHEAD
    if not covers(mask, stop - 1, 0):
        stop = next(later for later in range(q, stop) if not covers(mask, later, 0))
    cells = evaluate(mask, np.arange(q, stop), np.arange(q))
    return ranges(cells.any(tuple(range(cells.ndim - 1))).tolist())


def listed(found: np.ndarray) -> list[tuple[int, int]]:
    assert found.dtype == np.int64
    assert found.shape == (len(found), 2)
    return [tuple(pair) for pair in found.tolist()]


def check_live(mask: Mask, q: int) -> None:
    found, want = listed(live_keys(mask, q)), seen_later(mask, q)
    kept = {k for start, stop in found for k in range(start, stop)}
    needed = {k for start, stop in want for k in range(start, stop)}
    assert needed <= kept, "a key that a later query sees was forgotten"
    assert all(0 <= start < stop <= q for start, stop in found)
    if not is_opaque(mask):
        assert found == want


@given(case=cases(sizes=SIDES, leaves=4, tall=False))
def test_is_causal_at_every_length_is_true_to_the_cells(case: Case):
    """A yes drawn from a grid too short to show the leak."""
    assert check_causal(case.mask) or any(
        is_opaque(part) or hasattr(part, "mask") for part in parts(case.mask)
    )


@given(case=cases(sizes=SIDES, leaves=3, batch=2, heads=2, tall=False))
def test_is_causal_covers_every_row_and_head(case: Case):
    """Only the first head looked at."""
    check_causal(case.mask)


@pytest.mark.slow
def test_is_causal_at_every_length_holds_for_many_seeds():
    """What sixty examples miss. Unknown answers are counted, and may not grow."""
    unknown = clear = 0
    for seed in range(6_000):
        mask = seeded_case(seed, sizes=SIDES, leaves=4, tall=False).mask
        decided = check_causal(mask)
        clear += not is_opaque(mask)
        unknown += not decided and not is_opaque(mask)
    assert unknown <= 0.05 * clear, f"{unknown} of {clear} masks without opaque parts"


YES = [
    "Causal()", "Window(5)", "Nothing()", "Band(None, 0)", "Band(9, -3)", "BlockCausal(1)",
    "Chunks(1)", "Dilated(3, 2)", "Causal() & (Window(3) | Prefix(2))", "Causal() & Chunks(8192)",
    "Causal() & Segments([0, 0, 1, 1])", "Causal() & ~Window(2)", "Causal() - Strided(3)",
    "Shift(Causal(), q=3)", "Shift(Causal(), q=2, k=2)", "Shift(Window(3), k=-1)",
    "~~Causal()", "~(~Causal() | Prefix(3))", "Causal() ^ Window(4)", "Window(2) | Window(5)",
    "PerHead([Causal(), Window(2)])", "Causal() & Predicate(opaque)",
    "Causal() & RandomBlocks(4, 2)",
    "RandomBlocks(1, 3)", "Causal() - Predicate(opaque)", "Causal() & Chunks(8192) & Chunks(8191)",
    "Tree([-1, 0, 1], start=0)", "Segments([0, 1, 2])", "Timeline([0, 1, 2], [0, 1, 2])",
    "Timeline([0, 1, 2], [0, 0.5, 2])",
    "Queries([])", "Prefix(0)", "Keys([True])",
    "Prefix(1)", "Causal() & Tree([-1, 0, 0], start=3)",
]  # fmt: skip
NO = {
    "Everything()": (0, 1),
    "~Causal()": (0, 1),
    "Band(None, 1)": (0, 1),
    "Prefix(3)": (0, 1),
    "Causal() | Prefix(2)": (0, 1),
    "BlockCausal(2)": (0, 1),
    "Chunks(3)": (0, 1),
    "Chunks(2, start=1)": (1, 2),
    "Strided(5)": (0, 5),
    "Strided(2) - Strided(6)": (0, 2),
    "Shift(Causal(), k=1)": (0, 1),
    "Causal() | Segments([-1, 0, -1, 0])": (1, 3),
    "Segments([0, 1, 2], k_ids=[5, 0, 1, 2])": (0, 1),
    "Timeline([0, 1, 2], [0, 1, 2], lookahead=1)": (0, 1),
    "Tree([-1, 0, 1], start=2)": (0, 1),
    "Tree([1, -1], start=0)": (0, 1),
    "Queries([False, False, False, True])": (3, 4),
    "Queries(range(1000, 1001))": (1000, 1001),
    "Keys(range(1000, 1001)) & Band(None, 1)": (999, 1000),
    "Keys([False, False, False, False, False, True]) & Band(None, 1)": (4, 5),
    "PerHead([Causal(), Band(None, 1)])": (0, 1),
    "Causal() | Predicate(opaque)": None,
    "Window(3) | Shift(Window(1), k=100)": (0, 100),
    "Queries(range(50, 60)) & Keys(range(55, 99)) & Strided(7)": (50, 57),
    "Chunks(7) & Chunks(5) & ~Causal() & ~Prefix(3)": (0, 3),
}
OPAQUE = {"opaque": Predicate(lambda q, k: (q + k) % 5 == 0, "opaque")}


@pytest.mark.parametrize("text", YES)
def test_causal_masks_are_proved_causal(text: str):
    """`Causal() & anything` left unknown; a data mask judged beyond its data."""
    assert is_causal(parse(text, predicates=OPAQUE)).value is True


@pytest.mark.parametrize("text", NO)
def test_masks_that_see_ahead_are_caught_with_a_pair(text: str):
    """A grid that ends where the data of one side end, and so misses the other side's future."""
    mask = parse(text, predicates=OPAQUE)
    answer = is_causal(mask)
    assert answer.value is False
    assert NO[text] in (None, answer.witness)
    q, k = answer.witness
    assert k > q
    assert evaluate(mask, [q], [k]).any()


@pytest.mark.parametrize("text", ["Predicate(late)", "RandomBlocks(4, 1) & ~Causal()"])
def test_what_cannot_be_decided_is_called_unknown(text: str):
    """A yes for a function nobody can look into."""
    late = Predicate(lambda q, k: (k > q) & (q > 10**6), "late")
    answer = is_causal(parse(text, predicates={"late": late}))
    assert answer.value is not True
    assert answer.reason


@given(case=cases(sizes=SIDES, leaves=3, tall=False), q=st.integers(0, 13))
def test_live_keys_are_what_some_later_query_sees(case: Case, q: int):
    """A key dropped that comes back into view; a key kept for ever that none sees again."""
    check_live(case.mask, max(case.q_start, min(q, case.k_len)))


@given(case=cases(sizes=SIDES, leaves=3, batch=2, heads=2, tall=False), q=st.integers(0, 13))
def test_live_keys_are_what_some_row_or_head_sees_later(case: Case, q: int):
    """A head whose keys are forgotten because another head needs less."""
    check_live(case.mask, max(case.q_start, min(q, case.k_len)))


@pytest.mark.slow
def test_live_keys_hold_for_many_seeds():
    """What sixty examples miss."""
    for seed in range(3_000):
        case = seeded_case(seed, sizes=SIDES, leaves=3, tall=False)
        check_live(case.mask, max(case.q_start, seed % (case.k_len + 1)))


LIVE = [
    ("Everything()", 10, [(0, 10)]),
    ("Nothing()", 10, []),
    ("Causal()", 10, [(0, 10)]),
    ("Causal()", 0, []),
    ("~Causal()", 10, []),
    ("Window(1)", 10, []),
    ("Window(4)", 10, [(7, 10)]),
    ("Window(4)", 2, [(0, 2)]),
    ("Band(3, None)", 10, [(7, 10)]),
    ("Band(None, -3)", 10, [(0, 10)]),
    ("Prefix(3)", 10, [(0, 3)]),
    ("Causal() & (Window(4) | Prefix(2))", 10, [(0, 2), (7, 10)]),
    ("Causal() & Chunks(4)", 10, [(8, 10)]),
    ("Causal() & Chunks(4)", 8, []),
    ("Causal() & Chunks(4, start=2)", 10, []),
    ("Causal() & Chunks(4, start=2)", 11, [(10, 11)]),
    ("Causal() & (Chunks(8) & Window(3))", 9, [(8, 9)]),
    ("BlockCausal(4)", 10, [(0, 10)]),
    ("Dilated(3, 4)", 10, [(2, 10)]),
    ("Strided(3)", 10, [(0, 10)]),
    ("Strided(3) & Window(4)", 10, [(7, 10)]),
    ("Causal() & Segments.from_lengths([4, 4, 4])", 6, [(4, 6)]),
    ("Causal() & Segments.from_lengths([4, 4, 4])", 8, []),
    ("Causal() & Segments.from_lengths([4, 4, 4]) | Causal() & Prefix(1)", 6, [(0, 1), (4, 6)]),
    ("Causal() & Segments.padded([3, 6], side='left')", 5, [(0, 5)]),
    ("Tree([-1, 0, 0], start=5)", 6, [(0, 6)]),
    ("Tree([-1, 0, 0], start=5)", 7, [(0, 6)]),
    ("Tree([-1, 0, 0], start=5)", 8, []),
    ("Keys(range(2, 5))", 10, [(2, 5)]),
    ("Causal() & (Keys(range(2, 3)) | Window(2))", 10, [(2, 3), (9, 10)]),
    ("Queries(range(4, 8))", 8, []),
    ("Queries(range(4, 8))", 7, [(0, 7)]),
    ("Queries(range(1000, 1001)) & Keys(range(2, 5))", 10, [(2, 5)]),
    ("Queries(range(1000, 1001)) & Keys(range(2, 5))", 1001, []),
    ("Timeline([0, 1, 2, 3], [5, 0, 2.5, 1])", 3, [(1, 3)]),
    ("PerHead([Window(2), Window(4)])", 10, [(7, 10)]),
    ("PerHead([Window(2), Causal() & Prefix(3)])", 10, [(0, 3), (9, 10)]),
    ("Shift(Window(4), q=2)", 10, [(5, 10)]),
    ("Window(4096) & Causal()", 5000, [(905, 5000)]),
    ("Causal() & Chunks(8192)", 20000, [(16384, 20000)]),
]


@pytest.mark.parametrize(("text", "q", "want"), LIVE)
def test_live_keys_of_usual_masks_are_exact(text: str, q: int, want: list[tuple[int, int]]):
    """The window one too wide (d05, mlx-lm 390), the chunk kept after its end (i09)."""
    assert listed(live_keys(parse(text), q)) == want


@pytest.mark.parametrize("text", ["RandomBlocks(3, 2)", "Causal() & RandomBlocks(2, 1, seed=4)"])
def test_live_keys_of_random_blocks_are_never_too_few(text: str):
    """An earlier block that a later block draws."""
    for q in (0, 1, 7, 30):
        check_live(parse(text), q)


def test_live_keys_only_ever_fall():
    """A key that dies and rises again, which no cache could give back."""
    for text in ("Causal() & (Window(5) | Prefix(2))", "Causal() & Chunks(4, start=1)",
                 "Dilated(3, 4)", "Causal() & Segments.from_lengths([3, 5, 2, 9])"):  # fmt: skip
        mask = parse(text)
        before: set[int] = set()
        for q in range(19):
            now = {k for a, b in live_keys(mask, q).tolist() for k in range(a, b)}
            assert now <= before | {q - 1}
            before = now


@pytest.mark.parametrize("q", [-1, 2.0, "3", None])
def test_live_keys_refuses_what_is_no_position(q):
    """A negative position counted from the end."""
    with pytest.raises(MaskError, match="q"):
        live_keys(Causal(), q)


def test_live_keys_takes_numpy_ints_and_gives_a_shared_read_only_array():
    """A cache that edits the answer another cache holds."""
    found = live_keys(Causal() & Segments([0, 0, 1]), np.int64(2))
    with pytest.raises(ValueError, match="read-only"):
        found[:] = 0
