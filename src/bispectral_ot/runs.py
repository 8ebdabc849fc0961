"""Run folders, which are written under a temporary name and renamed at the end: whole or not at all."""

from __future__ import annotations

import datetime
import importlib.metadata
import itertools
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bispectral_ot._version import __version__
from bispectral_ot.engines import core_count
from bispectral_ot.errors import InputError, RunExistsError, RunKeptError
from bispectral_ot.files import temporary, write_json
from bispectral_ot.memory import peak_memory

RECORD, REPORT = "run.json", "report.html"
_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "POT")


@contextmanager
def new_run(
    folder: str | Path, *, verb: str, inputs: Iterable[str | Path | None] = (), overwrite: bool = False
) -> Iterator[Path]:
    """A temporary folder to write a run to, renamed to ``folder`` when the block ends without an error.

    The block writes ``run.json`` (:func:`run_record`) with the command as ``config["verb"]``; the names of all files
    are added to it. A :class:`RunExistsError` (see :func:`check_free`) comes before any work; a :class:`RunKeptError`
    comes at the end, where something else has appeared at ``folder``: the run is kept under another name.
    """
    target = Path(folder).resolve()  # where the folder is a link, what it points to is replaced
    earlier = check_free(folder, verb=verb, inputs=inputs, overwrite=overwrite)
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = stack.enter_context(temporary(target, folder=True))
        except OSError as error:
            raise InputError(f"cannot write to {target.parent}: {error.strerror or error}.") from error
        yield partial
        record = _read_record(partial)
        if record:
            write_json(partial / RECORD, {**record, "files": sorted({*_files(partial), RECORD})})
        try:
            _put_in_place(partial, target, earlier)
        except OSError as error:
            kept = _keep_aside(partial, target)
            message = f"{target} was taken during the run ({error.strerror or error}); the results are kept at {kept}."
            raise RunKeptError(message, kept) from None


def check_free(
    folder: str | Path, *, verb: str, inputs: Iterable[str | Path | None] = (), overwrite: bool = False
) -> str:
    """Return the text of the ``run.json`` that a run at ``folder`` would replace, or ``""`` where it replaces nothing.

    It is a :class:`RunExistsError` if ``folder`` contains one of the ``inputs`` or any file, unless ``overwrite`` is
    set and all files were written by a run of the same ``verb``.
    """
    folder = Path(folder)
    target = folder.resolve()
    if target == Path.cwd():
        raise RunExistsError("the run cannot replace the current folder; give a new folder with --out.")
    if not _exists(folder):
        return ""
    if os.path.ismount(target):
        raise RunExistsError(f"{folder} is a mount point, which a run cannot replace; give a folder inside it.")
    for given in inputs:
        if given is not None and Path(given).resolve().is_relative_to(target):
            raise RunExistsError(f"the input {given} is inside {folder}; choose another --out.")
    if not any(folder.iterdir()):
        return ""
    if not overwrite:
        raise RunExistsError(
            f"{folder} already contains files; choose another --out, or replace a run with --overwrite."
        )
    record = _read_record(folder)
    if not record:
        raise RunExistsError(f"{folder} is not a run (it has no valid run.json), so --overwrite will not delete it.")
    if _verb(record) != verb:
        raise RunExistsError(
            f"{folder} is a run of {_verb(record)!r}, not of {verb!r}, so --overwrite will not delete it."
        )
    foreign = _foreign_files(folder)
    if foreign:
        raise RunExistsError(
            f"{folder} contains {_listed(foreign)}, which the run there did not write, so --overwrite will not "
            "delete it; move your files away, or choose another --out."
        )
    return (folder / RECORD).read_text(encoding="utf-8")


def _exists(folder: Path) -> bool:
    if folder.exists() and not folder.is_dir():
        raise RunExistsError(f"{folder} is a file; give a folder for the run with --out.")
    return folder.exists()


