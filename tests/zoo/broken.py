"""Models that cannot be judged as they are: reported as such, never a stack trace, never clean."""

import torch

from zoo.decoder import Attention, Decoder
from zoo.specimen import Specimen


class Crashes(Decoder):
    def finish(self, x):
        raise RuntimeError("out of cheese")


class CrashesWhenLong(Decoder):
    def finish(self, x):
        if x.shape[1] > 12:
            raise RuntimeError(f"cannot take {x.shape[1]} positions")
        return super().finish(x)


class AllNaN(Decoder):
    def finish(self, x):
        return super().finish(x) * float("nan")


class NaNFirstRow(Attention):
    """The first row sees nothing, and softmax of nothing is not a number."""

    def rule(self, q, k):
        return k < q

    def weigh(self, scores):
        return scores.softmax(-1)


class Infinite(Decoder):
    def finish(self, x):
        out = super().finish(x)
        return torch.where(out == out.amax(-1, keepdim=True), torch.inf, out)


class NaNGradient(Attention):
    """The forward is mended after the softmax, the gradient is not."""

    def rule(self, q, k):
        return k < q

    def hide(self, scores, visible):
        return scores + torch.where(visible, 0.0, -torch.inf)

    def weigh(self, scores):
        return scores.softmax(-1).nan_to_num()


class DropoutLeftOn(Decoder):
    def finish(self, x):
        return super().finish(torch.dropout(x, 0.3, True))


class OneRowOnly(Decoder):
    def stream(self, tokens):
        if len(tokens) > 1:
            raise ValueError("one row at a time, please")
        return super().stream(tokens)


class FourAtLeast(Decoder):
    def stream(self, tokens):
        if tokens.shape[1] < 4:
            raise ValueError("needs four positions")
        return super().stream(tokens)


class Pooled(Decoder):
    """One output a row: a classifier."""

    def finish(self, x):
        return super().finish(x.mean(1))


class Halved(Decoder):
    """One output for two positions."""

    def finish(self, x):
        return super().finish(x)[:, ::2]


class Chosen(Decoder):
    """Ids instead of scores."""

    def finish(self, x):
        return super().finish(x).argmax(-1)


class Nothing(Decoder):
    def finish(self, x):
        return None


class Constant(Decoder):
    """The same outputs for any input."""

    def finish(self, x):
        return super().finish(x * 0.0)


def layers(model):
    return lambda: model(Attention(), Attention())


def broken(name, model, *also, kind="broken", **rest):
    return Specimen(name=name, model=model, kind=kind, also=also, **rest)


SPECIMENS = (
    broken("crashes", layers(Crashes)),
    broken("crashes when long", layers(CrashesWhenLong), "handled"),
    broken("not a number", layers(AllNaN)),
    broken("first row not a number", lambda: Decoder(NaNFirstRow(), Attention())),
    broken("infinite", layers(Infinite)),
    broken(
        "gradient not a number",
        lambda: Decoder(Attention(), NaNGradient()),
        doors=("gradient",),
    ),
    broken("dropout left on", layers(DropoutLeftOn), kind="unstable", doors=("again",)),
    broken("one row only", layers(OneRowOnly), "handled"),
    broken("four positions at least", layers(FourAtLeast), "handled", lengths=(2, 36)),
    broken("one output a row", layers(Pooled)),
    broken("one output for two positions", layers(Halved)),
    broken("ids instead of scores", layers(Chosen), "handled"),
    broken("no output", layers(Nothing)),
    broken("constant output", layers(Constant), kind="blind"),
)
