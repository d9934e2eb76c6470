"""`hitherto check`: is a trained decoder causal, and the same in every mode?"""

import json as jsonlib
import sys
from pathlib import Path

from hitherto.cli.checking import examine, tell
from hitherto.cli.checkpoints import load_decoder
from hitherto.cli.terminal import FINDING, OK, console
from hitherto.cli.text import load_text


def check(checkpoint: Path, text: Path | None, length: int, cuts: int | None, json: bool) -> int:
    """Run the checks on a checkpoint."""
    screen = console(json)
    model, _ = load_decoder(checkpoint)
    data, _ = load_text(text)
    reports = examine(model, data, length, cuts, screen)
    clean = tell(reports, screen)
    if json:
        found = {"clean": clean, "checks": [report.as_dict() for report in reports]}
        sys.stdout.write(jsonlib.dumps(found) + "\n")
    return OK if clean else FINDING
