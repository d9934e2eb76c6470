"""hitherto: say once who may attend to whom."""

import importlib

_HOMES = {
    "mask": (
        "Band BlockCausal Causal Chunks Dilated Everything Keys Nothing PerHead Predicate Prefix "
        "Queries RandomBlocks Segments Shift Strided Table Timeline Tree Window Mask MaskError "
        "Spans Batch Answer bind blocks column density difference empty_rows equal evaluate "
        "is_causal live_keys pairs parse row subset work"
    ),
    "errors": "Unsupported ModelError",
    "lowering": "convert lower recognise targets",
    "attention": "Alibi Choice Relative attend attention_weights choose",
    "audit": "Guard",
    "picture": "draw why",
    "distributed": "plan",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    """Import a public name from its room on first use, so that `import hitherto` stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'hitherto' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hitherto.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
