"""A prefix read both ways, and an image inside a text: `python examples/prefix_and_image.py`.

Words are read from left to right; a prompt, or the patches of an image, may look both ways. Where a
patch sees a later one the mask is not causal, and `is_causal` names the pair.
"""

import numpy as np
import torch

from hitherto import Causal, Prefix, Segments, attend, draw, is_causal, why

PATCHES = range(3, 8)
TOKENS = 12
IMAGE = np.array([0 if t in PATCHES else -1 for t in range(TOKENS)])
MASK = Causal() | Segments(IMAGE)


def main() -> None:
    print("prefix-LM: the first 4 tokens see each other")
    print(draw(Causal() | Prefix(4), 8))
    print("an image of 5 patches at 3..7")
    print(draw(MASK, TOKENS))
    print(why(MASK, 3, 7))
    print(why(MASK, 2, 3))
    answer = is_causal(MASK, TOKENS)
    print(f"causal: {answer.value}, {answer.reason}")
    assert answer.witness == (3, 4)

    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, TOKENS, 8)
    before = attend(q, k, v, MASK)
    k[:, :, 7] += 1
    moved = (attend(q, k, v, MASK) != before).any(-1).any(1)[0]
    print(
        f"changing patch 7 moves rows {moved.nonzero().flatten().tolist()}: the image and all after"
    )
    assert moved.tolist() == [t >= 3 for t in range(TOKENS)]


if __name__ == "__main__":
    main()
