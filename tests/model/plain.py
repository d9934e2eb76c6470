"""A decoder written again, plainly: one token and one head at a time, from the papers.

It shares nothing with `hitherto.model` but the names of the weights.
"""

import cmath
import math

import torch
from torch import Tensor

from hitherto.mask import evaluate, parse
from hitherto.model import DecoderConfig


def norm(x: Tensor, weights: dict, name: str, c: DecoderConfig) -> Tensor:
    w = weights[f"{name}.weight"]
    if c.norm == "layer":
        x = (x - x.mean()) / math.sqrt(x.var(correction=0) + c.norm_eps) * w
        return x + weights[f"{name}.bias"] if c.bias else x
    return x / math.sqrt(x.square().mean() + c.norm_eps) * (1 + w if c.norm_offset else w)


def linear(x: Tensor, weights: dict, name: str, c: DecoderConfig) -> Tensor:
    y = weights[f"{name}.weight"] @ x
    return y + weights[f"{name}.bias"] if c.bias else y


def turn(x: Tensor, position: int, base: float, scale: float) -> Tensor:
    half = len(x) // 2
    turned = x.clone()
    for i in range(half):
        pair = complex(x[i], x[i + half])
        pair *= cmath.exp(1j * position / scale / base ** (i / half))
        turned[i], turned[i + half] = pair.real, pair.imag
    return turned


def bucket(distance: int, c: DecoderConfig) -> int:
    """T5's, for a decoder: exact up to half the buckets, then by logarithm."""
    exact = c.relative_buckets // 2
    if distance < exact:
        return max(distance, 0)
    ratio = math.log(distance / exact) / math.log(c.relative_distance / exact)
    return min(exact + int(ratio * (c.relative_buckets - exact)), c.relative_buckets - 1)


def inner(x: Tensor, weights: dict, name: str, c: DecoderConfig) -> Tensor:
    up = linear(x, weights, f"{name}.up", c)
    act = {
        "silu": lambda y: y / (1 + (-y).exp()),
        "gelu_tanh": lambda y: y / 2 * (1 + ((2 / math.pi) ** 0.5 * (y + 0.044715 * y**3)).tanh()),
    }[c.activation]
    hidden = act(linear(x, weights, f"{name}.gate", c)) * up if c.gated else act(up)
    return linear(hidden, weights, f"{name}.down", c)


def attention(xs: list[Tensor], weights: dict, layer: int, c: DecoderConfig) -> list[Tensor]:
    name, n, d = f"stack.blocks.{layer}.attention", len(xs), c.head_dim
    base, scale = (t[layer % len(t)] for t in (c.rotary_bases, c.rotary_scales))
    mask = evaluate(parse(c.layer_masks[layer % len(c.layer_masks)]), range(n), range(n))

    def heads(x: Tensor, kind: str, position: int) -> list[Tensor]:
        parts = list(linear(x, weights, f"{name}.{kind}", c).split(d))
        if kind != "value" and c.norm_qk:
            parts = [norm(p, weights, f"{name}.{kind}_norm", c) for p in parts]
        if kind != "value" and c.positions == "rotary":
            parts = [turn(p, position, base, scale) for p in parts]
        return parts

    q, k, v = ([heads(x, kind, i) for i, x in enumerate(xs)] for kind in ("query", "key", "value"))
    out, group = [], c.num_heads // c.num_kv_heads
    for i in range(n):
        said = []
        for h in range(c.num_heads):
            seen = [j for j in range(n) if mask[i, j]]
            scores = torch.stack([q[i][h] @ k[j][h // group] for j in seen])
            scores = scores * (c.score_scale or d**-0.5)
            if c.score_softcap:
                scores = c.score_softcap * (scores / c.score_softcap).tanh()
            if c.positions == "relative":
                table = weights["stack.relative"]
                scores = scores + torch.stack([table[bucket(i - j, c), h] for j in seen])
            said.append(
                sum(p * v[j][h // group] for p, j in zip(scores.softmax(0), seen, strict=True))
            )
        out.append(linear(torch.cat(said), weights, f"{name}.output", c))
    return out


def logits(weights: dict, ids: list[int], c: DecoderConfig) -> Tensor:
    """(queries, vocab), of one sequence."""
    embedding = weights["stack.embedding.weight"]
    xs = [embedding[i] * c.embedding_scale for i in ids]
    if c.positions == "learned":
        xs = [x + weights["stack.places.weight"][i] for i, x in enumerate(xs)]
    for layer in range(c.num_layers):
        name = f"stack.blocks.{layer}"

        def after(x: Tensor, part: str, name: str = name) -> Tensor:
            return norm(x, weights, f"{name}.{part}_after", c) if c.norm_after else x

        seen = attention(
            [norm(x, weights, f"{name}.attention_norm", c) for x in xs], weights, layer, c
        )
        xs = [x + after(y, "attention") for x, y in zip(xs, seen, strict=True)]
        fed = [
            inner(
                norm(x, weights, f"{name}.feed_forward_norm", c), weights, f"{name}.feed_forward", c
            )
            for x in xs
        ]
        xs = [x + after(y, "feed_forward") for x, y in zip(xs, fed, strict=True)]
    head = embedding if c.tied else weights["head.weight"]
    out = torch.stack([head @ norm(x, weights, "stack.norm", c) for x in xs])
    return out if c.logit_softcap is None else c.logit_softcap * (out / c.logit_softcap).tanh()
