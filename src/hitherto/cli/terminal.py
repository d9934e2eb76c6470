"""What every command shares with the person at the terminal: streams, exit codes, errors."""

import functools
import os
import sys
from collections.abc import Callable

import typer
from rich.console import Console
from rich.text import Text

from hitherto.errors import MaskError, ModelError, Unsupported

OK, FINDING, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; a check failed; bad input; stopped with Ctrl-C."""


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit 1, which means "a check failed" here


def console(json: bool = False) -> Console:
    """Return where people read: stdout, or stderr when stdout belongs to a program."""
    return _Screen(stderr=json, highlight=False, soft_wrap=True, emoji=False, markup=False)


def say(out: Console, text: str = "", style: str = "") -> None:
    """Print a line of plain text, as it is."""
    out.print(Text(text, style=style))


def complain(text: str) -> None:
    """Print an error for a person."""
    say(Console(stderr=True, soft_wrap=True), f"error: {text}", "bold red")


def command(run: Callable[..., int]) -> Callable[..., None]:
    """Turn a function that returns an exit code into a command that never shows a traceback.

    Errors that a person can cause are printed and exit 2; Ctrl-C exits 130; a reader of our output
    that has gone away, as in `| head`, ends the command quietly.
    """

    @functools.wraps(run)
    def guarded(*args: object, **named: object) -> None:
        try:
            code = run(*args, **named)
            sys.stdout.flush()
        except (MaskError, ModelError, Unsupported) as error:
            complain(str(error))
            code = USAGE
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = OK
        except OSError as error:
            complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
            code = USAGE
        except KeyboardInterrupt:
            say(Console(stderr=True), "\nstopped")
            code = INTERRUPTED
        raise typer.Exit(code)

    return guarded
