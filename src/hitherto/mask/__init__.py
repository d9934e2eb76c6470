"""Masks: who may attend to whom, said once. numpy only."""

from hitherto.errors import MaskError
from hitherto.mask.data import Keys, Predicate, Queries, Segments, Table, Timeline, Tree
from hitherto.mask.evaluate import evaluate
from hitherto.mask.expression import And, Mask, Minus, Not, Or, PerHead, Shift, Xor, axes, select
from hitherto.mask.positions import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Everything,
    Nothing,
    Prefix,
    RandomBlocks,
    Strided,
    Window,
)
from hitherto.mask.text import parse, spell
from hitherto.mask.bind import Batch, bind, bind_batch
from hitherto.mask.spans import Spans
from hitherto.mask.questions import (
    Answer,
    Blocks,
    blocks,
    column,
    density,
    difference,
    empty_rows,
    equal,
    is_causal,
    live_keys,
    pairs,
    row,
    subset,
    work,
)
