"""Command ``monitor``: batches of new images against a reference set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bispectral_ot.cli.console import progress_bars, say, shown_warnings
from bispectral_ot.errors import InputError

ALARM = 4
Change = Literal[
    "nothing", "intensity", "sharpness", "mirrors", "quarter turns", "rotation", "translation", "scale", "all of these"
]


def monitor(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="REFERENCE | MONITOR NEW...",
            help="With --model: the reference set. Else a monitor made by --model, and one or more new sets.",
        ),
    ],
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file of the monitor, an .npz.")] = None,
    run_length: Annotated[int, typer.Option(min=2, help="Expected number of batches between false alarms.")] = 200,
    allowing_for: Annotated[Change, typer.Option(help="Change that does not raise an alarm.")] = "nothing",
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file with a row for every batch.", show_default="MONITOR with .csv"),
    ] = None,
    resize: Annotated[str | None, typer.Option(help="Size of the reference images, such as 32 or 32x48.")] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Convert colour images to grey.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings, alarms and errors only.")] = False,
) -> None:
    """Watch batches of new images for changes from a reference set.

    Example: bispectral-ot monitor good/ --model good.npz --run-length 500

    Example: bispectral-ot monitor good.npz monday/ tuesday/

    Exit code 4: an alarm in one of the batches.
    """
    from dataclasses import asdict

    from bispectral_ot.comparing.batch_monitor import Monitor, append_results
    from bispectral_ot.datasets import load
    from bispectral_ot.files import to_json

    with shown_warnings(), progress_bars(quiet=quiet or as_json):
        if model is not None:
            if len(sets) != 1:
                raise InputError(f"one reference set is needed with --model, got {len(sets)}.")
            if model.suffix != ".npz":
                raise InputError(f"the file of a monitor ends in .npz, but --model is {model}.")
            reference = load(sets[0], resize=resize, grey=grey, seed=seed)
            made = Monitor.fit(reference, run_length=run_length, allowing_for=allowing_for, seed=seed)
            made.save(model)
            if as_json:
                typer.echo(to_json({"model": str(model), "images": made.size, "run_length": run_length}))
            elif not quiet:
                say(f"monitor of {made.size:,} images: {model}")
            return
        if len(sets) < 2:
            raise InputError("give --model FILE to make a monitor, or a monitor and at least one new set.")
        path = Path(sets[0])
        kept = Monitor.load(path)
        known, results = len(kept.calibrations), []
        height, width, *channels = kept.shape
        for given in sets[1:]:
            batch = load(given, resize=f"{height}x{width}", grey=channels in ([], [1]), seed=seed)
            results.append(kept.update(batch, name=given))
            append_results(log or path.with_suffix(".csv"), results[-1:])
        if len(kept.calibrations) > known:
            kept.save(path)
    if as_json:
        typer.echo(to_json([{**asdict(each), "alarm": each.alarm} for each in results]))
    for each in () if as_json else results:
        if each.alarm or not quiet:
            state = f"ALARM {each.sentence}" if each.alarm else "no change"
            say(f"{each.batch}: {state} ({each.statistic:.3g}, threshold {each.threshold:.3g}).")
    if any(each.alarm for each in results):
        raise typer.Exit(ALARM)
