"""Every mask that other libraries have a name for comes back as short as it was said."""

import numpy as np
import pytest

from hitherto.lowering import recognise
from hitherto.lowering.recognise.size import size
from hitherto.mask import equal, evaluate, parse

DOCS = "Segments.from_lengths([9, 4, 13, 7, 3])"
ANSWERS = [-1] * 9 + [0] * 10 + [1] * 8 + [2] * 9
PADDED = [-1] * 3 + [0] * 12 + [1] * 8 + [2] * 9 + [-1] * 4
NAMED = {
    "full": "Everything()",
    "empty": "Nothing()",
    "causal": "Causal()",
    "sliding window": "Window(7)",
    "bidirectional sliding window": "Band(6, 6)",
    "local attention": "Band(4, 2)",
    "sinks and window": "Causal() & (Window(7) | Prefix(3))",
    "window and global keys": "Causal() & (Window(6) | Keys([range(9, 11), range(20, 21)]))",
    "chunked causal": "Causal() & Chunks(8)",
    "chunked causal after left padding": "Causal() & Chunks(8, start=3)",
    "chunked bidirectional": "Chunks(8)",
    "block causal": "BlockCausal(8)",
    "dilated window": "Dilated(5, 3)",
    "strided (sparse transformer)": "Causal() & (Window(4) | Strided(6))",
    "fixed (sparse transformer)": "Causal() & (Chunks(8) | Keys([range(7, 8), range(15, 16)]))",
    "prefix-LM": "Causal() | Prefix(9)",
    "documents": DOCS,
    "causal documents": f"Causal() & {DOCS}",
    "causal documents and window": f"Window(5) & {DOCS}",
    "prefix-LM documents": f"{DOCS} & (Causal() | Keys([range(9, 11), range(13, 18)]))",
    "share question": f"Causal() & (Prefix(9) | Segments({ANSWERS}))",
    "causal blockwise": "Causal() & (Chunks(9) | Queries(range(27, 36)))",
    "QK-sparse": "Causal() - Keys(range(5, 8)) - Queries(range(20, 22))",
    "image blocks": f"Causal() | Segments({[-1] * 4 + [0] * 6 + [-1] * 7 + [1] * 8 + [-1] * 11})",
    "left padding": "Causal() & Keys(range(5, 36))",
    "right padding": "Keys(range(0, 29))",
    "left padding and window": "Window(7) - Prefix(5)",
    "padded documents": f"Causal() & Segments({PADDED})",
    "longformer": "Band(3, 3) | Keys(range(0, 2)) | Queries(range(0, 2))",
    "bigbird": "RandomBlocks(4, 2, seed=7)",
    "inverse causal": "Band(0, None)",
    "strictly causal": "Band(None, -1)",
}
GRIDS = [(36, 36, 0), (13, 36, 23), pytest.param((23, 36, 3), marks=pytest.mark.slow)]


def found(mask, q_len, k_len, q_start):
    """Recognise the cells, and prove the answer against the mask they came from."""
    q, k = np.arange(q_start, q_start + q_len), np.arange(k_len)
    answer = recognise(evaluate(mask, q, k), q_start=q_start)
    assert equal(answer.mask, mask, q_len, k_len, q_start)
    return answer


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("name", NAMED)
def test_named_pattern_comes_back_as_short_as_it_was_said(name, grid):
    """On a grid that shows less of it than its text says, a shorter text may equal it."""
    mask = parse(NAMED[name])
    answer = found(mask, *grid)
    assert answer.exact
    assert size(answer.mask) <= size(mask), f"{answer.mask} for {mask}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Causal() & (Window(7) | Prefix(3))", "Causal() & (Window(7) | Prefix(3))"),
        (f"Causal() & {DOCS}", f"Causal() & {DOCS}"),
        ("Causal() & Chunks(8)", "Causal() & Chunks(8)"),
        ("Causal() | Prefix(9)", "Causal() | Prefix(9)"),
        ("Window(4) & Causal()", "Window(4)"),
        ("Band(None, 0)", "Causal()"),
        ("Causal() & Strided(5)", "Causal() & Strided(5)"),
    ],
)
def test_simplest_text_is_the_usual_one(text, said):
    """Of two expressions of one length, the one that people write."""
    assert str(found(parse(text), 36, 36, 0).mask) == said


def test_segments_are_said_with_their_padding():
    mask = parse(f"Causal() & Segments({[-1] * 3 + [d for d in range(7) for _ in range(d + 2)]})")
    assert "7 documents, left padding 3" in found(mask, 38, 38, 0).sentence


def test_heads_with_masks_of_their_own_are_listed():
    text = "PerHead([Causal(), Window(4), Window(4), Causal() | Prefix(9)])"
    assert str(found(parse(text), 17, 23, 6).mask) == text


def test_heads_that_agree_are_one_mask():
    cells = np.broadcast_to(np.tri(9, dtype=bool), (2, 4, 9, 9))
    assert str(recognise(cells).mask) == "Causal()"


def test_batch_rows_are_explained_together():
    """Rows padded by 3, 0, 3 and 7 keys: one mask with a batch axis, not four."""
    pads = np.array([3, 0, 3, 7])
    keys = np.arange(20) >= pads[:, None]
    cells = np.tri(20, dtype=bool) & keys[:, None]
    answer = recognise(cells[:, None])
    assert (evaluate(answer.mask, np.arange(20), np.arange(20))[:, 0] == cells).all()
    assert size(answer.mask) < 30
    assert "left padding 0 to 7" in answer.sentence


def test_batch_of_packed_rows_has_its_documents_counted():
    ids = np.array([[0] * 5 + [1] * 9 + [2] * 6, [0] * 12 + [1] * 4 + [-1] * 4])
    cells = np.tri(20, dtype=bool) & (ids[:, :, None] == ids[:, None]) & (ids[:, None] >= 0)
    answer = recognise(cells)
    assert (evaluate(answer.mask, np.arange(20), np.arange(20))[:, 0] == cells).all()
    assert "2 to 3 documents a batch row" in answer.sentence


def test_tree_of_drafts_is_recognised():
    mask = parse("Tree([-1, 0, 0, 1, 1, 2, 4], 9)")
    assert "Tree" in str(found(mask, 7, 16, 9).mask)


def test_cells_without_a_pattern_are_a_table():
    cells = np.random.default_rng(0).random((7, 11)) < 0.5
    answer = recognise(cells)
    assert (evaluate(answer.mask, np.arange(4, 11), np.arange(11)) == cells).all()
    assert "no named pattern" in answer.sentence.lower()
