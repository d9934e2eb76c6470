"""The model families as small as they go, with weights large enough for every part to matter."""

from dataclasses import replace

import torch

from hitherto.model import Decoder, DecoderConfig, gemma3, gpt2, llama

VOCAB = 40
SMALL = {"vocab_size": VOCAB, "width": 24, "num_layers": 2, "hidden": 40}

FAMILIES = {
    "gpt2": gpt2(**SMALL, num_heads=3, max_length=64),
    "llama": llama(**SMALL, num_heads=4, num_kv_heads=2, max_length=64),
    "gemma3": gemma3(
        **SMALL,
        num_heads=4,
        head_dim=8,
        max_length=64,
        layer_masks=("Window(5)", "Causal()"),
        rotary_bases=(100.0, 10_000.0),
        score_scale=0.3,
        score_softcap=5.0,
        logit_softcap=9.0,
    ),
    "relative": DecoderConfig(
        **SMALL, num_heads=4, positions="relative", relative_buckets=8, relative_distance=12
    ),
}

MASKS = (
    "Causal()",
    "Window(5)",
    "Causal() & (Window(4) | Prefix(2))",
    "Causal() & Chunks(4)",
    "Causal() | Prefix(6)",
)


def drawn(config: DecoderConfig, seed: int = 0, **changes: object) -> Decoder:
    """A float64 decoder, so that two ways to the same logits differ by rounding only."""
    model = Decoder(replace(config, **changes), seed).double()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator).double()
    return model


def tokens(rows: int, length: int, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    """Random token ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (rows, length), generator=generator)
