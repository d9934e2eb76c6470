"""`hitherto recognise` names the mask in a file, and never trusts the file."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from hitherto.cli.app import app
from hitherto.mask import evaluate, parse

TEXT = "Window(3) | Prefix(1)"
CELLS = evaluate(parse(TEXT), np.arange(8), np.arange(8)).copy()


def run(*arguments):
    return CliRunner().invoke(
        app, ["recognise", *map(str, arguments)], env={"COLUMNS": "80", "NO_COLOR": "1"}
    )


def saved(folder, kind, cells=CELLS):
    """Write a mask in one of the formats."""
    file = folder / f"mask.{kind}"
    match kind:
        case "npy":
            np.save(file, cells)
        case "pt":
            torch.save(torch.from_numpy(cells), file)
        case "safetensors":
            save_file({"mask": torch.from_numpy(cells)}, file)
    return file


@pytest.mark.parametrize("kind", ["npy", "pt", "safetensors"])
def test_recognise_says_the_mask_and_draws_it(tmp_path, kind):
    result = run(saved(tmp_path, kind))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == TEXT
    assert "8 queries from 0 x 8 keys" in lines[1]
    assert "5 # . . # # # . ." in lines
    assert lines[-1] == "exact     yes, every cell"


def test_recognise_names_the_cell_that_differs(tmp_path):
    cells = np.tri(20, dtype=bool)
    cells[4, 11] = True
    result = run(saved(tmp_path, "npy", cells))
    assert result.stdout.splitlines()[0] == "Causal()"
    assert "query 4 also sees key 11" in result.stdout
    assert "exact     no: 1 cells differ, first (query, key): (4, 11)" in result.stdout


def test_recognise_json_prints_one_line_with_all(tmp_path):
    facts = json.loads(run(saved(tmp_path, "npy"), "--json").stdout)
    assert facts["mask"] == facts["pattern"] == TEXT
    assert (facts["exact"], facts["differences"], facts["start"]) == (True, 0, 0)


def test_recognise_takes_the_other_polarity_and_a_start(tmp_path):
    file = saved(tmp_path, "npy", ~np.tri(5, 9, dtype=bool))
    assert run(file, "--true", "hides", "--start", 0).stdout.splitlines()[0] == "Causal()"
    assert run(file, "--true", "hides").stdout.splitlines()[0] == "Band(None, -4)"


def test_recognise_takes_a_tensor_by_name(tmp_path):
    file = tmp_path / "many.safetensors"
    save_file({"a": torch.ones(3, 3), "b": torch.from_numpy(CELLS)}, file)
    assert run(file, "--tensor", "b").stdout.splitlines()[0] == TEXT
    result = run(file)
    assert result.exit_code == 2
    assert "a, b" in result.output


def test_recognise_draws_the_head_it_is_asked_for(tmp_path):
    heads = np.stack([np.tri(6, dtype=bool), np.eye(6, dtype=bool)])[None]
    file = saved(tmp_path, "npy", heads)
    assert "head 1 of 2" in run(file, "--head", 1).stdout
    assert run(file, "--head", 2).exit_code == 2


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return (open, ("trap.txt", "w"))


def _object(folder):
    file = folder / "x.npy"
    np.save(file, np.array([Trap()], object), allow_pickle=True)
    return file


def _pickle(folder):
    file = folder / "x.pt"
    torch.save(Trap(), file)
    return file


def _cut(kind):
    def cut(folder):
        file = saved(folder, kind)
        file.write_bytes(file.read_bytes()[:90])
        return file

    return cut


def _bytes(name, content):
    def write(folder):
        (folder / name).write_bytes(content)
        return folder / name

    return write


BAD = {
    "objects": _object,
    "a pickle": _pickle,
    "cut npy": _cut("npy"),
    "cut pt": _cut("pt"),
    "cut safetensors": _cut("safetensors"),
    "empty": _bytes("x.npy", b""),
    "rubbish npy": _bytes("x.npy", b"rubbish"),
    "rubbish pt": _bytes("x.pt", b"rubbish"),
    "rubbish safetensors": _bytes("x.safetensors", b"rubbish that is long enough"),
    "another kind": _bytes("x.png", b"png"),
    "missing": lambda folder: folder / "none.npy",
    "a folder": lambda folder: folder,
    "one axis": lambda folder: saved(folder, "npy", np.ones(4, bool)),
    "no cells": lambda folder: saved(folder, "npy", np.ones((0, 4), bool)),
    "text": lambda folder: saved(folder, "npy", np.array([["a", "b"]])),
    "a bias": lambda folder: saved(folder, "npy", np.array([[0.0, -0.5]])),
    "not a number": lambda folder: saved(folder, "npy", np.array([[0.0, np.nan]])),
}


@pytest.mark.parametrize("kind", BAD)
def test_recognise_refuses_a_bad_file_in_one_sentence(tmp_path, monkeypatch, kind):
    """No traceback, no code run from the file, exit code 2."""
    monkeypatch.chdir(tmp_path)
    result = run(BAD[kind](tmp_path))
    assert result.exit_code == 2, result.output
    assert result.output.startswith("error: ")
    assert "Traceback" not in result.output
    assert not (tmp_path / "trap.txt").exists()
