"""Small models for the tests of the audit: each fault is one argument away from its clean twin."""

import numpy as np
import torch
from torch import nn

VOCAB, WIDTH = 19, 8


def causal(q, k):
    return k <= q


def window(width):
    return lambda q, k: (k <= q) & (q - k < width)


class Attention(nn.Module):
    """One head; `rule(q, k)` says which keys a query sees, `fill` hides the others."""

    def __init__(self, rule=causal, fill=-torch.inf):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.rule, self.fill = rule, fill

    def forward(self, x, past=None, start=0):
        q, k, v = self.query(x), self.key(x), self.value(x)
        if past is not None:
            past.append((k, v))
            k, v = (torch.cat(parts, 1) for parts in zip(*past, strict=True))
        q_pos = torch.arange(start, start + x.shape[1])[:, None]
        k_pos = torch.arange(k.shape[1])[None]
        scores = q @ k.transpose(1, 2) / WIDTH**0.5
        visible = self.rule(q_pos, k_pos) & (q_pos > -1)
        return scores.masked_fill(~visible, self.fill).softmax(-1) @ v


class Model(nn.Module):
    """Embedding, residual mixers, head."""

    def __init__(self, *mixers, ids=True):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH) if ids else nn.Linear(WIDTH, WIDTH)
        self.places = nn.Embedding(400, WIDTH)
        self.mixers = nn.ModuleList(mixers)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, x):
        x = self.embed(x) + self.places(torch.arange(x.shape[1]))
        for mixer in self.mixers:
            x = x + mixer(x)
        return self.head(x)


class Mixer(nn.Module):
    """A function of (batch, positions, width) as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Pooled(Mixer):
    """Adds the mean over all positions."""

    def __init__(self):
        super().__init__(lambda x: x.mean(1, keepdim=True).expand_as(x))


def model(*mixers, seed=0, **options):
    """Return a model with weights of a seed; of one clean attention unless given others."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = [m() if callable(m) and not isinstance(m, nn.Module) else m for m in mixers]
        return Model(*(made or [Attention()]), **options).eval()


def convolution(ahead):
    """Return a convolution of three taps, the last `ahead` of them in the future."""

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Conv1d(WIDTH, WIDTH, 3)

        def forward(self, x):
            x = nn.functional.pad(x.transpose(1, 2), (2 - ahead, ahead))
            return self.inner(x).transpose(1, 2)

    return Conv


def fft_filter(x, around):
    """Filter numpy (batch, positions, width) over time; `around` forgets the zero padding."""
    length = x.shape[1]
    size = length if around else 2 * length
    taps = 0.7 ** np.arange(length)
    spectrum = np.fft.rfft(x, size, axis=1) * np.fft.rfft(taps, size)[None, :, None]
    return np.fft.irfft(spectrum, size, axis=1)[:, :length]
