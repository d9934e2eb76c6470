"""Catch a model that sees its future: `python examples/audit_leaky_model.py`.

The fault is one character: `diagonal=2` where 1 was meant. The loss looks wonderful, and what the
model writes is useless. The audit measures who moves whom and names the module.
"""

import torch
from torch import nn

from hitherto import Causal
from hitherto.audit import audit


class Mixer(nn.Module):
    """Attention by hand, with the mask by hand."""

    def __init__(self, width: int, diagonal: int) -> None:
        super().__init__()
        self.diagonal = diagonal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to each position what it may see."""
        q, k, v = self.qkv(x).chunk(3, -1)
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(self.diagonal)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(ahead, float("-inf"))
        return x + self.out(scores.softmax(-1) @ v)


class Model(nn.Module):
    """An embedding, two mixers and a head."""

    def __init__(self, diagonals: tuple[int, int], vocab: int = 50, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Mixer(width, diagonal) for diagonal in diagonals)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of what follows each token."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    for name, diagonals in (("correct", (1, 1)), ("one character wrong", (1, 2))):
        report = audit(Model(diagonals), Causal(), vocab=50, lengths=(16,), modes=("eval", "map"))
        print(f"{name}: {report.verdict}")
        for finding in report.findings:
            print(f"  {finding.kind} at {finding.pair} in {finding.module}: {finding.detail}")
            print(f"  likely {finding.cause}; {finding.next_step}")
    assert report.verdict == "findings"
    assert "layers.1" in report.findings[0].module


if __name__ == "__main__":
    main()
