"""The sweep: rows, columns, what is left out, and that a broken model stays in its own process."""

import os
import time

import pytest

pytest.importorskip("transformers", reason="needs the transformers extra")

from hitherto.audit import Finding
from hitherto.errors import Unsupported
from hitherto.integrations.children import run_each
from hitherto.integrations.columns import COLUMNS, Cell, column_of
from hitherto.integrations.sweep import Row, sweep
from hitherto.integrations.sweep_page import covered, page, table

KNOWN_LEAKS = {"prophetnet", "prophetnet (seq2seq)", "reformer"}
"""See docs/sweep.md."""


def work(task: str) -> int:
    match task:
        case "raise":
            raise ValueError("as planned\nsecond line")
        case "exit":
            os._exit(3)
        case "sleep":
            time.sleep(30)
        case "memory":
            return len(bytearray(2**36))
    return len(task)


def test_run_each_contains_what_breaks() -> None:
    """One architecture that crashes, hangs or eats memory ended the first sweep."""
    tasks = ["fine", "raise", "exit", "sleep", "memory"]
    outcomes = {o.task: o for o in run_each(work, tasks, jobs=2, timeout_s=3)}
    assert outcomes["fine"].value == 4
    assert outcomes["raise"].error == "ValueError: as planned second line"
    assert "exit code 3" in outcomes["exit"].error
    assert outcomes["sleep"].error == "took longer than 3 s"
    assert outcomes["memory"].error.startswith("MemoryError")


def test_sweep_gives_a_row_each_and_says_what_is_left_out() -> None:
    """An architecture that is silently missing looks clean."""
    only = ["gpt2", "gemma4_assistant", "bart"]
    rows = {row.key: row for row in sweep(only, ["leak", "source"])}
    assert rows["gpt2"].cells["leak"] == Cell(verdict="ok")
    assert rows["gpt2"].cells["source"].verdict == "-"
    assert {c.verdict for c in rows["bart (seq2seq)"].cells.values()} == {"ok"}
    assert {"build", "leak", "source"} <= set(rows["bart (seq2seq)"].spent)
    assert "drafter" in rows["gemma4_assistant"].left_out
    lines = covered(list(rows.values()))
    assert lines[0] == "causal: 2 of 3 architectures audited (66.7 %)"
    assert any("gemma4_assistant" in line for line in lines)


def test_sweep_sees_the_leak_of_prophetnet() -> None:
    """Its relative positions come from other rows, later ones too: a control that must fail."""
    (row,) = sweep(["prophetnet"], ["leak"], tasks=("causal",))
    assert row.cells["leak"].verdict == "LEAK"
    assert row.fault


def test_sweep_refuses_unknown_names() -> None:
    """A name with a typing error must not sweep nothing and say that all is well."""
    with pytest.raises(Unsupported, match="llama5"):
        list(sweep(["llama5"]))
    with pytest.raises(Unsupported, match="leeks"):
        list(sweep(["llama"], ["leeks"]))


@pytest.mark.parametrize(
    ("probe", "mode", "pair", "column"),
    [
        ("suffix", "eval", (1, 2), "leak"),
        ("suffix", "eval", (20, 2), "window"),
        ("layer", "eval", (20, 2), "window"),
        ("stages", "decode (static)", None, "decode"),
        ("stages", "prefill 3, then decode", None, "decode"),
        ("stages", "chunks of 3", None, "chunked prefill"),
        ("padding", "padded left", None, "left padding"),
        ("packing", "packed", None, "packing"),
        ("batch", "eval", None, "batch"),
        ("modes", "batch 1", None, "batch"),
        ("padding", "padded left, then decode (static)", None, "left padding"),
        ("encoder", "encoder", (3, 4), "source"),
        ("cross", "source padded", None, "source"),
    ],
)
def test_column_of_puts_a_finding_where_it_belongs(probe, mode, pair, column) -> None:
    """A finding in no column is lost."""
    finding = Finding(kind="leak", probe=probe, mode=mode, length=30, pair=pair)
    assert column_of(finding) == column


def test_table_and_page_show_faults() -> None:
    """What was found must be on the page, escaped."""
    bad = Cell(verdict="LEAK", note="layers.0 (A<B>)")
    rows = [
        Row(name="bad", task="causal", class_name="Bad", cells={"leak": bad}),
        Row(name="good", task="causal", class_name="Good", cells={"leak": Cell(verdict="ok")}),
    ]
    text = table(rows, ["leak"])
    assert text.splitlines()[2].split() == ["|", "bad", "|", "LEAK", "|"]
    assert "good" not in table(rows, ["leak"], only_faults=True)
    assert "layers.0 (A&lt;B&gt;)" in page(rows, ["leak"])


def test_sweep_asks_no_convolution_and_no_chooser_of_keys_to_see_all() -> None:
    """A layer of another kind beside windowed ones, called blind to keys that it never promised."""
    rows = list(sweep(["lfm3", "dots3_note_text"], columns=["window"]))
    assert [row.cells["window"].verdict for row in rows] == ["ok", "ok"]


@pytest.mark.slow
def test_sweep_audits_every_encoder_decoder_but_one() -> None:
    """LED's encoder has a window, and one architecture writes only while it hears."""
    rows = {row.name: row for row in sweep(columns=["leak", "source"], tasks=("seq2seq",))}
    assert [name for name, row in rows.items() if row.left_out] == ["voxtral_realtime"]
    assert rows["led"].cells["source"].verdict == "ok"
    faults = {name for name, row in rows.items() if row.fault}
    assert faults == {"prophetnet", "switch_transformers"}


@pytest.mark.slow
def test_sweep_covers_the_library_and_finds_no_unknown_leak() -> None:
    """95 % of the causal architectures at least; a new leak, or a lost one, is news."""
    rows = list(sweep(columns=["leak"]))
    causal = [row for row in rows if row.task == "causal"]
    assert sum(bool(row.cells) for row in causal) >= 0.95 * len(causal), covered(rows)
    assert all(row.left_out or row.cells for row in rows)
    assert {row.key for row in rows if row.fault} == KNOWN_LEAKS


@pytest.mark.slow
def test_sweep_runs_all_columns_of_some() -> None:
    """Every column must be able to say something."""
    for row in sweep(["mistral", "gpt2", "t5"]):
        assert set(row.cells) == set(COLUMNS)
        assert not row.fault, row
