"""The reason given for a cell: right verdict always, right words for each mask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto.mask import Causal, MaskError, PerHead, Window, axes, evaluate, parse, select
from hitherto.picture import why
from strategies import cases


@given(cases(leaves=5, batch=2, heads=2), st.data())
def test_why_agrees_with_evaluate(case, data):
    """Catches a verdict read from the words' own logic instead of the meaning."""
    q = data.draw(st.integers(case.q_start, case.q_start + case.q_len - 1))
    k = data.draw(st.integers(0, case.k_len - 1))
    batch, head = (data.draw(st.integers(0, (size or 1) - 1)) for size in axes(case.mask))
    seen = evaluate(select(case.mask, batch, head), [q], [k])[0, 0]
    words = why(case.mask, q, k, batch=batch, head=head)
    assert words.startswith("visible: " if seen else "hidden: ")


@pytest.mark.parametrize(
    ("text", "q", "k", "words"),
    [
        ("Causal() & Window(4096)", 9000, 3880,
         "hidden: 5,120 back, Window(4096) allows 4,095; Causal() allows it"),
        ("Causal()", 2, 5, "hidden: 3 ahead, Causal() allows none ahead"),
        ("Causal()", 5, 5, "visible: Causal() allows it"),
        ("Window(3)", 2, 5, "hidden: 3 ahead, Window(3) allows none ahead"),
        ("Causal() & (Window(3) | Prefix(1))", 9, 0,
         "visible: Causal() allows it; Prefix(1) allows it; 9 back, Window(3) allows 2"),
        ("Prefix(4)", 0, 4, "hidden: key 4 is not among the first 4, Prefix(4)"),
        ("Band(1, None)", 9, 5,
         "hidden: 4 back, Band(1, None) allows from 1 back to any distance ahead"),
        ("Chunks(4)", 9, 5, "hidden: query in chunk 2, key in 1, Chunks(4)"),
        ("BlockCausal(4)", 3, 9, "hidden: query in block 0, key in later block 2, BlockCausal(4)"),
        ("Dilated(3, 4)", 9, 7, "hidden: 2 back, Dilated(3, 4) allows multiples of 4 up to 8 back"),
        ("Strided(4)", 9, 7, "hidden: 2 back, Strided(4) allows multiples of 4"),
        ("Segments([0, 1, -1])", 0, 1, "hidden: query in segment 0, key in 1, "
         "Segments([0, 1, -1])"),
        ("Segments([0, 1, -1])", 0, 2, "hidden: query in segment 0, key in none, "
         "Segments([0, 1, -1])"),
        ("Segments([0, 1, -1])", 2, 0, "hidden: query 2 belongs to no segment (id -1), "
         "Segments([0, 1, -1])"),
        ("Queries(range(0, 2))", 5, 1, "hidden: query 5 is not in Queries(range(0, 2))"),
        ("Keys(range(0, 2))", 1, 5, "hidden: key 5 is not in Keys(range(0, 2))"),
        ("Timeline([1, 2], [1, 2.5], lookahead=0.25)", 1, 1,
         "hidden: key at 2.5 s, query sees up to 2.25 s, "
         "Timeline([1.0, 2.0], [1.0, 2.5], lookahead=0.25)"),
        ("Tree([-1, 0, 0], 4)", 6, 5, "hidden: key 5 is no ancestor of the query, "
         "Tree([-1, 0, 0], 4)"),
        ("Tree([-1, 0, 0], 4)", 3, 5, "hidden: key 5 is of the tree, query before it, "
         "Tree([-1, 0, 0], 4)"),
        ("Nothing()", 0, 0, "hidden: Nothing() hides every key"),
        ("Everything() - Window(2)", 5, 4,
         "hidden: - Window(2) takes it away (Window(2) allows it); Everything() allows it"),
        ("~Window(2)", 5, 4, "hidden: ~Window(2) hides it (Window(2) allows it)"),
        ("~Window(2)", 5, 1, "visible: ~Window(2) allows it (4 back, Window(2) allows 1)"),
        ("Causal() ^ Prefix(1)", 5, 0,
         "hidden: both sides say the same (Causal() allows it ^ Prefix(1) allows it)"),
        ("Shift(Prefix(2), k=3)", 9, 6, "hidden: moved to query 9, key 3: key 3 is not among the "
         "first 2, Prefix(2)"),
    ],
)  # fmt: skip
def test_why_says(text, q, k, words):
    assert why(parse(text), q, k) == words


def test_why_leaves_out_long_data():
    """Catches a reason that prints ten thousand ids."""
    mask = parse(f"Segments({[1, 0] * 500})")
    assert why(mask, 1, 998) == "hidden: query in segment 0, key in 1, Segments(...)"


def test_why_asks_the_head_it_is_told():
    mask = PerHead([Causal(), Window(1)])
    assert why(mask, 5, 3, head=1) == "hidden: 2 back, Window(1) allows 0"
    with pytest.raises(MaskError, match="from 0 to 1"):
        why(mask, 5, 3, head=2)
