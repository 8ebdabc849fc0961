"""All benchmarks by name, and a run of some of them as plain data."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from bispectral_ot.benchmarks.costs import bench_costs
from bispectral_ot.benchmarks.end_to_end import bench_end_to_end
from bispectral_ot.benchmarks.features import bench_features
from bispectral_ot.benchmarks.machine import bench_machine
from bispectral_ot.benchmarks.setting import Setting
from bispectral_ot.benchmarks.solvers import bench_solvers
from bispectral_ot.benchmarks.tables import Table
from bispectral_ot.benchmarks.timing import missing
from bispectral_ot.runs import run_record

BENCHMARKS: dict[str, Callable[[Setting], list[Table]]] = {
    "machine": bench_machine,
    "features": bench_features,
    "costs": bench_costs,
    "solvers": bench_solvers,
    "end-to-end": bench_end_to_end,
}
# package -> the module that it brings
_PEERS = {"torch": "torch", "geomloss": "geomloss", "ott-jax": "ott", "jax": "jax"}


def run_benchmarks(
    names: Iterable[str], setting: Setting, *, show: Callable[[Table], None] = lambda table: None
) -> dict[str, Any]:
    """Run benchmarks one after the other: a run record with their tables.

    Parameters
    ----------
    names
        Keys of ``BENCHMARKS``.
    setting
        Data, sizes and limits.
    show
        Called with each table as soon as it is there.
    """
    names, start = list(names), time.perf_counter()
    tables: dict[str, list[dict[str, Any]]] = {}
    seconds: dict[str, float] = {}
    for name in names:
        begin = time.perf_counter()
        results = BENCHMARKS[name](setting)
        seconds[name] = time.perf_counter() - begin
        tables[name] = [asdict(table) for table in results]
        for table in results:
            show(table)
    config = {
        "benchmarks": names,
        "sizes": asdict(setting.sizes),
        "time_box": setting.time_box,
        "dataset": setting.digits.name,
        "peers": {
            package: None if missing([module]) else importlib.metadata.version(package)
            for package, module in _PEERS.items()
        },
        "seconds": seconds,
    }
    return run_record(config, seconds=time.perf_counter() - start) | {"tables": tables}
