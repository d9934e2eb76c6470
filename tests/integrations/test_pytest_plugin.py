"""The pytest plugin: a failing test shows the finding, and full audits wait until asked for."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from hitherto.integrations.pytest_plugin import assert_causal, assert_obeys
from hitherto.mask import Window
from zoo.clean import by_numpy, by_numpy_ahead
from zoo.decoder import VOCAB, Attention, Decoder
from zoo.peeks import Peek

pytest_plugins = ["pytester"]

INSTALLED = any(e.name == "hitherto" for e in entry_points(group="pytest11"))
PLUGIN = ("-p", "no:cacheprovider") + (
    () if INSTALLED else ("-p", "hitherto.integrations.pytest_plugin")
)
MODELS = """
import numpy as np
import pytest
from hitherto.integrations.pytest_plugin import assert_causal

def clean(tokens):
    return np.cumsum(np.eye(7)[tokens], axis=1)

def leaky(tokens):
    return clean(tokens)[:, ::-1]
"""


def test_assert_causal_passes_a_causal_function_and_returns_its_report():
    """A plugin that cannot pass a clean model gets switched off."""
    assert assert_causal(by_numpy, vocab=VOCAB, lengths=(9,)).verdict == "clean"


def test_assert_causal_fails_on_a_peek_with_the_finding():
    """ "assert False" alone would send the reader to write the audit again."""
    with pytest.raises(
        AssertionError, match=r"(?s)does not obey Causal.*leak.*output 0 by input 1"
    ):
        assert_causal(by_numpy_ahead, vocab=VOCAB, lengths=(9,))


def test_assert_obeys_names_the_module_at_fault():
    """The finding's module has to survive on its way into the message."""
    with pytest.raises(AssertionError, match=r"blocks\.1\.mix \(Peek\)"):
        assert_causal(Decoder(Attention(), Peek()).eval(), vocab=VOCAB, lengths=(9,))


def test_assert_obeys_checks_the_mask_it_is_given():
    """A causal model is not a windowed one."""
    with pytest.raises(AssertionError, match="window"):
        assert_obeys(by_numpy, Window(width=3), vocab=VOCAB, lengths=(9,))


def test_assert_obeys_fails_on_a_model_that_cannot_be_run():
    """Not clean is not clean, whatever the reason."""

    def crash(tokens):
        raise RuntimeError("out of cheese")

    with pytest.raises(AssertionError, match="out of cheese"):
        assert_causal(crash, vocab=VOCAB)


def test_plugin_shows_the_finding_and_hides_its_own_frames(pytester):
    """The last lines of a failure are the finding, not the inside of the plugin."""
    pytester.makepyfile(MODELS + "def test_leaky(): assert_causal(leaky, vocab=7, lengths=(6,))")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*leaky does not obey Causal()*"])
    result.stdout.no_fnmatch_line("*report = audit(*")


def test_plugin_skips_full_audits_until_asked(pytester):
    """A marker that filters nothing makes every run slow; one that always does tests nothing."""
    pytester.makepyfile(
        MODELS
        + "@pytest.mark.full_audit\n"
        + "def test_slow(): assert_causal(clean, vocab=7, lengths=(6,), full=True)"
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(skipped=1)
    pytester.runpytest_inprocess(*PLUGIN, "--full-audit").assert_outcomes(passed=1)


def test_plugin_declares_its_marker(pytester):
    """Under --strict-markers an undeclared one is an error."""
    result = pytester.runpytest_inprocess(*PLUGIN, "--strict-markers", "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.full_audit: a slow audit*"])


def test_plugin_loads_without_torch_or_numpy():
    """pytest loads it in every session of every project where hitherto is installed."""
    code = (
        "import sys; import hitherto.integrations.pytest_plugin; "
        "print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path
    )
    assert out.stdout.strip() == "[]"
