"""Libraries that a target needs and that may not be installed."""

from importlib import import_module
from typing import Any


def library(module: str, extra: str) -> Any:
    """Import a module, or say which extra of ours installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is needed and not installed: pip install 'hitherto[{extra}]'", name=module
        ) from error
