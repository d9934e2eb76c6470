"""A mask as ONNX nodes over positions: dynamic lengths, integers and bools only, no float trick.

Every mask that is arithmetic in (q, k) becomes a few nodes. Data (ids, tables, times) becomes a
constant that is gathered by position, or an input of the graph. A position that the data does not
cover stops the run with an error of the runtime, as `evaluate` would.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hitherto.errors import Unsupported, explain
from hitherto.mask import (
    And,
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Everything,
    Keys,
    Mask,
    Minus,
    Not,
    Nothing,
    Or,
    PerHead,
    Prefix,
    Queries,
    Segments,
    Shift,
    Strided,
    Table,
    Timeline,
    Tree,
    Window,
    Xor,
    axes,
    evaluate,
)
from hitherto.mask.data import Ranges

Name = str
"""A value of the graph."""

OUTSIDE = 1 << 40
"""Where negative positions are sent before data is gathered: out of bounds, not wrapped around."""


class Graph:
    """Nodes and constants of an ONNX graph, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[tuple, Any] = {}

    def __call__(self, op: str, *inputs: Name, **attributes: Any) -> Name:
        """Add a node of one output and return that."""
        from onnx import helper

        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any) -> Name:
        """Return a constant; an int is int64."""
        from onnx import numpy_helper

        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = numpy_helper.from_array(array, f"constant_{len(self.constants)}")
        return self.constants[key].name

    def size(self, tensor: Name, axis: int) -> Name:
        """Return the length of one axis, int64 of shape (1,)."""
        end = {} if axis == -1 else {"end": axis + 1}
        return self("Shape", tensor, start=axis, **end)

    def positions(self, start: Name, count: Name) -> Name:
        """Return `start .. start + count - 1`; both are int64 of shape (1,)."""
        scalar = self.constant(np.zeros(0, np.int64))
        first, number = (self("Reshape", x, scalar) for x in (start, count))
        return self("Range", first, self("Add", first, number), self.constant(1))


