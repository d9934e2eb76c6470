"""A tokenizer rebuilt from what a GGUF file says of it.

Source: src/llama-vocab.cpp of https://github.com/ggml-org/llama.cpp
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from hitherto.model.loading.gguf_file import GGUF
from hitherto.model.loading.settings import Settings
from hitherto.model.loading.tokenizer import (
    SPACE,
    LibraryTokenizer,
    broken_is_our_error,
    require_library,
)

if TYPE_CHECKING:
    import tokenizers

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
"""Token types."""

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "default": None, "gpt-2": None, "gpt2": None, "smollm": None,
    "llama-bpe": LLAMA3, "llama3": LLAMA3, "llama-v3": LLAMA3,
    "qwen2": LLAMA3.replace("{1,3}", ""), "deepseek-r1-qwen": LLAMA3.replace("{1,3}", ""),
}  # fmt: skip
"""How text is cut before merging, by `tokenizer.ggml.pre`; None is GPT-2's way."""

BEGINS = ("llama-bpe", "llama3", "llama-v3")
"""Byte-level vocabularies that begin a text even where the file does not say."""


def tokenizer_from_gguf(file: GGUF, origin: str) -> LibraryTokenizer:
    """The tokenizer of a GGUF file.

    Raises:
        ModelError: when the file has none, or one of a kind we do not rebuild.
        Unsupported: when the tokenizers package is not installed.
    """
    given = Settings(file.metadata, origin)
    tokens = given.take("tokenizer.ggml.tokens", list)
    types = given.values.get("tokenizer.ggml.token_type")
    types = np.full(len(tokens), NORMAL) if types is None else types
    if not isinstance(types, np.ndarray) or types.size != len(tokens):
        given.refuse("tokenizer.ggml.token_type", f"must be {len(tokens)} types", types)
    rebuild = given.choose("tokenizer.ggml.model", {"gpt2": _byte_level, "llama": _sentencepiece})
    library = broken_is_our_error(lambda: rebuild(given, tokens, types), f"{origin}: tokenizer")
    _add_whole(library, tokens, types)
    ends = (given.values.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    return LibraryTokenizer(
        library, _begin(given, len(tokens)), [token for token in ends if isinstance(token, int)]
    )


def _byte_level(given: Settings, tokens: list[str], types: np.ndarray) -> "tokenizers.Tokenizer":
    library = require_library()
    split = given.choose("tokenizer.ggml.pre", {k: (k, v) for k, v in SPLITS.items()}, "default")
    merges = given.take("tokenizer.ggml.merges", list)
    model = library.models.BPE(
        vocab={name: token for token, name in enumerate(tokens)},
        merges=[_pair(given, merge) for merge in merges],
        ignore_merges=split[1] is LLAMA3,
    )
    found = library.Tokenizer(model)
    found.pre_tokenizer = _cut(library.pre_tokenizers, library.Regex, *split)
    found.decoder = library.decoders.ByteLevel()
    return found


def _cut(pre: Any, regex: Any, name: str, pattern: str | None) -> Any:
    if pattern is None:
        bytewise = pre.ByteLevel(add_prefix_space=False)
        digits = pre.Digits(individual_digits=True)
        return pre.Sequence([digits, bytewise]) if name == "smollm" else bytewise
    bytewise = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre.Sequence([pre.Split(regex(pattern), "isolated"), bytewise])


def _pair(given: Settings, merge: Any) -> tuple[str, str]:
    left, _, right = str(merge).partition(" ")
    if not left or not right:
        given.refuse("tokenizer.ggml.merges", "must be two tokens and a space each", merge)
    return left, right


def _sentencepiece(given: Settings, tokens: list[str], types: np.ndarray) -> "tokenizers.Tokenizer":
    library = require_library()
    vocab = {name: token for token, name in enumerate(tokens)}
    unknown = given.values.get("tokenizer.ggml.unknown_token_id", 0)
    if not isinstance(unknown, int) or not 0 <= unknown < len(tokens):
        given.refuse("tokenizer.ggml.unknown_token_id", "must be a token", unknown)
    model = library.models.BPE(
        vocab=vocab, merges=_merges(tokens, types, vocab), unk_token=tokens[unknown],
        fuse_unk=True, byte_fallback=True,
    )  # fmt: skip
    found = library.Tokenizer(model)
    spaces = library.normalizers.Replace(" ", SPACE)
    if given.take("tokenizer.ggml.add_space_prefix", bool, True):
        spaces = library.normalizers.Sequence([library.normalizers.Prepend(SPACE), spaces])
    found.normalizer = spaces
    found.decoder = library.decoders.Sequence(
        [library.decoders.Replace(SPACE, " "), library.decoders.ByteFallback()]
    )
    return found


def _merges(tokens: list[str], types: np.ndarray, vocab: dict[str, int]) -> list[tuple[str, str]]:
    """The merges behind a vocabulary: SentencePiece numbers pieces in the order it made them."""
    normal = {tokens[i]: tokens[i] for i in np.flatnonzero(types == NORMAL)}
    merges = []
    for name in normal:
        cuts = ((name[:at], name[at:]) for at in range(1, len(name)))
        # The vocabulary's own strings, not the slices: there are half a million in Gemma's.
        pairs = [(normal[a], normal[b]) for a, b in cuts if a in normal and b in normal]
        merges += sorted(pairs, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    return merges


def _add_whole(library: "tokenizers.Tokenizer", tokens: list[str], types: np.ndarray) -> None:
    """Tokens that text is searched for before anything else: controls, and the user's own."""
    added = require_library().AddedToken
    controls = [tokens[i] for i in np.flatnonzero(types == CONTROL)]
    library.add_special_tokens([added(name, normalized=False, special=True) for name in controls])
    words = [tokens[i] for i in np.flatnonzero(types == USER_DEFINED)]
    library.add_tokens([added(name, normalized=False, special=False) for name in words])


def _begin(given: Settings, count: int) -> int | None:
    model, pre = (given.values.get(f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    default = model == "llama" or pre in BEGINS
    token = given.values.get("tokenizer.ggml.bos_token_id")
    if not given.take("tokenizer.ggml.add_bos_token", bool, default) or token is None:
        return None
    if not isinstance(token, int) or not 0 <= token < count:
        given.refuse("tokenizer.ggml.bos_token_id", f"must be one of {count} tokens", token)
    return token
