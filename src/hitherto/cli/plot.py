"""The loss curve as a picture."""

from pathlib import Path

from hitherto.training import bits


def plot_losses(history: list[dict], held_out: float | None, path: Path) -> bool:
    """Draw bits per byte against steps into a PNG; False when matplotlib is not installed.

    Args:
        history: logged steps: {"step", "loss", ...}, loss in nats per byte.
        held_out: loss on held-out text after the last step, nats per byte; None = unknown.
        path: where the PNG goes.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    steps = [line["step"] for line in history]
    losses = [bits(line["loss"]) for line in history]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(steps, losses, color="#9ecae1", linewidth=0.8, label="each step")
    axes.plot(steps, smoothed(losses), color="#08519c", linewidth=2, label="smoothed")
    if held_out is not None and steps:
        label = f"held-out text: {bits(held_out):.2f}"
        axes.plot(steps[-1], bits(held_out), "o", color="#d94801", label=label)
    axes.axhline(8, color="#999999", linewidth=0.8, linestyle=":", label="guessing: 8")
    axes.set(xlabel="step", ylabel="bits per byte", xlim=(0, None), ylim=(0, 8.6))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.9))
    figure.savefig(path, dpi=130)
    return True


def smoothed(values: list[float], keep: float = 0.9) -> list[float]:
    """Average exponentially; the first values are averaged over what there is."""
    total, weight, out = 0.0, 0.0, []
    for value in values:
        total, weight = keep * total + value, keep * weight + 1
        out.append(total / weight)
    return out
