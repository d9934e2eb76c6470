"""Training by teacher forcing, checkpoints, evaluation."""

from hitherto.training.batches import Packed, Text, pack
from hitherto.training.checkpoint import State, exists, load, save
from hitherto.training.config import TrainingConfig
from hitherto.training.evaluate import evaluate
from hitherto.training.loss import bits, cross_entropy, teach
from hitherto.training.text import read_text, split
from hitherto.training.trainer import Step, train

__all__ = [
    "Packed",
    "State",
    "Step",
    "Text",
    "TrainingConfig",
    "bits",
    "cross_entropy",
    "evaluate",
    "exists",
    "load",
    "pack",
    "read_text",
    "save",
    "split",
    "teach",
    "train",
]