class Cells:
    """Translates masks, for queries and keys at given positions.

    Every value it returns is bool and broadcasts to (batch, heads, queries, keys).
    """

    def __init__(
        self, graph: Graph, q: Name, k: Name, batch: Name, inputs: Mapping[Mask, Name],
        ragged: bool = False, negative: bool = False,
    ):  # fmt: skip
        """Take positions.

        Args:
            graph: where nodes go.
            q: positions of the queries, int64 (queries,), or (batch, queries) where `ragged`.
            k: positions of the keys, int64 (keys,).
            batch: size of the batch, int64 (1,).
            inputs: masks whose data is an input of the graph, (batch, positions), by its name.
            ragged: whether every batch row has queries of its own.
            negative: whether a position may be negative.
        """
        self.graph, self.q, self.k, self.batch, self.inputs = graph, q, k, batch, inputs
        self.ragged, self.negative = ragged, negative
        self.rows = self._as_rows(q)

    def of(self, mask: Mask) -> Name:
        """Return the cells of a mask.

        Raises:
            Unsupported: masks that are neither arithmetic nor data: `Predicate`, `RandomBlocks`.
        """
        g, of = self.graph, self.of
        match mask:
            case And(left=a, right=b):
                return g("And", of(a), of(b))
            case Or(left=a, right=b):
                return g("Or", of(a), of(b))
            case Xor(left=a, right=b):
                return g("Xor", of(a), of(b))
            case Minus(left=a, right=b):
                return g("And", of(a), g("Not", of(b)))
            case Not(mask=a):
                return g("Not", of(a))
            case PerHead(masks=masks):
                return self._stacked(masks)
            case Shift(mask=a, q=dq, k=dk):
                return Cells(
                    g, self._minus(self.q, dq), self._minus(self.k, dk), self.batch, self.inputs,
                    self.ragged, self.negative or dq > 0 or dk > 0,
                ).of(a)  # fmt: skip
        return self._formula(mask)

    def filled(self, cells: Name, batch: Name | None = None) -> Name:
        """Write cells out: (batch or 1, heads or 1, queries, keys)."""
        g, one = self.graph, self.graph.constant([1])
        sizes = g.size(self.q, -1), g.size(self.k, -1)
        return g("Expand", cells, g("Concat", batch or one, one, *sizes, axis=0))

    def _stacked(self, masks: tuple[Mask, ...]) -> Name:
        batched = self.ragged or bool(self.inputs) or axes(PerHead(masks))[0] is not None
        heads = [self.filled(self.of(mask), self.batch if batched else None) for mask in masks]
        return self.graph("Concat", *heads, axis=1)

    def _formula(self, mask: Mask) -> Name:
        """Translate masks that are arithmetic in the two positions."""
        g, q, k = self.graph, self.rows, self.k
        match mask:
            case Everything() | Nothing() | Band(before=None, after=None):
                return g.constant(np.full((1, 1), not isinstance(mask, Nothing)))
            case Causal():
                return g("LessOrEqual", k, q)
            case Window(width=width):
                return self.of(Band(width - 1, 0))
            case Band(before=None, after=after) if after is not None:
                return g("LessOrEqual", k, self._minus(q, -after))
            case Band(before=before, after=None) if before is not None:
                return g("LessOrEqual", self._minus(q, before), k)
            case Band(before=before, after=after):
                return g("And", self.of(Band(before, None)), self.of(Band(None, after)))
            case Prefix(length=length):
                return g("Less", k, g.constant(length))
            case Chunks(size=size, start=start):
                ends = (self._block(self._minus(x, start), size) for x in (q, k))
                return g("Equal", *ends)
            case BlockCausal(size=size):
                return g("LessOrEqual", self._block(k, size), self._block(q, size))
            case Strided(step=step):
                rest = g("Mod", g("Sub", q, k), g.constant(step))
                return g("Equal", rest, g.constant(0))
            case Dilated(width=width, step=step):
                return g("And", self.of(Strided(step)), self.of(Band((width - 1) * step, 0)))
        return self._data(mask)

    def _data(self, mask: Mask) -> Name:
        """Translate masks that hold data."""
        g = self.graph
        match mask:
            case Segments(ids=ids, k_ids=k_ids):
                q_ids = self.inputs.get(mask, ids)
                mine = self._of_queries(q_ids)
                theirs = self._of_keys(q_ids if k_ids is None else k_ids)
                return g("And", g("Equal", mine, theirs), g("GreaterOrEqual", mine, g.constant(0)))
            case Queries(where=where):
                if isinstance(where, tuple):
                    return self._among(self.rows, where)
                return self._of_queries(self.inputs.get(mask, where))
            case Keys(where=where):
                if isinstance(where, tuple):
                    return self._among(self.k, where)
                return self._of_keys(self.inputs.get(mask, where))
            case Timeline(q_time=q_time, k_time=k_time, lookahead=lookahead):
                by = self._of_queries(q_time + lookahead)
                return g("LessOrEqual", self._of_keys(k_time), by)
            case Table(array=array) if not (self.ragged and array.ndim > 2):
                array = array[:, None] if array.ndim == 3 else array
                return self._at(g.constant(array), self._inside(self.q), self._inside(self.k))
            case Tree():
                return self._tree(mask)
        raise Unsupported(
            explain("export_attention(mask)", "must be arithmetic in (q, k), or data by position",
                    str(mask), "lower(mask, 'onnx', ..) makes a tensor for one grid")
        )  # fmt: skip

    def _tree(self, mask: Tree) -> Name:
        g, start = self.graph, self.graph.constant(mask.start)
        nodes = np.arange(mask.parents.size) + mask.start
        above = g.constant(evaluate(mask, nodes, nodes))
        places = [
            g("Where", g("Less", x, start), g.constant(0), g("Sub", x, start))
            for x in (self.q, self.k)
        ]
        drafted = g("And", g("GreaterOrEqual", self.rows, start), self._at(above, *places))
        return g("Or", g("Less", self.k, start), drafted)

    def _at(self, table: Name, q: Name, k: Name) -> Name:
        """Look up rows, then columns, of a table (.., queries, keys)."""
        rows = self.graph("Gather", table, q, axis=-2)
        cells = self.graph("Gather", rows, k, axis=-1)
        return self.graph("Unsqueeze", cells, self.graph.constant([1])) if self.ragged else cells

    def _of_queries(self, data: np.ndarray | Name) -> Name:
        """Look up data at the queries: (queries, 1) or (batch, 1, queries, 1)."""
        g, at = self.graph, self._inside(self.q)
        if isinstance(data, np.ndarray) and data.ndim == 1:
            return self._as_rows(g("Gather", g.constant(data), at))
        name = data if isinstance(data, str) else g.constant(data)
        if not self.ragged:
            return g("Unsqueeze", g("Gather", name, at, axis=1), g.constant([1, 3]))
        every = g("Expand", name, g("Concat", self.batch, g.constant([1]), axis=0))
        found = g("GatherND", every, g("Unsqueeze", at, g.constant([-1])), batch_dims=1)
        return self._as_rows(found)

    def _of_keys(self, data: np.ndarray | Name) -> Name:
        """Look up data at the keys: (keys,) or (batch, 1, 1, keys)."""
        g, at = self.graph, self._inside(self.k)
        if isinstance(data, np.ndarray) and data.ndim == 1:
            return g("Gather", g.constant(data), at)
        name = data if isinstance(data, str) else g.constant(data)
        return g("Unsqueeze", g("Gather", name, at, axis=1), g.constant([1, 2]))

    def _as_rows(self, x: Name) -> Name:
        return self.graph("Unsqueeze", x, self.graph.constant([1, 3] if self.ragged else [1]))

    def _inside(self, position: Name) -> Name:
        """Send negative positions out of bounds: gathering would count them from the end."""
        g = self.graph
        if not self.negative:
            return position
        before = g("Less", position, g.constant(0))
        return g("Where", before, g.constant(OUTSIDE), position)

    def _among(self, at: Name, ranges: Ranges) -> Name:
        g, cells = self.graph, self.of(Nothing())
        for start, stop in ranges:
            ends = g("GreaterOrEqual", at, g.constant(start)), g("Less", at, g.constant(stop))
            cells = g("Or", cells, g("And", *ends))
        return cells

    def _block(self, position: Name, size: int) -> Name:
        """Return where a position's block begins; Mod rounds down, which Div does not."""
        return self.graph("Sub", position, self.graph("Mod", position, self.graph.constant(size)))

    def _minus(self, x: Name, by: int) -> Name:
        return self.graph("Sub", x, self.graph.constant(by)) if by else x
