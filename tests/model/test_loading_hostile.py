"""Files that lie are refused: no crash, no huge allocation, always a ModelError."""

import contextlib
import json
import random
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from hitherto.errors import ModelError
from hitherto.model.loading import load_decoder, opening
from hitherto.model.loading.gguf_file import GGUF, read_gguf
from hitherto.model.loading.safetensors_files import read_safetensors

pytest.importorskip("gguf", reason="reads GGUF files")

MOST = 64 << 20
"""Bytes that reading a file of 100 KB may allocate, torch's weights aside."""

EXTREMES = [0, 1, 3, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    """A good file of each kind."""
    pytest.importorskip("transformers", reason="writes the checkpoints")
    from model.checkpoints import reference, write_folder, write_gguf

    folder = tmp_path_factory.mktemp("good")
    model = reference("llama3")
    write_folder(model, folder)
    path = write_gguf(model, folder / "model.gguf", "llama", quantise="Q8_0")
    return {
        "gguf": path.read_bytes(),
        "safetensors": (folder / "model.safetensors").read_bytes(),
        "config": (folder / "config.json").read_bytes(),
    }


def mutated(data: bytes, head: int, random: random.Random) -> bytes:
    """A byte flipped, a number made extreme, bytes gone or doubled; mostly in the head."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        at = random.randrange(1 + min(head if random.random() < 0.95 else len(data), len(data) - 9))
        match random.randrange(5):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at : at + 8] = struct.pack("<Q", random.choice(EXTREMES))
            case 2:
                data[at : at + 4] = struct.pack("<I", random.choice(EXTREMES) & 0xFFFFFFFF)
            case 3:
                del data[at + 9 : at + 9 + random.choice([1, 4, 8, 100, len(data)])]
            case 4:
                data[at:at] = data[at : at + random.choice([1, 8, 64])]
    return bytes(data)


def outcome(path: Path) -> str:
    """ "loaded" or "refused"; anything else is a failure, as is a large allocation."""
    tracemalloc.start()
    try:
        load_decoder(path)
        result = "loaded"
    except ModelError:
        result = "refused"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST
    return result


def attack(files: dict[str, bytes], kind: str, folder: Path, count: int, seed: int) -> None:
    random_ = random.Random(seed)
    data, head = files[kind], {"gguf": 2600, "safetensors": 3000}[kind]
    path = folder / ("model.gguf" if kind == "gguf" else "model.safetensors")
    (folder / "config.json").write_bytes(files["config"])
    results = []
    for _ in range(count):
        path.write_bytes(mutated(data, head, random_))
        results.append(outcome(path if kind == "gguf" else folder))
    assert results.count("refused") > count // 2


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_mutated_files_load_or_are_refused(kind, files, tmp_path):
    attack(files, kind, tmp_path, count=150, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_many_mutated_files_load_or_are_refused(kind, seed, files, tmp_path):
    attack(files, kind, tmp_path, count=1000, seed=seed)


def test_good_files_load(files, tmp_path):
    """Control: what the mutations start from is sound."""
    (tmp_path / "model.gguf").write_bytes(files["gguf"])
    (tmp_path / "model.safetensors").write_bytes(files["safetensors"])
    (tmp_path / "config.json").write_bytes(files["config"])
    assert outcome(tmp_path / "model.gguf") == outcome(tmp_path) == "loaded"


def test_every_truncated_head_is_refused(files, tmp_path):
    """A length read past the end must not be taken for a shorter one."""
    path = tmp_path / "model.gguf"
    for kind, read, head in (("gguf", read_gguf, 2600), ("safetensors", read_safetensors, 3000)):
        for size in [*range(0, head, 37), len(files[kind]) - 64]:
            path.write_bytes(files[kind][:size])
            with pytest.raises(ModelError):
                read(path)


def header(**tensors: object) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def entry(*offsets: int, shape: tuple[int, ...] = (2,), dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "must hold its header"),
        (struct.pack("<Q", 2**63) + b"{}", "must hold its header"),
        (struct.pack("<Q", 2) + b"[]", "must be a JSON table"),
        (struct.pack("<Q", 2) + b"{x", "must be JSON"),
        (header(a=entry(0, 8), b=entry(4, 12)) + bytes(12), "must keep tensors apart"),
        (header(a=entry(0, 8)) + bytes(7), "must hold its tensors in its"),
        (header(a=entry(8, 16)) + bytes(8), "must hold its tensors in its"),
        (header(a=entry(0, 4)) + bytes(8), "a known dtype, a shape and its bytes"),
        (header(a=entry(0, 8, shape=(-2,))) + bytes(8), "a known dtype"),
        (header(a=entry(0, 8, shape=(2**40, 2**40))) + bytes(8), "a known dtype"),
        (header(a=entry(0, 8, shape=(1,) * 99)) + bytes(8), "a known dtype"),
        (header(a=entry(0, 8, shape=(2.0,))) + bytes(8), "a known dtype"),
        (header(a=entry(-8, 0)) + bytes(8), "must hold its tensors|a known dtype"),
        (header(a=entry(0, 8, dtype="X9")) + bytes(8), "a known dtype"),
        (header(a=3) + bytes(8), "a known dtype"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "must be JSON"),
    ],
)
def test_safetensors_that_lie_are_refused(data, says, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=says):
        read_safetensors(path)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def gguf(settings: bytes = b"", tensors: bytes = b"", *, counts=(0, 0), version=3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, *counts) + settings + tensors


def tensor(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GGML" + bytes(40), "must begin with the letters GGUF"),
        (gguf(version=1), "must be GGUF version"),
        (gguf(version=3 << 24), "must be GGUF version"),
        (gguf(counts=(0, 2**60)), "must have at most 0 settings"),
        (gguf(counts=(2**60, 0)), "must have at most 0 tensors"),
        (gguf(text(b"a") + struct.pack("<I", 99) + bytes(8), counts=(0, 1)), "of types"),
        (gguf(text(b"a") + struct.pack("<IIQ", 9, 9, 1) + bytes(12), counts=(0, 1)), "of types"),
        (gguf(text(b"a") + struct.pack("<IIQ", 9, 4, 2**62), counts=(0, 1)), "must go on for"),
        (gguf(text(b"a") + struct.pack("<IIQ", 9, 8, 2**62), counts=(0, 1)), "texts in a list"),
        (gguf(text(b"a") + struct.pack("<IQ", 8, 2**62), counts=(0, 1)), "must go on for"),
        (gguf(text(b"\xff") + struct.pack("<IQ", 7, 1), counts=(0, 1)), "must hold UTF-8"),
        (gguf(2 * (text(b"a") + struct.pack("<IQ", 10, 1)), counts=(0, 2)), "once"),
        (gguf(b"", tensor(b"t", (1,) * 5, 0, 0), counts=(1, 0)), "at most 4 axes"),
        (gguf(b"", tensor(b"t", (8,), 77, 0), counts=(1, 0)), "of a known format"),
        (gguf(b"", tensor(b"t", (33,), 8, 0) + bytes(99), counts=(1, 0)), "in blocks of 32"),
        (gguf(b"", tensor(b"t", (), 8, 0) + bytes(99), counts=(1, 0)), "in blocks of 32"),
        (gguf(b"", tensor(b"t", (2**40, 2**40), 0, 0), counts=(1, 0)), "must hold its tensors"),
        (gguf(b"", tensor(b"t", (8,), 0, 2**63) + bytes(99), counts=(1, 0)), "must hold its"),
        (gguf(b"", 2 * tensor(b"t", (8,), 0, 0) + bytes(99), counts=(2, 0)), "each tensor once"),
        (
            gguf(
                b"", tensor(b"s", (8,), 0, 0) + tensor(b"t", (8,), 0, 4) + bytes(99), counts=(2, 0)
            ),
            "must keep tensors apart",
        ),
        (
            gguf(text(b"general.alignment") + struct.pack("<II", 4, 24) + bytes(99), counts=(0, 1)),
            "as a power of two",
        ),
    ],
)
def test_gguf_that_lies_is_refused(data, says, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=says):
        read_gguf(path)


WRONG = [
    np.array([1, 2]), np.array([]), ["a", "b"], [], "", "x", -1, 0, 1 << 23, 2**70, 0.5,
    float("nan"), float("inf"), True, False,
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_gguf_setting_of_a_wrong_kind_loads_or_is_refused(wrong, files, tmp_path):
    """An array where a number belongs compares with nothing, and raises where it is compared."""
    path = tmp_path / "model.gguf"
    path.write_bytes(files["gguf"])
    good = read_gguf(path)
    names = [*good.metadata, "split.count", "llama.rope.scaling.type", "llama.vocab_size"]
    for name in names:
        file = GGUF(metadata={**good.metadata, name: wrong}, tensors=good.tensors)
        with contextlib.suppress(ModelError):
            opening._from_gguf(file, path.name, torch.float32)


@pytest.mark.parametrize("wrong", [*WRONG[2:], None, {}, {"rope_type": 3}], ids=str)
def test_config_value_of_a_wrong_kind_loads_or_is_refused(wrong, files, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(files["safetensors"])
    good = json.loads(files["config"])
    for name in [*good, "rope_scaling", "rope_theta", "new"]:
        (tmp_path / "config.json").write_text(json.dumps({**good, name: wrong}))
        with contextlib.suppress(ModelError):
            load_decoder(tmp_path)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "", "gone.safetensors", 3])
def test_index_that_leaves_its_folder_is_refused(name, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    index = {"weight_map": {"a": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"of this folder|files that are there"):
        load_decoder(tmp_path)
