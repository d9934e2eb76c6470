"""tokamax: by its own Mask and kernel where it is installed, by an independent reading always."""

import numpy as np
import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import Causal, Nothing, Prefix, Window
from lowering.drawn import GRIDS, drawn, wanted


def read(said: dict, q_len: int, k_len: int) -> np.ndarray:
    """Read the arguments as tokamax's docstring defines them, cell by cell."""
    start = np.array(said.get("k_start", np.zeros(q_len, int)))
    end = np.array(said.get("k_end", np.full(q_len, k_len)))
    start, end = np.broadcast_arrays(start, end)
    cells = np.zeros((*start.shape, k_len), bool)
    for at in np.ndindex(cells.shape):
        row, key = at[:-1], at[-1]
        cells[at] = start[row] <= key < end[row] and (not said["is_causal"] or key <= at[-2])
    return cells[(None,) * (4 - cells.ndim)]


def is_ragged(cells: np.ndarray) -> bool:
    """Tell whether any row has a gap or is empty."""
    rows = cells.reshape(-1, cells.shape[-1])
    return any("1" not in (text := "".join("01"[int(x)] for x in row)) or "0" in text.strip("0")
               for row in rows)  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS)
def test_tokamax_ranges_are_the_mask(grid: tuple):
    """An end that includes its key; a gap that is filled in silence."""
    for batch, heads in ((1, 1), (2, 2)):
        for case in drawn(grid, 25, leaves=2, batch=batch, heads=heads):
            cells = wanted(case)
            if is_ragged(cells):
                with pytest.raises(Unsupported, match=r"one range of keys a row|sees no key"):
                    lower(case.mask, "tokamax", *case.grid)
                continue
            said = lower(case.mask, "tokamax", *case.grid)
            got = read(said, *case.grid[:2])
            assert np.array_equal(np.broadcast_to(got, cells.shape), cells), (case, said)


def test_tokamax_names_the_cell_of_the_gap():
    with pytest.raises(Unsupported, match="query 4, key 1 hidden"):
        lower(Causal() & (Window(3) | Prefix(1)), "tokamax", 5, 7)
    with pytest.raises(Unsupported, match="sees no key"):
        lower(Nothing(), "tokamax", 5, 7)
    assert (read(lower(Nothing(), "tokamax", 5, 7, empty="mean"), 5, 7) == 0).all()


def test_tokamax_says_causal_by_name():
    """Its kernels skip more when told."""
    assert lower(Causal(), "tokamax", 7, 7) == {"is_causal": True}
    assert set(lower(Window(3), "tokamax", 7, 7)) == {"is_causal", "k_start"}
    assert set(lower(Causal(), "tokamax", 3, 7)) == {"is_causal", "k_end"}


@pytest.mark.slow
def test_tokamax_shows_what_the_mask_shows():
    """The installed library's own Mask, and its kernels on one-hot values."""
    flags = pytest.importorskip("absl.flags", reason="tokamax is not installed").FLAGS
    flags.mark_as_parsed()  # Or tokamax reads pytest's command line.
    base = pytest.importorskip("tokamax._src.ops.attention.base", reason="tokamax is not installed")
    import jax.numpy as jnp
    from tokamax._src.ops.attention.api import IMPLEMENTATIONS

    q, k = jnp.zeros((2, 13, 2, 8)), jnp.zeros((2, 17, 1, 8))
    v = jnp.broadcast_to(jnp.eye(17)[None, :, None], (2, 17, 1, 17))
    shown = 0
    for case in drawn(GRIDS[0], 60, leaves=2, batch=2, heads=2):
        cells = wanted(case, 2, 2)
        if is_ragged(cells):
            continue
        said = lower(case.mask, "tokamax", *case.grid)
        theirs = base.Mask(
            is_causal=said.pop("is_causal"), **{name: jnp.asarray(x) for name, x in said.items()}
        )
        array = theirs.as_array(13, 17)
        assert np.array_equal(np.broadcast_to(True if array is None else array, cells.shape), cells)
        shown += 1
        if shown > 8:
            continue
        for name in ("xla", "xla_chunked"):
            out = IMPLEMENTATIONS[name](q, k, v, mask=theirs, logits_scale=1.0)
            assert np.array_equal(np.asarray(out).swapaxes(1, 2) > 0, cells), (name, case)
    assert shown > 8
