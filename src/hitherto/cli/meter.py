"""The progress of training, for a person: a bar on a terminal, a line now and then in a file."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hitherto.cli.terminal import say
from hitherto.training import Step, bits


class Meter:
    """Shows each step: share done, loss in nats and bits per byte, bytes a second."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.loss, self.weight = 0.0, 0.0
        self.shown = -1
        self.bar = Progress(
            TextColumn("training"),
            BarColumn(bar_width=None if out.width < 100 else 40),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[numbers]}", markup=False),
            TimeElapsedColumn(),
            console=out,
            disable=not out.is_terminal,
        )
        self.task = self.bar.add_task("training", total=1.0, numbers="")

    def __enter__(self) -> "Meter":
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def show(self, step: Step) -> None:
        """Show one step; the loss is averaged over the last twenty or so."""
        self.loss = 0.95 * self.loss + step.loss
        self.weight = 0.95 * self.weight + 1
        nats = self.loss / self.weight
        numbers = f"step {step.step:,}  {nats:.3f} nats = {bits(nats):.3f} bits/byte"
        if self.out.is_terminal:
            self.bar.update(self.task, completed=step.progress, numbers=numbers)
        elif int(10 * step.progress) > self.shown:
            self.shown = int(10 * step.progress)
            say(self.out, f"training {step.progress:4.0%}  {numbers}  {step.elapsed:.0f} s")
