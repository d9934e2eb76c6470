"""The page's masks are Python's masks: meaning, spans, counts, facts, and reasons."""

import json
from pathlib import Path

import numpy as np
import pytest

from hitherto.mask import bind, blocks, empty_rows, is_causal, pairs, parse
from hitherto.picture import why
from hitherto.picture.density import counts

FILE = Path(__file__).parents[1] / "mask" / "data" / "masks.jsonl"
VECTORS = [json.loads(line) for line in FILE.read_text().splitlines()]
MILLION = 1 << 20
LARGE = [
    "Causal() & (Window(131072) | Prefix(16384))",
    "Causal() & Segments.from_lengths([" + ", ".join(["1048"] * 1000 + ["576"]) + "])",
    "(Band(5000, 70) - Chunks(4096)) | Keys(range(7, 900000))",
    "Window(64) & Strided(3)",
    "Causal() & RandomBlocks(1024, 3, seed=5)",
]

READ_ALL = """
(vectors => vectors.map(v => {
  const {parse, sees, bind, facts} = hitherto;
  const mask = parse(v.mask), rows = [], spans = [];
  const bound = bind(mask, {qStart: v.q_start, qLen: v.q_len, kStart: 0, kLen: v.k_len});
  for (let q = v.q_start; q < v.q_start + v.q_len; q++) {
    let row = "", drawn = Array(v.k_len).fill(".");
    for (let k = 0; k < v.k_len; k++) row += sees(mask, q, k) ? "#" : ".";
    for (const [a, b] of bound.row(q)) drawn.fill("#", a, b);
    rows.push(row);
    spans.push(drawn.join(""));
  }
  return {rows, spans, ...facts(bound)};
}))
"""


def test_page_reads_all_vectors(browser, page):
    """Catches another reading of a mask, or of its text, than the rest of the project has."""
    browser.open(page)
    found = browser.run(f"{READ_ALL}({json.dumps(VECTORS)})")
    assert len(found) == 300
    for vector, seen in zip(VECTORS, found, strict=True):
        assert seen["rows"] == vector["rows"], vector["mask"]
        assert seen["spans"] == vector["rows"], vector["mask"]
        assert seen["pairs"] == vector["pairs"]
        assert seen["empty"] == len(vector["empty_rows"])
        assert seen["future"] == vector["first_future"]


def test_page_says_why_as_python_does(browser, page):
    """Catches sentences that drift apart, for three cells of each of the 300 masks."""
    browser.open(page)
    asked = []
    for i, v in enumerate(VECTORS):
        for q, k in ((0, v["k_len"] - 1), (v["q_len"] - 1, 0), (i % v["q_len"], i % v["k_len"])):
            asked.append((v["mask"], q + v["q_start"], k))
    said = browser.run(
        f"{json.dumps(asked)}.map(([m, q, k]) => hitherto.why(hitherto.parse(m), q, k))"
    )
    assert said == [why(parse(mask), q, k) for mask, q, k in asked]
    chinese = browser.run(
        f"{json.dumps(asked)}.map(([m, q, k]) => hitherto.why(hitherto.parse(m), q, k, 'zh'))"
    )
    assert [text[:2] == "可见" for text in chinese] == [text[:2] == "vi" for text in said]


@pytest.mark.parametrize("text", LARGE)
def test_pixels_of_a_million_hold_pythons_counts(browser, page, text):
    """Catches a pixel whose density is not the exact count of its cells."""
    browser.open(page)
    q_edges = np.unique([300_001, 300_002, 333_333, 700_000, 1_000_000, MILLION - 1])
    k_edges = np.unique([0, 5, 131_072, 299_990, 300_300, 777_777, MILLION])
    grid = f"{{qStart: 0, qLen: {MILLION}, kStart: 0, kLen: {MILLION}}}"
    found = browser.run(
        f"(() => {{const s = hitherto.bind(hitherto.parse({json.dumps(text)}), {grid});"
        f"const {{full, partial, empty}} = hitherto.tiles(s, 1024);"
        f"return [[...hitherto.counts(s, Float64Array.from({q_edges.tolist()}),"
        f"Float64Array.from({k_edges.tolist()}))], hitherto.facts(s), full, partial]}})()"
    )
    spans = bind(parse(text), MILLION, MILLION)
    assert found[0] == counts(spans, q_edges, k_edges).ravel().tolist()
    assert found[1]["pairs"] == pairs(spans)
    assert found[1]["empty"] == len(empty_rows(spans))
    future = is_causal(spans).witness
    assert found[1]["future"] == (None if future is None else list(future))
    assert tuple(found[2:]) == blocks(spans, 1024, 1024).counts()


