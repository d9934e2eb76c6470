"""`hitherto chat`: a conversation, line by line."""

import sys
from collections.abc import Iterator

from hitherto.cli.named import Named, open_model
from hitherto.cli.terminal import OK, console, say
from hitherto.cli.writing import show
from hitherto.errors import ModelError, explain
from hitherto.generation import Request, Sampling, Serving

CONTEXT = 8192
"""Positions of a conversation at most, whatever the model could reach."""
PAGE = 16


def chat(model: str, system: str | None, sampling: Sampling, max_tokens: int, dtype: str) -> int:
    """Answer each line of stdin until it ends."""
    screen, named = console(), open_model(model, dtype)
    if named.chat is None:
        raise ModelError(
            explain("--model", "must come with a chat template", model,
                    "use hitherto generate, or a model tuned to converse")
        )  # fmt: skip
    longest = min(named.model.config.max_length or CONTEXT, CONTEXT)
    # What was said before is read once: later turns begin with the same pages.
    serving = Serving(named.model, named.tokenizer, pages=-(-longest // PAGE), page_size=PAGE)
    messages = [{"role": "system", "content": system}] if system else []
    for line in _lines():
        messages.append({"role": "user", "content": line})
        answer = show(_answer(named, serving, messages, sampling, max_tokens), screen)
        messages.append({"role": "assistant", "content": answer})
    say(screen)
    return OK


def _answer(
    named: Named, serving: Serving, messages: list[dict[str, str]], sampling: Sampling,
    max_tokens: int,
) -> Iterator[bytes]:  # fmt: skip
    """The model's turn, piece by piece."""
    assert named.chat is not None
    text = named.chat.render(messages)
    prompt = named.tokenizer.encode(text, begin=False)
    serving.add(Request(prompt=prompt, sampling=sampling, max_tokens=max_tokens))
    while not serving.is_idle:
        yield from (piece.text for piece in serving.step())


def _lines() -> Iterator[str]:
    """What a person types, or a file holds; empty lines say nothing."""
    asks = sys.stdin.isatty()
    while True:
        if asks:
            sys.stdout.write("> ")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()
