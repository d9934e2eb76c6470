"""What the ranks of `test_training` do."""

import os
import time
from dataclasses import replace

import torch
import torch.distributed as dist

from hitherto.audit import audit
from hitherto.distributed import ContextParallel, mesh_of, train, unshard
from hitherto.mask import Causal
from hitherto.model import Decoder, DecoderConfig
from hitherto.training import TrainingConfig, pack
from hitherto.training import train as train_alone

TEXT = (b"All that a query may see is what the mask says it may see; no more. " * 40)[:2500]
CONTEXT = 53
"""A prime: no number of ranks divides it."""

CONFIG = DecoderConfig(
    vocab_size=256, width=32, num_layers=2, num_heads=4, num_kv_heads=2, max_length=CONTEXT,
    layer_masks=("Causal()", "Causal() & Window(7)"), tied=True,
)  # fmt: skip


def settings(steps: int, **more) -> TrainingConfig:
    return TrainingConfig(steps=steps, batch=2, context=CONTEXT, lr=1e-2, **more)


def data(packed: bool):
    """Return the text, or documents cut from it."""
    return (
        pack([TEXT[i : i + 17 + i % 23] for i in range(0, 2000, 40)], CONTEXT) if packed else TEXT
    )


def model(positions: str = "rotary") -> Decoder:
    return Decoder(replace(CONFIG, positions=positions), seed=1).double()


def alone(packed: bool, steps: int, **more) -> list[float]:
    """Return the losses of one process."""
    return [s.loss for s in train_alone(model(), data(packed), settings(steps, **more))]


def losses(rank, ranks, context, packed, weights, steps, folder=None, resume=False, **more):
    """Return the losses of this rank's run."""
    mesh = mesh_of(context)
    run = train(
        model(), data(packed), settings(steps, **more), mesh, folder, resume=resume, weights=weights
    )
    return [step.loss for step in run]


def stopped(rank, ranks, context, weights, folder, after):
    """Train until one rank is asked to stop, after some steps; return the losses."""
    seen: list[float] = []
    run = train(
        model(), data(False), settings(4), mesh_of(context), folder, weights=weights,
        asked_to_stop=lambda: rank == ranks - 1 and len(seen) == after - 1,
    )  # fmt: skip
    for step in run:
        seen.append(step.loss)
    return seen


def loses_a_rank(rank, ranks, folder, how):
    """Train with a checkpoint after every step; the last rank dies or stalls in the third."""
    run = train(model(), data(False), settings(6, save_every_s=0.0), mesh_of(ranks), folder)
    began = time.monotonic()
    try:
        for step in run:
            began = time.monotonic()
            if step.step == 3 and rank == ranks - 1:
                if how == "dies":
                    os._exit(1)
                time.sleep(12)
                return None
    except RuntimeError as error:
        return type(error).__name__, str(error), time.monotonic() - began
    return "ended"


def scores(rank, ranks, positions, documents):
    """Return the whole logits and gradients of a model spread over all ranks."""
    whole = model(positions)
    spread = ContextParallel(whole)
    tokens = torch.randint(256, (2, CONTEXT), generator=torch.Generator().manual_seed(3))
    ids = documents_of(tokens) if documents else None
    share = spread.share(CONTEXT, ids)
    logits = spread(share(tokens), share)
    logits.square().sum().backward()
    for parameter in whole.parameters():
        dist.all_reduce(parameter.grad)
    return unshard(logits, share.plan).numpy(), [p.grad.numpy() for p in whole.parameters()]


def documents_of(tokens):
    """Return ids of packed documents, other ones in each row, with padding."""
    ids = torch.zeros_like(tokens)
    ids[0, 20:], ids[1, 31:], ids[1, 50:] = 1, 1, -1
    return ids


def scores_alone(positions, documents):
    """Return the same from one process."""
    whole = model(positions)
    tokens = torch.randint(256, (2, CONTEXT), generator=torch.Generator().manual_seed(3))
    logits = whole(tokens, documents=documents_of(tokens) if documents else None)
    logits.square().sum().backward()
    return logits.detach().numpy(), [p.grad.numpy() for p in whole.parameters()]


def audited(rank, ranks):
    """Audit the model over all ranks; every rank asks the same, so all answer together."""
    whole = model()
    spread = ContextParallel(whole)

    def logits(tokens):
        tokens = torch.as_tensor(tokens)
        share = spread.share(tokens.shape[1])
        with torch.no_grad():
            return unshard(spread(share(tokens), share), share.plan).numpy()

    report = audit(logits, declared=Causal(), vocab=256, lengths=(9, 14))
    return str(report.verdict), str(report)
