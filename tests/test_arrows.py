"""Imports point one way (design section 11), and what is optional or heavy is not imported."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "hitherto"

BASE = {"errors", "mask"}
READS = {
    "errors": set(),
    "mask": {"errors"},
    "lowering": BASE,
    "attention": BASE | {"lowering", "_native"},
    "cache": BASE | {"lowering", "attention"},
    "model": BASE | {"lowering", "attention", "cache"},
    "training": BASE | {"lowering", "attention", "cache", "model"},
    "generation": BASE | {"lowering", "attention", "cache", "model"},
    "distributed": BASE | {"lowering", "attention", "cache", "model", "training"},
    "audit": BASE,
    "picture": BASE,
    "integrations": BASE | {"lowering", "attention", "cache", "audit", "picture"},
}
"""Which packages each may import. Only `cli` may import everything, lazily."""

FREE = {"cli", "__init__", "__main__"}
"""Doors: they open every room, on demand."""

MODULES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    """Return the package of hitherto that a file belongs to."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported(tree: ast.AST, package: list[str]) -> list[tuple[str, bool]]:
    """List (dotted module, is it at import time) of every import in a file of a package."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    typing_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                stem = ".".join([*base, *([module] if module else [])])
                # `from hitherto import mask` names a package, not a value of `hitherto`.
                modules = [f"{stem}.{a.name}" for a in names] if stem == "hitherto" else [stem]
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
                modules = [name]
            case ast.Call(
                func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name))]
            ):
                modules = [name]
            case _:
                continue
        at_import = id(node) not in inside | typing_only
        found += [(module, at_import) for module in modules]
    return found


def imports_of(path: Path) -> list[tuple[str, bool]]:
    package = ["hitherto", *path.relative_to(SOURCE).parts[:-1]]
    return imported(ast.parse(path.read_text()), package)


def test_arrow_reader_sees_every_form_of_import():
    """Control: an import that the reader does not see breaks no arrow."""
    text = (
        "import hitherto.model.decoder\nfrom hitherto import cache\nfrom ..training import loop\n"
        "from . import config\ndef f():\n    from hitherto.audit import audit\n"
        "importlib.import_module('hitherto.picture')\nif TYPE_CHECKING:\n    import torch\n"
    )
    assert dict(imported(ast.parse(text), ["hitherto", "mask"])) == {
        "hitherto.model.decoder": True,
        "hitherto.cache": True,
        "hitherto.training": True,
        "hitherto.mask": True,
        "hitherto.audit": False,
        "hitherto.picture": True,
        "torch": False,
    }


def test_every_package_has_its_arrows():
    """A new package that no arrow holds."""
    assert {room(path) for path in MODULES} <= {*READS, *FREE}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_arrows(path: Path):
    """The cache that knows the model, the mask that knows torch; lazy imports count as well."""
    if room(path) in FREE:
        return
    for module, _ in imports_of(path):
        parts = module.split(".")
        if parts[0] == "hitherto" and len(parts) > 1:
            assert parts[1] in READS[room(path)] | {room(path)}, f"{path.name} imports {module}"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if room(p) in {"mask", "errors"}], ids=lambda path: path.name
)
def test_masks_import_numpy_and_the_standard_library_only(path: Path):
    """A convenience that makes every user of a mask install torch."""
    for module, _ in imports_of(path):
        top = module.split(".")[0]
        assert top in {"hitherto", "numpy"} or top in sys.stdlib_module_names, module


def test_no_module_imports_another_library_that_is_optional_at_import_time():
    """matplotlib imported by a module that only sometimes draws."""
    optional = set(
        "matplotlib transformers triton flash_attn jax onnx onnxruntime pytest gguf tokenizers "
        "jinja2 keras xformers tokamax".split()
    )
    for path in MODULES:
        if room(path) == "integrations":
            continue
        at_import = {module.split(".")[0] for module, now in imports_of(path) if now}
        assert not at_import & optional, path


def loaded_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after a statement."""
    code = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    run = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); {code}",
    ]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


HEAVY = {"torch", "transformers", "matplotlib", "triton", "flash_attn", "safetensors", "typer"}


def third_party(modules: set[str]) -> set[str]:
    """Leave out the standard library and what every interpreter of this environment loads."""
    return {m for m in modules - loaded_after("pass") if m not in sys.stdlib_module_names}


def test_import_hitherto_loads_nothing_heavy():
    """A second of waiting for torch before `--help`."""
    assert third_party(loaded_after("import hitherto")) <= {"hitherto"}
    assert not loaded_after("import hitherto; dir(hitherto)") & HEAVY


def test_import_of_masks_loads_numpy_only():
    """A mask that cannot be used without a deep-learning library."""
    statement = "from hitherto import Causal, Window, bind, pairs; pairs(bind(Causal(), 4, 4))"
    assert third_party(loaded_after(statement)) <= {"hitherto", "numpy"}


@pytest.mark.parametrize("package", ["picture", "audit", "cli", "lowering", "model"])
def test_import_of_a_package_loads_no_optional_library(package: str):
    """matplotlib or transformers, loaded to draw nothing and convert nothing."""
    if not (SOURCE / package / "__init__.py").exists():
        pytest.skip(f"hitherto.{package} does not exist yet")
    heavy = HEAVY - {"torch", "safetensors"} if package in {"attention", "model"} else HEAVY
    loaded = loaded_after(f"import hitherto.{package}")
    assert not loaded & (heavy - {"typer"} if package == "cli" else heavy)


def test_every_public_name_can_be_imported():
    """A name in the list of the door that no room has."""
    import hitherto

    for name in hitherto.__all__:
        assert getattr(hitherto, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        hitherto.no_such_name  # noqa: B018
