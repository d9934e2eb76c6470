"""The `hitherto` command. Only this package may import everything, and it does so lazily."""

import sys


def main() -> None:
    """Run the command line; exits 0, 1 (a check failed), 2 (bad input) or 130 (interrupted)."""
    try:
        from hitherto.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
