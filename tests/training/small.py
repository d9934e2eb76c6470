"""A model and a run small enough for tests."""

from hitherto.model import Decoder, DecoderConfig
from hitherto.training import TrainingConfig

CONFIG = DecoderConfig(vocab_size=256, width=16, num_layers=2, num_heads=2, hidden=24)
TEXT = b"".join(b"%d bottles of beer on the wall, " % n for n in range(200))


def model(seed: int = 0) -> Decoder:
    return Decoder(CONFIG, seed)


def run(**changes: object) -> TrainingConfig:
    return TrainingConfig(**{"steps": 6, "batch": 2, "context": 16, "lr": 1e-2, **changes})
