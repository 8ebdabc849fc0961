"""Files and folders that are being written: hidden beside their place, locked while in use, removed if left over."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def temporary_name(target: Path, purpose: str) -> Path:
    """Hidden path in the same folder, unpredictable, so that another user cannot create it beforehand."""
    return target.with_name(f".{target.stem[:40]}-{purpose}-{secrets.token_hex(8)}{target.suffix}")


@contextmanager
def temporary(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """A new file (or folder) beside ``target``, locked until the block ends and then removed, unless it was renamed.

    What an earlier process left beside ``target`` when it was killed is removed first. Rights are those of any new
    file: the umask decides.
    """
    remove_stale(target)
    path, handle = _create(target, folder=folder)
    try:
        yield path
    finally:
        _remove(path, folder=folder)
        os.close(handle)


def remove_stale(target: Path) -> None:
    """Remove what killed processes left beside ``target``."""
    for path in stale(target, "partial"):
        _remove(path, folder=path.is_dir())


def stale(target: Path, purpose: str) -> Iterator[Path]:
    """What is certainly ours and in nobody's use: a name of our kind, of this user, not locked.

    Each path is locked while its caller looks at it.
    """
    ours = re.compile(re.escape(f".{target.stem[:40]}-{purpose}-") + "[0-9a-f]{16}" + re.escape(target.suffix))
    try:
        found = [target.parent / name for name in os.listdir(target.parent) if ours.fullmatch(name)]
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError), open_locked(path):  # gone, of another user, or in use
            state = path.lstat()
            if state.st_uid == os.geteuid() and (stat.S_ISDIR(state.st_mode) or stat.S_ISREG(state.st_mode)):
                yield path


@contextmanager
def open_locked(path: Path) -> Iterator[int]:
    """Open and lock a file or folder, or raise an :class:`OSError` where another process has it."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    finally:
        os.close(handle)


def _create(target: Path, *, folder: bool) -> tuple[Path, int]:
    """Make and lock it; tried again where another process took it for a left-over before it was locked."""
    while True:
        path = temporary_name(target, "partial")
        if folder:
            path.mkdir()
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # a file system without locks: nothing there ever counts as left over
            fcntl.flock(handle, fcntl.LOCK_EX)
        if path.exists():
            return path, handle
        os.close(handle)


def _remove(path: Path, *, folder: bool) -> None:
    if folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
