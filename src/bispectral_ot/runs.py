"""A run is a folder that appears whole or not at all.

Everything is written under a temporary name beside the folder and renamed at the end, so that a full disk,
a crash or Ctrl-C leaves no half-written run. Single files inside a resumable run are written the same way.
"""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import io
import json
import os
import platform
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot._version import __version__
from bispectral_ot.engines import core_count
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.memory import peak_memory

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "POT")
# In indented JSON; texts cannot match, since they hold no line breaks.
_ROWS_OF_NUMBERS = re.compile(r"\[\n(?:[\d\s.eE+,-]|null)*\]")


@contextmanager
def new_run(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder to write a run to, renamed to ``folder`` when the block ends without an error.

    Raises
    ------
    RunExistsError
        If ``folder`` holds something and ``overwrite`` is not set, before any work is done.
    """
    check_free(folder, overwrite=overwrite)
    target = Path(folder).resolve()  # where the folder is a link, what it points to is replaced
    partial = _beside(target, "partial")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot write to {target.parent}: {error.strerror or error}.") from error
    try:
        yield partial
        _put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_free(folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise a :class:`RunExistsError` where a run would overwrite something that nobody allowed it to."""
    folder = Path(folder)
    if folder.resolve() == Path.cwd():
        raise RunExistsError("the run cannot replace the current folder; give a new folder with --out.")
    if folder.exists() and not folder.is_dir():
        raise RunExistsError(f"{folder} is a file; give a folder for the run with --out.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise RunExistsError(f"{folder} already holds files; choose another --out, or replace a run with --overwrite.")
    if not (folder / "run.json").is_file():
        raise RunExistsError(f"{folder} is not a run (it has no run.json), so --overwrite will not delete it.")


@contextmanager
def resumed_run(folder: str | Path, config: dict[str, Any]) -> Iterator[None]:
    """Keep ``run.json`` in a folder that is filled bit by bit: written at the start, and again however the block ends.

    It is the record of the latest call that worked on the folder.
    """
    start = time.perf_counter()
    path = Path(folder) / "run.json"
    try:
        write_json(path, run_record(config, seconds=0.0))
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        write_json(path, run_record(config, seconds=time.perf_counter() - start))


def check_resumable(folder: str | Path, *, verb: str, outputs: Iterable[str]) -> None:
    """Raise a :class:`RunExistsError` where a run that goes on where it was would write among the files of others.

    A folder is a run's own if its ``run.json`` names the same ``verb``. One without it is, as older versions wrote
    none, if it has ``cells/`` and nothing but ``outputs`` beside it. Hidden files do not count.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise RunExistsError(f"{folder} is a file; give a folder for the run with --out.")
    found = {path.name for path in folder.iterdir() if path.name[0] != "."} if folder.is_dir() else set()
    if "run.json" in found:
        made_by = _recorded_verb(folder / "run.json")
        if made_by != verb:
            said = f"a run of {made_by!r}" if made_by else "another run"
            raise RunExistsError(f"{folder} holds {said}, not of {verb!r}; choose another --out.")
        return
    strange = sorted(found - set(outputs))
    if strange or (found and "cells" not in found):
        some = ", ".join((strange or sorted(found))[:4])
        raise RunExistsError(
            f"{folder} is not a run of {verb!r} to go on with: it holds {some}, and no run.json; "
            "choose another --out, or an empty folder."
        )


def _recorded_verb(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["config"]["verb"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _beside(target: Path, purpose: str) -> Path:
    """A name in the same folder that nobody else uses."""
    return target.with_name(f".{target.name}-{purpose}-{uuid.uuid4().hex[:8]}")


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename ``partial`` to ``target``; an old run is deleted only once the new one is in its place."""
    if not target.exists():
        partial.rename(target)
        return
    replaced = _beside(target, "replaced")
    target.rename(replaced)
    try:
        partial.rename(target)
    except BaseException:
        replaced.rename(target)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed to it when the block ends without an error."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}-partial-{os.getpid()}{target.suffix}")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as partial:
        # file names may hold bytes that are no text in UTF-8: they are written as \udcXX
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: str | Path, data: Any) -> None:
    """Write JSON, whole or not at all; see :func:`to_json`."""
    write_text(path, to_json(data) + "\n")


def to_json(data: Any) -> str:
    """JSON text; NumPy numbers and arrays are understood, NaN becomes null, others their text.

    Rows of numbers stay on one line each, and float32 numbers have no more digits than they are worth.
    """
    text = json.dumps(_plain(data), indent=2, ensure_ascii=False, allow_nan=False)
    return _ROWS_OF_NUMBERS.sub(lambda row: " ".join(row[0].split()).replace("[ ", "[").replace(" ]", "]"), text)


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def provenance() -> dict[str, Any]:
    """Versions, machine and date: what a figure needs beside it."""
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


def run_record(config: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    """The content of ``run.json``: configuration, provenance, wall time and peak memory of this process."""
    return {"config": config, "wall_seconds": seconds, "peak_memory_bytes": peak_memory(), **provenance()}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _plain(value: Any) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        short = value.astype(str).astype(np.float64) if value.dtype == np.float32 else value
        return _plain(short.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value)
