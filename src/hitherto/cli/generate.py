"""`hitherto generate`: text from a trained decoder, ours or a real one."""

import json as jsonlib
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from hitherto.cli.checkpoints import load_decoder
from hitherto.cli.named import Named, open_model
from hitherto.cli.terminal import OK, console, say
from hitherto.cli.writing import show, write
from hitherto.errors import ModelError, explain
from hitherto.generation import Piece, Request, Sampling, Speculation
from hitherto.generation import generate as pieces_of


def generate(
    target: str | None, prompt: str | None, model: str | None, *, sampling: Sampling,
    max_tokens: int, stop: list[str], dtype: str, speculate: bool, json: bool,
) -> int:  # fmt: skip
    """Write on from a prompt."""
    screen, stops = console(json), tuple(text.encode() for text in stop)
    if model is None:
        return _from_run(target, prompt, sampling, max_tokens, stops, screen, json, speculate)
    text = _only(target, prompt)
    named = open_model(model, dtype)
    if speculate:
        sampling = replace(sampling, temperature=0.0)
    request = Request(
        prompt=named.tokenizer.encode(text), sampling=sampling, max_tokens=max_tokens, stop=stops
    )
    found = _write(named, text, request, speculate, screen)
    if json:
        found = {"model": model, "prompt": text, "seed": sampling.seed, **found}
        sys.stdout.write(jsonlib.dumps(found) + "\n")
    return OK


def _write(named: Named, text: str, request: Request, speculate: bool, screen: Console) -> dict:
    start, count = perf_counter(), 0
    if speculate:
        source = Speculation(named.model, request, named.tokenizer)
    else:
        source = pieces_of(
            named.model, [request.prompt], request.sampling, max_tokens=request.max_tokens,
            stop=request.stop, tokenizer=named.tokenizer,
        )  # fmt: skip
    finish = None

    def watched(piece: Piece) -> bytes:
        nonlocal count, finish
        count, finish = count + 1, piece.finish
        return piece.text

    written = show((watched(piece) for piece in source), screen, before=text)
    seconds = perf_counter() - start
    found = {"text": written, "tokens": count, "finish": finish, "seconds": round(seconds, 3)}
    line = f"{count} tokens, {count / seconds:.1f} a second with the prompt"
    if isinstance(source, Speculation):
        found["acceptance"] = round(source.acceptance, 4)
        line += f"; {source.accepted} of {source.drafted} guesses right ({source.acceptance:.0%})"
    say(screen, line, "dim")
    return found


def _from_run(
    target: str | None, prompt: str | None, sampling: Sampling, max_tokens: int,
    stops: tuple[bytes, ...], screen: Console, json: bool, speculate: bool,
) -> int:  # fmt: skip
    if target is None or prompt is None or speculate:
        raise ModelError(
            explain("generate", "needs a run and --prompt, or --model and a text",
                    "--speculate without --model" if speculate else "neither",
                    "write e.g. hitherto generate --model smollm2 'Once upon a time'")
        )  # fmt: skip
    model, _ = load_decoder(Path(target))
    written = write(model, prompt, sampling, max_tokens, screen, stops)
    if json:
        found = {"prompt": prompt, "text": written, "seed": sampling.seed}
        sys.stdout.write(jsonlib.dumps(found) + "\n")
    return OK


def _only(target: str | None, prompt: str | None) -> str:
    texts = [text for text in (target, prompt) if text is not None]
    if len(texts) != 1 or not texts[0]:
        raise ModelError(
            explain("prompt", "must be given once", texts or "none",
                    "write it after the options, or with --prompt")
        )  # fmt: skip
    return texts[0]
