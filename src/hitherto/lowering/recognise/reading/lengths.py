"""transformers: documents by their positions, and padding."""

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.recognise.forms import Padding, PositionIds
from hitherto.lowering.recognise.reading.grid import first_query, ints
from hitherto.mask import Batch, Causal, Everything, Keys, Mask, Segments, bind_batch


def padding(padded: Padding, q_len: int | None = None, q_start: int | None = None) -> Batch:
    """Read which keys of each batch row are tokens; queries are as many as keys unless given."""
    real = ints("Padding.array", padded.array, 2)
    if not np.isin(real, (0, 1)).all():
        raise MaskError(
            explain("Padding.array", "must hold 1 for tokens and 0 for pads", int(real.max()),
                    "pass PositionIds or Segments for packed documents")
        )  # fmt: skip
    return _decoder(Keys(real.astype(bool)), padded.causal, real.shape[1], q_len, q_start)


def position_ids(
    packed: PositionIds, q_len: int | None = None, q_start: int | None = None
) -> Batch:
    """Read documents from positions: one begins wherever they do not rise by one."""
    ids = ints("PositionIds.array", packed.array)
    if ids.ndim not in (1, 2) or not ids.size:
        raise MaskError(
            explain("PositionIds.array", "must be (keys,) or (batch, keys)", str(ids.shape),
                    "pass position_ids as the model gets them")
        )  # fmt: skip
    starts = np.diff(ids, axis=-1, prepend=ids[..., :1]) != 1
    starts[..., 0] = False
    documents = Segments(np.cumsum(starts, -1))
    return _decoder(documents, packed.causal, ids.shape[-1], q_len, q_start)


def _decoder(mask: Mask, causal: bool, k_len: int, q_len: int | None, q_start: int | None) -> Batch:
    rows = k_len if q_len is None else q_len
    seen = (Causal() if causal else Everything()) & mask
    return bind_batch(seen, rows, k_len, first_query(rows, k_len, q_start))
