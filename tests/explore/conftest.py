"""One browser for all tests of the page, and pages with known data."""

import pytest
import torch

from explore.browser import CHROMIUM, Browser
from hitherto.cli.recording import Spelling, lesson, record
from hitherto.model import Decoder, tiny
from hitherto.model.tokens import ByteTokens
from hitherto.picture.explore import explore_page

PROMPT = b"a mask of the past "
SPELL = Spelling(ByteTokens())


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def model():
    torch.manual_seed(0)
    config = tiny(width=32, hidden=64, num_heads=2, num_layers=2,
                  layer_masks=("Window(4)", "Causal()"))  # fmt: skip
    return Decoder(config, seed=3).eval()


@pytest.fixture(scope="session")
def recorded(model):
    return record(model, list(PROMPT), 6, SPELL, "test")


@pytest.fixture(scope="session")
def page(tmp_path_factory, model, recorded):
    path = tmp_path_factory.mktemp("page") / "page.html"
    data = {
        "mask": {"text": "Causal() & Window(3)", "queries": 12, "keys": 12, "start": 0},
        "generation": recorded,
        "training": lesson(model, list(b"who may see whom?"), SPELL, "test"),
    }
    path.write_text(explore_page(data))
    return path


@pytest.fixture(autouse=True)
def nothing_wrong(request):
    """No console error, and no request that leaves the page, in any test that opens one."""
    yield
    if "browser" in request.fixturenames:
        browser = request.getfixturevalue("browser")
        assert browser.complaints() == []
        assert browser.requests() == []
