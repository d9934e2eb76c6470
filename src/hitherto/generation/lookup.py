"""Drafts by prompt lookup: what followed the last few tokens when they came before.

Source: https://github.com/apoorvumang/prompt-lookup-decoding
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hitherto.model.values import require_above, require_types


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How a draft is looked for."""

    longest: int = 3
    """Tokens at the end that must have come before; fewer are tried when so many have not."""
    length: int = 3
    """Tokens to draft from each earlier place. With two places that makes 7 rows, and up to 8 rows
    cost a linear layer one reading of its weights."""
    branches: int = 2
    """Earlier places to draft from, the latest first; 1 drafts a chain."""

    def __post_init__(self) -> None:
        require_types(self)
        require_above(self, 0, "longest", "length", "branches")


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses of what follows a token, as a tree below it."""

    tokens: list[int]
    """Node 0 is the token itself, which is sure; the others are guesses."""
    parents: list[int]
    """Node before each; -1 for node 0. A parent comes before its children."""

    def child(self, node: int, token: int) -> int | None:
        """The guess of this token after a node, if there is one."""
        found = zip(self.parents, self.tokens, strict=True)
        return next((i for i, pair in enumerate(found) if pair == (node, token)), None)

    def depths(self) -> list[int]:
        """How far below node 0 each node is."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return depths

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the one before."""
        return self.parents == list(range(-1, len(self.parents) - 1))


def look_up(tokens: Sequence[int], lookup: Lookup, most: int) -> Draft:
    """What may follow the last token, at most `most` tokens deep.

    Cost: O(len(tokens) * longest).
    """
    draft = Draft([tokens[-1]], [-1])
    for size in range(min(lookup.longest, len(tokens) - 1), 0, -1):
        places = _places(tokens, size, lookup.branches)
        if places:
            for place in places:
                _graft(draft, _branch(tokens, place, min(lookup.length, most)))
            break
    return draft


def _places(tokens: Sequence[int], size: int, most: int) -> list[int]:
    """Where earlier copies of the last `size` tokens end, the latest first."""
    last, found = list(tokens[-size:]), []
    for stop in range(len(tokens) - 1, size - 1, -1):
        if tokens[stop - 1] == last[-1] and list(tokens[stop - size : stop]) == last:
            found.append(stop)
            if len(found) == most:
                break
    return found


def _branch(tokens: Sequence[int], place: int, length: int) -> list[int]:
    """What follows a place; beyond the end of the text it goes round, as a text in a loop does."""
    branch: list[int] = []
    for at in range(place, place + length):
        branch.append(tokens[at] if at < len(tokens) else branch[at - len(tokens)])
    return branch


def _graft(draft: Draft, branch: Sequence[int]) -> None:
    node = 0
    for token in branch:
        child = draft.child(node, token)
        if child is None:
            child = len(draft.tokens)
            draft.tokens.append(token)
            draft.parents.append(node)
        node = child
