"""Checkpoints: a model, its optimizer and where training stood, checked before they are believed.

A checkpoint is a folder of four files. `state.json` holds the size and SHA-256 of the other three,
and its own. Tensors are safetensors; nothing is pickled.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from hitherto.errors import ModelError, explain
from hitherto.model import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig
from hitherto.model.values import from_dict, require_types
from hitherto.training.config import TrainingConfig
from hitherto.training.folders import finish_move, replace_folder
from hitherto.training.optimizer import expected_tensors, restore, state_tensors

MODEL, OPTIMIZER, CONFIG, STATE = FILES = (
    "model.safetensors",
    "optimizer.safetensors",
    "config.json",
    "state.json",
)
KINDS: dict[str, tuple[type, type[nn.Module]]] = {
    "Decoder": (DecoderConfig, Decoder),
    "EncoderDecoder": (EncoderDecoderConfig, EncoderDecoder),
}
FLOATS = ("float64", "float32", "bfloat16", "float16")
DTYPES = dict(zip(("F64", "F32", "BF16", "F16"), FLOATS, strict=True)) | {"U8": "uint8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where training stood."""

    step: int = 0
    """Updates made."""
    tokens: int = 0
    """Tokens trained on, repeats counted."""
    elapsed: float = 0.0
    """Seconds trained, over all resumptions."""
    training: TrainingConfig | None = None
    """How; None when the model was not trained here."""
    data: str | None = None
    """Fingerprint of what it was trained on."""

    def __post_init__(self) -> None:
        require_types(self)


def exists(directory: str | os.PathLike[str]) -> bool:
    """Whether a checkpoint stands there; finishes a replacement that a kill cut short."""
    return finish_move(Path(directory).resolve()) and (Path(directory) / STATE).exists()


def save(
    directory: str | os.PathLike[str],
    model: nn.Module,
    state: State | None = None,
    optimizer: torch.optim.AdamW | None = None,
) -> None:
    """Put a checkpoint in the place of the one in `directory`; a kill at any moment leaves one.

    Raises:
        ModelError: when `directory` holds anything else, or cannot be written (full disk, no
            permission). The checkpoint that stood there before still stands.
    """
    folder = Path(directory).resolve()
    _require_ours(folder)

    def write(new: Path) -> None:
        save_file(model.state_dict(), new / MODEL)
        moments = state_tensors(model, optimizer) if optimizer else {}
        save_file({"rng": torch.get_rng_state(), **moments}, new / OPTIMIZER)
        (new / CONFIG).write_text(json.dumps(_describe(model), indent=1))
        files = {name: _seal(new / name) for name in FILES if name != STATE}
        sealed = {"state": asdict(state or State()), "files": files}
        (new / STATE).write_text(json.dumps(sealed | {"sha256": _digest(sealed)}, indent=1))

    try:
        replace_folder(folder, write)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            explain(
                f"checkpoint {directory}",
                "must be writable",
                str(error),
                "free space or choose another folder; the checkpoint from before still stands",
            )
        ) from error


def load(directory: str | os.PathLike[str]) -> tuple[nn.Module, State]:
    """The model and the state of a checkpoint.

    Every name, shape, dtype and size is compared with the config, and every byte with its seal,
    before anything is used.

    Raises:
        ModelError: naming the file that is missing, damaged or does not fit.
    """
    folder = Path(directory).resolve()
    state = _open(folder)
    model = _empty_model(folder / CONFIG)
    _require_match(folder / MODEL, model.state_dict())
    model.load_state_dict(load_file(folder / MODEL), assign=True)
    return model, state


def load_optimizer(
    directory: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.AdamW
) -> None:
    """Take up the optimizer's moments and torch's random state; the checks are those of `load`."""
    folder = Path(directory).resolve()
    state = _open(folder)
    expected = {"rng": torch.get_rng_state()}
    _require_match(folder / OPTIMIZER, expected | (expected_tensors(model) if state.step else {}))
    tensors = load_file(folder / OPTIMIZER)
    if state.step:
        restore(model, optimizer, tensors)
    torch.set_rng_state(tensors["rng"])


def _empty_model(path: Path) -> nn.Module:
    """The model that the config describes, without memory for its weights."""
    described = _read_json(path)
    kind, dtype = described.get("model"), described.get("dtype")
    if kind not in KINDS:
        raise _unfit(path, f"a model in {list(KINDS)}", kind)
    if dtype not in FLOATS:
        raise _unfit(path, f"a dtype in {FLOATS}", dtype)
    config_kind, model_kind = KINDS[kind]
    config = from_dict(config_kind, described.get("config"))
    with torch.device("meta"):
        return model_kind(config).to(getattr(torch, dtype))


def _describe(model: nn.Module) -> dict[str, Any]:
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return {"model": type(model).__name__, "dtype": dtype, "config": asdict(model.config)}


def _open(folder: Path) -> State:
    """Check every seal; the state."""
    if not finish_move(folder):
        raise ModelError(
            explain("checkpoint", "must be a folder that `save` wrote", str(folder), "train first")
        )
    sealed = _read_json(folder / STATE)
    if sealed.pop("sha256", None) != _digest(sealed):
        raise _damaged(folder / STATE)
    for name, seal in sealed["files"].items():
        if not (folder / name).is_file() or _seal(folder / name) != seal:
            raise _damaged(folder / name)
    return from_dict(State, sealed["state"])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    if not isinstance(read, dict):
        raise _damaged(path)
    return read


def _require_match(path: Path, expected: Mapping[str, Tensor]) -> None:
    """Raise ModelError unless the file holds exactly these names, shapes and dtypes."""
    with safe_open(path, framework="pt") as file:
        held = {name: file.get_slice(name) for name in file.keys()}
        found = {n: (tuple(s.get_shape()), DTYPES.get(s.get_dtype())) for n, s in held.items()}
    wanted = {n: (tuple(t.shape), str(t.dtype)[6:]) for n, t in expected.items()}
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise _unfit(path, f"{name} as {wanted.get(name)}", found.get(name))


def _seal(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _require_ours(folder: Path) -> None:
    """Raise ModelError when saving would remove something that is not a checkpoint."""
    if folder.exists() and not folder.is_dir():
        others = [folder.name]
    else:
        others = (
            [p.name for p in folder.iterdir() if p.name not in FILES] if folder.exists() else []
        )
    if others:
        raise ModelError(
            explain(
                f"checkpoint {folder}",
                "must be a new folder or a checkpoint",
                f"something that holds {sorted(others)[0]}",
                "choose a folder of its own",
            )
        )


def _damaged(path: Path) -> ModelError:
    return ModelError(
        explain(
            f"checkpoint file {path}",
            "must be as it was written",
            "a missing, truncated or altered file",
            "restore the folder from a copy, or train again into another folder",
        )
    )


def _unfit(path: Path, wanted: str, came: object) -> ModelError:
    return ModelError(
        explain(
            f"checkpoint file {path}", f"must hold {wanted}", came, "load it with its own config"
        )
    )
