"""The encoder-decoder: a source read both ways, a target written left to right.

Three attentions, three masks: the encoder sees the whole source, the decoder sees its past, and the
decoder sees the source. Padding of the source is hidden in the first and the last; padding of the
target stands after it, where causality hides it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from hitherto.cache import Growing, Rolling
from hitherto.mask import Keys
from hitherto.model.attention import Cache, Source
from hitherto.model.config import DecoderConfig
from hitherto.model.decoder import Stack
from hitherto.model.layers import Head
from hitherto.model.limits import require_tokens
from hitherto.model.values import require, require_types
from hitherto.model.weights import drawn_from


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderConfig:
    """Sizes and choices of an `EncoderDecoder`."""

    encoder: DecoderConfig
    """Reads the source; its masks are usually `Everything()`."""
    decoder: DecoderConfig
    """Writes the target; its masks are usually `Causal()`."""
    padding: int = 0
    """The source token that fills up short rows and is never seen."""

    def __post_init__(self) -> None:
        require_types(self)
        same = self.encoder.width == self.decoder.width
        require(self, "decoder", same, f"must have the encoder's width of {self.encoder.width}")


class EncoderDecoder(nn.Module):
    """A translator: logits of the target's next token, given the source.

    Args:
        config: sizes and choices.
        seed: the weights are drawn from it; torch's own random state is not touched.
    """

    def __init__(self, config: EncoderDecoderConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        with drawn_from(seed, self, max(config.encoder.num_layers, config.decoder.num_layers)):
            self.encoder = Stack(config.encoder)
            self.decoder = Stack(config.decoder, crosses=True)
            self.head = Head(config.decoder)

    def forward(
        self,
        source: Int64[Tensor, "batch keys"],
        target: Int64[Tensor, "batch queries"],
    ) -> Float[Tensor, "batch queries vocab"]:
        """Logits of what follows each target token: teacher forcing in one pass."""
        return self.decode(target, self.read(source))

    def read(self, source: Int64[Tensor, "batch keys"]) -> list[Source]:
        """Run the encoder; what each decoder layer's cross-attention reads, computed once."""
        require_tokens(source, 2)
        real = Keys((source != self.config.padding).cpu().numpy())
        masks = [mask & real for mask in self.encoder.masks]
        self.encoder.limits.require_room(source.shape[1])
        places = torch.arange(source.shape[1], device=source.device)
        encoded = self.encoder(source, places, masks, [(slice(0, source.shape[1]), None)])
        return [block.cross.read(encoded, real) for block in self.decoder.blocks]

    def decode(
        self,
        target: Int64[Tensor, "batch queries"],
        sources: Sequence[Source],
        *,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch queries vocab"]:
        """Logits of what follows each target token; with a cache, of those not seen before."""
        require_tokens(target, 2)
        hidden = self.decoder.step(target, [(slice(0, target.shape[1]), cache)], sources)
        return self.head(hidden, self.decoder.embedding)

    def cache(self, rolling: bool = True) -> list[Growing | Rolling]:
        """An empty cache of the decoder's self-attention, one a layer."""
        return self.decoder.cache(rolling)
