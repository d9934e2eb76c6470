"""xFormers' bias classes are read as xFormers itself materialises them."""

import warnings

import pytest
import torch

from hitherto.errors import MaskError
from hitherto.lowering.recognise.reading import read

pytest.importorskip("xformers", reason="xformers is not installed", exc_type=ImportError)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from xformers.ops.fmha import attn_bias as library

Q, K = [4, 1, 6], [7, 3, 6]


def _packed():
    return library.BlockDiagonalMask.from_seqlens(Q, K)


def _square():
    return library.BlockDiagonalMask.from_seqlens(K)


BIASES = {
    "LowerTriangular": (lambda: library.LowerTriangularMask(), (5, 9)),
    "FromBottomRight": (lambda: library.LowerTriangularFromBottomRightMask(), (5, 9)),
    "FromBottomRightLocal": (
        lambda: library.LowerTriangularFromBottomRightMask().make_local_attention(3), (5, 9)),
    "LocalFromBottomRight": (
        lambda: library.LocalAttentionFromBottomRightMask(window_left=2, window_right=1), (5, 9)),
    "BlockDiagonal": (_packed, None),
    "BlockDiagonalCausal": (lambda: _packed().make_causal(), None),
    "CausalFromBottomRight": (lambda: _packed().make_causal_from_bottomright(), None),
    "CausalLocal": (lambda: _square().make_local_attention(3), None),
    "CausalLocalFromBottomRight": (
        lambda: _packed().make_local_attention_from_bottomright(3), None),
    "PaddedKeys": (
        lambda: library.BlockDiagonalPaddedKeysMask.from_seqlens(Q, 8, K), None),
    "CausalWithOffsetPaddedKeys": (
        lambda: library.BlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens(Q, 8, K), None),
    "LocalPaddedKeys": (
        lambda: library.BlockDiagonalLocalAttentionPaddedKeysMask.from_seqlens_local(
            Q, 8, K, 2, 1), None),
    "CausalLocalPaddedKeys": (
        lambda: library.BlockDiagonalCausalLocalAttentionPaddedKeysMask.from_seqlens_local(
            Q, 8, K, 3), None),
    "GappyKeys": (
        lambda: library.BlockDiagonalGappyKeysMask.from_seqlens(Q, [0, 9, 15, 24], K), None),
    "CausalWithOffsetGappyKeys": (
        lambda: library.BlockDiagonalCausalWithOffsetGappyKeysMask.from_seqlens(
            Q, [0, 9, 15, 24], K), None),
}  # fmt: skip


@pytest.mark.parametrize("name", BIASES)
def test_bias_is_read_as_it_materialises(name):
    """Corners and windows are in the class names; padded and gappy keys are always bottom-right."""
    build, shape = BIASES[name]
    found = build()
    lengths = {"q_len": None, "k_len": None, "q_start": 0}
    if shape:
        lengths |= {"q_len": shape[0], "k_len": shape[1]}
    else:
        shape = found.q_seqinfo.seqstart_py[-1], found.k_seqinfo.seqstart_py[-1]
    spans = read(found, true="attends", **lengths).spans[0]
    assert spans.shape == shape
    assert (spans.dense() == (found.materialize(shape) == 0).numpy()).all()


def test_bias_with_a_tensor_is_refused():
    found = library.LowerTriangularMaskWithTensorBias(torch.zeros(4, 4))
    with pytest.raises(MaskError, match="TensorBias"):
        read(found, true="attends", q_len=4, k_len=4, q_start=0)
