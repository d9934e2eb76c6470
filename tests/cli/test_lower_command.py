"""`hitherto lower` prints what `lower` returns, and a refusal as one error."""

import json

import pytest
from typer.testing import CliRunner

from hitherto.cli.app import app
from hitherto.lowering import TARGETS, lower, targets
from hitherto.mask import parse

TEXT = "Causal() & Window(3)"


def run(*arguments):
    return CliRunner().invoke(app, ["lower", *map(str, arguments)], env={"COLUMNS": "200"})


def test_lower_lists_the_targets_that_are_exact():
    """A list of every target that there is."""
    said = json.loads(run(TEXT, "--length", 4, "--keys", 6, "--json").stdout)
    assert said == {"mask": TEXT, "to": None, "form": list(targets(parse(TEXT), 4, 6))}


@pytest.mark.parametrize("to", ["dense", "additive", "csr", "flash", "magi", "flex", "sdpa"])
def test_lower_prints_the_form(to):
    """A form that JSON cannot hold; numbers of another grid."""
    result = run(TEXT, "--length", 4, "--keys", 6, "--to", to, "--json")
    assert result.exit_code == 0
    form = json.loads(result.stdout, parse_constant=pytest.fail)["form"]
    made = lower(parse(TEXT), to, 4, 6)
    if to == "dense":
        assert form == made.tolist()
    if to == "flash":
        assert form["arguments"] == {"causal": True, "window_size": [2, 0]}
    if to == "flex":
        assert form["kv_num_blocks"] == made.kv_num_blocks.tolist()
    assert run(TEXT, "--length", 4, "--keys", 6, "--to", to).stdout.startswith(TEXT)


def test_lower_says_why_a_target_cannot():
    """A traceback; exit code 0 for nothing."""
    result = run("Causal() | Prefix(3)", "--length", 6, "--to", "flash")
    assert result.exit_code == 2
    assert "cannot be exact" in result.output
    assert run(TEXT, "--length", 6, "--to", "flash-attn").exit_code == 2
    assert "flash" in TARGETS
