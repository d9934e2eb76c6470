"""Keras: the weights of its own MultiHeadAttention, by every path through the layer."""

import os

import numpy as np
import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import Causal, Prefix, Queries, Window
from lowering.drawn import GRIDS, drawn, wanted

os.environ.setdefault("KERAS_BACKEND", "torch")


@pytest.fixture(scope="module")
def keras():
    return pytest.importorskip("keras", reason="Keras is not installed")


def weights(keras, said: dict, cells: np.ndarray, **options) -> np.ndarray:
    """Return what the layer gives for equal scores, and values that name their key."""
    batch, heads, q_len, k_len = cells.shape
    layer = keras.layers.MultiHeadAttention(
        num_heads=heads, key_dim=1, value_dim=k_len, output_shape=heads * k_len, use_bias=False,
        dropout=options.pop("dropout", 0.0),
    )  # fmt: skip
    q = np.zeros((batch, q_len, 1), np.float32)
    v = np.broadcast_to(np.eye(k_len, dtype=np.float32), (batch, k_len, k_len))
    layer.build(q.shape, v.shape)
    eye = np.eye(k_len, dtype=np.float32)
    out = np.eye(heads * k_len, dtype=np.float32).reshape(heads, k_len, heads * k_len)
    layer.set_weights([
        np.zeros((1, heads, 1)), np.zeros((k_len, heads, 1)), np.stack([eye] * heads, 1), out,
    ])  # fmt: skip
    got = layer(q, v, **said, **options)
    if options.get("return_attention_scores"):
        return keras.ops.convert_to_numpy(got[1])
    got = keras.ops.convert_to_numpy(got)
    return got.reshape(batch, q_len, heads, k_len).swapaxes(1, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("grid", GRIDS)
def test_keras_layer_shows_what_the_mask_shows(keras, grid: tuple):
    """`use_causal_mask` that is dropped, or aligned to the wrong corner, on one of the paths."""
    for batch, heads in ((1, 1), (2, 2)):
        for i, case in enumerate(drawn(grid, 12, batch=batch, heads=heads)):
            cells = wanted(case, batch, heads)
            if not cells.any(-1).all():
                with pytest.raises(Unsupported, match="sees no key"):
                    lower(case.mask, "keras", *case.grid)
                continue
            said = lower(case.mask, "keras", *case.grid)
            how = [{}, {"return_attention_scores": True}, {"dropout": 0.5}][i % 3]
            assert np.array_equal(weights(keras, said, cells, **how) > 0, cells), (case, how)


def test_keras_mask_has_heads_only_where_they_differ():
    assert lower(Window(3), "keras", 3, 5)["attention_mask"].shape == (1, 3, 5)
    with pytest.raises(Unsupported, match="query 2, key 0 hidden"):
        lower((Causal() | Prefix(3)) - Queries([range(2, 3)]), "keras", 5, 5)
