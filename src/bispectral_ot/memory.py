"""Memory: sizes as text, available memory, and peak memory of a run."""

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
_DECIMAL = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1}
_BINARY = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def parse_bytes(size: str | int | float) -> int:
    """Read a byte count: a number, or a text such as ``"4GB"``, ``"800 MB"`` or ``"1.5GiB"``."""
    text = f"{float(size):f}" if isinstance(size, (int, float)) and not isinstance(size, bool) else str(size)
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", text)
    units = {name.lower(): each for name, each in _DECIMAL.items()} | _BINARY
    count = float(found[1]) * units.get(found[2].lower(), 0) if found else 0.0
    if not 1 <= count < math.inf:
        raise InputError(f"cannot read the memory size {size!r}; write it as '4GB', '800MB' or a number of bytes.")
    return int(count)


def format_bytes(count: float) -> str:
    """Write a byte count for people: ``format_bytes(3.6e9) == "3.6 GB"``."""
    unit = next((name for name, size in _DECIMAL.items() if count >= size), "B")
    return f"{count:.0f} B" if unit == "B" else f"{count / _DECIMAL[unit]:.1f} {unit}"


def available_memory() -> int:
    """Bytes available now without swapping, within the limits of control groups."""
    try:
        free = _kilobytes("/proc/meminfo", "MemAvailable")
    except (OSError, KeyError, ValueError):  # not Linux: assume that half of the machine is free
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return max(1, min([free, *_cgroup_memory()]))


def _kilobytes(path: str, name: str) -> int:
    """Entry of a file of the proc file system, in bytes."""
    with open(path) as lines:
        return int(dict(line.split(":", 1) for line in lines)[name].split()[0]) * 1024


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
            for group in (each for each in (own, *own.parents) if each.is_relative_to(root)):
                try:
                    limit, used = (int((group / name).read_text()) for name in names[:2])
                    counts = dict(each.split() for each in (group / "memory.stat").read_text().splitlines())
                    left.append(limit - used + int(counts[names[2]]))  # the kernel frees cached files on demand
                except (OSError, KeyError, ValueError):
                    pass  # no limit ("max") or no such file
    return left


def default_budget() -> int:
    """Default memory budget: 70 % of the memory available now."""
    return max(1, int(0.7 * available_memory()))


def check_fits(count: int, what: str, advice: str) -> None:
    """Raise a :class:`MemoryBudgetError` if ``count`` bytes exceed :func:`default_budget` now."""
    budget = default_budget()
    if count > budget:
        problem = f"{what} needs {format_bytes(count)} of memory, but {format_bytes(budget)} can be used"
        raise MemoryBudgetError(f"{problem}; {advice}.")


def reserved_memory_map(shape: tuple[int, ...], *, folder: str | os.PathLike[str] | None = None) -> Any:
    """Array of float32 zeros in a deleted file; space is reserved first, since a full disk is a bus error later."""
    import numpy as np

    count = max(4 * math.prod(shape), 1)
    with tempfile.TemporaryFile(dir=folder, prefix="bispectral-ot-") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, count)
        else:  # macOS, which reserves the space later
            file.truncate(count)
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


def peak_memory() -> int:
    """Peak resident size of this process so far, in bytes."""
    try:
        return _kilobytes("/proc/self/status", "VmHWM")
    except (OSError, KeyError, ValueError):  # not Linux; on Linux getrusage would start from the parent's peak
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
