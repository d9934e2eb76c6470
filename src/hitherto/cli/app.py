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
MODEL = "A name that `hitherto models` lists, a GGUF file, or a folder of a model or run."
Dtype = Annotated[str, typer.Option(help="Number format of the weights: float32 or bfloat16.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token each time.")]
TopP = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="Choose among this much likelihood.")
]
MaskText = Annotated[str, typer.Argument(help="For example: 'Causal() & Window(4096)'.")]
Length = Annotated[
    int, typer.Option(parser=read_length, metavar="N", help="Queries, like 64, 64k or 1M.")
]
Keys = Annotated[
    int | None,
    typer.Option(parser=read_length, metavar="M", help="Keys. Default: as many as queries."),
]
Start = Annotated[
    int | None,
    typer.Option(
        parser=read_length, metavar="Q", help="First query. Default: queries are the last keys."
    ),
]
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
    context_parallel: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes to a sequence, by torchrun.")
    ] = None,
    json: Json = False,
) -> int:
    """Train a small byte-level decoder on a file. Ctrl-C saves at once.

    Over several processes: torchrun --nproc-per-node 4 -m hitherto.cli train ...
    --context-parallel 2 trains two sequences at a time, each on two processes.
    """
    from hitherto.cli.train import train as run

    return run(text, out, seconds, steps, resume, context_parallel, json)


@app.command()
@command
def generate(
    target: Annotated[
        str | None, typer.Argument(help="Folder of a run; with --model, the text to go on from.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Text to go on from.")] = None,
    model: Annotated[str | None, typer.Option(help=MODEL)] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens to write at most.")] = 256,
    temperature: Temperature = 0.8,
    top_k: Annotated[int | None, typer.Option(min=1, help="Choose among so many.")] = None,
    top_p: TopP = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text.")] = None,
    dtype: Dtype = "float32",
    speculate: Annotated[
        bool, typer.Option("--speculate", help="Guess ahead from the text itself; temperature 0.")
    ] = False,
    json: Json = False,
) -> int:
    """Let a trained decoder go on with a text, shown as it is written.

    hitherto generate runs/mine --prompt TEXT, or hitherto generate --model smollm2 TEXT.
    """
    from hitherto.cli.generate import generate as run
    from hitherto.generation import Sampling

    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    return run(
        target, prompt, model, sampling=sampling, max_tokens=max_tokens, stop=stop or [],
        dtype=dtype, speculate=speculate, json=json,
    )  # fmt: skip


@app.command()
@command
def chat(
    model: Annotated[str, typer.Option(help=MODEL)] = "smollm2",
    system: Annotated[str | None, typer.Option(help="What the model is told first.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens an answer has at most.")] = 512,
    temperature: Temperature = 0.0,
    top_p: TopP = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same answers.")] = 0,
    dtype: Dtype = "float32",
) -> int:
    """Talk with a model: a line is a turn. It ends with the input, or with Ctrl-C."""
    from hitherto.cli.chat import chat as run
    from hitherto.generation import Sampling

    sampling = Sampling(temperature=temperature, top_p=top_p, seed=seed)
    return run(model, system, sampling, max_tokens, dtype)


@app.command()
@command
def score(
    file: Annotated[Path, typer.Argument(help="Text, UTF-8.")],
    model: Annotated[str, typer.Option(help=MODEL)] = "smollm2",
    window: Annotated[int, typer.Option(min=2, help="Tokens run together.")] = 1024,
    stride: Annotated[
        int | None, typer.Option(min=1, help="New tokens in a window. Default: half of it.")
    ] = None,
    dtype: Dtype = "float32",
    json: Json = False,
) -> int:
    """Print how likely a text is under a model: log-likelihood and bits a byte."""
    from hitherto.cli.score import score as run

    return run(file, model, window, stride, dtype, json)


