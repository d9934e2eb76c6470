"""Each view shows its data, in both languages, on a phone and in the dark."""

import base64
import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from explore.conftest import PROMPT, SPELL
from hitherto.attention import attend
from hitherto.audit import audit
from hitherto.cli.recording import MOST_BYTES, Watch, lesson, record
from hitherto.errors import ModelError
from hitherto.mask import Causal
from hitherto.picture.explore import explore_page

VIEWS = ("mask", "generation", "training", "audit")


def read(text, *shape):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy()).reshape(shape)


def test_recorded_weights_are_the_models(model, recorded):
    """Catches queries or keys taken before their norm or rotation: 1e-6 of what the layers use."""
    n = recorded["steps"][-1]["rows"][1]
    tokens = list(PROMPT)
    for step in recorded["steps"][:-1]:
        tokens.append(
            ord(step["chosen"]) if len(step["chosen"]) == 1 else int(step["chosen"][2:], 16)
        )
    taken = []

    def keep(layer, arguments, out):
        x, sight = arguments
        taken.append((x, sight, out))

    hooks = [block.attention.register_forward_hook(keep) for block in model.stack.blocks]
    with torch.no_grad():
        model(torch.tensor([tokens]))
    for hook in hooks:
        hook.remove()
    for index, (x, _, out) in enumerate(taken):
        layer = model.stack.blocks[index].attention
        weights = read(recorded["layers"][index]["weights"], 2, n, n)
        values = layer.value(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        made = layer.output((weights @ values).transpose(1, 2).flatten(2))
        assert_close(made, out, atol=1e-6, rtol=0)


def test_recorded_scores_are_those_the_weights_come_from(model, recorded):
    n = recorded["steps"][-1]["rows"][1]
    for index, mask in enumerate(model.masks):
        scores = read(recorded["layers"][index]["scores"], 2, n, n)
        weights = read(recorded["layers"][index]["weights"], 2, n, n)
        one = torch.eye(n).expand(1, 2, n, n)
        expected = attend(scores[None], one, one, mask, scale=1.0, backend="reference")[0]
        assert_close(weights, expected, atol=1e-6, rtol=0)


def test_recording_steps_agree_with_and_without_the_cache(model, recorded):
    """Catches weights of a cache that are put at wrong positions."""
    assert [step["rows"] for step in recorded["steps"][:3]] == [[0, 19], [19, 20], [20, 21]]
    assert max(step["difference"] for step in recorded["steps"]) < 1e-6
    window, whole = recorded["steps"][-1]["cache"]
    assert [tuple(r) for r in window["held"]] == [(20, 24)]
    assert [tuple(r) for r in whole["held"]] == [(0, 24)]


def test_recording_writes_what_the_model_writes(model, recorded):
    tokens = list(PROMPT)
    with torch.no_grad():
        for _ in range(6):
            tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    assert recorded["tokens"] == [SPELL(token) for token in tokens]


def test_watch_leaves_the_model_as_it_was(model):
    with Watch(model):
        pass
    assert not any(block.attention._forward_hooks for block in model.stack.blocks)


def test_recording_refuses_what_no_browser_could_read(model):
    """Catches a page of two gigabytes."""
    n = int((MOST_BYTES / 8 / 4) ** 0.5) + 1
    with pytest.raises(ModelError, match="within 64 MiB"):
        record(model, [1] * n, 1, SPELL, "test")


def test_lesson_losses_are_those_of_the_shifted_labels(model):
    text = list(b"who may see whom?")
    found = lesson(model, text, SPELL, "test")
    with torch.no_grad():
        logits = model(torch.tensor([text[:-1]]))[0].log_softmax(-1)
    expected = [-float(logits[t, text[t + 1]]) for t in range(len(text) - 1)]
    assert found["masked"] == pytest.approx(expected, abs=1e-5)
    assert max(abs(a - b) for a, b in zip(found["masked"], found["unmasked"], strict=True)) > 1e-3


def test_generation_is_stepped_played_and_scrubbed(browser, page, recorded):
    browser.open(page, hash="#generation")
    assert "Prefill: 19 tokens are read at once" in browser.text("#step")
    browser.click("#next")
    assert "Decode: token 19 alone is read" in browser.text("#step")
    browser.type("#scrub", "5")
    assert browser.text("#step").startswith("Step 6 / 6")
    browser.type("#layer", "0")
    assert "4 of 24 positions held" in browser.text("#cache")
    browser.click("#play")
    browser.wait("document.querySelector('#step').textContent.startsWith('Step 2')")
    browser.click("#play")


def test_generation_shows_the_recorded_numbers(browser, page, recorded):
    browser.open(page, hash="#generation")
    browser.type("#layer", "1")
    browser.type("#head", "1")
    browser.type("#scrub", "5")
    weights = read(recorded["layers"][1]["weights"], 2, 24, 24)[1, 23]
    cells = browser.run(
        "[...document.querySelectorAll('#stages tr:last-child td')].map(d => d.textContent)"
    )
    assert cells == ["<.01" if w < 0.01 else f"{w:.2f}" for w in weights.tolist()]
    first = browser.text("#candidates li")
    share = recorded["steps"][5]["candidates"][0]["share"]
    assert float(first.split("%")[0].strip()[-5:].strip(" ⏎␣")) == pytest.approx(
        100 * share, rel=1e-3
    )


def test_generation_says_why_a_score_is_masked(browser, page):
    browser.open(page, hash="#generation")
    browser.type("#layer", "0")
    title = browser.run("document.querySelector('#stages td.no').title")
    assert title == "hidden: 18 back, Window(4) allows 3"


def test_training_shows_the_shift(browser, page):
    browser.open(page, hash="#training")
    rows = browser.run(
        "[...document.querySelectorAll('#shift tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    text = "who may see whom?".replace(" ", "␣")
    assert [row[1] for row in rows] == list(text[:-1])
    assert [row[3] for row in rows] == list(text[1:])


def leaky(tokens):
    """Each output also reads the next token."""
    table = np.random.default_rng(0).normal(size=(16, 16))
    return table[tokens] + table[np.roll(tokens, -1, axis=1)]


@pytest.fixture(scope="module")
def report_page(tmp_path_factory):
    report = audit(leaky, Causal(), vocab=16, lengths=[9], modes=("eval", "map"))
    path = tmp_path_factory.mktemp("audit") / "report.html"
    path.write_text(explore_page({"audit": json.loads(report.to_json())}))
    return path, report


def test_audit_shows_findings_to_click(browser, report_page):
    path, report = report_page
    browser.open(path)
    assert browser.text("#verdict") == "leaky: findings"
    assert report.findings[0].detail in browser.text("#findings")
    last = len(report.findings)
    browser.click(f"#findings li:nth-child({last}) button")
    assert report.findings[-1].next_step in browser.text("#detail")
    assert browser.run("document.querySelectorAll('#maps canvas').length") == 3


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_every_view_fits_its_screen_in_both_languages(browser, page, report_page, width, dark):
    """Catches a page that scrolls sideways on a phone, and a word without a translation."""
    for view in VIEWS:
        browser.open(report_page[0] if view == "audit" else page, width=width, dark=dark,
                     hash=f"#{view}")  # fmt: skip
        english = browser.text("main")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.documentElement.dataset.theme") == (
            "dark" if dark else "light"
        )
        browser.click("#language")
        assert browser.run("document.documentElement.lang") == "zh-CN"
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.text("main") != english
        assert "undefined" not in browser.text("main") + english


def test_views_without_data_say_how_to_get_some(browser, report_page):
    for view in ("generation", "training"):
        browser.open(report_page[0], hash=f"#{view}")
        assert "hitherto explore runs/demo" in browser.text("main")


def test_every_control_has_a_name(browser, page, report_page):
    """Catches a button that a screen reader calls "button"."""
    unnamed = """[...document.querySelectorAll("button, select, input, textarea, canvas")]
      .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")))
      .map(e => e.outerHTML)"""
    for view in VIEWS:
        browser.open(report_page[0] if view == "audit" else page, hash=f"#{view}")
        assert browser.run(unnamed) == []