def _put_in_place(partial: Path, target: Path, earlier: str) -> None:
    """Rename ``partial`` to ``target``, replacing nothing but the run whose ``run.json`` is ``earlier``."""
    if not (earlier and target.exists()):
        os.rename(partial, target)  # POSIX: fails where there is a file, or a folder that is not empty
        return
    replaced = target.with_name(f".{target.name}-replaced-{secrets.token_hex(8)}")
    os.rename(target, replaced)
    try:
        if (replaced / RECORD).read_text(encoding="utf-8") != earlier or _foreign_files(replaced):
            raise FileExistsError(0, "the earlier run was changed")
        os.rename(partial, target)
    except BaseException:
        os.rename(replaced, target)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def _keep_aside(partial: Path, target: Path) -> Path:
    """Rename ``partial`` to the first free name of ``target-2``, ``target-3``, ..."""
    for number in itertools.count(2):
        kept = target.with_name(f"{target.name}-{number}")
        with suppress(FileExistsError):
            kept.mkdir()
            break
    return partial.rename(kept)


def _files(folder: Path) -> set[str]:
    """Everything in a folder, relative to it: files, links, and folders that are empty."""
    found = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir())}
    return {path.relative_to(folder).as_posix() for path in found}


def _foreign_files(folder: Path) -> list[str]:
    """What the run in ``folder`` did not write, by the list in its ``run.json``."""
    written = _read_record(folder).get("files")
    known = {name for name in written if isinstance(name, str)} if isinstance(written, list) else set()
    return sorted(_files(folder) - known - {RECORD, REPORT})


def _read_record(folder: Path) -> Mapping[str, object]:
    """The content of ``run.json``; empty where there is none, or a damaged one."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and _verb(record) is not None else {}


def _verb(record: Mapping[str, object]) -> str | None:
    config = record.get("config")
    verb = config.get("verb") if isinstance(config, dict) else None
    return verb if isinstance(verb, str) else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@contextmanager
def resumed_run(folder: str | Path, config: Mapping[str, object]) -> Iterator[None]:
    """Keep ``run.json`` in a folder that is filled bit by bit: written at the start, and again however the block ends.

    It is the record of the latest call that worked on the folder.
    """
    start = time.perf_counter()
    path = Path(folder) / RECORD
    try:
        write_json(path, run_record(config, seconds=0.0))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        write_json(path, run_record(config, seconds=time.perf_counter() - start))


def check_resumable(folder: str | Path, *, verb: str, outputs: Iterable[str]) -> None:
    """Raise a :class:`RunExistsError` where a run that is resumed would write among the files of others.

    A folder is a run's own if its ``run.json`` names the same ``verb``, or if it has ``cells/`` and nothing but
    ``outputs``, so that a damaged ``run.json`` does not cost hours of work. Hidden files do not count.
    """
    folder = Path(folder)
    found = {path.name for path in folder.iterdir() if path.name[0] != "."} if _exists(folder) else set()
    record = _read_record(folder)
    if record and _verb(record) != verb:
        raise RunExistsError(f"{folder} is a run of {_verb(record)!r}, not of {verb!r}; choose another --out.")
    foreign = sorted(found - {RECORD, *outputs} if "cells" in found else found)
    if foreign and not record:
        raise RunExistsError(
            f"{folder} is not a run of {verb!r} to resume: it contains {_listed(foreign)} and no valid run.json; "
            "choose another --out, or an empty folder."
        )


def provenance() -> dict[str, Any]:
    """Versions, machine and date: what a figure needs to be traced."""
    return {
        "bispectral_ot": __version__,
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "machine": {
            "system": platform.system(),
            "processor": _processor(),
            "cores": core_count(),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        },
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def run_record(config: Mapping[str, object], *, seconds: float) -> dict[str, object]:
    """The content of ``run.json``: configuration, provenance, wall time and peak memory of this process."""
    return {"config": dict(config), "wall_seconds": seconds, "peak_memory_bytes": peak_memory(), **provenance()}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
