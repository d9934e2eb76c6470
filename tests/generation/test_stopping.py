"""Stop strings, however tokens cut them, and text that is never cut inside a character."""

from itertools import pairwise

import pytest

from hitherto.errors import ModelError
from hitherto.generation.stopping import Stopper
from hitherto.generation.streaming import decoded


def fed(stop: list[bytes], pieces: list[bytes]) -> tuple[bytes, bool]:
    stopper, text = Stopper(stop), b""
    for piece in pieces:
        shown, stopped = stopper.feed(piece)
        text += shown
        if stopped:
            return text, True
    return text + stopper.flush(), False


def cuts(text: bytes) -> list[list[bytes]]:
    """Every way to cut a short text into pieces."""
    ways = []
    for pattern in range(1 << (len(text) - 1)):
        edges = [0, *(i + 1 for i in range(len(text) - 1) if pattern >> i & 1), len(text)]
        ways.append([text[i:j] for i, j in pairwise(edges)])
    return ways


@pytest.mark.parametrize(
    ("stop", "text", "shown", "stops"),
    [
        ([b"END"], b"oneENDtwo", b"one", True),
        ([b"END"], b"oneEN two", b"oneEN two", False),
        ([b"EEF"], b"EEEF", b"E", True),
        ([b"abab"], b"aabacabab", b"aabac", True),
        ([b"abc", b"b"], b"xabc", b"xa", True),
        ([b"b", b"ab"], b"xabc", b"x", True),
        ([b"abc"], b"xab", b"xab", False),
        ([], b"free", b"free", False),
    ],
)
def test_stopper_does_not_depend_on_how_tokens_cut_the_text(stop, text, shown, stops):
    for pieces in cuts(text):
        assert fed(stop, pieces) == (shown, stops)


def test_stopper_holds_back_only_what_may_become_a_stop_string():
    stopper = Stopper([b"\n\nUser:"])
    assert stopper.feed(b"hi") == (b"hi", False)
    assert stopper.feed(b"\n\nUs") == (b"", False)
    assert stopper.feed(b"ed") == (b"\n\nUsed", False)
    assert stopper.flush() == b""


@pytest.mark.parametrize("stop", [b"END", [b""], ["END"]])
def test_stopper_refuses_what_is_no_list_of_byte_strings(stop):
    with pytest.raises(ModelError, match="must be a list of non-empty bytes"):
        Stopper(stop)


def test_streamed_text_never_cuts_a_character():
    """Would catch U+FFFD printed for the first byte of a letter whose second is on its way."""
    text = "aé漢🎈z"
    for pieces in cuts("é漢".encode()):
        assert "".join(decoded(iter(pieces))) == "é漢"
    singles = list(decoded(bytes([b]) for b in text.encode()))
    assert singles == list(text)


def test_streamed_text_shows_bytes_that_are_no_text():
    assert "".join(decoded(iter([b"a\xff", b"b", b"\xe6\xbc"]))) == "a\ufffdb\ufffd"
