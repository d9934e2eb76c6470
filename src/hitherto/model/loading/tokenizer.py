"""The tokenizer of a loaded model: the `tokenizers` library, and the bytes of every token."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitherto.errors import ModelError, Unsupported, explain
from hitherto.model.loading.safetensors_files import read_json

if TYPE_CHECKING:
    import tokenizers

SPACE = "▁"
"""How SentencePiece writes a space."""

ENDS = frozenset(
    "<|endoftext|> <|im_end|> <|eot_id|> <|eom_id|> <|end_of_text|> <end_of_turn> <|end|> "
    "</s> <eos>".split()
)
"""Control tokens that end a turn or a text wherever they are, though configs often name one only.

Source: the same list in llama.cpp, src/llama-vocab.cpp, special_eog_ids
"""


class LibraryTokenizer:
    """A `Tokenizer` on top of the `tokenizers` library."""

    def __init__(
        self, library: "tokenizers.Tokenizer", begin: int | None, ends: Iterable[int]
    ) -> None:
        self.library, self.begin = library, begin
        self._spellings = _spellings(library)
        named = (library.token_to_id(name) for name in ENDS & _controls(library))
        self.ends = frozenset(ends) | {token for token in named if token is not None}

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The ids of a text; names of control tokens in it become these tokens."""
        ids = self.library.encode(text, add_special_tokens=False).ids
        wanted = begin and self.begin is not None and ids[:1] != [self.begin]
        return [self.begin, *ids] if wanted else ids  # type: ignore[list-item]

    def spell(self, token: int) -> bytes:
        """What a token adds to the text."""
        return self._spellings.get(token, b"")

    def name(self, token: int | None) -> str:
        """A token as its vocabulary calls it; chat templates ask for this."""
        return "" if token is None else self.library.id_to_token(token) or ""


def read_tokenizer(folder: Path) -> LibraryTokenizer:
    """The tokenizer of a folder, from its tokenizer.json.

    Raises:
        ModelError: when it is missing, broken, or of a kind whose tokens we cannot spell.
        Unsupported: when the tokenizers package is not installed.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError(
            explain("tokenizer.json", "must be in the model's folder", str(folder),
                    "save it there with tokenizer.save_pretrained")
        )  # fmt: skip
    library = broken_is_our_error(
        lambda: require_library().Tokenizer.from_file(str(path)), path.name
    )
    return LibraryTokenizer(library, _begin(folder, library), _ends(folder))


def require_library() -> Any:
    """The tokenizers package, or the error that says how to get it."""
    try:
        import tokenizers
    except ImportError:
        raise Unsupported(
            explain("tokenizers", "must be installed to read text with this model",
                    "not installed", "install hitherto[models]")
        ) from None  # fmt: skip
    return tokenizers


def broken_is_our_error(build: Any, what: str) -> Any:
    """Build with the library; what it cannot read is a ModelError."""
    try:
        return build()
    except (Unsupported, ModelError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # plain Exceptions, and panics, which are none
        raise ModelError(
            explain(what, "must be what the tokenizers package reads", f"{error}", "fetch it again")
        ) from error


def _begin(folder: Path, library: "tokenizers.Tokenizer") -> int | None:
    """The begin-of-text token: as tokenizer_config.json says, or else as the library adds it."""
    path = folder / "tokenizer_config.json"
    config = read_json(path) if path.is_file() else {}
    match config.get("add_bos_token"), config.get("bos_token"):
        case False, _:
            return None
        case True, str(name) | {"content": str(name)}:
            return library.token_to_id(name)
    plain = library.encode("a", add_special_tokens=False).ids
    whole = library.encode("a", add_special_tokens=True).ids
    return whole[0] if whole[:1] != plain[:1] else None


def _ends(folder: Path) -> set[int]:
    for name in ("generation_config.json", "config.json"):
        found = read_json(folder / name).get("eos_token_id") if (folder / name).is_file() else None
        if found is not None:
            found = found if isinstance(found, list) else [found]
            return {token for token in found if type(token) is int}
    return set()


def _controls(library: "tokenizers.Tokenizer") -> set[str]:
    added = library.get_added_tokens_decoder().values()
    return {token.content for token in added if token.special}


def _spellings(library: "tokenizers.Tokenizer") -> dict[int, bytes]:
    """The bytes of every token: added ones as they are, controls nothing, others by the decoder."""
    decoder = str(library.decoder)
    if "ByteLevel(" in decoder:
        alphabet = byte_alphabet()
        spell = lambda name: bytes(alphabet[c] for c in name if c in alphabet)  # noqa: E731
    elif "ByteFallback(" in decoder or "Metaspace(" in decoder:
        spell = _piece
    else:
        raise ModelError(
            explain("tokenizer.json: decoder", "must be byte-level or SentencePiece's", decoder,
                    "use another model")
        )  # fmt: skip
    spellings = {token: spell(name) for name, token in library.get_vocab(False).items()}
    for token, added in library.get_added_tokens_decoder().items():
        spellings[token] = b"" if added.special else added.content.encode()
    return spellings


def _piece(name: str) -> bytes:
    if match := re.fullmatch("<0x([0-9A-F]{2})>", name):
        return bytes.fromhex(match[1])
    return name.replace(SPACE, " ").encode()


def byte_alphabet() -> dict[str, int]:
    """The letter that stands for each byte in a byte-level vocabulary.

    Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py
    """
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + index): byte for index, byte in enumerate(hidden)
    }
