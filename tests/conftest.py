"""Settings every test runs under: one thread a worker, and Hypothesis made repeatable."""

import os

import pytest
from beartype import BeartypeConf, beartype
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Before anything imports torch: pytest-xdist already gives each worker a core of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    max_examples=60,
    deadline=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "deep", database=None, max_examples=2000, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

CHECKED = [f"hitherto.{name}" for name in ("attention", "cache", "model", "training", "generation")]
"""Packages whose shapes `--shapes` checks. Masks are numpy, and strictly checked by pyright."""

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""What checks them: an int is a float, as type checkers have it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shapes", action="store_true", help="check jaxtyping shapes on every call")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--shapes"):
        install_import_hook(CHECKED, f"{__name__}.checked")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under `--shapes` the checker speaks before our own errors do: leave their tests out."""
    if config.getoption("--shapes"):
        refusals = [item for item in items if "refuse" in item.name]
        config.hook.pytest_deselected(items=refusals)
        items[:] = [item for item in items if item not in refusals]
