"""`hitherto show` prints exact counts, points at errors, and never needs torch."""

import json
import subprocess
import sys

import pytest
from typer import BadParameter
from typer.testing import CliRunner

from cli.console import environment, hitherto
from hitherto.cli.app import app
from hitherto.cli.lengths import length
from hitherto.mask import evaluate, parse


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})


def shown(*arguments):
    result = run("show", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_show_draws_and_counts():
    result = run("show", "Causal() & Window(3)", "--length", 5)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Causal() & Window(3)",
        "",
        "  0 1 2 3 4",
        "0 # . . . .",
        "1 # # . . .",
        "2 # # # . .",
        "3 . # # # .",
        "4 . . # # #",
        "",
        "grid      5 queries from 0 x 5 keys",
        "visible   12 of 25 pairs (48.0000%)",
        "empty     no row",
        "causal    yes, at every length",
    ]


@pytest.mark.parametrize("text", ["Causal()", "Band(2, 3) - Causal()", "Strided(3) & Band(8, 2)"])
@pytest.mark.parametrize("grid", [(7, 9, 4), (9, 4, 0), (5, 5, 0)])
def test_show_json_agrees_with_evaluate(text, grid):
    """Catches counts taken from another grid than the one that is named."""
    q_len, k_len, start = grid
    facts = shown(text, "--length", q_len, "--keys", k_len, "--start", start)
    cells = evaluate(parse(text), range(start, start + q_len), range(k_len))
    empty = [start + q for q, row in enumerate(cells) if not row.any()]
    future = [(q + start, k) for q, row in enumerate(cells) for k in row.nonzero()[0]
              if k > q + start]  # fmt: skip
    assert (facts["pairs"], facts["density"]) == (cells.sum(), pytest.approx(cells.mean()))
    assert (facts["empty_rows"], facts["first_empty_rows"]) == (len(empty), empty[:5])
    assert facts["causal"] == (not future)
    assert facts["causal"] or tuple(facts["witness"]) in future


def test_show_queries_are_the_last_keys_or_begin_at_0():
    """Catches an alignment that nobody asked for."""
    assert shown("Causal()", "--length", 3, "--keys", 8)["start"] == 5
    assert shown("Causal()", "--length", 8, "--keys", 3)["start"] == 0
    assert shown("Causal()", "--length", 3, "--keys", 8, "--start", 0)["pairs"] == 6


def test_show_counts_a_million_exactly():
    facts = shown("Causal() & (Window(4096) | Prefix(4))", "--length", "1M")
    million, window = 1 << 20, 4096
    in_window = window * (window + 1) // 2 + (million - window) * window
    sinks = sum(range(1, 4)) + 4 * (million - window - 3)
    assert facts["pairs"] == in_window + sinks


def test_show_says_which_query_sees_its_future():
    result = run("show", "Band(0, 1)", "--length", 4)
    assert "causal    no: query 0 may see key 1" in result.stdout


def test_show_tells_causal_here_from_causal_everywhere():
    """Catches a claim about every length that holds on this grid only."""
    result = run("show", "Prefix(3)", "--length", 4, "--start", 2, "--keys", 6)
    assert "causal    yes, on this grid, not on all" in result.stdout


def test_show_gives_a_reason_for_a_pair():
    result = run("show", "Causal() & Window(3)", "--length", 8, "--why", 7, 2)
    assert "why       hidden: 5 back, Window(3) allows 2; Causal() allows it" in result.stdout


def test_show_zooms_and_counts_the_whole_grid():
    """Catches counts of the zoom that are taken for those of the mask."""
    result = run(
        "show", "Causal() & Window(3)", "--length", "1M", "--zoom", "64k:65539,65534:65540"
    )
    lines = result.stdout.splitlines()
    assert lines[3:6] == ["65536     #     #     #     .     .     .",
                          "65537     .     #     #     #     .     .",
                          "65538     .     .     #     #     #     ."]  # fmt: skip
    assert "visible   3,145,725 of 1,099,511,627,776 pairs" in result.stdout


