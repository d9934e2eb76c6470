import numpy as np
import pytest
import torch
from torch import nn

from audit.models import VOCAB, WIDTH, Attention
from hitherto.audit import Source, Subject, audit
from hitherto.mask import Causal, Everything, Window

DECLARED = {"self": Causal(), "cross": Everything(), "encoder": Everything()}


class Cross(Attention):
    def forward(self, x, states):
        q, k, v = self.query(x), self.key(states), self.value(states)
        visible = self.rule(*(torch.arange(n) for n in (x.shape[1], states.shape[1])))
        scores = q @ k.transpose(1, 2) / WIDTH**0.5
        return scores.masked_fill(~visible, -torch.inf).softmax(-1) @ v


def everything(q, k):
    return (q[:, None] + k[None]) > -1


class Translator(nn.Module):
    def __init__(self, encoder=lambda q, k: k < 99 + q, cross=everything, self_rule=None):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.encoder = Attention(encoder)
        self.norm = nn.LayerNorm(WIDTH)
        self.decoder = Attention() if self_rule is None else Attention(self_rule)
        self.cross = Cross(cross)
        self.head = nn.Linear(WIDTH, VOCAB)

    def encode(self, source):
        x = self.embed(source)
        return self.norm(x + self.encoder(x))

    def forward(self, source, target):
        states, x = self.encode(source), self.embed(target)
        x = x + self.decoder(x)
        return self.head(x + self.cross(x, states))


def subject(whole):
    def ids(rng, batch, length):
        return rng.integers(0, VOCAB, (batch, length))

    def redraw(rng, x):
        return (x + rng.integers(1, VOCAB, x.shape)) % VOCAB

    def call(function, *arrays):
        with torch.no_grad():
            return function(*map(torch.as_tensor, arrays)).numpy()

    fixed = np.arange(5)[None]
    source = Source(
        draw=ids, redraw=redraw, run=lambda s, t: call(whole, s, t),
        encode=lambda s: call(whole.encode, s),
    )  # fmt: skip
    return Subject(
        name="translator", run=lambda t: call(whole, np.repeat(fixed, len(t), 0), t), draw=ids,
        redraw=redraw, kind="ids", module=whole, source=source,
    )  # fmt: skip


def report(declared=DECLARED, **options):
    torch.manual_seed(0)
    return audit(subject(Translator(**options)), declared, lengths=(9,), modes=("cross",))


def test_translator_is_clean():
    clean = report()
    assert clean.verdict == "clean", str(clean)
    assert any("cross-attention" in line for line in clean.covered)


@pytest.mark.parametrize("length", [3, 5])
def test_source_cut_by_the_decoders_window_is_blind(length):
    """The encoder mixes everything, so only a change behind it shows what cross-attention reads."""
    found = report(cross=lambda q, k: (k < length)[None] & (q > -1)[:, None]).findings
    assert {(f.kind, f.probe, f.module) for f in found} == {("blind", "cross", "cross (Cross)")}


def test_encoder_that_reads_one_way_is_blind():
    found = report(encoder=lambda q, k: k <= q).findings
    assert {(f.kind, f.probe) for f in found} == {("blind", "encoder")}


def test_encoder_that_sees_more_than_declared_leaks():
    found = report(DECLARED | {"encoder": Window(2)}).findings
    assert ("leak", "encoder") in {(f.kind, f.probe) for f in found}


def test_decoder_of_a_translator_must_be_causal():
    found = report(self_rule=lambda q, k: k <= q + 1).findings
    assert ("leak", "decoder (Attention)") in {(f.kind, f.module) for f in found}
