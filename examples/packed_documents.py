"""Documents packed into one row: `python examples/packed_documents.py`.

Training rows are filled with short documents laid end to end. One mask keeps each to itself; the
result is what every document gives alone, and no padding is computed.
"""

import torch

from hitherto import Causal, Segments, attend, blocks, density, draw

LENGTHS = [5, 9, 3, 15]
MASK = Causal() & Segments.from_lengths(LENGTHS)


def main() -> None:
    print(draw(MASK, sum(LENGTHS)))

    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 4, sum(LENGTHS), 16)
    packed = attend(q, k, v, MASK)
    for part in torch.arange(sum(LENGTHS)).split(LENGTHS):
        alone = attend(q[:, :, part], k[:, :, part], v[:, :, part], Causal())
        torch.testing.assert_close(packed[:, :, part], alone)
    print(f"{len(LENGTHS)} documents packed give what each gives alone")

    many = Causal() & Segments.from_lengths([1000 + 37 * i for i in range(100)])
    tokens = sum(1000 + 37 * i for i in range(100))
    found = blocks(many, 128, 128, tokens)
    full, partial = found.counts()
    tiles = (-(-tokens // 128)) ** 2
    print(
        f"{tokens:,} tokens of 100 documents: {density(many, tokens):.2%} of the pairs are visible,"
    )
    print(f"and a kernel skips {1 - (full + partial) / tiles:.2%} of the blocks")
    assert (full + partial) / tiles < 0.02


if __name__ == "__main__":
    main()
