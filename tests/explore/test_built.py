"""The page that ships is the one that its sources make, and it asks nothing of any network."""

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from hitherto.picture.explore import explore_page, is_page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "explore"
PAGE = files("hitherto.picture").joinpath("page")
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML",
              "http://www.w3.org/1999/xhtml"}  # fmt: skip


@pytest.mark.skipif(not SOURCE.exists(), reason="the page's sources are not in this checkout")
def test_built_page_is_not_older_than_its_sources():
    """Catches a change of a source without `npm run build`."""
    lines = (PAGE / "sources.sha256").read_text().splitlines()
    built = dict(reversed(line.split("  ")) for line in lines)
    inside = [p for p in SOURCE.rglob("*") if p.is_file() and "node_modules" not in p.parts]
    names = {str(p.relative_to(SOURCE)) for p in inside} - {".gitignore", ".npmrc", "README.md"}
    assert names == set(built)
    for name, said in built.items():
        assert hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() == said, name


def test_page_is_small_and_names_no_address():
    """Catches a font, a script or a tracker from elsewhere."""
    text = (PAGE / "explore.html").read_text()
    assert len(text.encode()) < 1_000_000
    assert set(re.findall(r"https?://[\w./-]+", text)) <= NAMESPACES
    assert "default-src 'none'" in text


@pytest.mark.skipif(not SOURCE.exists(), reason="the page's sources are not in this checkout")
def test_page_ships_the_licences_of_what_it_holds():
    licences = (PAGE / "LICENSES.txt").read_text()
    for name, version in json.loads((SOURCE / "package.json").read_text())["dependencies"].items():
        assert f"{name} {version}" in licences
    assert "Permission is hereby granted" in licences


def test_data_cannot_end_their_script_early():
    """Catches a prompt that holds markup and runs it."""
    text = explore_page({"mask": {"text": "</script><script>alert(1)</script>"}})
    assert text.count("</script>") == explore_page().count("</script>")
    assert is_page(text)