def test_bench_counts_what_is_typed(browser, page):
    browser.open(page, hash="#mask")
    browser.type("#mask", "Causal() & (Window(4096) | Prefix(4))")
    browser.type("#queries", "1M")
    browser.type("#keys", "1M")
    expected = pairs(bind(parse("Causal() & (Window(4096) | Prefix(4))"), MILLION, MILLION))
    browser.wait(f"document.querySelector('#facts').textContent.includes('{expected:,}')")
    assert "yes, on this grid" in browser.text("#facts")


def test_bench_says_why_under_the_pointer(browser, page):
    """Catches a pointer that is one cell off, at the grid's first and last cell and between."""
    browser.open(page, hash="#mask")
    left, top, width, height = plot_of(browser)
    for q, k in ((0, 0), (11, 11), (7, 2), (2, 7)):
        browser.mouse("mouseMoved", left + width * (k + 0.5) / 12, top + height * (q + 0.5) / 12)
        browser.settle()
        said = why(parse("Causal() & Window(3)"), q, k)
        assert browser.text("#pointed") == f"query {q}, key {k} · {said}"


def plot_of(browser):
    """Where the cells are on the screen: left, top, width, height."""
    x, y, width, height = browser.run(
        "(r => [r.left, r.top, r.width, r.height])"
        "(document.querySelector('#picture').getBoundingClientRect())"
    )
    return x + 58, y + 24, width - 120, height - 86


def test_bench_is_used_by_keys_alone(browser, page):
    browser.open(page, hash="#mask")
    browser.run("document.querySelector('#picture').focus()")
    browser.key("ArrowLeft")
    first = browser.text("#pointed")
    assert first.startswith("query 6, key 5")
    browser.key("ArrowUp")
    assert browser.text("#pointed").startswith("query 5, key 5")
    browser.run("document.querySelector('#tab-mask').focus()")
    browser.key("ArrowRight")
    assert browser.run("document.activeElement.id") == "tab-generation"
    assert browser.run("location.hash") == "#generation"


def test_bench_marks_the_wrong_part_and_keeps_the_picture(browser, page):
    browser.open(page, hash="#mask")
    for text, part, said in [
        ("Causal() & Windw(3)", "Windw", "did you mean Window?"),
        ("Causal() & Window(0)", "Window(0)", "must be an int >= 1"),
        ("Causal() && Window(3)", "&", "needs a mask"),
        ("Causal() & open('x')", "open", "must call masks by name"),
        ("Segments([0, 0])", "", "must cover every position"),
        ("PerHead([Causal()", "", "needs \"]\""),
        ("€", "€", "cannot be read"),
        ("~" * 2000 + "Causal()", "", "nested too deeply"),
    ]:  # fmt: skip
        browser.type("#mask", text)
        assert said in browser.text("#error"), text
        if part:
            assert browser.text("#error mark") == part
        assert browser.run("Boolean(document.querySelector('#picture'))")
    browser.type("#mask", "Causal()")
    assert browser.text("#error") == ""


def test_bench_refuses_what_would_hang_it(browser, page):
    """Catches a page that freezes on a mask with millions of pieces."""
    browser.open(page, hash="#mask")
    browser.type("#queries", "1M")
    browser.type("#keys", "1M")
    browser.type("#mask", "BlockCausal(2)")
    assert "too many pieces" in browser.text("#error")
    browser.type("#queries", "many")
    assert "is not a length" in browser.text("#error")


def test_bench_compares_two_masks(browser, page):
    browser.open(page, hash="#mask")
    browser.type("#compare", "Causal() & Window(4)")
    assert "9 pairs; first at query 3, key 0" in browser.text("#facts")
    assert "only the second" in browser.text(".legend")
    browser.type("#compare", "Window(3)")
    assert "equal on this grid" in browser.text("#facts")


@pytest.mark.slow
def test_a_million_is_panned_and_zoomed_at_30_frames_a_second(browser, page):
    """Catches work that grows with the cells. Needs a quiet machine."""
    browser.open(page, hash="#mask")
    browser.type("#mask", LARGE[0])
    browser.type("#queries", "1M")
    browser.type("#keys", "1M")
    frames = browser.run(
        """(async () => {
          const canvas = document.querySelector("#picture"), box = canvas.getBoundingClientRect();
          const at = [box.left + 300, box.top + 250];
          const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type,
            {pointerId: 1, clientX: x, clientY: y, bubbles: true}));
          canvas.setPointerCapture = () => {};
          const start = performance.now();
          let count = 0;
          for (; performance.now() - start < 3000; count++) {
            if (count % 40 === 0) send("pointerdown", ...at);
            send("pointermove", at[0] + 3 * (count % 40), at[1] + 2 * (count % 40));
            if (count % 40 === 39) send("pointerup", ...at);
            canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: count % 80 < 40 ? -20 : 20,
              clientX: at[0], clientY: at[1], cancelable: true}));
            await new Promise(r => requestAnimationFrame(r));
          }
          return count / 3;
        })()"""
    )
    assert frames >= 30, f"{frames:.1f} frames a second"
