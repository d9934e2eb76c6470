"""What the ranks of `test_generation` do."""

import torch
import torch.distributed as dist

from hitherto.distributed import cache as sharded
from hitherto.distributed import sharded_cache
from hitherto.generation import prefill
from hitherto.model import Decoder, DecoderConfig

PROMPT, NEW = 37, 20

FAMILIES = {
    "window": {"layer_masks": ("Causal()", "Causal() & Window(9)")},
    "sinks": {"layer_masks": ("Causal() & (Window(6) | Prefix(2))",), "score_softcap": 5.0},
    "prefix": {"layer_masks": ("Causal() | Prefix(11)",), "positions": "relative"},
}


def model(family: str) -> Decoder:
    config = DecoderConfig(
        vocab_size=64, width=32, num_layers=2, num_heads=4, num_kv_heads=2, **FAMILIES[family]
    )
    return Decoder(config, seed=2).double()


def written(decoder: Decoder, chunk: int, cache) -> tuple[list[int], torch.Tensor]:
    """Return tokens taken greedily after a prompt, and all logits on the way."""
    prompt = torch.randint(64, (1, PROMPT), generator=torch.Generator().manual_seed(5))
    logits = [prefill(decoder, prompt, cache, chunk)]
    tokens = []
    for _ in range(NEW):
        tokens.append(int(logits[-1].argmax()))
        hidden = decoder.hidden(torch.tensor([tokens[-1:]]), cache=cache)
        logits.append(decoder.logits(hidden)[:, -1])
    return tokens, torch.cat(logits).detach()


def generated(rank: int, ranks: int, block: int) -> dict:
    """Return, for every family, the tokens and the largest gap to one process."""
    sharded.BLOCK = block
    found = {}
    for family in FAMILIES:
        whole = model(family)
        alone = whole.cache()
        tokens, logits = written(whole, 7, alone)
        spread = sharded_cache(whole)
        cache = spread.cache()
        ours, others = written(spread, 7, cache)
        held = torch.tensor([layer.view()[2].numel() for layer in cache])
        dist.all_reduce(held)
        found[family] = {
            "same tokens": tokens == ours,
            "gap": float((others - logits).abs().max()),
            "keys": held.tolist(),
            "keys alone": [layer.view()[2].numel() for layer in alone],
        }
    return found
