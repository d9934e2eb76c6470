"""The page: one HTML file that needs no network, with what it shows inside."""

import json
from collections.abc import Mapping
from importlib.resources import files

VERSION = 1
"""Of the data that the page reads."""

_SLOT = '<script id="hitherto-data" type="application/json">'


def explore_page(data: Mapping[str, object] | None = None) -> str:
    """Return the page as HTML, with the data of its views.

    Args:
        data: any of "mask", "generation", "training" and "audit", as JSON has them; types are in
            `explore/src/data.ts`. Views without data say how to get some.
    """
    built = files("hitherto.picture").joinpath("page", "explore.html").read_text(encoding="utf-8")
    text = json.dumps({"version": VERSION, **(data or {})}, allow_nan=False)
    # Inside a script element only "<" could end it early.
    return built.replace(_SLOT, _SLOT + text.replace("<", "\\u003c"), 1)


def is_page(text: str) -> bool:
    """Tell whether a file is a page of ours, so that it may be written anew."""
    return _SLOT in text
