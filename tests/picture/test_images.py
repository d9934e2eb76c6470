"""PNG and SVG hold the exact share of every reason in every pixel."""

import base64
import re
import struct
import time
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto.mask import (
    Causal,
    Everything,
    MaskError,
    PerHead,
    Prefix,
    Segments,
    Strided,
    Window,
    evaluate,
    select,
)
from hitherto.picture import draw
from hitherto.picture.colors import AHEAD, VISIBLE, hidden
from hitherto.picture.layers import layers, parts, put
from strategies import cases

SINK = Causal() & (Window(3) | Prefix(1))


def read_png(data):
    """Decode the few kinds of PNG that we write, with each chunk's sum checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, shape = 8, b"", None
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        chunk = data[at + 8 : at + 8 + size]
        (said,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert zlib.crc32(kind + chunk) == said
        if kind == b"IHDR":
            columns, rows, *rest = struct.unpack(">IIBBBBB", chunk)
            assert rest == [8, 2, 0, 0, 0]
            shape = rows, columns
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(shape[0], 1 + 3 * shape[1])
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(*shape, 3)


def expected_pixels(mask, queries, keys, size):
    """Colour every cell by itself, then average the cells of a pixel."""
    q, k = np.array(queries), np.array(keys)
    seen = evaluate(mask, q, k)
    grid = np.zeros((*seen.shape, 3))
    grid[seen] = VISIBLE
    grid[seen & (k > q[:, None])] = AHEAD
    left = ~seen
    for index, part in enumerate(parts(mask)):
        hides = left & ~evaluate(part, q, k)
        grid[hides] = hidden(index)
        left &= ~hides
    assert not left.any()
    q_cut, k_cut = (np.arange(n + 1) * len(x) // n for n, x in
                    ((min(size, len(q)), q), (min(size, len(k)), k)))  # fmt: skip
    sums = np.add.reduceat(np.add.reduceat(grid, q_cut[:-1], 0), k_cut[:-1], 1)
    return np.rint(sums / np.outer(np.diff(q_cut), np.diff(k_cut))[..., None]).astype(np.uint8)


@given(cases(leaves=5, sizes=(1, 2, 5, 13, 31, 65)), st.sampled_from([1, 3, 8, 40]))
def test_pixels_are_the_mean_over_their_cells(case, size):
    """Catches a reason counted twice, an edge moved, a part that is asked at wrong positions."""
    drawing = draw(case.mask, *case.grid[:2], q_start=case.q_start)
    queries = range(case.q_start, case.q_start + case.q_len)
    expected = expected_pixels(case.mask, queries, range(case.k_len), size)
    difference = drawing.pixels(size).astype(int) - expected
    assert np.abs(difference).max() <= 1  # a mean that ends in .5 may be rounded either way


@given(cases(leaves=4, sizes=(13, 31, 65)), st.data())
def test_zoom_shows_the_cells_at_these_positions(case, data):
    """Catches a zoom that draws from position 0 under other labels."""
    q0 = data.draw(st.integers(case.q_start, case.q_start + case.q_len - 1))
    k0 = data.draw(st.integers(0, case.k_len - 1))
    queries, keys = range(q0, case.q_start + case.q_len), range(k0, case.k_len)
    pixels = draw(case.mask, q_pos=queries, k_pos=keys).pixels(64)
    difference = pixels.astype(int) - expected_pixels(case.mask, queries, keys, 64)
    assert np.abs(difference).max() <= 1


@given(cases(leaves=5, batch=2, heads=2))
def test_layers_hold_each_cell_once(case):
    mask = select(case.mask, 0, 0)
    queries, keys = range(case.q_start, case.q_start + case.q_len), range(case.k_len)
    found = layers(mask, put(mask, queries, keys), queries, keys)
    assert (sum(layer.spans.dense().astype(int) for layer in found) == 1).all()


def test_png_holds_the_pixels_enlarged():
    drawing = draw(SINK, 5, 9, q_start=4)
    pixels = read_png(drawing.png(40))
    assert pixels.shape == (5 * 4, 9 * 4, 3)
    np.testing.assert_array_equal(pixels[::4, ::4], drawing.pixels(40))
    np.testing.assert_array_equal(pixels[3::4, 3::4], drawing.pixels(40))


def test_png_is_read_by_another_library():
    image = pytest.importorskip("PIL.Image", reason="Pillow comes with the plot extra")
    import io

    drawing = draw(SINK, 70)
    with image.open(io.BytesIO(drawing.png(70))) as opened:
        np.testing.assert_array_equal(np.asarray(opened.convert("RGB")), drawing.pixels(70))


def test_svg_holds_the_pixels_the_reasons_and_a_title():
    drawing = draw(SINK, 200, 130, q_start=0)
    root = ElementTree.fromstring(drawing.svg(100))
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "Causal() & (Window(3) | Prefix(1))"
    data = root.find(f"{space}image").get("href").removeprefix("data:image/png;base64,")
    np.testing.assert_array_equal(read_png(base64.b64decode(data)), drawing.pixels(100))
    words = [text.text for text in root.iter(f"{space}text")]
    assert "hidden by Causal()" in words
    assert "hidden by Window(3) | Prefix(1)" in words
    assert drawing._repr_html_().startswith("<svg")


def test_svg_ticks_stand_at_their_positions():
    """Catches a label beside the middle of another row."""
    root = ElementTree.fromstring(draw(Causal(), q_pos=range(100, 108), k_pos=range(8)).svg(80))
    place = {text.text: text.attrib for text in root.iter() if text.text and "y" in text.attrib}
    image = next(root.iter("{http://www.w3.org/2000/svg}image")).attrib
    assert float(place["104"]["y"]) - 4 == float(image["y"]) + 80 * 4.5 / 8


def test_svg_escapes_what_a_mask_is_called():
    assert "&amp;" in draw(SINK, 4).svg()
    assert not re.search(r"&(?!amp;|lt;|gt;|quot;|#)", draw(SINK, 4).svg())


def test_a_million_is_drawn_at_once():
    """Catches work that grows with the cells. The bar is a second; a slow machine gets four."""
    lengths = np.random.default_rng(0).multinomial(1 << 20, np.full(1000, 1e-3)).tolist()
    for mask in (Causal() & (Window(4096) | Prefix(4)),
                 Causal() & Segments.from_lengths(lengths)):  # fmt: skip
        started = time.process_time()
        drawing = draw(mask, 1 << 20)
        assert len(drawing.png(512)) > 500
        assert time.process_time() - started < 4


def test_a_part_too_dense_alone_is_drawn_within_the_others():
    """Catches a refusal to draw what can be bound: Strided(3) alone has 10^11 spans."""
    pixels = draw(Window(64) & Strided(3), 1 << 18).pixels(64)
    assert pixels.shape == (64, 64, 3)


def test_drawing_explains_a_size_that_is_none():
    with pytest.raises(MaskError, match="size must be from 1 to"):
        draw(Everything(), 4).png(0)


def test_drawing_names_the_head_in_its_title():
    assert (
        "<title>Window(1), head 1 of 2</title>"
        in draw(PerHead([Causal(), Window(1)]), 4, head=1).svg()
    )
