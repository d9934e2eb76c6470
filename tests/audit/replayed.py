"""Run the reproducer of a finding as a user would: as a file, beginning from `model`."""

import runpy
import warnings
from contextlib import redirect_stdout
from io import StringIO

MOST = 10


def replayed(finding, model, folder, **more):
    """Return the number that a reproducer prints; what it raises is raised.

    `more` are the caller's other names: `stages`, `example`.
    """
    assert finding.reproducer, f"no reproducer: {finding}"
    assert len(finding.reproducer.splitlines()) <= MOST, finding.reproducer
    path, printed = folder / "reproducer.py", StringIO()
    path.write_text(finding.reproducer)
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the model, as in the audit
        runpy.run_path(str(path), {"model": model, **more})
    return float(printed.getvalue())


def shows(finding, model, folder, **more):
    """Say what is wrong with a reproducer; nothing if it shows the finding again."""
    try:
        number = replayed(finding, model, folder, **more)
    except Exception as error:
        told = finding.kind == "broken" and not isinstance(error, AssertionError)
        return "" if told else f"{type(error).__name__}: {error}\n{finding.reproducer}"
    if finding.kind == "blind":
        right = number == 0
    elif finding.kind == "broken":
        right = not -1e300 < number < 1e300
    else:
        right = not number <= 1e-3 * min(finding.size, 1.0)
    return "" if right else f"prints {number} of {finding}\n{finding.reproducer}"
