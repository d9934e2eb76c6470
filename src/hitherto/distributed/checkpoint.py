"""Checkpoints that many ranks write and any number of ranks reads: torch's distributed format.

    FOLDER/latest.json                 which of these is whole; replaced in one move
    FOLDER/step-00000200/state.json    the model's config and where training stood
    FOLDER/step-00000200/shard-*.safetensors

Tensors are written by `torch.distributed.checkpoint` in its safetensors storage: no pickle.
"""

import json
import os
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from torch import Tensor

from hitherto.distributed.failures import named_failures
from hitherto.errors import ModelError, explain
from hitherto.model import Decoder, DecoderConfig
from hitherto.model.values import from_dict
from hitherto.training.checkpoint import FLOATS, State
from hitherto.training.optimizer import MOMENTS, restore, state_tensors

LATEST = "latest.json"


def save(
    directory: str | os.PathLike[str],
    model: Decoder,
    state: State,
    optimizer: torch.optim.AdamW,
) -> None:
    """Write a checkpoint together; all ranks call it. A kill at any moment leaves the last one.

    Args:
        directory: a folder that every rank reaches.
        model: the decoder itself, plain or with parameters that `fully_shard` has spread.
        state: where training stands.
        optimizer: its moments are kept.
    """
    folder = Path(directory)
    part = folder / f"step-{state.step:08}"
    if dist.get_rank() == 0:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
        described = {"config": asdict(model.config), "dtype": dtype, "state": asdict(state)}
        (part / "state.json").write_text(json.dumps(described, indent=1))
    writer = dcp.HuggingFaceStorageWriter(str(part), save_distributed=True)
    with named_failures("saving a checkpoint"):
        dist.barrier()
        dcp.save(_tensors(model, optimizer), storage_writer=writer)
    if dist.get_rank() == 0:
        _point(folder, part)
    with named_failures("saving a checkpoint"):
        dist.barrier()


def exists(directory: str | os.PathLike[str]) -> bool:
    """Whether a whole checkpoint stands there."""
    return (Path(directory) / LATEST).is_file()


def load(directory: str | os.PathLike[str]) -> tuple[Decoder, State]:
    """Return the model and the state of the last whole checkpoint, on this rank alone.

    Any number of processes may load it, whatever number saved it; one without a group too.

    Raises:
        ModelError: when there is none, or it does not fit.
    """
    part, described = _open(Path(directory))
    if described.get("dtype") not in FLOATS:
        raise _unfit(part, f"a dtype in {FLOATS}")
    model = Decoder(from_dict(DecoderConfig, described["config"]))
    model = model.to(getattr(torch, described["dtype"]))
    _read(part, {f"model.{name}": tensor for name, tensor in model.state_dict().items()})
    return model, from_dict(State, described["state"])


def load_into(
    directory: str | os.PathLike[str], model: Decoder, optimizer: torch.optim.AdamW
) -> State:
    """Take up the last whole checkpoint, each rank what it holds; the state.

    Raises:
        ModelError: when there is none, or it is of another model.
    """
    part, described = _open(Path(directory))
    if described["config"] != json.loads(json.dumps(asdict(model.config))):
        raise ModelError(
            explain("resume: model.config", "must be as in the checkpoint",
                    "another", "build the model with the checkpoint's config")
        )  # fmt: skip
    state = from_dict(State, described["state"])
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    moments = {} if not state.step else _empty_moments(model)
    _read(part, tensors | {f"optimizer.{name}": tensor for name, tensor in moments.items()})
    if moments:
        restore(model, optimizer, moments)
    return state


def _tensors(model: Decoder, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    moments = state_tensors(model, optimizer)
    return {
        **{f"model.{name}": tensor for name, tensor in model.state_dict().items()},
        **{f"optimizer.{name}": tensor for name, tensor in moments.items()},
    }


def _empty_moments(model: Decoder) -> dict[str, Tensor]:
    return {
        f"{moment}.{name}": torch.zeros(()) if moment == "step" else torch.zeros_like(parameter)
        for name, parameter in model.named_parameters()
        for moment in MOMENTS
    }


def _read(part: Path, tensors: dict[str, Tensor]) -> None:
    together = dist.is_available() and dist.is_initialized()
    reader = dcp.HuggingFaceStorageReader(str(part))
    try:
        with warnings.catch_warnings():
            # torch warns that there is no group, which is as it should be in one process.
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            dcp.load(tensors, storage_reader=reader, no_dist=not together)
    except (RuntimeError, ValueError, OSError, SafetensorError, dcp.CheckpointException) as error:
        raise _unfit(part, "every tensor of the model", str(error)) from error


def _unfit(part: Path, wanted: str, came: str = "another") -> ModelError:
    fix = "load it with its own config, or use an earlier copy"
    return ModelError(explain(f"checkpoint {part}", f"must hold {wanted}", came, fix))


def _open(folder: Path) -> tuple[Path, dict[str, Any]]:
    try:
        part = folder / json.loads((folder / LATEST).read_text())["folder"]
        return part, json.loads((part / "state.json").read_text())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            explain("checkpoint", f"must be a folder with {LATEST} and what it names", str(folder),
                    "train first, or name another folder")
        ) from error  # fmt: skip


def _point(folder: Path, part: Path) -> None:
    """Say that a part is whole, in one move; then remove the others."""
    new = folder / (LATEST + ".new")
    with new.open("w") as file:
        json.dump({"folder": part.name}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / LATEST)
    for other in folder.glob("step-*"):
        if other != part:
            shutil.rmtree(other, ignore_errors=True)
