"""Run folders, written under a temporary name and renamed at the end: complete or absent."""

import datetime
import fcntl
import glob
import importlib.metadata
import itertools
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bispectral_ot._version import __version__
from bispectral_ot.engines import core_count
from bispectral_ot.errors import InputError, RunExistsError, RunKeptError
from bispectral_ot.files import read_json, write_json
from bispectral_ot.memory import peak_memory

Inputs = Iterable[str | Path | None]
RECORD, RESULTS, REPORT = "run.json", "results.json", "report.html"


@contextmanager
def new_run(folder: str | Path, *, verb: str, inputs: Inputs = (), overwrite: bool = False) -> Iterator[Path]:
    """Temporary folder of a run, renamed to ``folder`` when the block ends without an error.

    Once ``results.json`` is written, an interrupted run is kept; leftovers of a killed run are removed by the next.
    A :class:`RunExistsError` is raised before any work, a :class:`RunKeptError` at the end if ``folder`` was created
    by another process: the run is then saved under another name.
    """
    target = Path(folder).resolve()  # if the folder is a link, its target is replaced
    earlier = check_free(folder, verb=verb, inputs=inputs, overwrite=overwrite)
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_partial(target)
            partial = target.with_name(f".{target.name[:40]}-partial-{secrets.token_hex(8)}")
            partial.mkdir()
            stack.callback(shutil.rmtree, partial, ignore_errors=True)
            with suppress(OSError):  # folders cannot be locked here
                stack.callback(os.close, _lock(partial))
        except OSError as error:
            raise InputError(f"cannot write to {target.parent}: {error.strerror or error}.") from error
        stopped: BaseException | None = None
        try:
            yield partial
        except (KeyboardInterrupt, SystemExit) as error:  # keep the results without the missing figures
            if not (partial / RESULTS).exists():
                raise
            stopped = error
            stopped.add_note(f"the results are complete and kept at {folder}, without all figures and the page")
        record = read_record(partial)
        if record:
            write_json(partial / RECORD, {**record, "files": sorted({*_files(partial), RECORD})})
        try:
            _put_in_place(partial, target, earlier)
        except OSError as error:
            for number in itertools.count(2):
                kept = target.with_name(f"{target.name}-{number}")
                with suppress(FileExistsError):
                    kept.mkdir()
                    break
            partial.rename(kept)
            message = f"{target} was taken during the run ({error.strerror or error}); the results are kept at {kept}."
            raise RunKeptError(message, kept) from None
        if stopped is not None:
            raise stopped


def _lock(folder: Path) -> int:
    """File descriptor that keeps a folder locked until it is closed; an :class:`OSError` if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_partial(target: Path) -> None:
    """Remove the partial folders of earlier runs at ``target`` that were killed: their locks are gone with them."""
    for path in target.parent.glob(f".{glob.escape(target.name[:40])}-partial-{'[0-9a-f]' * 16}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > 2.0:  # seconds: a younger one may not be locked yet
                descriptor = _lock(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def check_free(folder: str | Path, *, verb: str, inputs: Inputs = (), overwrite: bool = False) -> str:
    """Text of the ``run.json`` that a run replaces (``""``: none); a :class:`RunExistsError` if it must not."""
    folder = Path(folder)
    target = folder.resolve()
    if target == Path.cwd():
        raise RunExistsError("the run cannot replace the current folder; give a new folder with --out.")
    if not folder.exists():
        return ""
    if not folder.is_dir():
        raise RunExistsError(f"{folder} is a file; give a folder for the run with --out.")
    if os.path.ismount(target):
        raise RunExistsError(f"{folder} is a mount point, which a run cannot replace; give a folder inside it.")
    for given in inputs:
        if given is not None and Path(given).resolve().is_relative_to(target):
            raise RunExistsError(f"the input {given} is inside {folder}; choose another --out.")
    if not any(folder.iterdir()):
        return ""
    if not overwrite:
        advice = "choose another folder (--out), or replace a run with overwrite=True (--overwrite)"
        raise RunExistsError(f"{folder} already contains files; {advice}.")
    found, foreign = read_record(folder).get("config", {}).get("verb"), _foreign_files(folder)
    if found == verb and not foreign:
        return (folder / RECORD).read_text(encoding="utf-8")
    more = f" and {len(foreign) - 4} more" if len(foreign) > 4 else ""
    problem = f"contains {', '.join(foreign[:4])}{more}, which the run there did not write"
    if found != verb:
        problem = f"is a run of {found!r}, not of {verb!r}" if found else "is not a run (it has no valid run.json)"
    raise RunExistsError(f"{folder} {problem}, so --overwrite will not delete it; choose another --out.")


def _put_in_place(partial: Path, target: Path, earlier: str) -> None:
    """Rename ``partial`` to ``target``; only the run whose ``run.json`` is ``earlier`` may be replaced."""
    if not (earlier and target.exists()):
        os.rename(partial, target)  # POSIX: fails if there is a file, or a folder that is not empty
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


def _files(folder: Path) -> set[str]:
    """Everything in a folder, relative to it: files, links, and folders that are empty."""
    found = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir())}
    return {path.relative_to(folder).as_posix() for path in found}


def _foreign_files(folder: Path) -> list[str]:
    """Files in ``folder`` that its run did not write, by the list in its ``run.json``."""
    written = read_record(folder).get("files")
    known = set(map(str, written)) if isinstance(written, list) else set()
    return sorted(_files(folder) - known - {RECORD, REPORT})


def read_record(folder: Path) -> dict[str, Any]:
    """Content of ``run.json``; empty if it is missing or damaged."""
    try:
        record = read_json(folder / RECORD)
        return record if isinstance(record["config"]["verb"], str) else {}
    except (InputError, TypeError, KeyError):
        return {}


def provenance() -> dict[str, Any]:
    """Provenance of a run: versions, machine and date."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration), open("/proc/cpuinfo") as lines:
        processor = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    machine = {"system": platform.system(), "processor": processor, "cores": core_count()}
    libraries = ("numpy", "scipy", "numba", "scikit-learn", "POT")
    return {
        **{"bispectral_ot": __version__, "python": platform.python_version()},
        "libraries": {name: importlib.metadata.version(name) for name in libraries},
        "machine": machine | {"memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def run_record(config: Mapping[str, object], *, seconds: float) -> dict[str, object]:
    """Content of ``run.json``: configuration, provenance, wall time and peak memory of this process."""
    return {"config": dict(config), "wall_seconds": seconds, "peak_memory_bytes": peak_memory(), **provenance()}
