"""The drawing says what `evaluate` says, at every size, width and offset."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hitherto.mask
from hitherto.mask import (
    Causal,
    Chunks,
    Everything,
    MaskError,
    Nothing,
    PerHead,
    Prefix,
    Segments,
    Window,
    evaluate,
    parse,
    select,
)
from hitherto.picture import draw
from hitherto.picture.colors import terminal
from hitherto.picture.layers import edges, layers, paint
from strategies import cases

SINK = Causal() & (Window(3) | Prefix(1))


def test_draw_gives_the_picture_of_the_readme():
    """Catches labels or marks one row or column off."""
    assert str(draw(SINK, q_pos=range(2, 6), k_pos=range(6), width=80)).splitlines() == [
        "  0 1 2 3 4 5",
        "2 # # # . . .",
        "3 # # # # . .",
        "4 # . # # # .",
        "5 # . . # # #",
    ]


def test_draw_puts_each_two_digit_label_over_its_column():
    """Catches labels that drift once positions have two digits."""
    lines = str(draw(Window(2), 2, 12, width=80)).splitlines()
    assert lines[0] == "    0  1  2  3  4  5  6  7  8  9 10 11"
    assert lines[1] == "10  .  .  .  .  .  .  .  .  .  #  #  ."
    assert lines[0].index("10") + 1 == lines[1].rindex("#")


def test_draw_without_room_for_spaces_labels_every_tenth_key():
    lines = str(draw(Causal(), 3, 24, width=30)).splitlines()
    assert lines[0] == "   0         10        20"
    assert lines[1] == "21 " + "#" * 22 + ".."


@given(cases(leaves=4, batch=2, heads=2), st.integers(8, 200))
def test_draw_shows_what_evaluate_decides(case, width):
    """Catches a cell, an offset or a chosen head that differs from the meaning."""
    sizes = hitherto.mask.axes(case.mask)
    batch, head = ((size or 1) - 1 for size in sizes)
    one = select(case.mask, batch, head)
    picture = str(draw(case.mask, *case.grid[:2], q_start=case.q_start, batch=batch, head=head,
                       width=width, ascii=True))  # fmt: skip
    if "|" in picture:
        return _check_shades(picture, evaluate(one, case.q_pos, case.k_pos))
    rows = [line for line in picture.splitlines() if re.search(r"[#.]", line)]
    marks = [re.sub(r"^ *\d+|\s", "", row) for row in rows]
    expected = evaluate(one, case.q_pos, case.k_pos)
    assert marks == ["".join(".#"[int(cell)] for cell in row) for row in expected]


def _check_shades(picture, grid):
    """Recount each cell of a shaded picture from the dense grid."""
    rows = [re.search(r"^ *\d+[kM]? (.*)\|$", line)[1] for line in picture.splitlines()
            if line.endswith("|")]  # fmt: skip
    height, width = len(rows), len(rows[0])
    q_edges = np.arange(height + 1) * grid.shape[0] // height
    k_edges = np.arange(width + 1) * grid.shape[1] // width
    for i, row in enumerate(rows):
        for j, mark in enumerate(row):
            cell = grid[q_edges[i] : q_edges[i + 1], k_edges[j] : k_edges[j + 1]]
            share = cell.mean()
            thirds = ".:+"[min(int(3 * cell.sum() // cell.size), 2)]
            assert mark == (" " if share == 0 else "#" if share == 1 else thirds)


@pytest.mark.parametrize("mask", [SINK, Nothing(), Everything(), Causal() & Chunks(40)])
@pytest.mark.parametrize(("q_len", "k_len"), [(100, 100), (65, 211), (97, 13), (300, 7)])
def test_draw_shades_are_the_exact_share_of_each_cell(mask, q_len, k_len):
    """Catches an edge counted twice, a third off by one, a nearly full cell drawn full."""
    q_start = max(k_len - q_len, 0)
    grid = evaluate(mask, np.arange(q_start, q_start + q_len), np.arange(k_len))
    picture = draw(mask, q_len, k_len, q_start=q_start, width=60, ascii=True)
    _check_shades(str(picture), grid)


@given(cases(leaves=3, sizes=(1, 2, 5, 31, 64, 97, 129)), st.integers(12, 120))
def test_draw_fits_its_width(case, width):
    """Catches lines that wrap: a wrapped picture is no picture."""
    picture = draw(case.mask, *case.grid[:2], q_start=case.q_start, width=width)
    drawing = [line for line in str(picture).splitlines() if "a cell is" not in line]
    assert max(map(len, drawing)) <= max(width, 12)


def test_draw_is_exact_at_a_million():
    """Catches cells x cells work, and overflow: a full cell looks full, one pair less does not."""
    million = 1 << 20
    full = str(draw(Everything(), million, width=80)).splitlines()
    assert {line[5:-1] for line in full[1:-1]} == {"█" * 64}
    hole = Everything() - (Window(1) & Prefix(1))
    assert str(draw(hole, million, width=80)).splitlines()[1][5] == "▓"


def test_draw_names_the_batch_row_and_head():
    mask = PerHead([Causal(), Window(1)]) & Segments([[0, 0, 0], [0, 0, 1]])
    lines = str(draw(mask, 3, batch=1, head=1, width=80)).splitlines()
    assert lines == [
        "batch 1 of 2, head 1 of 2",
        "  0 1 2",
        "0 # . .",
        "1 . # .",
        "2 . . #",
    ]


def test_draw_colours_keys_ahead_and_is_plain_unless_asked():
    """Catches escape codes in a file, and a leak that looks like any other cell."""
    assert "\x1b" not in str(draw(Everything(), 2, width=80))
    first = str(draw(Everything(), 2, width=80, color=True)).splitlines()[1]
    assert first == "0 \x1b[38;5;25m#\x1b[0m \x1b[38;5;166m#\x1b[0m"


def test_draw_in_colour_shows_the_same_and_says_why():
    """Catches colour codes that replace marks, or reach into the width."""
    coloured = str(draw(SINK, 9, width=80, color=True))
    plain = re.sub(r"\x1b\[[\d;]+m", "", coloured).splitlines()
    assert plain[:10] == str(draw(SINK, 9, width=80)).splitlines()
    assert plain[10:] == ["█ visible", "█ hidden by Causal()", "█ hidden by Window(3) | Prefix(1)"]


@pytest.mark.parametrize("width", [12, 41, 80])
@pytest.mark.parametrize(("q_len", "k_len"), [(300, 300), (65, 211), (97, 13), (7, 400), (2, 999)])
def test_draw_in_half_blocks_fits_and_has_the_pixels_colours(q_len, k_len, width):
    """Catches upper and lower halves changed over, and rows that wrap."""
    drawing = draw(SINK, q_len, k_len, q_start=0, width=width, color=True)
    lines = [line for line in str(drawing).splitlines() if "▀" in line]
    plain = [re.sub(r"\x1b\[[\d;]+m", "", line) for line in lines]
    assert max(map(len, plain)) <= max(width, 12)
    columns = plain[0].count("▀")
    upper = [int(code) for line in lines for code in _codes(line, 0)]
    rows = max(2, min(columns, q_len // 2 * 2))
    parts = layers(SINK, drawing._seen, range(q_len), range(k_len))
    pixels = paint(parts, edges(range(q_len), rows), edges(range(k_len), columns))
    assert upper == [terminal(color) for row in pixels[::2].tolist() for color in row]


def _codes(line, half):
    for found in re.finditer(r"\x1b\[38;5;(\d+);48;5;(\d+)m(▀+)", line):
        yield from [found[1 + half]] * len(found[3])


@pytest.mark.parametrize(
    ("arguments", "named", "match"),
    [
        ((), {}, "q_len"),
        ((4,), {"q_start": -1}, "q_pos"),
        ((9, 4), {}, "q_start must leave every query at 0"),
        ((0,), {}, "non-empty"),
        ((), {"q_pos": range(0, 9, 2)}, "step 1"),
        ((4,), {"k_pos": range(0)}, "k_pos"),
    ],
)
def test_draw_explains_a_grid_that_is_none(arguments, named, match):
    with pytest.raises(MaskError, match=match):
        draw(Causal(), *arguments, **named)


def test_draw_explains_a_head_that_is_none():
    with pytest.raises(MaskError, match="from 0 to 1"):
        draw(PerHead([Causal(), Window(1)]), 3, head=2)


def _pictures():
    """Yield every picture in a docstring of a mask: its mask, its lines."""
    for name, cls in sorted(vars(hitherto.mask).items()):
        doc = cls.__doc__ or "" if isinstance(cls, type) else ""
        lines = doc.splitlines()
        heads = [i for i, line in enumerate(lines) if re.fullmatch(r" +0( +\d+)+", line)]
        for at in heads:
            said = re.search(r"`([^`]+)`:\s*$", "\n".join(lines[:at]).rstrip())
            rows = [lines[at]]
            for line in lines[at + 1 :]:
                if not re.fullmatch(r" *\d+( +[#.])+", line):
                    break
                rows.append(line)
            yield pytest.param(said[1] if said else f"{name}()", rows, id=name)


@pytest.mark.parametrize(("text", "rows"), list(_pictures()))
def test_pictures_in_docstrings_are_what_draw_draws(text, rows):
    """Catches a picture that drifts from its mask."""
    numbers = [int(row.split()[0]) for row in rows[1:]]
    keys = len(rows[0].split())
    drawn = str(
        draw(parse(text), q_pos=range(numbers[0], numbers[-1] + 1), k_pos=range(keys), width=80)
    )
    assert [r.split() for r in rows] == [line.split() for line in drawn.splitlines()]


def test_some_docstrings_have_pictures():
    """Catches a pattern that finds none, so that the test above tests nothing."""
    assert len(list(_pictures())) >= 3
