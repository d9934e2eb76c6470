"""Text, batches and packing."""

import numpy as np
import pytest
import torch

from hitherto.errors import ModelError
from hitherto.model.byte_tokens import decode, encode
from hitherto.training import Text, pack, read_text, split
from training.small import TEXT


def test_byte_tokens_are_the_bytes():
    data = bytes(range(256))
    assert encode(data).tolist() == list(range(256))
    assert decode(encode(data)) == data
    assert encode("é").tolist() == [0xC3, 0xA9]


def test_read_text_takes_any_bytes(tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(256)) * 5)
    assert read_text(path) == bytes(range(256)) * 5


def test_read_text_says_what_is_wrong(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"hello")
    for path, message in (
        (tmp_path / "gone", "does not exist"),
        (tmp_path, "the directory"),
        (tmp_path / "empty", "which is empty"),
        (tmp_path / "short", "of 5 bytes"),
    ):
        with pytest.raises(ModelError, match=message):
            read_text(path)


def test_split_holds_out_the_last_tenth():
    train, held_out = split(bytes(range(100)))
    assert train == bytes(range(90))
    assert held_out == bytes(range(90, 100))
    with pytest.raises(ModelError, match="at least one byte on each side"):
        split(b"abc")


def test_batches_depend_on_seed_and_step_alone():
    text = Text(TEXT)
    first, _ = text.batch(7, 0, 4, 16)
    text.batch(8, 0, 4, 16)
    assert torch.equal(text.batch(7, 0, 4, 16)[0], first)
    assert not torch.equal(text.batch(8, 0, 4, 16)[0], first)
    assert not torch.equal(text.batch(7, 1, 4, 16)[0], first)


def test_batches_are_windows_of_the_text_from_its_first_to_its_last_byte():
    data = bytes(range(20))
    rows, _ = Text(data).batch(0, 0, 500, 16)
    assert {tuple(row) for row in np.diff(rows.numpy())} == {(1,) * 16}
    assert set(rows[:, 0].tolist()) == {0, 1, 2, 3}


def test_batches_refuse_a_text_shorter_than_the_context():
    with pytest.raises(ModelError, match="longer than the context of 16 bytes; got 16"):
        Text(bytes(16)).batch(0, 0, 1, 16)


def test_pack_fills_rows_with_whole_documents():
    packed = pack([b"abc", b"de", b"fghij", b"klmnopqr"], context=5)
    rows = [bytes(row) for row in packed.tokens.tolist()]
    assert rows == [b"abcde\0", b"fghij\0", b"klmnop", b"qr\0\0\0\0"]
    assert packed.documents.tolist() == [
        [0, 0, 0, 1, 1, -1],
        [0, 0, 0, 0, 0, -1],
        [0] * 6,
        [0, 0, -1, -1, -1, -1],
    ]
