"""What a match would do, need and take, from its files' heads and a trial with some of the images."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from bispectral_ot.cli.console import output
from bispectral_ot.memory import format_bytes

if TYPE_CHECKING:
    from bispectral_ot.progress import Progress

_TRIALS = 200, 600  # images of each side; two, so that what a stage takes whatever its size is not scaled up
# Stages whose time grows with the images; that of others grows with the pairs.
_PER_IMAGE = ("load", "features", "novelty", "shares")


def plan_match(config: dict[str, Any], options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Sizes, storage, bytes and seconds of the match that the options ask for; nothing is written."""
    from bispectral_ot.cli.match import list_sides, prepare_sides
    from bispectral_ot.costs.storage import plan_storage, storage_bytes
    from bispectral_ot.datasets.together import read_together
    from bispectral_ot.matching import match
    from bispectral_ot.spaces.projection import SAMPLE

    listings, positions, reading = list_sides(config, progress)
    shape = len(positions[0]), len(positions[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the trial's few images
        trials = []
        for most in (_TRIALS[0], *_TRIALS):  # the first one compiles what is not compiled yet
            start = time.perf_counter()
            some = [places[spread(len(places), most)] for places in positions]
            sides = prepare_sides(config, read_together(listings, some, progress=progress, **reading), progress)
            load = time.perf_counter() - start
            found = match(*sides, **options, progress=progress)
            trials.append(([len(side) for side in sides], {"load": load, **found.seconds}))
    seconds = {stage: extrapolate(stage, trials[1:], shape) for stage in trials[-1][1]}
    beyond = sum(shape) - SAMPLE
    if beyond > 0 and found.feature_map is not None:  # transformers are fitted to no more than a sample
        start = time.perf_counter()
        found.feature_map(sides[0].images)
        each = (time.perf_counter() - start) / len(sides[0])
        seconds["features"] = extrapolate("features", trials[1:], (SAMPLE,)) + each * beyond
    columns = int(found.settings["columns"])
    feature_bytes = 4 * columns * sum(shape)
    asked = {name: options[name] for name in ("working_memory", "storage")}
    solver_bytes = options["solver"].extra_bytes(shape)
    chosen = plan_storage(
        shape, feature_bytes=feature_bytes, may_map=True, solver_bytes=solver_bytes, block_rows=512, **asked
    )
    work = storage_bytes(shape, feature_bytes=0 if chosen.mapped_features else feature_bytes)[chosen.storage]
    images = sum(side.images[0].nbytes * count for side, count in zip(sides, shape, strict=True))
    return {
        "source": f"{listings[0].name}: {shape[0]:,} images",
        "target": f"{listings[1].name}: {shape[1]:,} images",
        "compared_at": sides[0].size_in_words,
        "features": f"{found.settings['features']}, {columns:,} columns",
        "storage": chosen.storage,
        "memory_bytes": images + work + solver_bytes,
        "disk_bytes": feature_bytes if chosen.mapped_features else 0,
        "seconds": seconds,
    }


def extrapolate(stage: str, trials: Sequence[tuple[Sequence[int], dict[str, float]]], shape: Sequence[int]) -> float:
    """Seconds of a stage for a match of this shape, on a line through two trials (their shape and seconds)."""
    size = sum if stage in _PER_IMAGE else math.prod
    (few, before), (some, after) = ((size(each), seconds.get(stage, 0.0)) for each, seconds in trials)
    slope = max(0.0, (after - before) / (some - few)) if some > few else after / some
    return after + slope * (size(shape) - some)


def spread(count: int, most: int) -> Any:
    """Positions of a trial, spread evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def print_plan(plan: dict[str, Any]) -> None:
    """Print the plan, and that nothing was done."""
    seconds = plan["seconds"]
    stages = ", ".join(f"{stage} {_about(spent)}" for stage, spent in seconds.items() if spent >= 1)
    facts = {
        **{name: plan[name] for name in ("source", "target")},
        "compared at": plan["compared_at"],
        "features": plan["features"],
        "distances": f"kept as {plan['storage']}",
        "memory": f"about {format_bytes(plan['memory_bytes'])}"
        + (f", and {format_bytes(plan['disk_bytes'])} of disk for features" if plan["disk_bytes"] else ""),
        "time": f"about {_about(sum(seconds.values()))}{stages and f' ({stages})'}, "
        "and 3 to 10 s for tables and figures",
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        table.add_row(name, Text(text))
    output.print(table)
    output.print("nothing was written; leave --dry-run out to match")


def _about(seconds: float) -> str:
    """Seconds to one figure or two, as an estimate deserves."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
