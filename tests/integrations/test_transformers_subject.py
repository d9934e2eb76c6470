"""transformers models as subjects: what they declare, and that every mode calls them rightly."""

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason="needs the transformers extra")

from audit.replayed import shows  # noqa: E402
from hitherto.audit import audit  # noqa: E402
from hitherto.integrations.calls import Calls  # noqa: E402
from hitherto.integrations.tiny import tiny  # noqa: E402
from hitherto.integrations.transformers import (  # noqa: E402
    declared,
    layer_masks,
    plain_ids,
    subject,
)
from hitherto.mask import Causal, Chunks, Everything, Window  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore:.*:FutureWarning")]
LENGTHS = (5, 20)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma3_text", "mamba"])
def test_subject_of_a_clean_model_is_clean(name: str) -> None:
    """A false alarm on the most used models makes every other word of the audit worthless."""
    model = tiny(name)
    report = audit(subject(model), declared(model), lengths=LENGTHS, modes=("batch 1",))
    assert report.verdict == "clean", str(report)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_subject_agrees_with_itself_on_every_cache(name: str) -> None:
    """Cached steps, pads and packed documents must be called as the library means them."""
    model = tiny(name)
    report = audit(
        subject(model), declared(model), lengths=(20,), modes=("stages", "padding", "packing")
    )
    assert report.verdict == "clean", str(report)
    assert any("static cache" in line for line in report.covered)
    assert any(line.startswith("padding") for line in report.covered)
    assert any(line.startswith("packing") and "[7, 5]" in line for line in report.covered)
    assert any("of a prompt, then decode" in line for line in report.covered)


def test_padded_positions_of_camembert_begin_behind_its_padding_token(monkeypatch) -> None:
    """Its family counts from behind the padding id; from 0, padded rows look inconsistent."""
    model = tiny("camembert")
    assert Calls(model=model).first_position == model.config.pad_token_id + 1
    assert Calls(model=tiny("gpt2")).first_position == 0
    assert audit(subject(model), lengths=(20,), modes=("padding",)).verdict == "clean"
    monkeypatch.setattr(Calls, "first_position", 0)
    report = audit(subject(model), lengths=(20,), modes=("padding",))
    assert {finding.cause for finding in report.findings} == {"position ids"}


def test_subject_finds_a_planted_leak_and_names_the_module(monkeypatch, tmp_path) -> None:
    """The fault of transformers 5.9 to 5.17: one attention gets no mask."""
    from transformers.models.llama import modeling_llama

    model = tiny("llama")
    monkeypatch.setattr(modeling_llama, "create_causal_mask", lambda **_: None)
    assert audit(subject(model), lengths=LENGTHS, modes=()).verdict == "clean"
    model.model.layers[1].self_attn.is_causal = False
    report = audit(subject(model), lengths=LENGTHS, modes=())
    assert report.findings[0].kind == "leak"
    assert report.findings[0].module == "model.layers.1.self_attn (LlamaAttention)"
    assert not shows(report.findings[0], model, tmp_path)


def test_subject_finds_a_window_one_too_wide() -> None:
    """The off-by-one of the first Mistral mask: w + 1 keys."""
    model = tiny("mistral")
    wide = declared(model)
    model.config.sliding_window += 1
    report = audit(subject(model), wide, lengths=(20,), modes=("layer",))
    assert any("window" in finding.cause for finding in report.findings), str(report)


def test_subject_of_an_encoder_decoder_is_clean_and_tells_a_leak() -> None:
    """Self, cross and encoder masks are declared apart; the decoder alone is causal."""
    model = tiny("bart", "seq2seq")
    masks = declared(model)
    assert masks == {"self": Causal(), "cross": Everything(), "encoder": Everything()}
    report = audit(subject(model), masks, lengths=LENGTHS, modes=("cross", "stages"))
    assert report.verdict == "clean", str(report)
    causal = audit(subject(model), {**masks, "encoder": Causal()}, lengths=(20,), modes=("cross",))
    assert any(f.probe == "encoder" and f.kind == "leak" for f in causal.findings)


def test_layer_masks_reads_windows_and_chunks() -> None:
    """Declaring plain causal for a window layer calls every window blind."""
    gemma = tiny("gemma3_text").config
    assert set(layer_masks(gemma)) == {Causal(), Causal() & Window(8)}
    llama4 = tiny("llama4_text").config
    assert set(layer_masks(llama4)) == {Causal(), Causal() & Chunks(8)}
    assert set(layer_masks(tiny("mistral").config)) == {Causal() & Window(8)}
    assert set(layer_masks(tiny("qwen2").config)) == {Causal()}


def test_plain_ids_leave_special_tokens_out() -> None:
    """A pad or image token in a random input changes the mask and looks like a fault."""
    model = tiny("gemma3")
    special = {model.config.image_token_index, model.config.get_text_config().pad_token_id}
    ids = plain_ids(model)
    assert not special & set(ids.tolist())
    made = subject(model)
    x = made.draw(np.random.default_rng(0), 3, 50)
    other = made.redraw(np.random.default_rng(1), x)
    assert set(np.unique([x, other])) <= set(ids.tolist())
    assert (x != other).all()


def test_subject_generates_what_its_forward_says() -> None:
    """Greedy generation must not stop at an end token that random weights happen to favour."""
    made = subject(tiny("gpt2"))
    tokens = made.draw(np.random.default_rng(0), 1, 6)
    added = made.stages.generate(tokens, 5)
    for token in added[0]:
        assert made.run(tokens)[0, -1].argmax() == token
        tokens = np.concatenate([tokens, [[token]]], axis=1)
