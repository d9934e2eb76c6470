"""The commands and their options. Each imports its own code when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from hitherto.cli.lengths import length as read_length
from hitherto.cli.terminal import command

app = typer.Typer(
    name="hitherto",
    help="Say once who may attend to whom; train, run and check a decoder that obeys.",
    epilog="Exit codes: 0 done, 1 a check failed, 2 bad input, 130 stopped with Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON line for programs on stdout.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an earlier run stopped.")]
Checkpoint = Annotated[Path, typer.Argument(help="Folder of a run, or of its checkpoint.")]


@app.command()
@command
def demo(
    text: Annotated[
        Path | None,
        typer.Option(help="File to train on. Default: the language reference inside Python."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Training time in all, resumptions included. Default: 60."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New or empty folder. Default: runs/demo, runs/demo-2, ..."),
    ] = None,
    resume: Resume = False,
    json: Json = False,
) -> int:
    """Train a small decoder on real text, let it write, and check that it obeys its mask.

    A run never overwrites an earlier one. Ctrl-C saves at once; --resume goes on, with the last run
    unless --out names another.
    """
    from hitherto.cli.demo import demo as run

    return run(text, seconds, out, resume, json)


@app.command()
@command
def train(
    text: Annotated[Path, typer.Argument(help="File to train on.")],
    out: Annotated[Path, typer.Option(help="New or empty folder; with --resume, the run's.")],
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Training time in all.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates in all.")] = None,
    resume: Resume = False,
    json: Json = False,
) -> int:
    """Train a small byte-level decoder on a file. Ctrl-C saves at once."""
    from hitherto.cli.train import train as run

    return run(text, out, seconds, steps, resume, json)


@app.command()
@command
def generate(
    checkpoint: Checkpoint,
    prompt: Annotated[str, typer.Option(help="Text to go on from.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Bytes to write at most.")] = 256,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 takes the likeliest byte each time.")
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option(min=1, help="Choose among so many.")] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Choose among this much likelihood.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text.")] = None,
    json: Json = False,
) -> int:
    """Let a trained decoder go on with a text, shown as it is written."""
    from hitherto.cli.generate import generate as run

    return run(checkpoint, prompt, max_tokens, temperature, top_k, top_p, seed, stop or [], json)


@app.command()
@command
def check(
    checkpoint: Checkpoint,
    text: Annotated[
        Path | None, typer.Option(help="File to check on. Default: the language reference.")
    ] = None,
    length: Annotated[
        int, typer.Option(parser=read_length, metavar="N", help="Bytes of it to use, 2 or more.")
    ] = 320,
    cuts: Annotated[
        int | None, typer.Option(min=1, help="Change the future at so many places. Default: all.")
    ] = None,
    json: Json = False,
) -> int:
    """Check that a decoder cannot see its future and says the same in every mode."""
    from hitherto.cli.check import check as run

    return run(checkpoint, text, length, cuts, json)


@app.command()
@command
def show(
    mask: Annotated[str, typer.Argument(help="For example: 'Causal() & Window(4096)'.")],
    length: Annotated[
        int, typer.Option(parser=read_length, metavar="N", help="Queries, like 64, 64k or 1M.")
    ],
    keys: Annotated[
        int | None,
        typer.Option(parser=read_length, metavar="M", help="Keys. Default: as many as queries."),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option(
            parser=read_length, metavar="Q", help="First query. Default: queries are the last keys."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=0, help="Batch row to show, from 0.")] = 0,
    head: Annotated[int, typer.Option(min=0, help="Head to show, from 0.")] = 0,
    why: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="Q K", help="Say why query Q may or may not see key K."),
    ] = None,
    json: Json = False,
) -> int:
    """Draw a mask and count exactly: visible pairs, density, empty rows, is it causal.

    k is 1,024 and M is 1,048,576. Fewer keys than queries: queries start at 0.
    """
    from hitherto.cli.show import show as run

    return run(mask, length, keys, start, batch, head, why, json)


@app.command()
@command
def audit(
    target: Annotated[
        str,
        typer.Argument(help="module:factory, a checkpoint or config folder, or a model type."),
    ],
    declared: Annotated[
        str | None,
        typer.Option(metavar="MASK", help="What it may see. Default: as it says itself."),
    ] = None,
    modes: Annotated[
        str | None, typer.Option(help="Probes and modes with commas, or 'all'. Default: auto.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="For example 8,33,130. Default: auto.")
    ] = None,
    vocab: Annotated[int | None, typer.Option(min=2, help="Ids are below this.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Floats of an input position.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same report.")] = 0,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write one page here.")] = None,
) -> int:
    """Measure what a model really sees and compare it with the mask it declares.

    Exit codes: 0 clean, 1 findings, 2 bad input or undecided.
    """
    from hitherto.cli.audit import audit as run

    return run(target, declared, modes, lengths, vocab, width, seed, json, html)


@app.command()
@command
def sweep(
    only: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Model types with commas. Default: all.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Of: leak, decode, chunked prefill, left padding, packing, batch, window."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes. Default: cores.")] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one architecture.")] = 120,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write one page here.")] = None,
) -> int:
    """Audit every language model the installed transformers can build: tiny, random, offline."""
    from hitherto.cli.sweep import sweep as run

    return run(only, columns, jobs, timeout, json, html)
