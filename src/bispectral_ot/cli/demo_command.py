"""Command ``demo``: rotated digits matched with upright ones, in seconds and without a download."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bispectral_ot import runtime
from bispectral_ot.cli.console import output as screen
from bispectral_ot.cli.console import print_table, say
from bispectral_ot.cli.job import Result, run_job
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.options import DemoOptions, ReportOptions

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.engines.cluster import Dask
    from bispectral_ot.matching import Match

# Named one by one, so that the table stays the same whatever the default features become.
FEATURES = ("pixels", "ring-bispectrum", "bispectrum")


def demo(
    options: DemoOptions,
    output: ReportOptions,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Output folder.")] = Path("runs/demo"),
) -> None:
    """Match 2,500 rotated MNIST digits with 2,500 upright ones, by three kinds of features.

    Pixels are not rotation invariant; ring bispectra (as in the paper) and the
    default bispectrum are. The first two keep the target marginal fixed, as the
    paper does; the last estimates class proportions, as `match` does. The table
    shows how many digits are mapped to their own class; the run folder has the figures.

    Example: bispectral-ot demo --out runs/demo
    """
    from bispectral_ot.datasets import load, rotate_randomly, split_halves
    from bispectral_ot.report.run_folder import write_match

    def work(folder: Path, engine: Dask | None) -> Result:
        source, target = split_halves(load("mnist-5k"), seed=options.seed, per_class=options.per_class)
        source = rotate_randomly(source, seed=options.seed)
        found: dict[str, Any] = {}
        settings = {"rotate_source": True, "seed": options.seed}
        for name in FEATURES:
            runtime.message(f"features: {name}")
            drawn, match = output.figures and name == FEATURES[-1], _matched(name, source, target)
            found[name] = write_match(folder / name, match, title=name, figures=drawn, settings=settings)
        converged = all(each["converged"] for each in found.values())
        return Result({"features": found}, converged, lambda: _show(found, out))

    run_job("demo", out, work, options, output)


def _matched(name: str, source: Dataset, target: Dataset) -> Match:
    from bispectral_ot.features import RingBispectrum
    from bispectral_ot.matching import match

    # rings as the paper samples them, half a pixel off the centre
    features = RingBispectrum(sampling="nearest") if name == "ring-bispectrum" else name
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        found = match(source, target, features=features, marginals=None if name == FEATURES[-1] else "balanced")
    for each in caught:  # three matches: say which one
        warn(f"{name}: {each.message}", each.category)
    return found


def _show(found: dict[str, Any], out: Path) -> None:
    first = found[FEATURES[0]]
    screen.print(f"\n[bold]{first['n']:,} rotated digits matched with {first['m']:,} upright ones[/]\n")
    rows = []
    for name, each in found.items():
        working = sum(s for stage, s in each["seconds"].items() if stage not in ("tables", "figures", "page"))
        figures = f"{each['accuracy']:.1%}", f"{each['distance']:.4g}", f"{each['marginal_error']:.1e}"
        rows.append((name, each["settings"]["marginals"], *figures, f"{working:.1f} s"))
    best = max(range(len(rows)), key=lambda row: found[FEATURES[row]]["accuracy"])
    header = ("features", "marginals", "own class", "distance", "marginal error", "time")
    print_table(header, rows, left=header[:2], bold=best)
    screen.print("\n[dim](distances are in units of the features and cannot be compared)[/]\n")
    say(f"run folder: {out}")
    for path in (Path(FEATURES[-1], "figures/matches.png"), Path("report.html")):
        if (out / path).exists():
            say(f"open: {out / path}")
    say("next: bispectral-ot match SOURCE TARGET --out RUN, with two folders of your own images")
