"""The byte-level tokenizer: the tokens are the bytes themselves, so any text or file has one."""

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

VOCAB_SIZE = 256


def encode(text: bytes | str) -> Int64[Tensor, " queries"]:
    """Token ids 0 .. 255; a str is UTF-8."""
    data = text.encode() if isinstance(text, str) else text
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).astype(np.int64))


def decode(tokens: Int64[Tensor, " queries"]) -> bytes:
    """The bytes back."""
    return bytes(tokens.tolist())
