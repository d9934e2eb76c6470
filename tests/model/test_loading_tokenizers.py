"""Tokenizers rebuilt from files: the library's own ids, and the bytes of every token."""

import json
from pathlib import Path

import numpy as np
import pytest

from hitherto.errors import ModelError
from hitherto.model.loading import ChatTemplate, load
from hitherto.model.loading.gguf_file import GGUF, read_gguf
from hitherto.model.loading.gguf_tokenizer import tokenizer_from_gguf
from hitherto.model.loading.tokenizer import read_tokenizer
from model.checkpoints import TEMPLATE, TEXTS, byte_tokenizer, write_talking_folder
from model.real import path_of

pytest.importorskip("tokenizers", reason="reads the files")

STRANGE = [
    "Once upon a time", "  two  spaces\n\n\n\tand\ttabs\t\t", "naïve café 日本語 🙂🙂 عربى",
    "it's 'quoted' can't WE'LL", "x=1; y = 2024\nfor i in range(10):\n    print(i)",
    "\r\n\u200b\x00\x7f\ue000 ﷺ", "", "<strong>x</strong> <think>",
]  # fmt: skip
CHAT = "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>"


def spelled(tokenizer, tokens: list[int]) -> str:
    return b"".join(map(tokenizer.spell, tokens)).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    pytest.importorskip("transformers", reason="writes the checkpoint")
    return write_talking_folder(tmp_path_factory.mktemp("talking"))


@pytest.mark.parametrize("text", [*STRANGE, *TEXTS, CHAT])
def test_folder_tokenizer_gives_the_ids_of_its_library(text, folder):
    tokenizer, library = read_tokenizer(folder), byte_tokenizer()
    assert tokenizer.encode(text) == library.encode(text).ids


@pytest.mark.parametrize("text", [*STRANGE, *TEXTS])
def test_tokens_spell_the_bytes_of_a_text(text, folder):
    """Half a character at a time, as streaming needs it."""
    tokenizer = read_tokenizer(folder)
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.spell, ids)) == text.encode()
    assert spelled(tokenizer, ids) == text


def test_controls_spell_nothing_and_end_a_text(folder):
    tokenizer = read_tokenizer(folder)
    ids = tokenizer.encode(CHAT)
    assert spelled(tokenizer, ids) == "user\nhi\n"
    assert tokenizer.ends == {ids[-1], 2}
    assert tokenizer.spell(10**6) == b""


def test_begin_of_text_is_added_once_where_the_files_ask_for_it(folder, tmp_path):
    """Without it Gemma 3 writes garbage; twice, it writes worse."""
    from tokenizers.processors import TemplateProcessing

    library = byte_tokenizer()
    library.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.begin == 0
    plain = byte_tokenizer().encode("the cat").ids
    assert tokenizer.encode("the cat") == [0, *plain]
    assert tokenizer.encode("the cat", begin=False) == plain
    assert tokenizer.encode("<|endoftext|>the cat") == [0, *plain]
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text('{"add_bos_token": false}')
    assert read_tokenizer(tmp_path).begin is None
    settings.write_text('{"add_bos_token": true, "bos_token": {"content": "<|im_start|>"}}')
    assert read_tokenizer(tmp_path).begin == 1


def gguf(**settings: object) -> GGUF:
    return GGUF(metadata={f"tokenizer.ggml.{k}": v for k, v in settings.items()}, tensors={})


def byte_level(**changes: object) -> GGUF:
    """What a converter writes for `byte_tokenizer`."""
    model = json.loads(byte_tokenizer().to_str())["model"]
    tokens = [*model["vocab"], "<think>"]
    types = [3, 3, 3, *[1] * (len(tokens) - 4), 4]
    merges = [" ".join(merge) for merge in model["merges"]]
    return gguf(**{
        "model": "gpt2", "pre": "gpt-2", "tokens": tokens, "merges": merges,
        "token_type": np.array(types), "eos_token_id": 2, "bos_token_id": 1,
    } | changes)  # fmt: skip


@pytest.mark.parametrize("text", [*STRANGE, *TEXTS, CHAT])
def test_gguf_tokenizer_gives_the_ids_of_the_one_it_was_made_from(text):
    tokenizer = tokenizer_from_gguf(byte_level(), "file")
    assert tokenizer.encode(text) == byte_tokenizer().encode(text).ids
    assert spelled(tokenizer, tokenizer.encode(text)) == text.replace(CHAT, "user\nhi\n")
    assert tokenizer.ends == {0, 2}


@pytest.mark.parametrize(
    ("changes", "begin"),
    [({}, None), ({"add_bos_token": True}, 1), ({"pre": "llama-bpe"}, 1),
     ({"pre": "llama-bpe", "add_bos_token": False}, None)],
)  # fmt: skip
def test_gguf_tokenizer_begins_a_text_as_its_file_says(changes, begin):
    assert tokenizer_from_gguf(byte_level(**changes), "file").begin == begin


