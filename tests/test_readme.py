"""The README is run: its Python, its pictures, its commands and its links."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hitherto.cli.app import app
from hitherto.mask import parse

ROOT = Path(__file__).resolve().parents[1]
READMES = ["README.md", "README.zh-CN.md"]
PAGES = [*READMES, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", READMES)
def test_readme_python_runs_and_prints_what_stands_below_it(page):
    """Catches code that no longer runs, and a picture that drifts from the mask."""
    (code,) = blocks(page, "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec"), {})
    assert printed.getvalue() == blocks(page, "text")[0]


@pytest.mark.parametrize("page", READMES)
def test_readme_commands_exist_with_their_options(page):
    """Catches a command or an option that was renamed."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("hitherto ")]
    told = "show demo train generate check audit recognise lower explore plan"
    assert {words[1] for words in commands} == set(told.split())
    for words in commands:
        shown = CliRunner().invoke(app, [words[1], "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0
        for option in (word for word in words if word.startswith("--")):
            assert option in shown.stdout


@pytest.mark.parametrize("page", READMES)
def test_readme_targets_are_in_the_makefile(page):
    """Catches `make` commands that do not exist."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make ([a-z-]+)", "\n".join(blocks(page, "sh")), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    """Catches a link to a file that moved."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), target


def test_both_readmes_tell_the_same():
    """Catches a translation that lags behind: same code, same commands, same folders."""
    ours, theirs = ([_bare(b) for lang in ("python", "text", "sh") for b in blocks(page, lang)]
                    for page in READMES)  # fmt: skip
    assert ours == theirs


def _bare(block):
    """Keep a block's code, without remarks: what stands after # or a folder's name."""
    lines = []
    for line in block.splitlines():
        folder = re.match(r" *[a-z]+/|src/hitherto/", line)
        lines.append(folder[0] if folder else re.sub(r"\s+# .*", "", line))
    return lines


def test_masks_in_the_concepts_page_are_masks():
    """Catches an example that cannot be pasted."""
    page = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\|[^|\n]+\| `(.+)` \|$", page, re.MULTILINE)
    assert len(cells) >= 7
    for cell in cells:
        parse(cell.replace("\\|", "|").replace("(n)", "(16)"))