def test_show_writes_svg_and_png(tmp_path):
    svg, png = tmp_path / "m.svg", tmp_path / "m.png"
    result = run("show", "Causal()", "--length", "1M", "--svg", svg, "--png", png)
    assert result.exit_code == 0
    assert svg.read_text().startswith("<svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert f"written   {svg}" in result.stdout


def test_show_of_no_queries_is_no_error():
    assert run("show", "Causal()", "--length", 0).exit_code == 0


@pytest.mark.parametrize(
    ("text", "message", "pointer"),
    [
        ("Causal() & (Windw(3) | Prefix(1))", "Did you mean Window", "            ^^^^^"),
        ("Causal() & Window(0)", "must be an int >= 1", "           ^^^^^^^^^"),
        ("PerHead([Causal(), Window(0)])", "must be an int >= 1", "                   ^^^^^^^^^"),
        ("Causal() && Window(3)", "must be an expression", "          ^"),
        ("Causal & Window(3)", "may hold masks", "^^^^^^"),
        ("Window(3) & open('x')", "must call masks by name", "            ^^^^"),
    ],
)
def test_show_points_at_the_wrong_part(text, message, pointer):
    """Catches an underline that is elsewhere than the error."""
    result = run("show", text, "--length", 5)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert message in lines[0]
    assert lines[-2:] == ["    " + text, "    " + pointer]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Causal()", "--length", "-5"), "not a length"),
        (("Causal()", "--length", "5x"), "not a length"),
        (("Causal()", "--length", "1.5k"), "not a length"),
        (("Causal()",), "Missing option"),
        (("Segments([0, 0, 1])", "--length", 5), "must cover every position"),
        (("PerHead([Causal(), Nothing()])", "--length", 5, "--head", 2), "from 0 to 1"),
        (("", "--length", 5), "mask text"),
        (("Causal()", "--length", 5, "--zoom", "0:9,0:5"), "--zoom must be q0:q1,k0:k1 inside"),
        (("Causal()", "--length", 5, "--zoom", "2:2,0:5"), "--zoom must be"),
        (("Causal()", "--length", 5, "--zoom", "here"), "--zoom must be"),
        (("Causal()", "--length", 5, "--svg", "/no/such/folder/m.svg"), "No such file"),
        (("Causal()", "--length", 5, "--jsn"), "No such option"),
    ],
)
def test_show_explains_bad_input(arguments, message):
    """Catches a traceback, or an exit code a script cannot tell from a failed check."""
    result = run("show", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_unknown_command_suggests_the_nearest():
    result = run("shwo")
    assert result.exit_code == 2
    assert "show" in result.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("4096", 4096), ("64k", 65536), ("1M", 1 << 20), ("2G", 1 << 31), ("1,000", 1000)],
)
def test_length_reads_units_of_1024(text, value):
    assert length(text) == value


@pytest.mark.parametrize("text", ["", "k", "-1", "1e6", "1MB", "١"])
def test_length_refuses_what_is_no_length(text):
    with pytest.raises(BadParameter):
        length(text)


def test_show_and_help_do_not_import_torch():
    """Catches an import at the top of a module that makes every command wait for torch."""
    code = (
        "import sys\n"
        "sys.argv = ['hitherto', *{!r}]\n"
        "from hitherto.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {{'torch', 'matplotlib', 'safetensors', 'pydoc_data'}} & set(sys.modules)\n"
        "sys.exit(f'imported {{heavy}}' if heavy else 0)"
    )
    for arguments in (["--help"], ["show", "--help"], ["show", "Causal()", "--length", "9"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)],
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_show_into_a_closed_pipe_ends_quietly():
    """Catches a BrokenPipeError traceback after `| head`."""
    shell = f"{sys.executable} -c 'from hitherto.cli import main; main()' show 'Causal()' "
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; ({shell} --length 1M; echo $? >&2) | true"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.stderr.strip() == "0"


def test_show_without_utf_8_draws_in_ascii():
    """Catches an encoding error on a terminal that has no block characters."""
    done = hitherto("show", "Causal()", "--length", "1k", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "####" in done.stdout
