"""Models that score themselves: labels[i] belongs to the token at i, so output i predicts i + 1."""

from torch import nn
from torch.nn.functional import cross_entropy

from zoo.decoder import VOCAB, WIDTH, Attention, Decoder
from zoo.specimen import Specimen, thread


def by_row(outputs, labels):
    """Mean cross-entropy of each row, over the labels that are not -100."""
    loss = cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="none")
    return loss.view(labels.shape).sum(1) / (labels != -100).sum(1).clamp(min=1)


class Scored(Decoder):
    """The clean one: one shift."""

    def outputs(self, tokens, labels):
        """What a forward that is given the labels too returns."""
        return self(tokens)

    def loss(self, tokens, labels):
        return by_row(self.outputs(tokens, labels)[:, :-1], labels[:, 1:])


class NoShift(Scored):
    """The model is trained to copy what it is given."""

    def loss(self, tokens, labels):
        return by_row(self(tokens), labels)


class TwoShifts(Scored):
    """The data were shifted already."""

    def loss(self, tokens, labels):
        return by_row(self(tokens)[:, :-2], labels[:, 2:])


class FlattenedShift(Scored):
    """Shifted after flattening: the last output of a row scores the first label of the next."""

    def loss(self, tokens, labels):
        flat = labels.flatten().roll(-1).view(labels.shape)
        return by_row(self(tokens), flat)


class RowsShareLoss(Scored):
    """A row's loss is divided by a weight that all rows' labels make."""

    def loss(self, tokens, labels):
        return super().loss(tokens, labels) * (1 + (labels == 0).float().mean())


class LabelsSeen(Scored):
    """The outputs are made with the label that they are scored against."""

    def __init__(self, *mixers):
        super().__init__(*mixers)
        self.answer = nn.Embedding(VOCAB, WIDTH)

    def outputs(self, tokens, labels):
        self.given = self.answer(labels.clamp(min=0).roll(-1, 1))
        out = self(tokens)
        del self.given
        return out

    def stream(self, tokens):
        return super().stream(tokens) + getattr(self, "given", 0.0)


class CountSeen(LabelsSeen):
    """A statistic of the labels, small and detached."""

    def outputs(self, tokens, labels):
        return self(tokens) + 1e-4 * (labels == 3).float().mean()


def layers(model):
    return lambda: model(Attention(), Attention())


_LABEL = {"kind": "label", "doors": ("loss",)}

SPECIMENS = (
    Specimen(name="clean: scored with one shift", model=layers(Scored), doors=("loss",)),
    Specimen(
        name="labels not shifted",
        model=layers(NoShift),
        **_LABEL,
        source=thread("huggingface/transformers/issues/10480"),
    ),
    Specimen(name="labels shifted twice", model=layers(TwoShifts), **_LABEL),
    Specimen(name="labels shifted after flattening", model=layers(FlattenedShift), **_LABEL),
    Specimen(name="losses of rows mix", model=layers(RowsShareLoss), **_LABEL),
    Specimen(
        name="labels reach their own prediction",
        model=layers(LabelsSeen),
        **_LABEL,
        source=thread("Valentyn1997/CausalTransformer/issues/14"),
    ),
    Specimen(name="a count of the labels reaches the outputs", model=layers(CountSeen), **_LABEL),
)
