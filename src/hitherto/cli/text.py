"""The text to train on: a file, or the language reference that ships inside Python."""

from pathlib import Path

from hitherto.errors import ModelError, explain


def load_text(path: Path | None) -> tuple[bytes, str]:
    """Return the bytes of a text and its name for people."""
    from hitherto.training import read_text

    if path is not None:
        return read_text(path), str(path)
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise ModelError(
            explain("--text", "is needed: this Python ships without its language reference",
                    "no pydoc_data.topics", "pass --text FILE")
        ) from None  # fmt: skip
    joined = "\n\n".join(topics[name].strip() for name in sorted(topics))
    return joined.encode(), "Python's language reference, the module pydoc_data.topics"


def opening(text: bytes, words: int = 6) -> str:
    """Return the first words of the first line of prose, to prompt with."""
    lines = text[: 1 << 16].decode(errors="ignore").splitlines()
    line = next(filter(_is_prose, lines), next(filter(str.strip, lines), " "))
    return " ".join(line.split()[:words])[:80] or " "


def _is_prose(line: str) -> bool:
    plain = sum(c.isalpha() or c.isspace() for c in line)
    return len(line) >= 40 and line[0].isupper() and plain >= 0.9 * len(line)
