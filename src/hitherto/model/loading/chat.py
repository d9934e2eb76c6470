"""Chat templates: a conversation as the text a model was trained to read.

A template is a program that comes with the weights. It runs in jinja2's sandbox, which lets it
change nothing and reach nothing but the conversation.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from hitherto.errors import ModelError, Unsupported, explain
from hitherto.model.loading.safetensors_files import read_json

Message = Mapping[str, str]
"""A turn: "role" ("system", "user" or "assistant") and "content"."""

MOST_TEMPLATE = 1 << 18
"""Characters of a template."""


class ChatTemplate:
    """A template and the tokens it may name.

    Args:
        source: jinja2 text.
        begin: the begin-of-text token, as its vocabulary calls it.
        end: the end-of-text token.
    Raises:
        ModelError: when the source is no template.
        Unsupported: when jinja2 is not installed.
    """

    def __init__(self, source: str, begin: str = "", end: str = "") -> None:
        self.source = source
        self._names = {"bos_token": begin, "eos_token": end}
        if len(source) > MOST_TEMPLATE:
            _refuse(f"must be at most {MOST_TEMPLATE} characters", f"{len(source)}")
        self._template = _compiled(source)

    def render(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """The text of a conversation.

        Args:
            messages: its turns, first to last.
            answer: whether the beginning of the model's next turn follows.
        Raises:
            ModelError: when the template refuses this conversation, or fails.
        """
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=answer,
                **self._names,
            )
        except Exception as error:  # a template can raise anything
            _refuse("must accept the conversation", f"{type(error).__name__}: {error}", error)


def read_template(folder: Path, begin: str, end: str) -> ChatTemplate | None:
    """The chat template of a folder, if it has one: a file of its own, or in the tokenizer's."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return ChatTemplate(path.read_text(encoding="utf-8"), begin, end)
    config = folder / "tokenizer_config.json"
    source = read_json(config).get("chat_template") if config.is_file() else None
    if isinstance(source, list):
        named = {
            entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)
        }
        source = named.get("default")
    return ChatTemplate(source, begin, end) if isinstance(source, str) else None


def _compiled(source: str) -> Any:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise Unsupported(
            explain("chat templates", "need jinja2", "not installed", "install hitherto[models]")
        ) from None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        _refuse("must be a jinja2 template", str(error), error)


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _refuse(rule: str, came: str, cause: Exception | None = None) -> NoReturn:
    raise ModelError(explain("chat template", rule, came, "use another model")) from cause
