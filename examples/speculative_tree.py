"""Several drafts checked in one step: `python examples/speculative_tree.py`.

A small model guesses a tree of continuations; the large one reads the whole tree at once. A draft
sees the text and its own ancestors, so each branch gives what it would give alone.
"""

import torch

from hitherto import Causal, Tree, attend, draw

TEXT = 6
PARENTS = [-1, 0, 0, 1, 1, 2]
WORDS = ["the", "cat", "dog", "sat", "ran", "slept"]
MASK = Causal() & Tree(PARENTS, start=TEXT)


def branch(node: int) -> list[int]:
    """The nodes from the root down to one."""
    return ([] if PARENTS[node] < 0 else branch(PARENTS[node])) + [node]


def main() -> None:
    drafts = len(PARENTS)
    print(draw(MASK, drafts, TEXT + drafts))
    torch.manual_seed(0)
    q = torch.randn(1, 2, drafts, 16)
    k, v = torch.randn(2, 1, 2, TEXT + drafts, 16)
    whole = attend(q, k, v, MASK)

    leaves = [node for node in range(drafts) if node not in PARENTS]
    for leaf in leaves:
        nodes = branch(leaf)
        keys = [*range(TEXT), *(TEXT + node for node in nodes)]
        alone = attend(q[:, :, nodes], k[:, :, keys], v[:, :, keys], Causal())
        torch.testing.assert_close(whole[:, :, nodes], alone)
        print("one step gives what this branch gives alone:", " ".join(WORDS[n] for n in nodes))
    saved = sum(len(branch(leaf)) for leaf in leaves)
    print(f"{drafts} rows instead of {saved} in {len(leaves)} runs")


if __name__ == "__main__":
    main()
