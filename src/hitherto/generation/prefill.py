"""Reading a prompt into a cache."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hitherto.errors import ModelError, explain
from hitherto.model import Decoder
from hitherto.model.attention import Cache
from hitherto.model.limits import require_tokens


@torch.no_grad()
def prefill(
    model: Decoder,
    tokens: Int64[Tensor, "batch queries"],
    cache: Cache,
    chunk: int = 512,
) -> Float[Tensor, "batch vocab"]:
    """Run a prompt through the model; logits of what follows its last token.

    Args:
        model: a decoder.
        tokens: the prompt, or its continuation if the cache has seen some.
        cache: from `model.cache()`; holds the prompt afterwards.
        chunk: tokens run at once, to bound memory. A step is made longer where a layer's mask looks
            ahead over the cut (a prefix that sees itself both ways stays whole).
    """
    require_tokens(tokens, 2)
    if chunk < 1:
        raise ModelError(explain("chunk", "must be >= 1", chunk, "use 512"))
    first, count = cache[0].length, tokens.shape[1]
    done = 0
    while done < count:
        cut = model.stack.limits.next_cut(first + done, chunk, first + count) - first
        hidden = model.hidden(tokens[:, done:cut], cache=cache)
        done = cut
    return model.logits(hidden[:, -1:])[:, 0]
