"""Let a model read and write while its attention is watched: what the page shows step by step."""

import base64
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from hitherto.attention import attention_weights
from hitherto.attention.grid import ranges_of
from hitherto.errors import ModelError, explain
from hitherto.mask import Everything
from hitherto.model import Decoder
from hitherto.model.attention import Attention, Sight
from hitherto.model.tokens import Tokenizer

MOST_BYTES = 1 << 26
"""Of scores and weights in one page: a browser reads it in about a second."""
CANDIDATES = 6


class Watch:
    """While open, keeps the queries and keys that each layer of a decoder last made."""

    def __init__(self, model: Decoder) -> None:
        self.layers = [block.attention for block in model.stack.blocks]
        self.masks = model.masks
        self.seen: dict[Attention, tuple[Tensor, Tensor, Sight]] = {}

    def __enter__(self) -> "Watch":
        self._hooks = [layer.register_forward_hook(self._keep) for layer in self.layers]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _keep(self, layer: Attention, arguments: tuple[Tensor, Sight], out: Tensor) -> None:
        x, sight = arguments
        q, k, _ = layer.project(x, sight.angles)
        cache = sight.parts[0].cache
        self.seen[layer] = q, k if cache is None else cache.view()[0], sight

    def weights(self, index: int) -> tuple[Tensor, list[int]]:
        """Return a layer's weights (heads, queries, keys), and the keys' positions."""
        q, k, sight = self.seen[self.layers[index]]
        cache = sight.parts[0].cache
        positions = torch.arange(k.shape[2]) if cache is None else cache.view()[2]
        layer = self.layers[index]
        found = attention_weights(
            q, k, self.masks[index], bias=sight.bias, scale=layer.scale, softcap=layer.softcap,
            k_pos=positions,
        )  # fmt: skip
        return found[0], positions.tolist()

    def scores(self, index: int) -> Tensor:
        """Return a layer's scaled scores before cap, bias and mask: (heads, queries, keys)."""
        q, k, _ = self.seen[self.layers[index]]
        scale = self.layers[index].scale
        keys = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        return (q @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale))[0]


@torch.no_grad()
def record(
    model: Decoder, prompt: Sequence[int], count: int, spell: Callable[[int], str], name: str
) -> dict:
    """Read a prompt, then write `count` tokens, the likeliest each time.

    Returns: a `Recording` as `explore/src/data.ts` has it.
    """
    n, heads = len(prompt) + count - 1, model.config.num_heads
    _require_room(n, len(model.masks) * heads)
    tokens, cache, steps = list(prompt), model.cache(), []
    cached = torch.zeros(len(model.masks), heads, n, n)
    with Watch(model) as watch:
        for first in [0, *range(len(prompt), n)]:
            logits = model(torch.tensor([tokens[first:]]), cache=cache)[0, -1]
            held = []
            for index, layer in enumerate(cache):
                weights, positions = watch.weights(index)
                cached[index, :, first : len(tokens), positions] = weights
                spans = ranges_of(np.array(positions))
                held.append({"held": spans, "nbytes": layer.nbytes})
            shares, ids = logits.softmax(-1).topk(min(CANDIDATES, logits.numel()))
            found = zip(ids.tolist(), shares.tolist(), strict=True)
            steps.append({
                "rows": [first, len(tokens)],
                "candidates": [{"text": spell(i), "share": share} for i, share in found],
                "chosen": spell(int(ids[0])),
                "cache": held,
            })  # fmt: skip
            tokens.append(int(ids[0]))
        model(torch.tensor([tokens[:-1]]))
        whole = torch.stack([watch.weights(index)[0] for index in range(len(model.masks))])
        layers = [
            {"scores": floats(watch.scores(index)), "weights": floats(whole[index])}
            for index in range(len(model.masks))
        ]
    for step in steps:
        rows = slice(*step["rows"])
        step["difference"] = float((cached[:, :, rows] - whole[:, :, rows]).abs().max())
    return {
        "model": name, "masks": [str(mask) for mask in model.masks], "heads": heads,
        "tokens": [spell(token) for token in tokens], "prompt": len(prompt), "layers": layers,
        "steps": steps,
    }  # fmt: skip


@torch.no_grad()
def lesson(model: Decoder, tokens: Sequence[int], spell: Callable[[int], str], name: str) -> dict:
    """Measure the loss of each target under the model's masks, and with none.

    Returns: a `Lesson` as `explore/src/data.ts` has it.
    """
    ids = torch.tensor([list(tokens)])
    inputs, targets = ids[:, :-1], ids[0, 1:]
    n = inputs.shape[1]
    open_masks = [Everything()] * len(model.masks)
    hidden = model.stack(inputs, torch.arange(n), open_masks, [(slice(0, n), None)])
    losses = {
        "masked": cross_entropy(model(inputs)[0], targets, reduction="none"),
        "unmasked": cross_entropy(model.logits(hidden)[0], targets, reduction="none"),
    }
    return {
        "model": name,
        "tokens": [spell(token) for token in tokens],
        "masks": [str(mask) for mask in model.masks],
        **{key: [round(x, 6) for x in value.tolist()] for key, value in losses.items()},
    }


def floats(x: Tensor) -> str:
    """Write float32 numbers as base64 of their bytes, little-endian."""
    return base64.b64encode(x.contiguous().numpy().astype("<f4").tobytes()).decode()


class Spelling:
    """How a token is shown: its text, or its bytes in hexadecimal where they are no text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, token: int) -> str:
        """The text of a token."""
        raw = self.tokenizer.spell(token)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = "\0"
        if all(char.isprintable() or char in "\n\t" for char in text):
            return text
        return "".join(f"\\x{byte:02x}" for byte in raw)


def _require_room(n: int, heads: int) -> None:
    if 8 * heads * n * n > MOST_BYTES:
        rule = f"must leave scores and weights of all heads within {MOST_BYTES >> 20} MiB"
        raise ModelError(
            explain("prompt and --tokens", rule, f"{n} positions of {heads} heads",
                    "use a shorter prompt")
        )  # fmt: skip
