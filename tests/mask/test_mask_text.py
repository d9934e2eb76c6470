"""Masks as text: what prints can be pasted, what is hostile is refused and never run."""

import copy
import resource

import numpy as np
import pytest
from hypothesis import given

import hitherto.mask as hm
from hitherto.mask import (
    Band,
    Causal,
    Keys,
    MaskError,
    PerHead,
    Prefix,
    Queries,
    Segments,
    Shift,
    Table,
    Timeline,
    Tree,
    Window,
    parse,
)
from strategies import PREDICATES, Case, cases


@given(cases(batch=2, heads=2))
def test_parse_reads_back_what_str_prints(case: Case):
    """A lost argument, a wrong bracket around `a - (b - c)`, a value that hashes otherwise."""
    again = parse(str(case.mask), predicates=PREDICATES)
    assert again == case.mask
    assert hash(again) == hash(case.mask)
    assert str(again) == str(case.mask)
    assert copy.deepcopy(case.mask) == case.mask


@given(cases(batch=2, heads=2, leaves=4))
def test_str_pasted_into_python_is_the_mask(case: Case):
    """Text that only our own parser can read."""
    names = {name: getattr(hm, name) for name in dir(hm) if name[0].isupper()}
    # Predicate(name) is spelled by name alone, so here the name stands for a finished mask.
    names |= {"Predicate": lambda mask: mask, **PREDICATES}
    assert eval(str(case.mask), names) == case.mask  # our own printing of a random mask


SPELLED = [
    (Causal() & (Window(3) | Prefix(1)), "Causal() & (Window(3) | Prefix(1))"),
    (Causal() - (Window(3) - Prefix(1)), "Causal() - (Window(3) - Prefix(1))"),
    ((Causal() - Window(3)) - Prefix(1), "Causal() - Window(3) - Prefix(1)"),
    (~(Causal() & ~Window(3)), "~(Causal() & ~Window(3))"),
    (Band(None, -1), "Band(None, -1)"),
    (Window(np.int64(3)), "Window(3)"),
    (Keys(range(2, 5)), "Keys(range(2, 5))"),
    (Queries([range(4, 6), range(0, 2), range(1, 3)]), "Queries([range(0, 3), range(4, 6)])"),
    (Keys(range(0, 6, 3)), "Keys([range(0, 1), range(3, 4)])"),
    (Keys(np.array([True, False])), "Keys([True, False])"),
    (Segments([0, -1, 2]), "Segments([0, -1, 2])"),
    (Tree([-1, 0], 4), "Tree([-1, 0], 4)"),
    (Timeline([0, 0.5], [1], lookahead=-0.25), "Timeline([0.0, 0.5], [1.0], lookahead=-0.25)"),
    (Table(np.eye(2, dtype=bool)), "Table([[True, False], [False, True]])"),
    (Shift(Causal(), k=-2), "Shift(Causal(), k=-2)"),
    (PerHead([Causal(), Window(2)]), "PerHead([Causal(), Window(2)])"),
]


@pytest.mark.parametrize(("mask", "text"), SPELLED, ids=[text for _, text in SPELLED])
def test_mask_prints_as_short_python(mask, text):
    """Text that carries defaults, numpy types or needless brackets."""
    assert str(mask) == repr(mask) == text
    assert parse(text) == mask


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("  Window( width = 3 )\n", Window(3)),
        ("Tree([-1, 0], start=4)", Tree([-1, 0], 4)),
        ("Segments.from_lengths([2, 1])", Segments([0, 0, 1])),
        ("Segments.padded([1, 2], side='left')", Segments([[-1, 0], [0, 0]])),
        ("Window(3) & Causal() | Prefix(1)", (Window(3) & Causal()) | Prefix(1)),
        ("Causal() | Window(3) & Prefix(1)", Causal() | (Window(3) & Prefix(1))),
        ("~Causal() - Prefix(1) ^ Window(2)", (~Causal() - Prefix(1)) ^ Window(2)),
        ("Keys((range(3),))", Keys(range(3))),
    ],
)
def test_parse_follows_python_precedence_and_keywords(text, mask):
    """A parser of its own grammar: `a | b & c` read from left to right."""
    assert parse(text) == mask


