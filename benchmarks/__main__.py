"""Run benchmarks by name: ``python -m benchmarks solvers costs --quick``.

Each prints its tables and leaves them with their provenance in ``FOLDER/NAME.json``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.setting import FULL, QUICK, Setting
from benchmarks.tables import provenance_sentence
from benchmarks.timing import missing
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.files import write_json
from bispectral_ot.runs import run_record

# each is a module here with a function `measure(setting) -> Iterator[Table]`
BENCHMARKS = (
    "machine",
    "limits",
    "features",
    "costs",
    "solvers",
    "end-to-end",
    "group-features",
    "coupled-costs",
    "coupled-neighbours",
    "torch-loss",
)
# package -> the module that it brings
_PEERS = {"torch": "torch", "geomloss": "geomloss", "ott-jax": "ott", "jax": "jax"}


def run_benchmark(name: str, setting: Setting, *, command: str) -> dict[str, Any]:
    """Run one of ``BENCHMARKS``: a run record with its tables; ``command`` is what to type to have it again."""
    start, load = time.perf_counter(), os.getloadavg()[0]
    tables = []
    for table in importlib.import_module(f"benchmarks.{name.replace('-', '_')}").measure(setting):
        print(table.markdown(), flush=True)
        tables.append(asdict(table))
    config = {
        "benchmark": name,
        "command": command,
        "sizes": asdict(setting.sizes),
        "time_box": setting.time_box,
        "load": load,  # runnable processes of others at the start: timings of a busy machine are to be read as ratios
        "dataset": setting.digits.name,
        "peers": {
            package: None if missing([module]) else importlib.metadata.version(package)
            for package, module in _PEERS.items()
        },
    }
    return run_record(config, seconds=time.perf_counter() - start) | {"tables": tables}


def main(words: Sequence[str] | None = None) -> int:
    """Run what the words name; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), metavar="FOLDER", help="%(default)s")
    parser.add_argument("--quick", action="store_true", help="small sizes, fewer repeats")
    parser.add_argument("--time-box", type=float, metavar="SECONDS", help="for one solve of a peer: 40, or 5 if quick")
    parser.add_argument("--root", type=Path, metavar="DATA", help="folder with the MNIST files")
    asked = parser.parse_args(words)
    for name in asked.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    options = (" --quick" if asked.quick else "") + (f" --time-box {asked.time_box:g}" if asked.time_box else "")
    setting = Setting(
        sizes=QUICK if asked.quick else FULL,
        time_box=asked.time_box or (5.0 if asked.quick else 40.0),
        root=asked.root,
    )
    failed = False
    for name in asked.names or BENCHMARKS:
        try:
            record = run_benchmark(name, setting, command=f"python -m benchmarks {name}{options}")
        except InputError as error:
            # a set that is not on this machine is no reason to leave out what can be measured
            failed = failed or name in asked.names or not isinstance(error, DatasetError)
            print(f"{name}: {error}", file=sys.stderr)
            continue
        write_json(asked.out / f"{name}.json", record)
        print(provenance_sentence(record) + "\n", flush=True)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
