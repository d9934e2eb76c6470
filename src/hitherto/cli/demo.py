"""`hitherto demo`: draw the mask, train on real text, write, check, say where everything lies."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from hitherto.cli.checking import examine, tell
from hitherto.cli.explore import model_data
from hitherto.cli.fit import fit, open_model
from hitherto.cli.plot import plot_losses
from hitherto.cli.runs import Run, new_run, old_run
from hitherto.cli.terminal import FINDING, INTERRUPTED, OK, console, say
from hitherto.cli.text import load_text, opening
from hitherto.cli.writing import write
from hitherto.generation import Sampling
from hitherto.mask import Mask, bind, pairs
from hitherto.model import Decoder, tiny
from hitherto.picture import draw
from hitherto.picture.explore import explore_page
from hitherto.training import bits, evaluate, split

CHECKED, CUTS = 320, 64
"""Bytes the checks run on, more than a layer may see, so that caches forget some; and cuts."""
SHOWN = 16
"""Bytes that the page shows being written, one by one."""


def demo(text: Path | None, seconds: float | None, out: Path | None, resume: bool,
         json: bool) -> int:  # fmt: skip
    """Run the demo; see `hitherto demo --help`."""
    screen = console(json)
    run = old_run(out) if resume else new_run(out)
    known: dict[str, Any] = (
        run.recall() if resume else {"text": str(text.absolute()) if text else None}
    )
    data, name = load_text(text or (Path(known["text"]) if known.get("text") else None))
    known["seconds"] = seconds or known.get("seconds") or 60.0
    run.remember(known)
    learned, held_out = split(data)
    model, config = open_model(run, Decoder(tiny()), known["seconds"], None, screen)
    _introduce(screen, model, name, len(data), run)
    _draw_masks(screen, model.masks, config.context)
    if not fit(run, model, learned, config, screen):
        return _stopped(run, screen)
    try:
        return _finish(run, model, held_out, screen, json)
    except KeyboardInterrupt:
        return _stopped(run, screen)


def _introduce(screen: Console, model: Decoder, name: str, size: int, run: Run) -> None:
    say(screen, f"text   {name}")
    say(screen, f"       {size:,} bytes, the last tenth held out")
    say(screen, f"model  {model.num_parameters:,} parameters, {model.config.num_layers} layers,"
        " one token a byte")  # fmt: skip
    say(screen, f"run    {run.folder}")


def _draw_masks(screen: Console, masks: tuple[Mask, ...], context: int) -> None:
    """Draw each mask that some layer uses, on twice the positions it will be trained on."""
    length = 2 * context
    for mask in dict.fromkeys(masks):
        layers = [str(i) for i, other in enumerate(masks, 1) if other == mask]
        which = "all layers" if len(layers) == len(masks) else f"layers {', '.join(layers)}"
        seen = int(pairs(bind(mask, length, length)))
        say(screen)
        say(screen, f"{mask}", "bold")
        say(screen, f"{which}; of {length**2:,} pairs {seen:,} are visible", "dim")
        utf = "utf" in (screen.file.encoding or "utf-8").lower()
        picture = draw(mask, length, width=min(screen.width, 40), ascii=not utf)
        say(screen, str(picture))
    say(screen)


def _finish(run: Run, model: Decoder, held_out: bytes, screen: Console, json: bool) -> int:
    """Measure, write and check a trained model; leave curve, sample, report and page."""
    nats = evaluate(model, held_out)
    say(screen, f"held-out text: {nats:.3f} nats = {bits(nats):.3f} bits a byte", "bold")
    say(screen)
    prompt = opening(held_out)
    sample = write(model, prompt, Sampling(temperature=0.7, top_p=0.95), 400, screen)
    run.sample.write_text(prompt + sample, errors="replace")
    say(screen)
    reports = examine(model, held_out, CHECKED, CUTS, screen)
    clean = tell(reports, screen)
    report = {
        "clean": clean,
        "held_out": {"nats_per_byte": nats, "bits_per_byte": bits(nats)},
        "parameters": model.num_parameters,
        "masks": [str(mask) for mask in model.masks],
        "checks": [r.as_dict() for r in reports],
    }
    run.report.write_text(jsonlib.dumps(report, indent=2) + "\n")
    drawn = plot_losses(run.history(), nats, run.curve)
    data = model_data(str(run.folder), None, SHOWN, True, screen)
    run.page.write_text(explore_page(data), encoding="utf-8")
    _point_at(run, drawn, screen)
    if json:
        sys.stdout.write(jsonlib.dumps(report) + "\n")
    return OK if clean else FINDING


def _point_at(run: Run, drawn: bool, screen: Console) -> None:
    say(screen)
    say(screen, f"checkpoint  {run.checkpoint}")
    curve = run.curve if drawn else "not drawn: pip install 'hitherto[plot]', then --resume"
    say(screen, f"loss curve  {curve}")
    say(screen, f"sample      {run.sample}")
    say(screen, f"report      {run.report}")
    say(screen, f"page        {run.page}  (its own generation and audit; open it in a browser)")
    say(screen, f"more text   hitherto generate {run.folder} --prompt 'The '")


def _stopped(run: Run, screen: Console) -> int:
    """Say what an interrupted run has kept and how to go on."""
    history = run.history()
    step = f"step {history[-1]['step']:,}" if history else "the start"
    say(screen)
    say(screen, f"stopped at {step}; nothing is lost: {run.checkpoint}", "bold")
    say(screen, f"go on with  hitherto demo --resume --out {run.folder}")
    return INTERRUPTED
