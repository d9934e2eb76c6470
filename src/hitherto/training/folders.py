"""A folder that is replaced whole, or not at all.

`replace_folder` writes `NAME.new` and syncs it to the disk, moves `NAME` to `NAME.old`, moves
`NAME.new` to `NAME`, and removes `NAME.old`. A kill between the two moves leaves no `NAME`, but a
complete `NAME.new`; `finish_move` then moves it. At every moment a whole folder stands.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def replace_folder(directory: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, then put it in the place of `directory`.

    Whatever `write` raises leaves the folder that stood before.
    """
    finish_move(directory)
    new, old = _new(directory), _old(directory)
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        write(new)
        for path in (*new.iterdir(), new, new.parent):
            _sync(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        directory.rename(old)
    new.rename(directory)
    _sync(directory.parent)
    shutil.rmtree(old, ignore_errors=True)


def finish_move(directory: Path) -> bool:
    """Finish a replacement that was cut between its two moves; True if a folder stands now."""
    new = _new(directory)
    if not directory.exists() and _old(directory).exists() and new.exists():
        new.rename(directory)
        _sync(directory.parent)
    return directory.exists()


def _new(directory: Path) -> Path:
    return directory.with_name(directory.name + ".new")


def _old(directory: Path) -> Path:
    return directory.with_name(directory.name + ".old")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
