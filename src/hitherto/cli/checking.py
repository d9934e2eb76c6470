"""Check a decoder: it must not see its future, and must say the same in every mode."""

from copy import deepcopy

import torch
from rich.console import Console

from hitherto.audit import Check, agreement, causality, rounding_budget
from hitherto.cli.terminal import say
from hitherto.model import Decoder

MEANING = {
    ("causality", "clean"): "changing later bytes leaves every earlier logit bit-identical",
    ("causality", "leak"): "an output depends on a later input",
    ("agreement", "clean"): "training forward, prefill, chunks and decode agree to rounding",
    ("agreement", "inconsistent"): "a cached mode disagrees with the training forward",
    ("causality", "unstable"): "the same call gave different numbers twice",
    ("agreement", "unstable"): "two sessions with the same bytes gave different numbers",
}


def examine(
    model: Decoder, text: bytes, length: int, cuts: int | None, out: Console
) -> tuple[Check, ...]:
    """Run both checks on the first bytes of a text, saying how far they are."""
    tokens = torch.tensor([list(text[: min(length, model.config.max_length or length)])])
    model.eval()

    def start():
        cache = model.cache()
        return lambda piece: model(piece, cache=cache)

    with torch.inference_mode(), out.status("checking") as status:
        budget = rounding_budget(model(tokens), deepcopy(model).double()(tokens))

        def told(what: str):
            return lambda done, total: status.update(f"checking {what}: {done} of {total}")

        return (
            causality(model, tokens, vocab=256, cuts=cuts, progress=told("the future, cuts")),
            agreement(model, start, tokens, budget=budget, progress=told("modes, cuttings")),
        )


def tell(checks: tuple[Check, ...], out: Console) -> bool:
    """Print what the checks found; True when all are clean."""
    for found in checks:
        style = "green" if found.clean else "bold red"
        said = MEANING[found.check, found.verdict]
        say(out, f"{'pass' if found.clean else 'FAIL'}  {found.check}: {said}", style)
        lines = [_covered(found), f"largest difference {found.largest:.2g}"]
        if found.budget:
            lines[1] += f", rounding may reach {found.budget:.2g}:"
            lines.append(found.reason)
        lines += [f"at {found.where}"] if found.where else []
        for line in lines:
            say(out, f"      {line}")
    return all(found.clean for found in checks)


def _covered(found: Check) -> str:
    if found.check == "causality":
        return found.covered[0]
    return _listed([line.split(":")[0] for line in found.covered])


def _listed(ways: list[str]) -> str:
    """Join the ways to cut a text, "chunks of" said once."""
    sizes = [way.removeprefix("chunks of ") for way in ways if way.startswith("chunks of ")]
    others = [way for way in ways if not way.startswith("chunks of ")]
    return ", ".join(others + ([f"chunks of {' '.join(sizes)}"] if sizes else []))
