"""Real models from disk: GGUF files and folders of safetensors, with their tokenizers."""

from hitherto.model.loading.chat import ChatTemplate
from hitherto.model.loading.opening import Pretrained, load, load_decoder

__all__ = ["ChatTemplate", "Pretrained", "load", "load_decoder"]
