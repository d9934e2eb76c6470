"""The laws of a boolean algebra, on the meaning and on Spans, where both must hold exactly."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

import hitherto.mask.spans as limits
from hitherto.mask import Everything, Mask, Nothing, Shift, Spans, bind, evaluate
from strategies import Case, cases_on_one_grid

Value = Mask | Spans | np.ndarray
LAWS: dict[str, Callable[..., tuple[Value, Value]]] = {
    "and commutes": lambda a, b, c, one, none: (a & b, b & a),
    "or commutes": lambda a, b, c, one, none: (a | b, b | a),
    "xor commutes": lambda a, b, c, one, none: (a ^ b, b ^ a),
    "and associates": lambda a, b, c, one, none: ((a & b) & c, a & (b & c)),
    "or associates": lambda a, b, c, one, none: ((a | b) | c, a | (b | c)),
    "xor associates": lambda a, b, c, one, none: ((a ^ b) ^ c, a ^ (b ^ c)),
    "and distributes": lambda a, b, c, one, none: (a & (b | c), (a & b) | (a & c)),
    "or distributes": lambda a, b, c, one, none: (a | (b & c), (a | b) & (a | c)),
    "and distributes over xor": lambda a, b, c, one, none: (a & (b ^ c), (a & b) ^ (a & c)),
    "de morgan and": lambda a, b, c, one, none: (~(a & b), ~a | ~b),
    "de morgan or": lambda a, b, c, one, none: (~(a | b), ~a & ~b),
    "double negation": lambda a, b, c, one, none: (~~a, a),
    "and absorbs": lambda a, b, c, one, none: (a & (a | b), a),
    "or absorbs": lambda a, b, c, one, none: (a | (a & b), a),
    "and is idempotent": lambda a, b, c, one, none: (a & a, a),
    "or is idempotent": lambda a, b, c, one, none: (a | a, a),
    "minus is and not": lambda a, b, c, one, none: (a - b, a & ~b),
    "xor is the two differences": lambda a, b, c, one, none: (a ^ b, (a - b) | (b - a)),
    "xor with itself is nothing": lambda a, b, c, one, none: (a ^ a, none),
    "everything is neutral for and": lambda a, b, c, one, none: (a & one, a),
    "nothing is neutral for or": lambda a, b, c, one, none: (a | none, a),
    "nothing annihilates": lambda a, b, c, one, none: (a & none, none),
    "everything dominates": lambda a, b, c, one, none: (a | one, one),
    "excluded middle": lambda a, b, c, one, none: (a | ~a, one),
    "contradiction": lambda a, b, c, one, none: (a & ~a, none),
}


@pytest.mark.parametrize("max_spans", [1, limits.MAX_SPANS])
@given(three=cases_on_one_grid(count=3))
def test_spans_obey_every_law(max_spans: int, three: list[Case]):
    """A merge that is right for two inputs but loses a touching span in the third."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", max_spans)
        grid = three[0].grid
        values = [bind(case.mask, *grid) for case in three]
        values += [bind(Everything(), *grid), bind(Nothing(), *grid)]
        for name, law in LAWS.items():
            left, right = law(*values)
            assert left == right, name


@settings(max_examples=25)
@given(three=cases_on_one_grid(count=3, leaves=2))
def test_masks_obey_every_law(three: list[Case]):
    """An operator node read as another: the meaning of the expression, and its Spans."""
    masks = [case.mask for case in three] + [Everything(), Nothing()]
    q_pos, k_pos, grid = three[0].q_pos, three[0].k_pos, three[0].grid
    for name, law in LAWS.items():
        left, right = law(*masks)
        assert np.array_equal(evaluate(left, q_pos, k_pos), evaluate(right, q_pos, k_pos)), name
        assert bind(left, *grid) == bind(right, *grid), name


@given(cases_on_one_grid(count=2, leaves=2))
def test_binding_is_a_homomorphism(pair: list[Case]):
    """bind(a & b) that takes a short cut which & of two Spans does not."""
    a, b = (case.mask for case in pair)
    grid = pair[0].grid
    x, y = bind(a, *grid), bind(b, *grid)
    assert bind(a & b, *grid) == x & y
    assert bind(a | b, *grid) == x | y
    assert bind(a ^ b, *grid) == x ^ y
    assert bind(a - b, *grid) == x - y
    assert bind(~a, *grid) == ~x


@given(cases_on_one_grid(count=2, leaves=2))
def test_shift_distributes_over_the_operators(pair: list[Case]):
    """A shift applied to the left side only. (Shifts to earlier data: all positions have some.)"""
    q_len, k_len, q_start = pair[0].grid
    a, b = (case.mask for case in pair)
    grid = max(q_len - 1, 0), max(k_len - 2, 0), q_start

    def moved(mask: Mask) -> Mask:
        return Shift(mask, q=-1, k=-2)

    assert bind(moved(a & b), *grid) == bind(moved(a) & moved(b), *grid)
    assert bind(moved(a ^ b), *grid) == bind(moved(a) ^ moved(b), *grid)
    assert bind(moved(~a), *grid) == bind(~moved(a), *grid)
    assert np.array_equal(bind(moved(a), *grid).dense(), bind(a, *pair[0].grid).dense()[1:, 2:])
