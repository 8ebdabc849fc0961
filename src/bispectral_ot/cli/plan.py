"""Estimated memory and time of a match, from file headers and a small trial."""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING

from bispectral_ot import runtime
from bispectral_ot.cli.console import print_facts, print_json, progress_bars, say, shown_warnings
from bispectral_ot.cli.reading import list_pair, read_pair
from bispectral_ot.memory import format_bytes
from bispectral_ot.sampling import evenly_spaced

if TYPE_CHECKING:
    from bispectral_ot.cli.match_command import MatchTask

# Images of each set in the trial, whose first match only compiles what is not compiled yet.
_TRIALS = 50, 500
# Stages whose time grows with the number of images; that of others grows with the number of pairs.
_PER_IMAGE = ("load", "features", "outliers", "proportions")


def print_plan(task: MatchTask) -> None:
    """Print images of both sets, their size, features, storage of the distances, memory and time; write nothing."""
    with shown_warnings(), progress_bars(quiet=task.output.quiet):
        plan = plan_match(task)
    if task.output.as_json:
        print_json(plan)
        return
    disk = f", and {format_bytes(float(plan['disk_bytes']))} of disk for features" if plan["disk_bytes"] else ""
    seconds = float(plan["seconds"])
    time = f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} min"
    print_facts(
        {
            "images": f"{plan['source']:,} sources, {plan['target']:,} targets, compared at {plan['compared_at']}",
            "features": f"{plan['features']}, {plan['columns']:,} columns",
            "distances": f"stored as {plan['storage']}",
            "memory": f"about {format_bytes(float(plan['memory_bytes']))}{disk}",
            "time": f"about {time}, and 3 to 10 s for tables and figures",
        }
    )
    say("nothing was written; leave --dry-run out to match")


def plan_match(task: MatchTask) -> dict[str, str | int | float]:
    """Sizes, storage, bytes and seconds of the match."""
    from bispectral_ot.costs.storage import plan_storage, storage_bytes

    listings, positions = list_pair(task.source, task.target, task.reading, task.options)
    shape = len(positions[0]), len(positions[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the few images of the trial
        for most in _TRIALS:
            start = time.perf_counter()
            some = [each[evenly_spaced(len(each), most)] for each in positions]
            source, target, _ = read_pair((listings, some), task.reading, task.options)
            loading = time.perf_counter() - start
            found = task.solve(source, target)
    tried = len(source), len(target)
    seconds = 0.0
    for stage, spent in ({"load": loading} | found.seconds).items():
        size = sum if stage in _PER_IMAGE else math.prod
        seconds += spent * size(shape) / size(tried)
    columns = int(found.settings["columns"])
    feature_bytes = 4 * columns * sum(shape)
    solver_bytes = task.solver.extra_bytes(shape)
    needs = {"feature_bytes": feature_bytes, "solver_bytes": solver_bytes, "block_rows": 512}
    with runtime.running(memory=task.machine.working_memory):
        chosen = plan_storage(shape, **needs, may_map=True)  # type: ignore[arg-type]
    work = storage_bytes(shape, feature_bytes=0 if chosen.mapped_features else feature_bytes)[chosen.storage]
    images = sum(side.images[0].nbytes * count for side, count in zip((source, target), shape, strict=True))
    return {
        "source": shape[0],
        "target": shape[1],
        "compared_at": source.size_in_words,
        "features": str(found.settings["features"]),
        "columns": columns,
        "storage": chosen.storage,
        "memory_bytes": images + work + solver_bytes,
        "disk_bytes": feature_bytes if chosen.mapped_features else 0,
        "seconds": seconds,
    }