def test_gguf_tokenizer_cuts_digits_as_its_kind_does():
    """SmolLM2 reads a number digit by digit, Llama 3 up to three at once."""
    merges = [*byte_level().metadata["tokenizer.ggml.merges"], "4 2"]
    tokens = [*byte_level().metadata["tokenizer.ggml.tokens"], "42"]
    types = np.array([3, 3, 3, *[1] * (len(tokens) - 3)])
    both = {"tokens": list(dict.fromkeys(tokens)), "merges": list(dict.fromkeys(merges))}
    both["token_type"] = types[: len(both["tokens"])]
    for pre, count in (("smollm", 2), ("gpt-2", 1), ("llama-bpe", 1), ("qwen2", 2)):
        file = byte_level(**both, pre=pre, add_bos_token=False)
        assert len(tokenizer_from_gguf(file, "file").encode("42")) == count, pre


def sentencepiece(**changes: object) -> GGUF:
    """A vocabulary in the order in which its merges were learned, bytes for all the rest."""
    controls = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["▁t", "he", "▁the", "at", "▁cat", *"▁theca"]
    types = [2, 3, 3, *[6] * 256, *[1] * len(pieces)]
    return gguf(**{
        "model": "llama", "tokens": [*controls, *bytes_, *pieces], "token_type": np.array(types),
        "scores": -np.arange(len(types), dtype=np.float32), "bos_token_id": 1, "eos_token_id": 2,
        "unknown_token_id": 0,
    } | changes)  # fmt: skip


def test_sentencepiece_merges_in_the_order_of_its_vocabulary_and_falls_back_to_bytes():
    tokenizer = tokenizer_from_gguf(sentencepiece(), "file")
    ids = tokenizer.encode("the cat é", begin=False)
    names = [tokenizer.name(token) for token in ids]
    assert names == ["▁the", "▁", "c", "at", "▁", "<0xC3>", "<0xA9>"]
    assert spelled(tokenizer, ids) == " the cat é"
    assert tokenizer.encode("the")[0] == 1
    bare = tokenizer_from_gguf(sentencepiece(add_space_prefix=False), "file")
    assert spelled(bare, bare.encode("the cat é", begin=False)) == "the cat é"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (byte_level(model="bert"), "must be one of gpt2, llama"),
        (byte_level(pre="tekken"), r"tokenizer\.ggml\.pre must be one of"),
        (byte_level(merges=["ab"]), "two tokens and a space"),
        (byte_level(merges=["zz yy"]), "what the tokenizers package reads"),
        (byte_level(token_type=np.array([1])), "must be 300 types"),
        (byte_level(tokens="no"), "must be given, as list"),
        (byte_level(bos_token_id=300, add_bos_token=True), "one of 300 tokens"),
        (byte_level(add_bos_token=1), "must be given, as bool"),
        (sentencepiece(unknown_token_id=-1), "must be a token"),
    ],
)
def test_gguf_tokenizer_of_another_kind_is_refused(file, says):
    with pytest.raises(ModelError, match=says):
        tokenizer_from_gguf(file, "file")


@pytest.mark.parametrize("data", [b"", b"{}", b'{"model": 3}', b"\xff"])
def test_broken_tokenizer_file_is_refused(data, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(ModelError, match="what the tokenizers package reads"):
        read_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="must be in the model's folder"):
        read_tokenizer(tmp_path)


def test_smollm2_tokenizer_gives_the_ids_of_transformers():
    path = path_of("smollm2")
    integration = pytest.importorskip(
        "transformers.integrations.gguf", reason="rebuilds the tokenizer in its own way"
    )
    architecture, tokens, _ = integration.get_gguf_tokenizer(str(path))
    library, _ = integration.convert_gguf_tokenizer(architecture, tokens)
    tokenizer = tokenizer_from_gguf(read_gguf(path), path.name)
    for text in [*STRANGE, CHAT]:
        assert tokenizer.encode(text) == library.encode(text, add_special_tokens=False).ids
    assert tokenizer.begin is None
    assert 2 in tokenizer.ends


def test_folder_loads_with_its_chat_template(folder):
    found = load(folder)
    assert found.chat is not None
    text = found.chat.render([{"role": "user", "content": "hi"}])
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% for %}", "must be a jinja2 template"),
        ("{{ raise_exception('no system turn') }}", "no system turn"),
        ("{{ messages[0].__class__.__mro__ }}", "SecurityError|unsafe"),
        ("{{ messages.append(1) }}", "SecurityError|unsafe"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "range"),
        ("x" * (1 << 19), "at most"),
    ],
)
def test_chat_template_runs_in_a_sandbox(source, says):
    """A template comes with the weights, from anybody."""
    pytest.importorskip("jinja2", reason="runs templates")
    with pytest.raises(ModelError, match=says):
        ChatTemplate(source).render([{"role": "user", "content": "hi"}])


def test_chat_template_equals_that_of_transformers():
    """Block trimming, loop controls and names as the library gives them."""
    pytest.importorskip("jinja2", reason="runs templates")
    chat = pytest.importorskip(
        "transformers.utils.chat_template_utils", reason="is what we compare with"
    )
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "a\nb"}]
    source = (
        "{{ bos_token }}\n    {% for m in messages %}\n"
        "  {% if loop.first %}{% continue %}{% endif %}\n"
        "{{ m | tojson }} {{ m.content | trim }}{% endfor %}\n"
    )
    for template in (TEMPLATE, source):
        expected, _ = chat.render_jinja_template(
            conversations=[messages], chat_template=template, add_generation_prompt=True,
            bos_token="<s>", eos_token="</s>",
        )  # fmt: skip
        assert ChatTemplate(template, "<s>", "</s>").render(messages) == expected[0]
