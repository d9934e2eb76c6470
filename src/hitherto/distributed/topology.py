"""How fast ranks compute and how fast keys travel: the numbers behind a plan's choice."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One attention layer and the linear layers around it. Default: a layer of Llama 3 8B."""

    heads: int = 32
    """Query heads."""

    kv_heads: int = 8
    """Key and value heads."""

    head_dim: int = 128
    """Floats in a head's query, key and value."""

    itemsize: int = 2
    """Bytes of a float on its way: 2 for bfloat16."""

    token_flops: float = 436e6
    """Floating-point operations of the linear layers for one token, forward: 2 a weight."""

    @property
    def key_bytes(self) -> int:
        """Bytes of one position's keys and values, all heads."""
        return 2 * self.kv_heads * self.head_dim * self.itemsize

    @property
    def cell_flops(self) -> int:
        """Floating-point operations of one visible cell, all heads, forward."""
        return 4 * self.heads * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Ranks in nodes. Default: nodes of eight H100 on 400 Gb/s links. See docs/scale.md."""

    ranks_per_node: int = 8
    """Ranks that share the fast links; ranks of a node are numbered one after another."""

    flops: float = 400e12
    """Floating-point operations a second that one rank reaches in attention and linear layers."""

    inside: float = 360e9
    """Bytes a second that one rank receives from its own node."""

    across: float = 45e9
    """Bytes a second that one rank receives from other nodes."""

    latency: float = 10e-6
    """Seconds to start the work on one stretch of rows, however short it is."""

    def node(self, rank: Array) -> Array:
        """Return the node of each rank."""
        return rank // self.ranks_per_node

    def compute(self, layer: Layer, cells: Array, tokens: Array) -> tuple[Array, Array]:
        """Return seconds in attention and in linear layers, forward, for each rank."""
        return cells * (layer.cell_flops / self.flops), tokens * (layer.token_flops / self.flops)

    def travel(self, layer: Layer, received: Array, from_afar: Array) -> Array:
        """Return seconds to receive so many keys, of them so many from other nodes.

        Both kinds of links work at the same time.
        """
        near = (received - from_afar) * (layer.key_bytes / self.inside)
        return np.maximum(near, from_afar * (layer.key_bytes / self.across))