@app.command()
@command
def models(json: Json = False) -> int:
    """List the models that can be used by name, and which of them are installed."""
    from hitherto.cli.models import models as run

    return run(json)


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
    mask: MaskText,
    length: Length,
    keys: Keys = None,
    start: Start = None,
    batch: Annotated[int, typer.Option(min=0, help="Batch row to show, from 0.")] = 0,
    head: Annotated[int, typer.Option(min=0, help="Head to show, from 0.")] = 0,
    why: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="Q K", help="Say why query Q may or may not see key K."),
    ] = None,
    zoom: Annotated[
        str | None, typer.Option(metavar="Q0:Q1,K0:K1", help="Draw only these queries and keys.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the picture here as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the picture here as PNG.")] = None,
    json: Json = False,
) -> int:
    """Draw a mask and count exactly: visible pairs, density, empty rows, is it causal.

    k is 1,024 and M is 1,048,576. Fewer keys than queries: queries start at 0.
    """
    from hitherto.cli.show import show as run

    return run(mask, length, keys, start, batch, head, why, zoom, svg, png, json)


@app.command()
@command
def explore(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A mask, a model (run, file, folder or name), or an audit's report.json."
        ),
    ] = None,
    length: Annotated[
        int, typer.Option(parser=read_length, metavar="N", help="Queries of a mask, like 64 or 1M.")
    ] = 1 << 20,
    keys: Keys = None,
    start: Annotated[
        int | None, typer.Option(parser=read_length, metavar="Q", help="First query of a mask.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What a model goes on from. Default: some of its text.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, max=128, help="Tokens a model writes.")] = 16,
    audit: Annotated[bool, typer.Option(help="Audit a model as well.")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Write the page here. Default: explore.html.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the page on this machine.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
) -> int:
    """Write one page to look at a mask, a model's generation step by step, or an audit.

    The page works from disk and asks nothing of any network.
    """
    from hitherto.cli.explore import explore as run

    return run(target, length, keys, start, prompt, tokens, audit, out, serve, port)


@app.command()
@command
def plan(
    mask: MaskText,
    length: Length,
    ranks: Annotated[int, typer.Option(min=1, help="Processes that share the sequence.")],
    keys: Keys = None,
    block: Annotated[int | None, typer.Option(min=1, help="Rows dealt at once.")] = None,
    dealing: Annotated[
        str, typer.Option(help="best, cut, folded, spread, dealt, contiguous or zigzag.")
    ] = "best",
    json: Json = False,
) -> int:
    """Plan context parallelism: equal cells for every rank, and only the keys that are seen.

    Runs nothing. k is 1,024 and M is 1,048,576.
    """
    from hitherto.cli.plan import plan as run

    return run(mask, length, keys, ranks, block, dealing, json)


@app.command()
@command
def lower(
    mask: MaskText,
    length: Length,
    to: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Default: list the targets that are exact.")
    ] = None,
    keys: Keys = None,
    start: Start = None,
    json: Json = False,
) -> int:
    """Print a mask in another library's form, exactly, or the first cell it cannot say."""
    from hitherto.cli.lower import lower as run

    return run(mask, to, length, keys, start, json)


@app.command()
@command
def recognise(
    file: Annotated[Path, typer.Argument(help="A mask: .npy, .pt or .safetensors.")],
    tensor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which tensor of the file.")
    ] = None,
    true: Annotated[
        str, typer.Option(help="What True and 1 mean in it: attends or hides.")
    ] = "attends",
    start: Start = None,
    batch: Annotated[int, typer.Option(min=0, help="Batch row to draw, from 0.")] = 0,
    head: Annotated[int, typer.Option(min=0, help="Head to draw, from 0.")] = 0,
    json: Json = False,
) -> int:
    """Say which mask a file holds: the simplest expression that equals it, or the nearest.

    Bools, 0 and 1, or floats that are added to the scores; (queries, keys) with axes for batch and
    heads in front, or without.
    """
    from hitherto.cli.recognise import recognise_file as run

    return run(file, tensor, true, start, batch, head, json)


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
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one architecture.")] = 300,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write one page here.")] = None,
) -> int:
    """Audit every language model the installed transformers can build: tiny, random, offline."""
    from hitherto.cli.sweep import sweep as run

    return run(only, columns, jobs, timeout, json, html)
