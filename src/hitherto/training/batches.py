"""Batches drawn by step number: the same step gives the same batch, whatever came before."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from hitherto.errors import ModelError, explain

Batch = tuple[Tensor, Tensor | None]
"""Tokens (batch, context + 1) and, for packed documents, their ids."""


@dataclass(frozen=True, slots=True)
class Text:
    """One long text; a batch holds windows of it that start anywhere."""

    data: bytes

    def fingerprint(self) -> str:
        """The same for the same text only."""
        return hashlib.sha256(self.data).hexdigest()

    def batch(self, step: int, seed: int, rows: int, context: int) -> Batch:
        """Rows of context + 1 bytes; the last is a label only."""
        room = len(self.data) - context
        if room < 1:
            raise ModelError(
                explain(
                    "text",
                    f"must be longer than the context of {context} bytes",
                    f"{len(self.data)} bytes",
                    "give a longer text or a shorter context",
                )
            )
        starts = _generator(step, seed).integers(0, room, size=rows)
        data = np.frombuffer(self.data, dtype=np.uint8)
        windows = data[starts[:, None] + np.arange(context + 1)]
        return torch.from_numpy(windows.astype(np.int64)), None


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows of whole documents side by side, as `pack` gives them; a batch draws rows."""

    tokens: Int64[Tensor, "rows positions"]
    documents: Int64[Tensor, "rows positions"]

    def fingerprint(self) -> str:
        """The same for the same rows only."""
        rows = self.tokens.numpy().tobytes() + self.documents.numpy().tobytes()
        return hashlib.sha256(rows).hexdigest()

    def batch(self, step: int, seed: int, rows: int, context: int) -> Batch:
        """Rows and their document ids; `context` must be that of `pack`."""
        if self.tokens.shape[1] != context + 1:
            raise ModelError(
                explain(
                    "TrainingConfig.context",
                    f"must be that of the packed rows, {self.tokens.shape[1] - 1}",
                    context,
                    "set it so, or pack again",
                )
            )
        drawn = torch.from_numpy(_generator(step, seed).integers(0, len(self.tokens), size=rows))
        return self.tokens[drawn], self.documents[drawn]


def pack(documents: Sequence[bytes], context: int) -> Packed:
    """Fill rows of context + 1 tokens with documents, first fit, in order.

    A document longer than a row goes on in the next one, as a document of its own. What is left of
    a row is padding: token 0 in document -1, which nothing sees and nothing is asked to predict.
    """
    size = context + 1
    pieces = [d[i : i + size] for d in documents for i in range(0, len(d), size)]
    rows: list[list[bytes]] = []
    for piece in pieces:
        if not rows or sum(map(len, rows[-1])) + len(piece) > size:
            rows.append([])
        rows[-1].append(piece)
    if not rows:
        raise ModelError(explain("documents", "must hold a byte", "none", "give some text"))
    tokens = torch.zeros(len(rows), size, dtype=torch.int64)
    ids = torch.full((len(rows), size), -1, dtype=torch.int64)
    for row, held in enumerate(rows):
        joined = b"".join(held)
        tokens[row, : len(joined)] = torch.tensor(list(joined))
        ids[row, : len(joined)] = torch.repeat_interleave(torch.tensor([len(d) for d in held]))
    return Packed(tokens, ids)


def _generator(step: int, seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, step]))
