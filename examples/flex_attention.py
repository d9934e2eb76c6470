"""The same mask for torch's FlexAttention: `python examples/flex_attention.py`.

`lower` makes the BlockMask from the mask's spans, without asking a single cell: torch's own builder
asks all of them. The result agrees with `attend`. Masks a target cannot say are refused, with the
pair that shows it.
"""

import time
import warnings

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from hitherto import Causal, Prefix, Segments, Unsupported, Window, attend
from hitherto.lowering import lower, targets

TOKENS = 512
MASK = Causal() & Segments.from_lengths([100, 300, 112]) & (Window(64) | Prefix(4))


def main() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, TOKENS, 16)
    block_mask = lower(MASK, "flex", TOKENS, TOKENS)
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    found = flex_attention(q, k, v, block_mask=block_mask)  # on a GPU: torch.compile it
    torch.testing.assert_close(found, attend(q, k, v, MASK), atol=1e-5, rtol=1e-5)
    print(
        f"FlexAttention gives what attend gives; {block_mask.sparsity():.0f}% of its blocks skipped"
    )

    for tokens in (2048, 8192):
        began = time.perf_counter()
        lower(Causal() & Window(1024), "flex", tokens, tokens)
        ours = time.perf_counter() - began
        began = time.perf_counter()
        create_block_mask(
            lambda b, h, q, k: (k <= q) & (q - k < 1024), None, None, tokens, tokens, device="cpu"
        )
        theirs = time.perf_counter() - began
        print(
            f"{tokens:>6,} tokens: {1000 * ours:.1f} ms by spans, {1000 * theirs:.0f} ms by cells"
        )

    print("exact for:", ", ".join(targets(MASK, TOKENS, TOKENS)))
    try:
        lower(MASK, "flash", TOKENS, TOKENS)
    except Unsupported as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
