"""Memory: sizes as text, available memory, and peak memory of a run."""

from __future__ import annotations

import math
import os
import re
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

from bispectral_ot.errors import InputError, MemoryBudgetError

_OWN_CGROUPS, _CGROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def parse_bytes(size: str | int | float) -> int:
    """Read a byte count: a number, or a text such as ``"4GB"``, ``"800 MB"`` or ``"1.5GiB"``."""
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        count = float(size)
    else:
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", str(size))
        if not found or found[2].lower() not in _UNITS:
            raise InputError(f"cannot read the memory size {size!r}; write it as '4GB', '800MB' or a number of bytes.")
        count = float(found[1]) * _UNITS[found[2].lower()]
    if not 1 <= count < float("inf"):
        raise InputError(f"a memory size must be positive and finite, got {size!r}.")
    return int(count)


def format_bytes(count: float) -> str:
    """Write a byte count for people: ``format_bytes(3.6e9) == "3.6 GB"``."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def available_memory() -> int:
    """Bytes that can be had now without swapping, a container's limit included."""
    free = int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        free //= 2  # not Linux: assume that half of the machine is free
    return max(1, min([free, *_cgroup_memory()]))


def _cgroup_memory() -> list[int]:
    """Bytes left in the memory control groups (v2 and v1) of this process, from its own group up to the root."""
    left = []
    try:
        lines = Path(_OWN_CGROUPS).read_text().splitlines()
    except OSError:
        return []  # not Linux
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            roots, names = ["", "unified"], ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            roots, names = ["memory"], ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        for root in (Path(_CGROUPS, name) for name in roots):
            own = root / path.lstrip("/")
            # in a container the path may be that of the host; the mounted root is then the group itself
            for group in [own, *own.parents]:
                if not group.is_relative_to(root):
                    break
                try:
                    limit, used = (int((group / name).read_text()) for name in names[:2])
                    counts = dict(each.split() for each in (group / "memory.stat").read_text().splitlines())
                    left.append(limit - used + int(counts[names[2]]))  # cached files give way to whoever asks
                except (OSError, KeyError, ValueError):
                    pass  # no limit ("max") or no such file
    return left


def default_budget() -> int:
    """The budget where the caller names none: 70 % of what is available now."""
    return max(1, int(0.7 * available_memory()))


def check_fits(count: int, what: str, advice: str) -> None:
    """Raise a :class:`MemoryBudgetError` where ``count`` bytes are more than :func:`default_budget` has now."""
    budget = default_budget()
    if count > budget:
        raise MemoryBudgetError(
            f"{what} needs {format_bytes(count)} of memory, but {format_bytes(budget)} can be used; {advice}."
        )


def reserved_memory_map(shape: tuple[int, ...], *, folder: str | os.PathLike[str] | None = None) -> Any:
    """A float32 array of zeros in a file of ``folder``, whose space on the disk is taken before anything is written.

    Without that a full disk ends the process with a bus error at some later write. The file has no name, so nobody
    can open or prepare it, and it goes with the array, also if the process is killed.

    Parameters
    ----------
    folder
        Where the file is; the system's temporary folder by default.

    Raises
    ------
    OSError
        If the space cannot be had (``ENOSPC``).
    """
    import numpy as np

    count = max(4 * math.prod(shape), 1)
    with tempfile.TemporaryFile(dir=folder, prefix="bispectral-ot-") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, count)
        else:  # macOS
            for start in range(0, count, _ZEROS):
                file.write(bytes(min(_ZEROS, count - start)))
            file.flush()
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


_ZEROS = 2**24
_peak_before_reset = 0


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    return max(_peak_before_reset, recent_peak())


def recent_peak() -> int:
    """The largest resident size of this process since :func:`reset_peak`, in bytes; so far, where that does nothing."""
    try:
        with open("/proc/self/status") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass  # not Linux, where getrusage is as good; on Linux it starts from the parent's peak
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak() -> None:
    """Measure :func:`recent_peak` from now on; only Linux can, and where it does not permit it nothing happens."""
    global _peak_before_reset
    _peak_before_reset = peak_memory()
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # "reset the peak resident set size to the current one", proc(5)
    except OSError:
        pass
