"""What generation needs from a tokenizer."""

from typing import Protocol

from hitherto.model.byte_tokens import encode


class Tokenizer(Protocol):
    """Text to token ids, and a token back to the bytes it stands for.

    Bytes, because a token may hold half a character.
    """

    ends: frozenset[int]
    """Tokens that end a text; they stand for nothing in it."""

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The ids of a text, after the model's begin-of-text token if it has one and `begin`."""
        ...

    def spell(self, token: int) -> bytes:
        """What a token adds to the text; nothing for a control token."""
        ...


class ByteTokens:
    """The tokenizer of byte-level models: the tokens are the bytes."""

    ends: frozenset[int] = frozenset()

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The UTF-8 bytes."""
        return encode(text).tolist()

    def spell(self, token: int) -> bytes:
        """The byte."""
        return bytes((token,))
