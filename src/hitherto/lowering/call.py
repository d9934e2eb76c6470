"""A call of a library that is not imported here: what to call, and its arguments."""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`name(**arguments)`, and then perhaps a method of what that returns."""

    name: str
    """Full name of a function or class, e.g. "flash_attn.flash_attn_func"."""

    arguments: dict[str, Any] = field(default_factory=dict)
    """What says the mask; queries, keys, values, scale and the like are the caller's."""

    then: tuple[str, dict[str, Any]] | None = None
    """A method of the result, and its arguments."""

    def __call__(self, *tensors: Any, **more: Any) -> Any:
        """Import the library and make the call, with tensors in front and `more` arguments."""
        *path, last = self.name.split(".")
        holder = []
        if path[-1][:1].isupper():
            holder = [path.pop()]
        target: Any = import_module(".".join(path))
        for name in (*holder, last):
            target = getattr(target, name)
        result = target(*tensors, **self.arguments, **more)
        return result if self.then is None else getattr(result, self.then[0])(**self.then[1])
