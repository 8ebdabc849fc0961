"""Command ``monitor``: batches of new images against a reference set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.cli.console import print_json, progress_bars, say, shown_warnings
from bispectral_ot.errors import InputError
from bispectral_ot.options import MonitorOptions, PrintOptions

ALARM = 4


def monitor(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="REFERENCE | MONITOR NEW...",
            help="With --model: the reference set. Else a monitor made by --model, and one or more new sets.",
        ),
    ],
    options: MonitorOptions,
    output: PrintOptions,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file of the monitor, an .npz.")] = None,
) -> None:
    """Watch batches of new images for changes from a reference set.

    Example: bispectral-ot monitor good/ --model good.npz --run-length 500

    Example: bispectral-ot monitor good.npz monday/ tuesday/

    MONITOR with the suffix .csv gets a row for every batch. Exit code 4: an alarm in one of the batches.
    """
    from dataclasses import asdict

    from bispectral_ot.comparing.batch_monitor import Monitor, append_results
    from bispectral_ot.datasets import load

    with shown_warnings(), progress_bars(quiet=output.quiet or output.as_json):
        if model is not None:
            if len(sets) != 1:
                raise InputError(f"one reference set is needed with --model, got {len(sets)}.")
            if model.suffix != ".npz":
                raise InputError(f"the file of a monitor ends in .npz, but --model is {model}.")
            reference = load(sets[0], resize=options.resize, grey=options.grey, seed=options.seed)
            length, allowed = options.run_length, options.allowing_for
            made = Monitor.fit(reference, run_length=length, allowing_for=allowed, seed=options.seed)
            made.save(model)
            if output.as_json:
                print_json({"model": str(model), "images": made.size, "run_length": length})
            elif not output.quiet:
                say(f"monitor of {made.size:,} images: {model}")
            return
        if len(sets) < 2:
            raise InputError("give --model FILE to make a monitor, or a monitor and at least one new set.")
        path = Path(sets[0])
        kept = Monitor.load(path)
        known, results = len(kept.calibrations), []
        height, width, *channels = kept.shape
        for given in sets[1:]:
            batch = load(given, resize=f"{height}x{width}", grey=channels in ([], [1]), seed=options.seed)
            results.append(kept.update(batch, name=given))
            append_results(path.with_suffix(".csv"), results[-1:])
        if len(kept.calibrations) > known:
            kept.save(path)
    if output.as_json:
        print_json([{**asdict(each), "alarm": each.alarm} for each in results])
    for each in () if output.as_json else results:
        if each.alarm or not output.quiet:
            state = f"ALARM {each.sentence}" if each.alarm else "no change"
            say(f"{each.batch}: {state} ({each.statistic:.3g}, threshold {each.threshold:.3g}).")
    if any(each.alarm for each in results):
        raise typer.Exit(ALARM)
