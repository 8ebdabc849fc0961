"""Command ``demo``: rotated digits matched with upright ones, in seconds and without a download."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bispectral_ot import runtime
from bispectral_ot.cli.console import print_table, say
from bispectral_ot.cli.job import Result, run_job
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.options import DemoOptions, ReportOptions

if TYPE_CHECKING:
    from bispectral_ot.engines.cluster import Dask

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
    from bispectral_ot.features import RingBispectrum
    from bispectral_ot.matching import match
    from bispectral_ot.report.run_folder import write_match

    def work(folder: Path, engine: Dask | None) -> Result:
        source, target = split_halves(load("mnist-5k"), seed=options.seed, per_class=options.per_class)
        source = rotate_randomly(source, seed=options.seed)
        found: dict[str, Any] = {}
        for name in FEATURES:
            runtime.message(f"features: {name}")
            last = name == FEATURES[-1]
            # rings as the paper samples them, half a pixel off the centre
            features = RingBispectrum(sampling="nearest") if name == "ring-bispectrum" else name
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", DataWarning)
                matched = match(source, target, features=features, marginals=None if last else "balanced")
            for each in caught:  # three matches: say which one
                warn(f"{name}: {each.message}", each.category)
            settings = {"rotate_source": True, "seed": options.seed}
            figures = output.figures and last
            found[name] = write_match(folder / name, matched, title=name, figures=figures, settings=settings)
        return Result({"features": found}, all(each["converged"] for each in found.values()), lambda: _show(found, out))

    run_job("demo", out, work, options, output)


def _show(found: dict[str, Any], out: Path) -> None:
    first = found[FEATURES[0]]
    say(f"{first['n']:,} rotated digits matched with {first['m']:,} upright ones")
    rows = []
    for name, each in found.items():
        working = sum(s for stage, s in each["seconds"].items() if stage not in ("tables", "figures", "page"))
        figures = f"{each['accuracy']:.1%}", f"{each['distance']:.4g}", f"{each['marginal_error']:.1e}"
        rows.append((name, each["settings"]["marginals"], *figures, f"{working:.1f} s"))
    best = max(range(len(rows)), key=lambda row: found[FEATURES[row]]["accuracy"])
    header = ("features", "marginals", "own class", "distance", "marginal error", "time")
    print_table(header, rows, left=header[:2], bold=best)
    say("(distances are in units of the features and cannot be compared)")
    say(f"run folder: {out}")
    for path in (Path(FEATURES[-1], "figures/matches.png"), Path("report.html")):
        if (out / path).exists():
            say(f"open: {out / path}")
    say("next: bispectral-ot match SOURCE TARGET --out RUN, with two folders of your own images")