HOSTILE = [
    "",
    "   ",
    "Causal",
    "Causal().left",
    "Causal()()",
    "Causal() Causal()",
    "Causal(); Causal()",
    "Causal()\nCausal()",
    "x := Causal()",
    "__import__('os').system('true')",
    "__import__('os')",
    "open('x', 'w')",
    "eval('Causal()')",
    "print(Causal())",
    "Mask()",
    "Predicate(lambda q, k: k <= q, 'x')",
    "Predicate(open)",
    "Predicate(open, 'x')",
    "(lambda: Causal())()",
    "lambda: 0",
    "[Causal() for _ in range(9)]",
    "Segments([0 for _ in range(9)])",
    "f'{Causal()}'",
    "Window(f'{3}')",
    "Window('3')",
    "Window(b'3')",
    "Window(3j)",
    "Window(...)",
    "Window(True)",
    "Window(1e400)",
    "Window(3.0)",
    "Window(10**3)",
    "Window(3 * 3)",
    "Window(" + "9" * 5000 + ")",
    "Window(" + "9" * 400 + ")",
    "Timeline([1e400], [0.0])",
    "Timeline([1" + "0" * 400 + "], [0.0])",
    "Timeline([0.0], [0.0], lookahead=1e400)",
    "Timeline([0.0], [0.0], lookahead=1" + "0" * 400 + ")",
    "Timeline([0.0], ['0'])",
    "Segments([0] * 1000000000)",
    "Segments({0: 1})",
    "Segments.__init__([0])",
    "Segments.__subclasses__()",
    "Segments.from_lengths.__globals__",
    "Segments.from_lengths([-1])",
    "Segments.from_lengths([1000000000000])",
    "Segments.padded([1000000000000])",
    "Keys(range(0, 10, 0))",
    "Keys(range(0.5))",
    "Keys(range())",
    "Keys(range(0, 1000000000, 2))",
    "Table([[True], [True, False]])",
    "Keys([True, [False]])",
    "Causal(1)",
    "Causal(*[])",
    "Causal(**{})",
    "Window()",
    "Window(wdth=3)",
    "Window(3, width=3)",
    "Window(Window(3))",
    "Prefix(Causal())",
    "Shift(3)",
    "PerHead([])",
    "PerHead([3])",
    "Causal() + Causal()",
    "Causal() and Causal()",
    "not Causal()",
    "Causal() if 1 else Causal()",
    "Causal() < Causal()",
    "Causal() & 3",
    "-Causal()",
    "Causal() @ Causal()",
    "Causal()\0",
    "(" * 500 + "Causal()" + ")" * 500,
    "~" * 5000 + "Causal()",
    "~" * 100_000 + "Causal()",
    " & ".join(["Causal()"] * 20_000),
    "Shift(" * 90 + "Causal()",
]


@pytest.fixture
def little_memory():
    """Let text that asks for terabytes fail here rather than take the machine down."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:40]))
def test_parse_refuses_hostile_text(text):
    """Text that is run, that takes the machine down, or that fails with another error."""
    with pytest.raises(MaskError):
        parse(text)


@pytest.mark.parametrize("value", [None, 3, Causal(), ["Causal()"]])
def test_parse_refuses_what_is_not_text(value):
    """An AttributeError from deep inside."""
    with pytest.raises(MaskError):
        parse(value)


@pytest.mark.parametrize("depth", [50, 150, 400, 900])
def test_parse_accepts_only_what_can_be_used(depth):
    """Text nested so deep that the parsed mask can be neither printed nor hashed."""
    text = "~" * depth + "Causal()"
    try:
        mask = parse(text)
    except MaskError:
        assert depth > 100
        return
    assert str(mask) == text
    assert hash(mask) == hash(parse(text))


def test_parse_suggests_the_name_that_was_meant():
    """A list of twenty names where one letter was wrong."""
    with pytest.raises(MaskError, match="mean Window"):
        parse("Windw(3)")
    with pytest.raises(MaskError, match="mean Causal"):
        parse("causal() & Window(3)")


def test_parse_reads_a_predicate_only_when_given_it():
    """A name in text that reaches a function nobody passed."""
    rule = PREDICATES["even_sum"]
    text = str(Causal() & rule)
    assert parse(text, predicates={"even_sum": rule}) == Causal() & rule
    with pytest.raises(MaskError, match="even_sum"):
        parse(text)


def test_masks_with_equal_data_are_one_value():
    """Masks that differ by dtype, container or identity only, and so miss every cache."""
    same = {Segments([0, 0, 1]), Segments(np.array([0, 0, 1], np.uint8)), Segments((0, 0, 1))}
    assert len(same) == 1
    assert Segments([0, 0, 1]) != Segments([0, 0, 2])
    assert Segments([0, 0, 1]) != Segments([[0, 0, 1]])
    assert Keys(range(3)) != Queries(range(3))
    assert Causal() & Window(2) != Window(2) & Causal()


def test_mask_keeps_its_data_when_the_caller_changes_theirs():
    """A mask whose meaning moves after it was hashed."""
    ids = np.array([0, 0, 1])
    mask = Segments(ids)
    ids[:] = 5
    assert mask == Segments([0, 0, 1])
    with pytest.raises(ValueError, match="read-only"):
        mask.ids[0] = 7
    with pytest.raises(AttributeError):
        mask.ids = ids
