"""Recall and false alarms on the zoo of planted faults: ours and three public packages, in one run.

    python benchmarks/bench_audit.py [--rivals FOLDER] [--only WORD] [--each]

The rivals are not dependencies: install them into a folder of their own, and name it.

    pip install --no-deps --target FOLDER \
        causal-certificate==0.1.0 pangolinn==0.0.1 neural-net-checklist==1.1.0

Every tool gets every specimen at its defaults, by the way in that it documents: causal-certificate
and pangolinn take floats, so they enter behind the embedding. Inputs have 7 and 36 positions for
ours (130 for one specimen), 40 for the rivals; pangolinn takes 20 and neural-net-checklist 16.
Ours must name the right kind and the module; of a rival, any complaint counts. The fault that shows
only in compiled code is missed at the defaults; `modes="all"` finds it. A rival that raises
something else than its own verdict "cannot run" a specimen, which counts neither as found nor as a
false alarm. None of the rivals knows declared masks, padding, packing, caches or labels; the table
has a line for what they all claim: a look ahead in the plain forward of a causal model. The last
line of the output is JSON.
"""

import argparse
import contextlib
import io
import json
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from hitherto.mask import Causal  # noqa: E402
from zoo import _ROOMS  # noqa: E402
from zoo.decoder import CHANNELS, VOCAB, WIDTH  # noqa: E402
from zoo.specimen import Specimen  # noqa: E402
from zoo.verdict import look, wrong  # noqa: E402

LENGTH = 40
FOUND, PASSED, CANNOT = "found", "passed", "cannot run"


def ours(specimen: Specimen) -> str:
    """Found means the right kind and module; on a clean twin, any finding is a false alarm."""
    report = look(specimen, lengths=specimen.lengths)
    if specimen.kind == "clean":
        return FOUND if report.findings else PASSED
    return PASSED if wrong(specimen, report) else FOUND


def behind_embedding(specimen: Specimen) -> tuple[nn.Module, int]:
    """The same model, reading floats (batch, length, width)."""
    model = specimen.build()
    if not isinstance(model, nn.Module):
        raise TypeError("needs a torch module")
    if isinstance(model.embed, nn.Embedding):
        model.embed = nn.Identity()
        return model, WIDTH
    return model, CHANNELS


def certificate(specimen: Specimen) -> str:
    from causal_certificate import certify

    model, width = behind_embedding(specimen)
    torch.manual_seed(0)
    return PASSED if certify(model, torch.randn(2, LENGTH, width)).ok else FOUND


def pangolinn(specimen: Specimen) -> str:
    from pangolinn import seq2seq

    model, width = behind_embedding(specimen)
    torch.manual_seed(0)

    class Entrance(seq2seq.PangolinnSeq2SeqModuleWrapper):
        num_input_channels = width
        num_output_channels = VOCAB if width == WIDTH else CHANNELS

        def build_module(self):
            return model

        def forward(self, x, lengths):
            return model(x)

    case = type("Case", (seq2seq.CausalTestCase,), {"module_wrapper_class": Entrance})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    if result.failures:
        return FOUND
    return CANNOT if result.errors else PASSED


def checklist(specimen: Specimen) -> str:
    from neural_net_checklist import torch_diagnostics as checks

    torch.manual_seed(0)
    ids = torch.randint(VOCAB, (3, LENGTH))
    model = specimen.build()
    floats = isinstance(getattr(model, "embed", None), nn.Linear)
    batch = (torch.randn(3, LENGTH, CHANNELS), ids) if floats else (ids, ids)
    try:
        for check in (
            checks.assert_forward_causal_property,
            checks.assert_forward_batch_independence,
        ):
            check(specimen.build, batch)
    except AssertionError:
        return FOUND
    return PASSED


TOOLS: dict[str, Callable[[Specimen], str]] = {
    "hitherto": ours,
    "causal-certificate 0.1.0": certificate,
    "pangolinn 0.0.1": pangolinn,
    "neural-net-checklist 1.1.0": checklist,
}
PACKAGES = {
    "causal-certificate 0.1.0": "causal_certificate",
    "pangolinn 0.0.1": "pangolinn",
    "neural-net-checklist 1.1.0": "neural_net_checklist.torch_diagnostics",
}


