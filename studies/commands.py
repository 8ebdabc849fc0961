"""Commands of the studies: the paper's experiments (class-preservation, geometry, distances) and further ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bispectral_ot.cli.console import progress_bars, say, shown_warnings
from bispectral_ot.cli.main import Program
from bispectral_ot.errors import InputError
from bispectral_ot.options import SCHEDULER_HELP
from studies.cell_bars import cell_bars

if TYPE_CHECKING:
    from studies.preset import Preset

app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Experiments of the paper, and further ones. Each saves its cells as they end and can be resumed.",
)

_CHOICES, _RUN = "Choices", "Run"

Out = Annotated[Path, typer.Option(metavar="RUN", help="Folder for the results.")]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder that has the official IDX files: nothing is downloaded.", rich_help_panel=_RUN),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Budget for features and distances, such as 12GB.",
        show_default="70 % of what is free",
        rich_help_panel=_RUN,
    ),
]
Page = Annotated[
    bool, typer.Option("--report", help="Write report.html, which opens in a browser.", rich_help_panel=_RUN)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.", rich_help_panel=_RUN)]
Replace = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier run in that folder.", rich_help_panel=_RUN)
]
Again = Annotated[
    bool,
    typer.Option("--overwrite", help="Compute again what the folder has with other choices.", rich_help_panel=_RUN),
]
Dataset = Annotated[str, typer.Option(help="A name from `datasets list`, a folder or a file; with labels.")]
Features = Annotated[
    str,
    typer.Option(
        help="Kinds of features, with commas between; also global-bispectrum, aligned.", rich_help_panel=_CHOICES
    ),
]
Components = Annotated[
    int | None,
    typer.Option(min=1, help="Reduce the features to so many principal components.", rich_help_panel=_CHOICES),
]
Metrics = Annotated[str, typer.Option(help="Metrics, with commas between.", rich_help_panel=_CHOICES)]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.", rich_help_panel=_CHOICES)]
Reg = Annotated[
    float, typer.Option(help="Regularisation, as a share of the largest distance.", rich_help_panel=_CHOICES)
]
Tol = Annotated[float, typer.Option(help="Marginal error to reach.", rich_help_panel=_CHOICES)]
Angles = Annotated[
    int | None,
    typer.Option(min=1, help="Angles K of the polar grid.", show_default="40", rich_help_panel=_CHOICES),
]
Rings = Annotated[
    int | None,
    typer.Option(min=1, help="Rings R of the polar grid.", show_default="half the image", rich_help_panel=_CHOICES),
]
Clean = Annotated[
    bool,
    typer.Option(
        "--clean",
        help="Not as the paper did: background in the corners of turned images, bilinear rings.",
        rich_help_panel=_CHOICES,
    ),
]

Scheduler = Annotated[
    str | None,
    typer.Option(help=SCHEDULER_HELP, show_default="the cores of this machine", rich_help_panel=_RUN),
]

_ALL_FEATURES = "pixels,ring-bispectrum"
_ALL_METRICS = "l1,l2,sqeuclidean,cosine"


@app.command("class-preservation")
def class_preservation(
    out: Out,
    datasets: Annotated[
        str, typer.Option(help="Names from `datasets list` or paths, with commas between.")
    ] = "mnist,kmnist,fashion-mnist",
    features: Features = _ALL_FEATURES,
    metrics: Metrics = _ALL_METRICS,
    settings: Annotated[
        str,
        typer.Option(help="rotated (the source is turned), baseline (nothing is), or both.", rich_help_panel=_CHOICES),
    ] = "rotated,baseline",
    per_class: Annotated[
        int | None,
        typer.Option(min=1, help="Images of each class in each half.", show_default="all", rich_help_panel=_CHOICES),
    ] = None,
    pca: Components = None,
    seed: Seed = 0,
    reg: Reg = 0.01,
    tol: Tol = 1e-4,
    n_angles: Angles = None,
    n_rings: Rings = None,
    clean: Clean = False,
    root: Root = None,
    working_memory: Memory = None,
    scheduler: Scheduler = None,
    overwrite: Again = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Tables 1 and 2: the share of images that are mapped to their own class.

    Each dataset is cut into two halves, the source (the paper's A) is turned
    at random and matched with the target (B); once for every kind of features
    and metric.

    Example: python -m studies class-preservation --datasets mnist --per-class 200 --out runs/small

    Cells are saved as they end. Started again with the same options, it goes
    on where it was; with other datasets, features or metrics, it adds them.

    RUN gets results.json, table1.md (rotated), table2.md (baseline), a
    confusion matrix of every cell in figures/, the cells in cells/, and
    run.json (versions, machine). With --report, report.html shows the images
    of the cells that are computed now.
    """
    from bispectral_ot.engines.cluster import connected
    from studies.class_preservation import run_class_preservation
    from studies.markdown import beside_paper

    preset = _preset(
        clean, seed=seed, per_class=per_class, pca=pca, reg=reg, tol=tol, n_angles=n_angles, n_rings=n_rings
    )

    def report(cell: dict[str, Any]) -> None:
        paper = beside_paper(cell)
        _say_cell(cell, f" (paper {paper})" if paper else "", quiet=quiet)

    with shown_warnings(), connected(scheduler) as engine, cell_bars(quiet=quiet):
        cells = run_class_preservation(
            _listed(datasets),
            out,
            features=_listed(features),
            metrics=_listed(metrics),
            settings=_listed(settings),
            preset=preset,
            root=root,
            working_memory=working_memory,
            overwrite=overwrite,
            report=report,
            client=engine,
        )
    _write_page(out, page)
    if not quiet:
        tables = [file for file in ("table1.md", "table2.md") if (out / file).is_file()]
        for file in tables:
            say((out / file).read_text(encoding="utf-8"))
        say(f"{len(cells)} cells in {out}: results.json, {', '.join(tables)}, figures/")
    if not all(cell["converged"] for cell in cells):
        raise typer.Exit(1)


