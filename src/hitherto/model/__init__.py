"""A decoder and an encoder-decoder by config; each layer has its mask."""

from hitherto.model.config import DecoderConfig
from hitherto.model.decoder import Decoder
from hitherto.model.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from hitherto.model.presets import gemma3, gpt2, llama, tiny

__all__ = [
    "Decoder",
    "DecoderConfig",
    "EncoderDecoder",
    "EncoderDecoderConfig",
    "gemma3",
    "gpt2",
    "llama",
    "tiny",
]
