"""Ten lines that show a finding again."""

import numpy as np

from hitherto.audit.case import Case


def replay(case: Case, length: int, keys: np.ndarray, query: int, draw: int) -> str:
    """Return Python that changes these inputs and prints how far an output moves."""
    first, last = int(keys[0]), int(keys[-1])
    run = len(keys) == last - first + 1
    where = str(first) if len(keys) == 1 else f"{first}:{last + 1}" if run else str(keys.tolist())
    return (
        "import numpy as np\n"
        "from hitherto.audit import adapt, changed, mode\n"
        f"subject = mode({case.subject.code}, {case.mode!r})  # {case.subject.name}\n"
        f"x = subject.draw(np.random.default_rng({case.seed}), 1, {length})\n"
        "y = x.copy()\n"
        f"y[:, {where}] = changed(subject, x, {case.seed}, {draw})[:, {where}]\n"
        f"a, b = (subject.run(np.repeat(z, {case.rows}, axis=0)) for z in (x, y))\n"
        f"print(abs(a - b)[:, {query}].max())  # output {query} moves with input {where}"
    )
