"""The worked examples of the textbooks, by name, and attention in plain Python loops."""

import pytest
import torch

from attention.cases import MASKS
from attention.plain import attention
from hitherto.attention import attend
from hitherto.mask import Causal, Segments, Table

BACKENDS = ("reference", "sdpa", "tiled")


def _weights(scores: torch.Tensor, mask, backend: str, **options) -> torch.Tensor:
    """Return softmax(scores) under the mask: keys and values are unit vectors."""
    eye = torch.eye(scores.shape[-1])[None, None]
    return attend(scores[None, None], eye, eye, mask, scale=1.0, backend=backend, **options)[0, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax_of_1_2_3_with_the_third_hidden(backend):
    """exp(1), exp(2) over their sum; the hidden third takes nothing."""
    mask = Table([[True, True, False]])
    weights = _weights(torch.tensor([[1.0, 2.0, 3.0]]), mask, backend, q_start=0)
    torch.testing.assert_close(weights, torch.tensor([[0.26894142, 0.73105858, 0.0]]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_four_by_four_scores_under_the_causal_mask(backend):
    """Each row is the softmax of its first i + 1 scores; scores one apart give the same ratios."""
    scores = torch.tensor([[1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6], [4, 5, 6, 7]]).float()
    expected = torch.tensor(
        [
            [1.0, 0.0, 0.0, 0.0],
            [0.26894142, 0.73105858, 0.0, 0.0],
            [0.09003057, 0.24472847, 0.66524096, 0.0],
            [0.03205860, 0.08714432, 0.23688282, 0.64391426],
        ]
    )
    torch.testing.assert_close(_weights(scores, Causal(), backend), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_step_t_of_generation_is_the_last_row_of_the_t_by_t_grid(backend):
    """The cached step must equal the last row: an upper-left causal mask would see one key only."""
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    for t in range(1, 10):
        whole = attend(q[:, :, :t], k[:, :, :t], v[:, :, :t], Causal(), backend=backend)
        step = attend(q[:, :, t - 1 : t], k[:, :, :t], v[:, :, :t], Causal(), backend=backend)
        torch.testing.assert_close(step, whole[:, :, -1:])


@pytest.mark.parametrize("backend", ["reference", "tiled"])
@pytest.mark.parametrize("name", [n for n in MASKS if "batched" not in n])
def test_backends_equal_attention_in_plain_loops(name, backend):
    """An oracle that shares no line with the library: wrong positions or heads show here."""
    torch.manual_seed(0)
    q_start, k_pos = 120, [3, 4, 5, 90, 118, 119, 120, 122, 125]
    q, k, v = (torch.randn(2, 4, n, d, dtype=torch.float64) for n, d in ((5, 3), (9, 3), (9, 2)))
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    out, lse = attend(q, k, v, MASKS[name], scale=0.7, softcap=1.5, sinks=sinks, q_start=q_start,
                      k_pos=torch.tensor(k_pos), return_lse=True, backend=backend)  # fmt: skip
    for b in range(2):
        for h in range(4):
            mask = _row_of(MASKS[name], b, h)
            rows, logs = attention(q[b, h].tolist(), k[b, h].tolist(), v[b, h].tolist(), mask,
                                   q_start, k_pos, 0.7, 1.5, sinks[h].item())  # fmt: skip
            torch.testing.assert_close(out[b, h], torch.tensor(rows, dtype=torch.float64))
            torch.testing.assert_close(lse[b, h], torch.tensor(logs, dtype=torch.float64))


def _row_of(mask, batch: int, head: int):
    from hitherto.mask import select

    return select(mask, batch, head)


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_and_keys_of_cross_attention_need_no_common_length(backend):
    """Queries past the last key are legal with q_start=0; ids of queries and keys are separate."""
    q, k, v = torch.randn(1, 1, 7, 4), torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
    mask = Segments([0, 0, 0, 0, 1, 1, 1], [0, 0, 1])
    out = attend(q, k, v, mask, q_start=0, backend=backend)
    torch.testing.assert_close(out[0, 0, 4:], v[0, 0, 2:].expand(3, 4))
