"""A checkpoint is whole or it is refused; the one before stands until the new one does."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hitherto.errors import ModelError
from hitherto.model import Decoder, EncoderDecoder, EncoderDecoderConfig
from hitherto.training import State, checkpoint, exists, folders, load, save, train
from training.small import CONFIG, TEXT, model, run

FILES = ["config.json", "model.safetensors", "optimizer.safetensors", "state.json"]


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "checkpoint"
    list(train(model(), TEXT, run(steps=2), path))
    return path


def weight(path: Path) -> torch.Tensor:
    return load(path)[0].stack.embedding.weight


def seal_again(folder: Path) -> None:
    """What a careful forger would do after changing a file."""
    sealed = json.loads((folder / "state.json").read_text())
    sealed.pop("sha256")
    sealed["files"] = {n: checkpoint._seal(folder / n) for n in FILES if n != "state.json"}
    sealed["sha256"] = checkpoint._digest(sealed)
    (folder / "state.json").write_text(json.dumps(sealed))


def test_checkpoint_holds_four_files_and_gives_them_back(folder):
    assert sorted(p.name for p in folder.iterdir()) == FILES
    loaded, state = load(folder)
    assert loaded.config == CONFIG
    assert (state.step, state.tokens, state.training) == (2, 64, run(steps=2))
    assert [p.name for p in folder.parent.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_checkpoint_keeps_dtype_and_gradients(tmp_path, dtype):
    save(tmp_path / "c", model().to(dtype))
    loaded, state = load(tmp_path / "c")
    assert state == State()
    for before, after in zip(model().to(dtype).parameters(), loaded.parameters(), strict=True):
        assert torch.equal(before, after)
        assert after.requires_grad


def test_checkpoint_of_an_encoder_decoder(tmp_path):
    config = EncoderDecoderConfig(encoder=CONFIG, decoder=replace(CONFIG, tied=True))
    saved = EncoderDecoder(config)
    save(tmp_path / "c", saved)
    loaded, _ = load(tmp_path / "c")
    ids = torch.tensor([[3, 4, 5]])
    assert loaded.config == config
    assert torch.equal(saved(ids, ids), loaded(ids, ids))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "first", "middle", "last"])
def test_checkpoint_refuses_a_damaged_file_by_name(folder, name, damage):
    """One flipped bit anywhere, header or weights, must not load as another model."""
    data = bytearray((folder / name).read_bytes())
    at = {"first": 0, "middle": len(data) // 2, "last": len(data) - 1}.get(damage)
    if at is not None:
        data[at] ^= 4
    elif damage == "truncated":
        data = data[: len(data) // 2]
    elif damage == "empty":
        data = bytearray()
    (folder / name).unlink() if damage == "missing" else (folder / name).write_bytes(data)
    with pytest.raises(ModelError, match=f"{name} must be as it was written"):
        load(folder)


def test_checkpoint_refuses_weights_that_do_not_fit_the_config(folder):
    """The seals are right, so only the comparison with the config can tell."""
    path = folder / "model.safetensors"
    good = load_file(path)
    name = "stack.embedding.weight"
    for change, message in (
        ({name: torch.zeros(9, 16)}, rf"{name} as .*\(256, 16\).*got \(\(9, 16\)"),
        ({name: good[name].double()}, f"{name} as .*float32.*got .*float64"),
        ({"extra": torch.zeros(1)}, "extra as None"),
    ):
        save_file(good | change, path)
        seal_again(folder)
        with pytest.raises(ModelError, match=message):
            load(folder)
    save_file({k: v for k, v in good.items() if k != name}, path)
    seal_again(folder)
    with pytest.raises(ModelError, match=f"{name} as .*got None"):
        load(folder)


def test_checkpoint_refuses_an_optimizer_that_does_not_fit(folder):
    path = folder / "optimizer.safetensors"
    tensors = load_file(path)
    tensors.pop("exp_avg.head.weight")
    save_file(tensors, path)
    seal_again(folder)
    with pytest.raises(ModelError, match=r"exp_avg.head.weight as .*got None"):
        train(model(), TEXT, run(steps=3), folder, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "Banana"}, "a model in"),
        ({"config": {"width": 16}}, "vocab_size is needed"),
        ({"config": {"wdth": 16}}, "wdth must be a known setting"),
        ({"dtype": "nonsense"}, "a dtype in"),
    ],
)
def test_checkpoint_refuses_a_config_that_makes_no_model(folder, change, message):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    seal_again(folder)
    with pytest.raises(ModelError, match=message):
        load(folder)


def test_checkpoint_missing_says_so(tmp_path):
    assert not exists(tmp_path / "none")
    with pytest.raises(ModelError, match="must be a folder that `save` wrote"):
        load(tmp_path / "none")


def test_save_on_a_full_disk_leaves_the_old_checkpoint(folder, monkeypatch):
    before = weight(folder)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for where, name in ((checkpoint, "save_file"), (folders, "_sync"), (Path, "mkdir")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, full)
            with pytest.raises(ModelError, match="No space left on device"):
                save(folder, model(7))
        assert torch.equal(weight(folder), before)
        assert [p.name for p in folder.parent.iterdir()] == ["checkpoint"]


class Killed(BaseException):
    """As if the power went: nothing after it runs."""


@pytest.mark.parametrize("moment", range(8))
def test_save_killed_at_any_moment_leaves_a_checkpoint(folder, monkeypatch, moment):
    """Stops for good at the n-th touch of the disk; then loads, and saves again."""
    before, new = weight(folder), model(7)
    touches = 0

    def dying(original):
        def touch(*arguments: object, **options: object) -> object:
            nonlocal touches
            touches += 1
            if touches > moment:
                raise Killed
            return original(*arguments, **options)

        return touch

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", dying(checkpoint.save_file))
        patch.setattr(Path, "write_text", dying(Path.write_text))
        patch.setattr(Path, "rename", dying(Path.rename))
        patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
        with pytest.raises(Killed):
            save(folder, new)
    found = weight(folder)
    assert torch.equal(found, before) or torch.equal(found, new.stack.embedding.weight)
    save(folder, model(8))
    assert torch.equal(weight(folder), model(8).stack.embedding.weight)
    assert [p.name for p in folder.parent.iterdir()] == ["checkpoint"]


def test_save_refuses_a_folder_that_is_not_its_own(tmp_path):
    """Saving replaces the folder, so it must never be somebody's documents."""
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ModelError, match=r"something that holds letter.txt"):
        save(tmp_path, model())
    assert (tmp_path / "letter.txt").read_text() == "dear"
    with pytest.raises(ModelError, match=r"something that holds letter.txt"):
        save(tmp_path / "letter.txt", model())


def test_checkpoint_without_training_can_be_trained_on(tmp_path):
    save(tmp_path / "c", model(3))
    loaded, state = load(tmp_path / "c")
    assert isinstance(loaded, Decoder)
    assert state.training is None
    assert len(list(train(loaded, TEXT, run(steps=2), tmp_path / "c", resume=True))) == 2
