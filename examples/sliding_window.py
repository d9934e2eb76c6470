"""A sliding window with attention sinks: `python examples/sliding_window.py`.

A long stream is read token by token. The mask says what a query may see; the cache keeps exactly
what a later query may see, so its memory stops growing, and the answers stay those of full memory.
"""

import torch

from hitherto import Causal, Prefix, Window, attend, draw, why
from hitherto.cache import Growing, Rolling

HEADS, HEAD_DIM, TOKENS = 2, 16, 400
MASK = Causal() & (Window(64) | Prefix(4))


@torch.no_grad()
def read(cache: Growing | Rolling, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list:
    """Attend with one new token at a time, as in decoding."""
    outputs = []
    for t in range(TOKENS):
        now = slice(t, t + 1)
        cache.append(k[:, :, now], v[:, :, now])
        keys, values, positions = cache.view()
        outputs.append(attend(q[:, :, now], keys, values, MASK, k_pos=positions))
    return outputs


def main() -> None:
    print(draw(Causal() & (Window(4) | Prefix(2)), 12))
    print(why(MASK, 1000, 900))
    print(why(MASK, 1000, 3))

    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, TOKENS, HEAD_DIM)
    rolling, growing = Rolling(MASK), Growing()
    short, full = torch.cat(read(rolling, q, k, v), 2), torch.cat(read(growing, q, k, v), 2)
    torch.testing.assert_close(short, full)
    held = rolling.view()[2]
    print(f"after {TOKENS:,} tokens: {len(held)} kept, positions {held[:4].tolist()} and "
          f"{held[4]}..{held[-1]}; the same outputs")  # fmt: skip
    print(f"memory: {rolling.nbytes:,} bytes instead of {growing.nbytes:,}")
    assert len(held) == 64 + 4


if __name__ == "__main__":
    main()
