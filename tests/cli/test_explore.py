"""`hitherto explore` writes or serves one page, and tells bad input in one sentence."""

import json
import re
import signal
import socket
import urllib.request
from urllib.error import HTTPError

import pytest
from typer.testing import CliRunner

from cli.console import start
from hitherto.audit.report import Report
from hitherto.cli import explore as module
from hitherto.cli.app import app
from hitherto.model import Decoder, tiny
from hitherto.picture.explore import _SLOT
from hitherto.training import save


def run(*arguments):
    return CliRunner().invoke(app, ["explore", *map(str, arguments)], env={"COLUMNS": "200"})


def data_of(path):
    text = path.read_text()
    return json.loads(text[text.index(_SLOT) + len(_SLOT) :].partition("</script>")[0])


def test_explore_writes_a_mask(tmp_path):
    path = tmp_path / "page.html"
    result = run("Causal()&Window(4)", "--length", "64", "--keys", "1k", "--out", path)
    assert result.exit_code == 0, result.output
    assert f"page: {path}" in result.stdout
    mask = data_of(path)["mask"]
    received = {one["target"]: one for one in mask.pop("received")}
    assert mask == {"text": "Causal() & Window(4)", "queries": 64, "keys": 1024, "start": 960}
    assert "'window_size': (3, 0)" in received["flash"]["text"]
    assert received["attention_bias"]["exact"] is False
    assert "cannot be exact" in received["attention_bias"]["text"]


def test_explore_builds_nothing_dense_for_a_long_mask(tmp_path):
    """Catches a table of what libraries receive that takes gigabytes: one of them is dense."""
    assert run("Causal()", "--length", "64k", "--out", tmp_path / "page.html").exit_code == 0
    assert "received" not in data_of(tmp_path / "page.html")["mask"]


def test_explore_writes_its_own_page_anew_and_nothing_elses(tmp_path):
    """Catches a file of somebody's that is overwritten."""
    path = tmp_path / "page.html"
    assert run("--out", path).exit_code == 0
    assert run("Window(2)", "--out", path).exit_code == 0
    path.write_text("my notes")
    result = run("--out", path)
    assert (result.exit_code, path.read_text()) == (2, "my notes")
    assert "--out must be new" in result.stderr


def test_explore_writes_a_report(tmp_path):
    report = tmp_path / "report.json"
    made = Report(subject="m", declared="Causal()", verdict="clean")
    report.write_text(made.to_json())
    assert run(report, "--out", tmp_path / "page.html").exit_code == 0
    assert data_of(tmp_path / "page.html")["audit"]["verdict"] == "clean"


def test_explore_writes_a_checkpoint(tmp_path):
    model = Decoder(tiny(width=16, hidden=32, num_heads=2, num_layers=2,
                         layer_masks=("Window(4)", "Causal()")))  # fmt: skip
    save(tmp_path / "run" / "checkpoint", model)
    page = tmp_path / "page.html"
    result = run(
        tmp_path / "run", "--prompt", "who may", "--tokens", 3, "--no-audit", "--out", page
    )
    assert result.exit_code == 0, result.output
    data = data_of(page)
    assert "".join(data["generation"]["tokens"][:7]) == "who may"
    assert len(data["generation"]["steps"]) == 3
    assert "audit" not in data


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("old.json", '{"schema": "hitherto-audit-0"}', "must be a report of schema"),
        ("torn.json", '{"schema": "hitherto-au', "must be a report of schema"),
        ("binary.json", "\udcff\x00", "must be a report of schema"),
        ("list.json", "[1, 2]", "must be a report of schema"),
    ],
)
def test_explore_explains_a_report_that_is_none(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content, errors="surrogateescape")
    result = run(path, "--out", tmp_path / "page.html")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Windw(3)",), "Did you mean Window"),
        (("no/such/report.json",), "No such file"),
        (("Causal()" * 9000,), "must be an expression"),
        (("\0",), "mask text"),
        (("Causal()", "--length", "1G"), "must be at most 67,108,864 on the page"),
        (("Segments([0, 0])", "--length", "5"), "must cover every position"),
        (("Causal()", "--tokens", "900"), "--tokens"),
    ],
)
def test_explore_explains_bad_input(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_explore_refuses_a_mask_of_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_TEXT", 20)
    result = run("Causal() & Window(4096)", "--out", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "must have at most 20 characters" in result.stderr


def test_explore_refuses_a_checkpoint_that_is_none(tmp_path):
    (tmp_path / "empty").mkdir()
    result = run(tmp_path / "empty", "--out", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_explore_serves_until_stopped_and_outlives_a_closed_browser():
    """Catches a traceback when the reader goes away, and an address that others can reach."""
    process = start("explore", "Causal()", "--length", "8", "--serve")
    try:
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        with socket.create_connection(("127.0.0.1", int(address[1]))) as gone:
            gone.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with urllib.request.urlopen(address[0], timeout=60) as found:
            assert b'"text": "Causal()"' in found.read()
        with pytest.raises(HTTPError, match="404"):
            urllib.request.urlopen(address[0] + "etc/passwd", timeout=60)
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    assert "Traceback" not in rest
