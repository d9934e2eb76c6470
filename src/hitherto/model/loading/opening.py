"""One call for a model that is somewhere on disk, whatever kind of file it is."""

from dataclasses import dataclass
from pathlib import Path

import torch

from hitherto.errors import ModelError, explain
from hitherto.model.decoder import Decoder
from hitherto.model.loading.chat import ChatTemplate, read_template
from hitherto.model.loading.families import read_config
from hitherto.model.loading.fill import build, require_layers
from hitherto.model.loading.gguf_file import GGUF, read_gguf
from hitherto.model.loading.gguf_tokenizer import tokenizer_from_gguf
from hitherto.model.loading.metadata import read_metadata
from hitherto.model.loading.safetensors_files import read_folder, read_json
from hitherto.model.loading.settings import Settings
from hitherto.model.loading.tokenizer import LibraryTokenizer, read_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    """A model from disk, with what it takes to talk to it."""

    model: Decoder
    """The decoder."""
    tokenizer: LibraryTokenizer
    """Its tokenizer."""
    chat: ChatTemplate | None
    """Its chat template, if it was trained to converse."""


def load(path: str | Path, dtype: torch.dtype = torch.float32) -> Pretrained:
    """A model and its tokenizer from a GGUF file, or from a folder of safetensors.

    Args:
        path: the file, or the folder of config.json, tokenizer.json and safetensors.
        dtype: number format of the weights, whatever the file has.
    Raises:
        ModelError: when a file is not what it says, or asks for what we do not do.
        Unsupported: when a package that is needed for it is not installed.
    Cost: memory of the weights in `dtype`, and a few MiB.
    """
    path = _found(path)
    if path.is_dir():
        tokenizer = read_tokenizer(path)
        end = tokenizer.name(min(tokenizer.ends, default=None))
        template = read_template(path, tokenizer.name(tokenizer.begin), end)
        return Pretrained(model=_from_folder(path, dtype), tokenizer=tokenizer, chat=template)
    file = read_gguf(path)
    tokenizer = tokenizer_from_gguf(file, path.name)
    return Pretrained(
        model=_from_gguf(file, path.name, dtype),
        tokenizer=tokenizer,
        chat=_template(file, tokenizer),
    )


def load_decoder(path: str | Path, dtype: torch.dtype = torch.float32) -> Decoder:
    """As `load`, but the decoder alone, which may come without a tokenizer."""
    path = _found(path)
    if path.is_dir():
        return _from_folder(path, dtype)
    return _from_gguf(read_gguf(path), path.name, dtype)


def _found(path: str | Path) -> Path:
    path = Path(path)
    if not path.exists():
        raise ModelError(explain("path", "must be a file or a folder", str(path), "check the path"))
    return path


def _from_folder(folder: Path, dtype: torch.dtype) -> Decoder:
    if not (folder / "config.json").is_file():
        raise ModelError(
            explain("path", "must hold a config.json", str(folder), "use the folder of a model")
        )
    settings = Settings(read_json(folder / "config.json"), "config.json")
    tensors, kind = read_folder(folder), settings.take("model_type", str)
    layers = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    require_layers(tensors, kind, settings.values.get(layers))
    return build(read_config(settings), tensors, kind, dtype)


def _from_gguf(file: GGUF, origin: str, dtype: torch.dtype) -> Decoder:
    name = file.metadata.get("general.architecture")
    kind = f"gguf.{name}"
    require_layers(file.tensors, kind, file.metadata.get(f"{name}.block_count"))
    return build(read_metadata(file, origin), file.tensors, kind, dtype)


def _template(file: GGUF, tokenizer: LibraryTokenizer) -> ChatTemplate | None:
    source = file.metadata.get("tokenizer.chat_template")
    if not isinstance(source, str):
        return None
    ids = (file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos"))
    begin, end = (tokenizer.name(token if isinstance(token, int) else None) for token in ids)
    return ChatTemplate(source, begin, end)