def missing(tool: str) -> str:
    """Why a rival cannot take part; nothing if it can."""
    try:
        if tool in PACKAGES:
            __import__(PACKAGES[tool])
    except ImportError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def ask(tool: str, specimen: Specimen) -> tuple[str, str]:
    """Verdict of a tool on a specimen, and why when it cannot run it."""
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        try:
            return TOOLS[tool](specimen), ""
        except Exception as error:
            return CANNOT, f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"


def claimed(specimen: Specimen) -> bool:
    """What all tools claim: a look ahead in the plain forward, on a causal model."""
    causal = specimen.declared == Causal()
    return causal and specimen.kind == "leak" and not specimen.doors


def groups(word: str) -> dict[str, list[Specimen]]:
    """Specimens by line of the table."""
    rooms = {room.__name__.removeprefix("zoo."): list(room.SPECIMENS) for room in _ROOMS}
    rooms = {name: [s for s in room if word in s.name] for name, room in rooms.items()}
    every = [s for room in rooms.values() for s in room]
    faults = {name: [s for s in room if s.kind != "clean"] for name, room in rooms.items()}
    clean = [s for s in every if s.kind == "clean"]
    return {
        "a look ahead in the plain forward": [s for s in every if claimed(s)],
        **{f"faults in {name}": room for name, room in faults.items() if room},
        "all faults": [s for s in every if s.kind != "clean"],
        "false alarms, causal twins": [s for s in clean if s.declared == Causal()],
        "false alarms, twins with another mask": [s for s in clean if s.declared != Causal()],
    }


def main() -> None:
    """Ask every tool about every specimen, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rivals", type=Path, help="folder where the rivals are installed")
    parser.add_argument("--only", default="", help="specimens whose name has this word")
    parser.add_argument("--each", action="store_true", help="print every verdict")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.rivals:
        sys.path.append(str(options.rivals))
    lines, absent, verdicts = groups(options.only), {}, {}
    seconds = dict.fromkeys(TOOLS, 0.0)
    specimens = lines["all faults"] + [
        s for n, line in lines.items() if "alarms" in n for s in line
    ]
    for tool in TOOLS:
        if reason := missing(tool):
            absent[tool] = reason
            continue
        started = time.perf_counter()
        verdicts[tool] = {s.name: ask(tool, s) for s in specimens}
        seconds[tool] = time.perf_counter() - started
    if options.each:
        show_each(specimens, verdicts)
    table = show(lines, verdicts, seconds)
    for tool, reason in absent.items():
        print(f"{tool}: not installed ({reason})")
    print(json.dumps({"bench": "audit", "table": table, "absent": absent, "seconds": seconds}))


def show_each(specimens: list[Specimen], verdicts: dict) -> None:
    """Print what each tool said of each specimen."""
    for s in specimens:
        said = "  ".join(f"{verdicts[tool][s.name][0]:10}" for tool in verdicts)
        why = "; ".join({verdicts[tool][s.name][1] for tool in verdicts} - {""})
        print(f"{s.kind:12}  {s.name:42}  {said}  {why}")


def show(lines: dict, verdicts: dict, seconds: dict) -> dict:
    """Print the table: specimens flagged, of how many, and those that could not be run."""
    print(f"{'':40}" + "".join(f"{tool:>28}" for tool in verdicts))
    table = {}
    for name, specimens in lines.items():
        table[name] = {"of": len(specimens)}
        cells = []
        for tool, said in verdicts.items():
            words = [said[s.name][0] for s in specimens]
            count = {"flagged": words.count(FOUND), "cannot": words.count(CANNOT)}
            table[name][tool] = count
            unable = f" ({count['cannot']} cannot run)" if count["cannot"] else ""
            cells.append(f"{count['flagged']} of {len(words)}{unable}")
        print(f"{name:40}" + "".join(f"{cell:>28}" for cell in cells))
    print(f"{'seconds':40}" + "".join(f"{seconds[tool]:>28.1f}" for tool in verdicts))
    return table


if __name__ == "__main__":
    main()
