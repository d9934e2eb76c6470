"""Which backend, and why; and that an explicit one is never replaced."""

import pytest
import torch

from hitherto.attention import BACKENDS, Alibi, attend, choose, native
from hitherto.errors import Unsupported
from hitherto.mask import Causal, Everything, Prefix, Segments, Window


def _tensors(length: int, dtype=torch.float32):
    return [torch.zeros(1, 1, length, 8, dtype=dtype)] * 3


@pytest.mark.parametrize(
    ("length", "mask", "options", "backend", "reason"),
    [
        (2048, Causal(), {}, "sdpa", "is causal from the first row"),
        (2048, Everything(), {}, "sdpa", "hides nothing"),
        (2048, Causal() & Window(9), {}, "tiled", "4.19 million cells"),
        (2048, Causal(), {"bias": Alibi.geometric(1)}, "tiled", "only the visible part"),
        (64, Causal() & Window(9), {}, "sdpa", "4096 cells is cheap"),
        (64, Causal(), {"softcap": 5.0}, "tiled", "sdpa has no softcap"),
        (64, Causal(), {"sinks": torch.zeros(1)}, "tiled", "sdpa has no sinks"),
        (
            64,
            Causal(),
            {"return_lse": True, "softcap": 1.0},
            "tiled",
            "no softcap and no return_lse",
        ),
        (64, Causal(), {"backend": "reference"}, "reference", "asked for by name"),
        (0, Causal(), {}, "reference", "nothing to compute"),
    ],
)
def test_choice_states_its_reason(length, mask, options, backend, reason, monkeypatch):
    """A choice nobody can question hides slow paths and wrong ones. Without native kernels."""
    monkeypatch.setattr(native, "SETS", ())
    choice = choose(*_tensors(length), mask, **options)
    assert choice.backend == backend
    assert reason in choice.reason


@pytest.mark.skipif(not native.SETS, reason=native.ABSENT)
@pytest.mark.parametrize("queries", [1, 16, 2048])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernels", ["v3", "v4"])
def test_native_is_chosen_where_it_was_ahead(kernels, dtype, queries, monkeypatch):
    """Many 16-bit queries were measured against torch with AVX2 only."""
    monkeypatch.setattr(native, "SETS", (kernels,))
    q, k, v = torch.zeros(1, 1, queries, 8, dtype=dtype), *_tensors(2048, dtype)[1:]
    measured = dtype == torch.float32 or queries <= 16 or kernels == "v3"
    assert choose(q, k, v, Causal()).backend == ("native" if measured else "sdpa")


def test_native_says_how_to_get_it_where_it_is_absent(monkeypatch):
    """A silent absence is a slow library nobody asks about."""
    monkeypatch.setattr(native, "SETS", ())
    with pytest.raises(Unsupported, match=r"install a C\+\+20 compiler.*Use "):
        attend(*_tensors(8), Causal(), backend="native")


def test_float64_runs_the_oracle():
    """float64 asks for exactness; a float32 kernel there would be silent."""
    choice = choose(*_tensors(2048, torch.float64), Causal() & Window(9))
    assert choice.backend == "reference"
    assert "float64" in choice.reason


def test_a_decode_step_that_sees_every_key_needs_no_mask(monkeypatch):
    """The usual step of generation: causal, one query at the end. Without native kernels."""
    monkeypatch.setattr(native, "SETS", ())
    q, k, v = _tensors(100)
    assert "hides nothing" in choose(q[:, :, :1], k, v, Causal() & Window(100)).reason
    kept = torch.tensor([0, 1, *range(900, 998)])
    mask = Causal() & (Window(98) | Prefix(2))
    assert "hides nothing" in choose(q[:, :, :1], k, v, mask, k_pos=kept).reason


@pytest.mark.parametrize("options", [{"softcap": 2.0}, {"sinks": torch.zeros(1)},
                                     {"return_lse": True}], ids=str)  # fmt: skip
def test_explicit_backend_that_cannot_is_refused_with_what_would_work(options):
    """A silent fallback makes benchmarks lie and exactness claims void."""
    (name,) = options
    for door in (attend, choose):
        with pytest.raises(Unsupported, match=f'lacks {name}.*Use "auto" or "reference", "tiled"'):
            door(*_tensors(8), Causal(), backend="sdpa", **options)


def test_unknown_backend_is_refused_with_the_known_ones():
    """A typo must not run something else."""
    with pytest.raises(Unsupported, match='"reference", "sdpa", "tiled"'):
        attend(*_tensors(8), Causal(), backend="flash")


def test_choose_raises_what_attend_raises():
    """It checks the same call, so that it may be trusted before a long run."""
    q, k, v = _tensors(8)
    for door in (attend, choose):
        with pytest.raises(ValueError, match="k must have the batch of q"):
            door(q, k.expand(2, -1, -1, -1), v.expand(2, -1, -1, -1), Causal())


def test_every_backend_says_what_it_can():
    """Capabilities are plain values, one a backend."""
    assert [b.name for b in BACKENDS] == ["reference", "sdpa", "tiled", "native"]
    assert not BACKENDS[1].lse
    mask = Segments([0] * 8)
    for able in BACKENDS if native.SETS else BACKENDS[:3]:
        assert choose(*_tensors(8), mask, backend=able.name).backend == able.name
