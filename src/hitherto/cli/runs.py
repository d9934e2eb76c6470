"""Where a run lives: its checkpoint, settings, losses, curve, sample, report and page."""

import json
from collections.abc import Iterator
from pathlib import Path

from hitherto.errors import ModelError, explain

DEFAULT = Path("runs/demo")


class Run:
    """The folder of one run, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.settings = folder / "run.json"
        self.losses = folder / "loss.jsonl"
        self.curve = folder / "loss.png"
        self.sample = folder / "sample.txt"
        self.report = folder / "report.json"
        self.page = folder / "explore.html"

    def remember(self, settings: dict) -> None:
        """Write what `--resume` must know."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(json.dumps(settings, indent=2) + "\n")

    def recall(self) -> dict:
        """Read the settings back."""
        try:
            settings = json.loads(self.settings.read_text())
        except (OSError, ValueError):
            settings = None
        if not isinstance(settings, dict):
            raise ModelError(
                explain("--resume", "needs a folder that holds a run", str(self.folder),
                        "start one without --resume")
            )  # fmt: skip
        return settings

    def history(self, upto: int | None = None) -> list[dict]:
        """Return the logged steps, up to a step; a line cut short by a kill is left out."""
        return [line for line in self._lines() if upto is None or line["step"] <= upto]

    def _lines(self) -> Iterator[dict]:
        if not self.losses.exists():
            return
        for line in self.losses.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def rewind(self, step: int) -> None:
        """Forget logged steps after this one: they are trained again from the checkpoint."""
        kept = self.history(step)
        self.losses.write_text("".join(json.dumps(line) + "\n" for line in kept))


def new_run(out: Path | None) -> Run:
    """Return a folder for a new run; never one that holds something.

    Without `out` it is runs/demo, or the first of runs/demo-2, runs/demo-3, ... that is free.
    """
    if out is not None:
        if out.exists() and not out.is_dir():
            raise ModelError(explain("--out", "must be a folder", str(out), "name another folder"))
        if out.exists() and any(out.iterdir()):
            held = "a run: add --resume to go on" if Run(out).settings.exists() else ""
            rule = f"must be a new or empty folder; this one holds {held or 'other files'}"
            raise ModelError(explain("--out", rule, str(out), "or name another folder"))
        return Run(out)
    folder, number = DEFAULT, 1
    while folder.exists():
        number += 1
        folder = DEFAULT.with_name(f"{DEFAULT.name}-{number}")
    return Run(folder)


def old_run(out: Path | None) -> Run:
    """Return the run to resume: `out`, or the one in runs/ that was written last."""
    if out is None:
        found = DEFAULT.parent.glob(f"{DEFAULT.name}*/run.json")
        newest = max(found, key=lambda path: _last_write(path.parent), default=None)
        if newest is None:
            raise ModelError(
                explain("--resume", "needs an earlier run", "no run in runs/",
                        "start one with `hitherto demo`, or name its folder with --out")
            )  # fmt: skip
        out = newest.parent
    run = Run(out)
    run.recall()
    return run


def _last_write(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.iterdir())


def checkpoint_of(path: Path) -> Path:
    """Return the checkpoint that a path names: itself, or the one inside a run's folder."""
    inside = Run(path).checkpoint
    return inside if inside.is_dir() else path
