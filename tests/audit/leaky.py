"""Models that are wrong in known ways, and clean ones: small, in numpy, with a cache of their own.

A model is an embedding, a mix of positions by a mask and a readout. Each leaky one has the fault
that its name says and no other.
"""

from dataclasses import dataclass, field

import numpy as np

VOCAB = 16
_RNG = np.random.default_rng(7)
EMBED = _RNG.normal(size=(VOCAB, 8))
PLACE = _RNG.normal(size=(64, 8)) / 4
READ = _RNG.normal(size=(8, VOCAB))


def mixed(tokens, visible):
    """Average the embeddings each position may see, then read out: (batch, n, vocab)."""
    n = tokens.shape[1]
    x = EMBED[tokens] + PLACE[:n]
    weights = visible / np.maximum(visible.sum(1, keepdims=True), 1)
    return np.tanh(np.einsum("qk,bkd->bqd", weights, x)) @ READ


def triangle(n, ahead=0, width=None):
    back = np.arange(n)[:, None] - np.arange(n)
    return (back >= -ahead) & (back < (n if width is None else width))


def clean(tokens):
    return mixed(tokens, triangle(tokens.shape[1]))


def clean_window(tokens):
    return mixed(tokens, triangle(tokens.shape[1], width=5))


def future_peek(tokens):
    """The mask lets each position see one key ahead."""
    return mixed(tokens, triangle(tokens.shape[1], ahead=1))


def shifted_window(tokens):
    """A window of 5 that is one to the right: a fault of `<` for `<=`."""
    return mixed(tokens, triangle(tokens.shape[1], ahead=1, width=4))


def mean_over_time(tokens):
    """A normalisation that takes its mean over all positions, later ones included."""
    logits = clean(tokens)
    return logits - logits.mean(axis=1, keepdims=True)


def peek_at_the_last(tokens):
    """Only the first output sees only the last token: one pair in the whole grid."""
    logits = clean(tokens)
    logits[:, 0] += EMBED[tokens[:, -1]] @ READ
    return logits


@dataclass
class StatefulSecondCall:
    """Remembers the last call: the second one differs although the tokens are the same."""

    seen: list = field(default_factory=list)

    def __call__(self, tokens):
        self.seen.append(tokens.sum())
        return clean(tokens) + 1e-9 * len(self.seen)


@dataclass
class Session:
    """The clean model with a cache; `slip` moves the place of every piece after the first."""

    slip: int = 0
    forget: int = 0
    x: np.ndarray = field(default_factory=lambda: np.empty((1, 0, 8)))

    def __call__(self, tokens):
        old = self.x.shape[1]
        at = old + (self.slip if old else 0)
        new = EMBED[tokens] + PLACE[at : at + tokens.shape[1]]
        self.x = np.concatenate([np.broadcast_to(self.x, (len(tokens), *self.x.shape[1:])), new], 1)
        first = self.forget if old else 0
        rows = [self.x[:, first : old + i + 1].mean(1) for i in range(tokens.shape[1])]
        return np.tanh(np.stack(rows, 1)) @ READ


def cache_off_by_one():
    """Positions after the first piece are one too low, as when a cache counts from its own end."""
    return Session(slip=-1)


def cache_loses_the_first_key():
    """Later pieces no longer see key 0, as when a ring overwrites its oldest slot too early."""
    return Session(forget=1)


@dataclass
class SharedCache:
    """Every session goes on in the cache of the one before."""

    session: Session = field(default_factory=Session)

    def __call__(self):
        return self.session
