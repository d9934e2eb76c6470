"""`hitherto audit` and `hitherto sweep`: targets, exit codes, and no stack traces."""

import json

import pytest

pytest.importorskip("transformers", reason="needs the transformers extra")

from hitherto.audit import Report
from hitherto.cli.audit import audit
from hitherto.cli.sweep import sweep
from hitherto.cli.target import find
from hitherto.errors import ModelError, Unsupported

FACTORY = """
import numpy as np

def clean():
    return lambda x: np.cumsum(x, axis=1)[..., None] * 1.0

def leaky():
    return lambda x: x[..., None] - x.mean(axis=1, keepdims=True)[..., None]

def broken():
    raise RuntimeError("no weights")

def library():
    from hitherto.integrations.tiny import tiny

    return tiny("gpt2")
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    (tmp_path / "made_here.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "made_here"


def run(target: str, **given) -> int:
    options = dict.fromkeys(["declared", "modes", "lengths", "vocab", "width", "html"])
    return audit(target, **{**options, "seed": 0, "json": False, **given})


def test_audit_command_exits_0_1_by_the_verdict(factory, capsys) -> None:
    """CI reads the exit code."""
    assert run(f"{factory}:clean", vocab=50, lengths="8,20", modes="map") == 0
    assert run(f"{factory}:leaky", vocab=50, lengths="8,20", modes="map") == 1
    assert "leak" in capsys.readouterr().out


def test_audit_command_declares_another_mask(factory) -> None:
    """What is a leak under one mask is legal under another."""
    given = {"vocab": 50, "lengths": "8,20", "modes": "map"}
    assert run(f"{factory}:leaky", declared="Everything()", **given) == 0


def test_audit_command_writes_json_and_page(factory, tmp_path, capsys) -> None:
    """The JSON stands alone on stdout."""
    page = tmp_path / "report.html"
    given = {"vocab": 50, "lengths": "8", "modes": "map", "json": True, "html": page}
    assert run(f"{factory}:clean", **given) == 0
    assert Report.from_json(capsys.readouterr().out).clean
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:model", "No module named"),
        ("made_here:nothing", "nothing"),
        ("made_here:broken", "no weights"),
        ("not-a-model-type", "not-a-model-type"),
        ("gemma4_assistant", "drafter"),
    ],
)
def test_find_refuses_what_is_no_target(factory, target: str, message: str) -> None:
    """Each was a stack trace."""
    with pytest.raises((ModelError, Unsupported), match=message):
        find(target)


@pytest.mark.parametrize("lengths", ["eight", "0,4", ""])
def test_audit_command_refuses_lengths(factory, lengths: str) -> None:
    """int() of a word raised ValueError with a trace."""
    with pytest.raises(ModelError, match="--lengths"):
        run(f"{factory}:clean", vocab=50, lengths=lengths)


def test_find_takes_library_models_from_a_factory(factory) -> None:
    """A transformers model from a factory gets its caches and masks too."""
    assert find(f"{factory}:library").model.stages is not None


def test_find_opens_config_folders(tmp_path) -> None:
    """Random weights for a small config; a smaller copy of a large one; its own weights if any."""
    import torch
    from transformers import LlamaConfig

    from hitherto.integrations.tiny import tiny

    LlamaConfig().save_pretrained(tmp_path / "large")
    assert "smaller copy" in find(str(tmp_path / "large")).what
    model = tiny("llama", seed=3)
    model.config.save_pretrained(tmp_path / "small")
    assert "random weights" in find(str(tmp_path / "small")).what
    model.save_pretrained(tmp_path / "weights")
    found = find(str(tmp_path / "weights"))
    assert "weights of the folder" in found.what
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(found.model.module.get_parameter(name), model.get_parameter(name))


def test_find_refuses_a_broken_config_folder(tmp_path) -> None:
    """A config that validates to nonsense ends in one line."""
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": "wide"}')
    with pytest.raises(ModelError, match="config"):
        find(str(tmp_path))


def test_sweep_command_prints_json(capsys) -> None:
    """For programs: versions, and one row an architecture."""
    code = sweep("gpt2", "leak", jobs=1, timeout=100, json=True, html=None)
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["rows"][0]["cells"]["leak"]["verdict"] == "ok"
    assert found["transformers"]
