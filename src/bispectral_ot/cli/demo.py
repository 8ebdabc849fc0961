"""The verb ``demo``: the main job on real digits, in seconds and without a download."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from bispectral_ot.choices import Marginals
from bispectral_ot.cli.console import output, progress_bars, say, shown_warnings

if TYPE_CHECKING:
    from bispectral_ot.progress import Progress

# Named one by one, so that the comparison stays what it says whatever the default features become.
FEATURES = ("pixels", "ring-bispectrum", "combined-bispectrum")


def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")] = Path("runs/demo"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in that folder.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the split, the angles and the examples shown.")] = 0,
    per_class: Annotated[int, typer.Option(min=1, max=250, help="Digits of each class on each side.")] = 250,
    report: Annotated[bool, typer.Option("--report", help="Write report.html, which opens in a browser.")] = False,
) -> None:
    """Turn half of 5,000 MNIST digits at random and match them with the other half, in three ways.

    Pixels compare what is where; bispectra do not see the turn, ring by ring
    (as the paper has them) or whole and pixel by pixel. The first two hold the
    shares of the classes, as the paper does; the last estimates them, as
    `match` does. The table shows how many digits each of them maps to their
    own class; the run folder has the figures.

    Example: bispectral-ot demo --out runs/demo
    """
    from bispectral_ot.files import write_json
    from bispectral_ot.runs import new_run, run_record

    start = time.perf_counter()
    config = {"verb": "demo", "dataset": "mnist-5k", "seed": seed, "per_class": per_class}
    with (
        shown_warnings() as told,
        new_run(out, verb="demo", overwrite=overwrite) as folder,
        progress_bars() as progress,
    ):
        found = _compare(folder, seed=seed, per_class=per_class, progress=progress)
        write_json(folder / "results.json", {"features": found, "warnings": told})
        write_json(folder / "run.json", run_record(config, seconds=time.perf_counter() - start))
        if report:
            from bispectral_ot.report.html import write_report

            write_report(folder)
    _print(found, out)
    if report:
        say(f"in a browser {out / 'report.html'}")
    if not all(result["converged"] for result in found.values()):
        raise typer.Exit(1)


def _compare(folder: Path, *, seed: int, per_class: int, progress: Progress) -> dict[str, dict[str, Any]]:
    """Match with each kind of features; write a folder for each and the overview."""
    from bispectral_ot.datasets import load, rotate_randomly, split_halves
    from bispectral_ot.invariants import RingBispectrum
    from bispectral_ot.matching import match
    from bispectral_ot.report.match_folder import write_match
    from bispectral_ot.report.overview import overview_figure
    from bispectral_ot.report.style import save
    from bispectral_ot.report.tables import Side, class_table

    progress("read the digits", 0, 1)
    digits = load("mnist-5k")
    progress("read the digits", 1, 1)
    source, target = split_halves(digits, seed=seed, per_class=per_class)
    source = rotate_randomly(source, seed=seed)
    found, outcomes = {}, {}
    for name in FEATURES:

        def named_progress(stage: str, done: int, total: int, name: str = name) -> None:
            progress(f"{name}: {stage}", done, total)

        # rings as the paper samples them, half a pixel off the centre: the table is a comparison with it
        features = RingBispectrum(sampling="nearest") if name == "ring-bispectrum" else name
        # the rows to compare with hold the shares of the target, as the paper does; the last is what a match does
        marginals: Marginals | None = None if name == FEATURES[-1] else "balanced"
        outcome = match(source, target, features=features, marginals=marginals, progress=named_progress)
        table = class_table(outcome, source, target)
        assert table is not None
        outcomes[name] = (outcome, table)
        found[name] = write_match(
            folder / name,
            outcome,
            Side.whole(source),
            Side.whole(target),
            table=table,
            title=name,
            settings={"rotate_source": True, "seed": seed},
            progress=named_progress,
        )
    save(overview_figure(outcomes, source, target, seed=seed), folder / "figures" / "overview.png")
    return found


def _print(found: dict[str, dict[str, Any]], out: Path) -> None:
    first = next(iter(found.values()))
    output.print(f"\n[bold]{first['n']:,} turned digits matched with {first['m']:,} upright ones[/]\n")
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("features")
    table.add_column("shares")
    for title in ("keep class", "distance", "marginal error", "time"):
        table.add_column(title, justify="right")
    best = max(result["accuracy"] for result in found.values())
    for name, result in found.items():
        working = sum(s for stage, s in result["seconds"].items() if stage not in ("tables", "figures", "page"))
        table.add_row(
            name,
            result["settings"]["marginals"],
            f"{result['accuracy']:.1%}",
            f"{result['distance']:.4g}",
            f"{result['marginal_error']:.1e}",
            f"{working:.1f} s",
            style="bold green" if result["accuracy"] == best else "",
        )
    output.print(table)
    output.print("\n[dim](distances are in the units of the features, so they cannot be compared)[/]\n")
    say(f"run folder   {out}")
    say(f"look at      {out / 'figures' / 'overview.png'}")
    say(f"             {out / FEATURES[-1] / 'figures' / 'matches.png'}")
    say("then try     bispectral-ot match SOURCE TARGET --out RUN   with two folders of images of your own")