@app.command()
def geometry(
    out: Out,
    dataset: Dataset = "mnist",
    per_class: Annotated[
        str,
        typer.Option(help="Images of each class; a picture for each number.", rich_help_panel=_CHOICES),
    ] = "1,10",
    step: Annotated[float, typer.Option(help="Degrees between two turns of an image.", rich_help_panel=_CHOICES)] = 9.0,
    features: Features = _ALL_FEATURES,
    metric: Annotated[str, typer.Option(help="Distance between features.", rich_help_panel=_CHOICES)] = "l2",
    seed: Seed = 8,
    n_angles: Angles = None,
    n_rings: Rings = None,
    clean: Clean = False,
    root: Root = None,
    overwrite: Replace = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Pictures of geometry: turned images laid out on a plane, by pixels and by bispectra.

    Example: python -m studies geometry --per-class 1 --out runs/geometry

    RUN gets results.json (positions, stress) and figures/geometry-1.png, ...
    """
    from studies.geometry import run_geometry

    with shown_warnings(), progress_bars(quiet=quiet):
        results = run_geometry(
            out,
            dataset=dataset,
            per_class=tuple(_integer("--per-class", word) for word in _listed(per_class)),
            step=step,
            features=_listed(features),
            metric=metric,
            preset=_preset(clean, seed=seed, n_angles=n_angles, n_rings=n_rings),
            root=root,
            overwrite=overwrite,
        )
    _write_page(out, page)
    if not quiet:
        for picture in results["pictures"]:
            say(
                f"{picture['features']}, {picture['points']:,} points: turned copies of an image are "
                f"{picture['orbit_spread']:.2f} times as far apart as images of different classes"
            )
        say(f"figures in {out / 'figures'}")


@app.command()
def distances(
    out: Out,
    dataset: Dataset = "mnist",
    per_class: Annotated[int, typer.Option(min=1, help="Images of each class.", rich_help_panel=_CHOICES)] = 10,
    step: Annotated[
        float, typer.Option(help="Degrees between two turns of an image.", rich_help_panel=_CHOICES)
    ] = 15.0,
    features: Features = _ALL_FEATURES,
    metrics: Metrics = _ALL_METRICS,
    seed: Seed = 8,
    n_angles: Angles = None,
    n_rings: Rings = None,
    clean: Clean = False,
    root: Root = None,
    overwrite: Replace = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Heat maps of the mean distance between classes, and between the angles of each class.

    Example: python -m studies distances --out runs/distances

    RUN gets results.json, and for each kind of features and metric
    figures/classes-*.png and figures/angles-*.png.
    """
    from studies.distances import run_distances

    with shown_warnings(), progress_bars(quiet=quiet):
        results = run_distances(
            out,
            dataset=dataset,
            per_class=per_class,
            step=step,
            features=_listed(features),
            metrics=_listed(metrics),
            preset=_preset(clean, seed=seed, n_angles=n_angles, n_rings=n_rings),
            root=root,
            overwrite=overwrite,
        )
    _write_page(out, page)
    if not quiet:
        say(f"{2 * len(results['maps'])} figures in {out / 'figures'}")


@app.command()
def ablation(
    out: Out,
    dataset: Dataset = "mnist",
    questions: Annotated[
        str | None,
        typer.Option(
            help="size, angles, rings, radial-weight, reg, tol, seeds, choices, invariants, "
            "radius, floor, solvers, rules.",
            show_default="all",
            rich_help_panel=_CHOICES,
        ),
    ] = None,
    per_class: Annotated[
        int, typer.Option(min=1, help="Images of each class in each half.", rich_help_panel=_CHOICES)
    ] = 1000,
    seed: Seed = 0,
    root: Root = None,
    working_memory: Memory = None,
    scheduler: Scheduler = None,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Vary one choice at a time: a table for each question that a reader of the paper will ask.

    Example: python -m studies ablation --questions reg,seeds --per-class 200 --out runs/questions

    Experiments are saved as they end; started again, it goes on where it was.
    RUN gets a table (.md) and its cells (.json) for each question, and run.json.
    """
    from bispectral_ot.engines.cluster import connected
    from studies.ablation import run_ablation

    with shown_warnings(), connected(scheduler) as engine, cell_bars(quiet=quiet):
        answers = run_ablation(
            out,
            dataset=dataset,
            questions=None if questions is None else _listed(questions),
            preset=_preset(False, seed=seed, per_class=per_class),
            root=root,
            working_memory=working_memory,
            report=lambda cell: _say_cell(cell, f" ({cell['variant']})", quiet=quiet),
            client=engine,
        )
    _write_page(out, page)
    if not quiet:
        for name in answers:
            say((out / f"{name}.md").read_text(encoding="utf-8"))


@app.command()
def symmetries(
    out: Out,
    dataset: Annotated[
        str | None,
        typer.Option(help="Square images with labels.", show_default="mnist where it is at hand, else mnist-5k"),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="d4, so3, so3-shapes, with commas between.", show_default="all", rich_help_panel=_CHOICES),
    ] = None,
    metrics: Metrics = _ALL_METRICS,
    per_class: Annotated[
        int, typer.Option(min=1, help="Images of each class in each half.", rich_help_panel=_CHOICES)
    ] = 200,
    shapes: Annotated[
        int, typer.Option(min=1, help="Synthetic shapes of each class in each half.", rich_help_panel=_CHOICES)
    ] = 60,
    seed: Seed = 0,
    root: Root = None,
    scheduler: Scheduler = None,
    overwrite: Again = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Class preservation under quarter turns and mirrors, on the sphere, and of 3-D shapes.

    d4: images under random quarter turns and mirrors. so3: images put on the
    sphere and turned at random in 3-D. so3-shapes: point clouds of synthetic
    solids, turned at random in 3-D. Raw signals are compared with bispectra.

    Example: python -m studies symmetries --out runs/symmetries

    Cells are saved as they end; started again, it goes on where it was.
    RUN gets results.json, table.md, run.json, and the cells in cells/.
    """
    from bispectral_ot.engines.cluster import connected
    from studies.symmetries import run_symmetries

    with shown_warnings(), connected(scheduler) as engine, cell_bars(quiet=quiet):
        cells = run_symmetries(
            out,
            dataset=dataset,
            symmetries=None if only is None else _listed(only),
            metrics=_listed(metrics),
            per_class=per_class,
            shapes_per_class=shapes,
            seed=seed,
            root=root,
            overwrite=overwrite,
            report=lambda cell: _say_cell(cell, f" ({cell['config']['symmetry']})", quiet=quiet),
            client=engine,
        )
    _write_page(out, page)
    if not quiet:
        say((out / "table.md").read_text(encoding="utf-8"))
    if not all(cell["converged"] for cell in cells):
        raise typer.Exit(1)


@app.command()
def poses(
    out: Out,
    datasets: Annotated[
        str, typer.Option(help="Names from `datasets list` or folders of upright images, with commas between.")
    ] = "mnist,fashion-mnist",
    limit: Annotated[int, typer.Option(min=10, help="Images of each half at most.", rich_help_panel=_CHOICES)] = 2000,
    skip: Annotated[
        int,
        typer.Option(min=0, help="Leave out so many images at the start of each named set.", rich_help_panel=_CHOICES),
    ] = 0,
    resize: Annotated[
        int, typer.Option(min=2, help="Side that the images of folders are brought to.", rich_help_panel=_CHOICES)
    ] = 64,
    voters: Annotated[int, typer.Option(min=1, help="Targets that vote on a pose.", rich_help_panel=_CHOICES)] = 10,
    seed: Seed = 0,
    root: Root = None,
    scheduler: Scheduler = None,
    overwrite: Replace = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """How well turns are found: one half turned by known angles, the other upright.

    Compared are the vote of the best targets, the best target alone, the
    principal axis, and phase correlation with the class mean (scikit-image).

    Example: python -m studies poses --datasets mnist,parts/ --out runs/poses

    RUN gets results.json, table.md, certainty.md (scores and intervals),
    voters.md, images.md, classes-<set>.md, run.json, and figures.
    """
    from bispectral_ot.engines.cluster import connected
    from studies.poses import run_poses

    with shown_warnings(), connected(scheduler) as engine, progress_bars(quiet=quiet):
        run_poses(
            out,
            _listed(datasets),
            limit=limit,
            skip=skip,
            resize=resize,
            voters=voters,
            seed=seed,
            root=root,
            overwrite=overwrite,
            client=engine,
        )
    _write_page(out, page)
    if not quiet:
        for name in ("table", "certainty"):
            say((out / f"{name}.md").read_text(encoding="utf-8"))


@app.command()
def shares(
    out: Out,
    datasets: Annotated[
        str, typer.Option(help="Names from `datasets list` or folders of labelled images, with commas between.")
    ] = "mnist,fashion-mnist",
    features: Features = "global-bispectrum",
    per_class: Annotated[
        int, typer.Option(min=2, help="Images of each class in each half, before the cut.", rich_help_panel=_CHOICES)
    ] = 200,
    seeds: Annotated[int, typer.Option(min=1, help="Splits to average over.", rich_help_panel=_CHOICES)] = 5,
    rates: Annotated[
        str, typer.Option(help="Skews: class c keeps rate^c of its images.", rich_help_panel=_CHOICES)
    ] = "0.95,0.9,0.8,0.7,0.5",
    strangers: Annotated[
        bool,
        typer.Option("--strangers", help="Look for images of each set among the others.", rich_help_panel=_CHOICES),
    ] = False,
    first: Annotated[
        int | None, typer.Option(min=8, help="Use the first images of each set only.", rich_help_panel=_CHOICES)
    ] = None,
    resize: Annotated[
        int, typer.Option(min=2, help="Side that images of folders are brought to, in grey.", rich_help_panel=_CHOICES)
    ] = 64,
    root: Root = None,
    overwrite: Again = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Sets with their classes in different shares: transport against nearest neighbours.

    One half is turned at random, then classes are cut: none; of the target; of
    both sides, opposite ways; half of the classes in the source. Compared are
    one and five nearest neighbours, and plans that are balanced, relaxed, with
    estimated shares (the default where the target has labels), and with the
    true ones.

    Example: python -m studies shares --datasets mnist,parts/ --seeds 3 --out runs/shares

    RUN gets a cell for each set, features and seed, results.json, table.md,
    sweep.md (by strength of the skew), shares.md (errors and intervals of the
    estimates), passes.md, unmatched.md (what has no counterpart), and figures.
    """
    from studies.shares import run_shares

    skews = [_share(word) for word in _listed(rates)]
    with shown_warnings(), progress_bars(quiet=quiet):
        run_shares(
            out,
            _listed(datasets),
            features=_listed(features),
            per_class=per_class,
            seeds=seeds,
            rates=skews,
            strangers=strangers,
            first=first,
            resize=resize,
            root=root,
            overwrite=overwrite,
        )
    _write_page(out, page)
    if not quiet:
        say((out / "table.md").read_text(encoding="utf-8"))


def _share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise InputError(f"a rate is a number between 0 and 1, got {word!r}.")
    return share


@app.command("compare")
def compare(
    out: Out,
    parts: Annotated[
        str, typer.Option(help="What to measure, with commas between; parts of one folder may be run one by one.")
    ] = "distances,sets,labels,sizes,rates",
    datasets: Annotated[
        str, typer.Option(help="Names from `datasets list` or paths, with commas between.")
    ] = "mnist,fashion-mnist",
    features: Features = "global-bispectrum,pixels,ring-bispectrum",
    images: Annotated[int, typer.Option(min=4, help="Images of each half or set.", rich_help_panel=_CHOICES)] = 2000,
    sizes: Annotated[
        str, typer.Option(help="Images of each half, for the dependence on size.", rich_help_panel=_CHOICES)
    ] = "250,500,1000,2000",
    regs: Annotated[
        str, typer.Option(help="Regularisations of the distances of halves.", rich_help_panel=_CHOICES)
    ] = "0.05,0.13,0.3",
    test_images: Annotated[
        int, typer.Option(min=4, help="Images of each side of a test.", rich_help_panel=_CHOICES)
    ] = 100,
    repeats: Annotated[int, typer.Option(min=2, help="Tests of each kind.", rich_help_panel=_CHOICES)] = 200,
    skip: Annotated[
        int, typer.Option(min=0, help="Leave out the first images of each set.", rich_help_panel=_CHOICES)
    ] = 0,
    seed: Seed = 0,
    root: Root = None,
    scheduler: Scheduler = None,
    overwrite: Again = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Distances between sets: what they see, what size does to them, and how often tests are right.

    Example: python -m studies compare --images 500 --repeats 50 --out runs/compare

    Example: python -m studies compare --parts sets --images 10000 --datasets mnist,kmnist --out runs/compare

    Cells are saved as they end; started again, it goes on where it was.
    RUN gets a table and a JSON file for each part, run.json, and the cells in cells/.
    """
    from bispectral_ot.engines.cluster import connected
    from studies.comparison import run_comparison

    with shown_warnings(), connected(scheduler) as engine, cell_bars(quiet=quiet):
        found = run_comparison(
            out,
            parts=_listed(parts),
            datasets=_listed(datasets),
            features=_listed(features),
            images=images,
            sizes=[_integer("--sizes", word) for word in _listed(sizes)],
            regs=[_number("--regs", word) for word in _listed(regs)],
            test_images=test_images,
            repeats=repeats,
            skip=skip,
            seed=seed,
            root=root,
            overwrite=overwrite,
            client=engine,
        )
    _write_page(out, page)
    if not quiet:
        for part in found:
            say((out / f"{part}.md").read_text(encoding="utf-8"))


@app.command("symmetry-levels")
def symmetry_levels(
    out: Out,
    datasets: Annotated[
        str, typer.Option(help="Names from `datasets list` or folders, with commas between.")
    ] = "mnist,fashion-mnist",
    images: Annotated[int, typer.Option(min=120, help="Images that the tests of a cell are drawn from.")] = 4000,
    skip: Annotated[int, typer.Option(min=0, help="Leave out the first images of each set.")] = 0,
    root: Root = None,
    quiet: Quiet = False,
) -> None:
    """Levels of the symmetry test for turned images, by set, size, interpolation and fill.

    Example: python -m studies symmetry-levels --datasets mnist --out runs/levels
    """
    from studies.symmetry_levels import run_symmetry_levels

    with shown_warnings(), cell_bars(quiet=quiet):
        run_symmetry_levels(out, datasets=_listed(datasets), images=images, skip=skip, root=root)
    if not quiet:
        say((out / "levels.md").read_text(encoding="utf-8"))


@app.command()
def real(
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Folders of images, with a folder for each class.")
    ],
    out: Out,
    features: Annotated[
        str,
        typer.Option(
            help="Kinds of features, with commas between; also default, default-translation and lbp.",
            rich_help_panel=_CHOICES,
        ),
    ] = "pixels,ring-bispectrum,global-bispectrum,aligned,lbp,local-bispectrum,default,default-translation",
    conditions: Annotated[
        str, typer.Option(help="Of turned, upright and shifted, with commas between.", rich_help_panel=_CHOICES)
    ] = "turned,upright,shifted",
    sizes: Annotated[str, typer.Option(help="Sides that images are brought to.", rich_help_panel=_CHOICES)] = "64",
    per_class: Annotated[
        int, typer.Option(min=1, help="Images of each class on each side at most.", rich_help_panel=_CHOICES)
    ] = 100,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of halves and turns.", rich_help_panel=_CHOICES)] = 5,
    scheduler: Scheduler = None,
    overwrite: Again = False,
    page: Page = False,
    quiet: Quiet = False,
) -> None:
    """Folders of your own: how many images get their own class, by all features and by what else one would take.

    One half of each folder is turned at random (or left upright, or shifted
    and turned) and matched with the other half, by transport and by the
    nearest target; local binary patterns (lbp, scikit-image) are the rival.

    Example: python -m studies real cells/ grains/ --seeds 2 --out runs/real

    Cells are saved as they end; started again, it goes on where it was.
    RUN gets results.json, table.md, nearest.md, run.json, figures/ and cells/.
    """
    from bispectral_ot.engines.cluster import connected
    from studies.real import run_real

    with shown_warnings(), connected(scheduler) as engine, cell_bars(quiet=quiet):
        run_real(
            out,
            folders,
            features=_listed(features),
            conditions=_listed(conditions),
            sizes=[_integer("--sizes", word) for word in _listed(sizes)],
            per_class=per_class,
            seeds=seeds,
            overwrite=overwrite,
            client=engine,
        )
    _write_page(out, page)
    if not quiet:
        for part in ("table", "nearest"):
            say((out / f"{part}.md").read_text(encoding="utf-8"))


@app.command()
def frames(
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Folders of images, with a folder for each class.")
    ],
    out: Out,
    changes: Annotated[
        str | None,
        typer.Option(
            help="Changes of the sources, with semicolons between.", show_default="all", rich_help_panel=_CHOICES
        ),
    ] = None,
    per_class: Annotated[
        int, typer.Option(min=1, help="Images of each class on each side at most.", rich_help_panel=_CHOICES)
    ] = 10,
    side: Annotated[
        int, typer.Option(min=16, help="Longer side of the images before changes.", rich_help_panel=_CHOICES)
    ] = 64,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of halves and changes.", rich_help_panel=_CHOICES)] = 1,
    overwrite: Again = False,
    quiet: Quiet = False,
) -> None:
    """Images as people export them, by every frame: enlarged canvas, shifted, scaled, cropped, compressed.

    One half of each folder is changed, written to files and matched with the
    other half, by each frame, by the one that is chosen, and up to similarity.

    Example: python -m studies frames coins/ leaves/ --out runs/frames

    Cells are saved as they end; started again, it goes on where it was.
    RUN gets results.json, table.md, nearest.md, run.json and cells/.
    """
    from studies.frames import CHANGES, run_frames

    chosen = CHANGES if changes is None else [word.strip() for word in changes.split(";")]
    with shown_warnings(), cell_bars(quiet=quiet):
        run_frames(out, folders, changes=chosen, per_class=per_class, side=side, seeds=seeds, overwrite=overwrite)
    if not quiet:
        say((out / "table.md").read_text(encoding="utf-8"))


@app.command()
def rivals(
    folders: Annotated[list[str], typer.Argument(metavar="FOLDERS...", help="Labelled folders of images, or names.")],
    *,
    out: Out,
    per_class: Annotated[int, typer.Option(min=2, help="Maximum number of images per class on each side.")] = 60,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits and rotations.")] = 2,
    network: Annotated[bool, typer.Option("--network/--no-network", help="Include the pretrained network.")] = True,
    quiet: Quiet = False,
) -> None:
    """Compare the labels of a match with those of the methods that people would use instead."""
    from studies.rivals import rivals_table, run_rivals

    with shown_warnings(), progress_bars(quiet=quiet):
        cells = run_rivals(out, folders, per_class=per_class, seeds=seeds, network=network)
    if not quiet:
        print(rivals_table(cells))


def _integer(option: str, word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise InputError(f"{option} takes integers with commas between, such as 1,10; got {word!r}.")
    return int(word)


def _number(option: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InputError(f"{option} takes numbers with commas between, such as 0.1,0.2; got {word!r}.") from None


def _write_page(out: Path, page: bool) -> None:
    if page:
        from bispectral_ot.report.page import write_report

        write_report(out)


def _say_cell(cell: dict[str, Any], beside: str, *, quiet: bool) -> None:
    if quiet:
        return
    name = " ".join(cell[key] for key in ("dataset", "setting", "features", "metric"))
    missed = "" if cell["converged"] else ", NOT CONVERGED"
    say(f"{name}: {cell['accuracy']:.4f}{beside} in {sum(cell['seconds'].values()):.0f} s{missed}")


def _preset(clean: bool, **choices: Any) -> Preset:
    from studies.preset import Preset

    preset = Preset(**choices)
    return preset.cleaned() if clean else preset


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
