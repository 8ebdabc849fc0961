"""Commands ``match``, ``upright`` (rotate to the pose of the matches), ``predict`` (new images) and ``demo``."""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bispectral_ot import options as opt
from bispectral_ot import runtime
from bispectral_ot.cli import STARTED
from bispectral_ot.cli.command import OUT_HELP, NewRun
from bispectral_ot.cli.console import count_of, print_facts, print_json, print_table, progress_bars, say, shown_warnings
from bispectral_ot.cli.job import SET_HELP, Listed, Result, check_features, list_sets, read_listed, run_job
from bispectral_ot.errors import warn
from bispectral_ot.memory import format_bytes

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.matching import Match
    from bispectral_ot.poses import Poses
    from bispectral_ot.transport import Solver

_NEW_HELP = "New images: a folder, a file or a name; vectors if the match was of vectors."
_MARGINALS = {
    **{"balanced": "balanced: target marginal fixed", "relaxed": "relaxed: target marginal unconstrained"},
    "estimated": "estimated class proportions",
}
# Features of the demo by name, so that its table does not change with the defaults.
_DEMO = ("pixels", "ring-bispectrum", "bispectrum")
_FITTED = 1024  # images of both sets above which the fit of the default features takes no longer
_LONG_TRIAL = 5.0  # seconds of a trial of --dry-run after which there is no larger one


def match(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{SET_HELP}. Labels are optional.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Dataset to match it with, in the same form.")],
    options: opt.MatchOptions,
    reading: opt.PairOptions,
    machine: opt.RuntimeOptions,
    output: opt.MatchOutputOptions,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help=f"{OUT_HELP} Required, unless --dry-run.")] = None,
) -> None:
    """Match the images of SOURCE with those of TARGET by content.

    Example: bispectral-ot match rotated-photos/ catalogue/ --out runs/first

    Example: bispectral-ot match mnist-5k mnist-5k --split-halves --rotate-source --limit 900 --out runs/trial

    Example: bispectral-ot match photos/ catalogue/ --features photos.npy,catalogue.npy --out runs/embedded

    Example: bispectral-ot match --config runs/first/run.json --out runs/again

    RUN contains labels.csv (label, probability, runner-up and outlier score of each source; labels of the targets if
    only SOURCE has labels), matches.csv (best targets of each source), outliers.csv, confusion.csv (if both sets have
    labels), poses.csv (with --poses), results.json, run.json, model.npz (for `predict`) and figures.

    With --scheduler, the same command resumes an interrupted solve from RUN.solve.npz.
    """
    if out is None and not output.dry_run:
        raise typer.BadParameter("missing; name a new folder for the results", param_hint="--out")
    out = out or Path("dry-run")
    task = MatchTask(source, target, out, options, reading, machine, output)
    check_features(options, reading, poses=output.poses)
    if reading.corrections is not None:
        from bispectral_ot.matching.corrections import correction_rows

        correction_rows(reading.corrections)  # before images are read
    if output.dry_run:
        task.print_plan()
    else:
        state = Path(f"{out}.solve.npz")
        run_job("match", out, task.work, options, reading, machine, output, scratch=state, source=source, target=target)


def upright(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Images to rotate: a folder, a file or a name.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Upright images of the same classes.")],
    out: NewRun,
    options: opt.UprightOptions,
    reading: opt.ImageOptions,
    machine: opt.RuntimeOptions,
    output: opt.ReportOptions,
) -> None:
    """Rotate the images of SOURCE to the pose of their matches in TARGET.

    Example: bispectral-ot upright scans/ samples/ --out runs/upright

    Example: bispectral-ot upright parts/ catalogue/ --fill 255 --expand --out runs/parts

    RUN contains the files of `match`, poses.csv (angle in degrees, counter-clockwise; score: probability that it is
    within 30 degrees of the true pose; half-width of a 90% interval), upright/ (the original files, rotated once at
    full resolution) and ambiguous/ (unchanged files with an ambiguous pose). For arrays: upright.npz.
    """
    matching = opt.MatchOptions(symmetry=options.symmetry, features=options.features)
    writing, pair = opt.MatchOutputOptions(**vars(output), poses=True), opt.PairOptions(**vars(reading))
    task = MatchTask(source, target, out, matching, pair, machine, writing, options)
    check_features(matching, reading, poses=True)
    state = Path(f"{out}.solve.npz")
    run_job("upright", out, task.work, options, reading, machine, output, scratch=state, source=source, target=target)


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a match, with its model.npz.")],
    images: Annotated[str, typer.Argument(metavar="IMAGES", help=_NEW_HELP)],
    out: NewRun,
    options: opt.PredictOptions,
    output: opt.OutputOptions,
) -> None:
    """Predict labels and matches of new images from an earlier match, without solving again.

    Example: bispectral-ot predict runs/first new-photos/ --out runs/new

    Images are prepared like those of the match; an image of the match gets the same result again. The output folder has
    labels.csv, matches.csv and outliers.csv with the columns of `match`, poses.csv (with --poses), results.json and
    run.json.
    """
    from bispectral_ot.matching import class_table
    from bispectral_ot.report import open_run, tables

    model = open_run(run)
    predictor = model.load_predictor(options.encoder)  # raises if there is none

    def work(folder: Path) -> Result:
        source = model.read(images, predictor, split=options.split, root=options.root, seed=options.seed)
        found = predictor.match(source)
        written = {"matches": tables.match_table(found, k=options.n_matches), "labels": tables.label_table(found)}
        written["outliers"] = tables.outlier_table(found)
        content: dict[str, object] = {"images": len(source), "targets": len(predictor.target)}
        if strange := tables.found_outliers(found):
            content["outliers"] = {"sources": len(strange[0].indices), "level": tables.OUTLIER_LEVEL}
        if options.poses:
            poses = predictor.poses(source, found.top_matches(10), seed=options.seed)
            written["poses"] = tables.pose_table(poses, source)
            content["poses"] = tables.pose_summary(poses)
        tables.write_tables(folder, written)
        if found.target_labels is not None:
            given = found.labels()
            content["labels"] = {str(name): int(count) for name, count in given.label.value_counts(sort=False).items()}
            content |= found.headline()
            table = class_table(found)
            content |= {} if table is None else {"accuracy": table.accuracy, "recall": table.recall}

        def show() -> None:
            facts = {"images": f"{len(source):,}, matched with {len(predictor.target):,} targets of {run}"}
            if content.get("accuracy") is not None:
                facts["accuracy"] = f"{content['accuracy']:.1%} of the labels are the true class"
            facts |= {} if found.target_labels is None else expected_facts(content)
            if strange:
                words = source_outliers(len(strange[0].indices), tables.OUTLIER_LEVEL, *found.coupling.shape)
                facts["outliers"] = f"{words}: see outliers.csv"
            print_facts(facts | {"run folder": str(out)})

        return content, True, show

    run_job("predict", out, work, options, output, run=run, images=images)


def demo(
    options: opt.DemoOptions,
    output: opt.ReportOptions,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Output folder.")] = Path("runs/demo"),
) -> None:
    """Match 2,500 rotated MNIST digits with 2,500 upright ones, with three kinds of features.

    Pixels and ring bispectra are matched as in the paper (balanced transport, no learning). The default features are
    matched with estimated class proportions. The table shows the fraction of digits that get the label of their class.

    Example: bispectral-ot demo --out runs/demo
    """
    from bispectral_ot.datasets import load, rotate_randomly, split_halves
    from bispectral_ot.features import RingBispectrum
    from bispectral_ot.matching import match as match_sets
    from bispectral_ot.report.run_folder import write_match

    def work(folder: Path) -> Result:
        source, target = split_halves(load("mnist-5k"), seed=options.seed, per_class=options.per_class)
        source = rotate_randomly(source, seed=options.seed)
        settings, found = {"rotate_source": True, "seed": options.seed}, dict[str, Any]()
        for name in reversed(_DEMO):  # the default first: it compiles most
            runtime.message(f"features: {name}")
            # rings as the paper samples them, half a pixel off the centre
            features = RingBispectrum(sampling="nearest") if name == "ring-bispectrum" else name
            paper: Any = {} if name == _DEMO[-1] else {"marginals": "balanced", "metric_learning": "none"}
            matched = match_sets(source, target, features=features, **paper)
            figures = output.figures and not paper
            found[name] = write_match(folder / name, matched, title=name, figures=figures, settings=settings)
        found = {name: found[name] for name in _DEMO}
        return {"features": found}, all(e["converged"] for e in found.values()), lambda: _print_demo(found, out)

    run_job("demo", out, work, options, output)


@dataclass(frozen=True)
class MatchTask:
    """Match of two datasets, with the options of its call; ``placing`` are those of ``upright``."""

    source: str
    target: str
    out: Path
    options: opt.MatchOptions
    reading: opt.PairOptions
    machine: opt.RuntimeOptions
    output: opt.MatchOutputOptions
    placing: opt.UprightOptions | None = None

    def listed(self) -> Listed:
        """Contents of both sets, and the positions of the images that are matched."""
        words = [(self.source, self.reading.source_split), (self.target, self.reading.target_split)]
        return list_sets(words, self.reading, self.options)

    def work(self, folder: Path) -> Result:
        """Read both sets, match them, and write the tables."""
        found, content = self.write(folder)
        return content, found.converged, lambda: print_match(content, self.out)

    def write(self, folder: Path, some: Listed | None = None) -> tuple[Match, dict[str, Any]]:
        """Match both sets, or some of their images, and the content of results.json."""
        from bispectral_ot.matching import class_table, match
        from bispectral_ot.matching.result import no_common_class
        from bispectral_ot.report.run_folder import write_match

        start = time.perf_counter()
        (source, target), evidence = read_listed(some or self.listed(), self.reading, self.options)
        extra: dict[str, Any] = {"seconds": {"load": time.perf_counter() - start}}
        names = ("symmetry", "metric", "intensity", "pca", "normalize", "marginals", "metric_learning")
        resumed = runtime.current().engine is not None and self.options.solver == "sinkhorn"
        found = match(
            source,
            target,
            features=None if source.kind == "vectors" else self.options.extractor,
            frame="canvas",  # frames were chosen when the sets were read
            solver=self.solver,
            corrections=None if some else self.reading.corrections,
            state=Path(f"{self.out}.solve.npz") if resumed else None,  # a cluster may be lost during the solve
            **{name: getattr(self.options, name) for name in names},
        )
        found.settings.update(evidence)  # for predictions
        table = class_table(found)
        alone = [] if table is None else [name for name in table.rows if name not in table.columns]
        if table is not None and alone:
            rows = ", ".join(alone[:4]) + ", ..." * (len(alone) > 4)
            count = int(table.counts[[name in alone for name in table.rows]].sum())
            text = f"{count:,} source images are of classes that the target does not have ({rows}); they count as wrong"
            text = no_common_class(table.rows, table.columns) if table.accuracy is None else text
            warn(f"{text}; see confusion.csv.")
        if found.source_labels is not None and found.target_labels is None:
            text = "only SOURCE has labels, so those of TARGET are uncalibrated votes of the plan"
            warn(f"{text}; exchange the sets for calibrated probabilities and an expected accuracy.")
        start, poses = time.perf_counter(), None
        voters = 10 if self.placing is None else self.placing.pose_neighbours
        try:
            poses = found.poses(voters, seed=self.reading.seed) if self.output.poses else None
        except MemoryError:  # the match is kept
            warn("poses were not estimated: out of memory; the match is complete.")
        if poses is not None:
            extra |= {"upright": self._place(folder, source, poses, self.placing)} if self.placing else {}
            found.seconds["poses"] = time.perf_counter() - start
        settings = {name: value for name, value in self.reading.to_json().items() if name not in ("root", "frame")}
        k, figures = self.output.n_matches, self.output.figures
        content = write_match(folder, found, k=k, poses=poses, figures=figures, settings=settings, extra=extra)
        return found, content

    @property
    def solver(self) -> Solver:
        """Solver with its options."""
        from bispectral_ot.transport import SOLVERS

        given = {name: getattr(self.options, name) for name in ("reg", "tol", "max_iter")}
        return SOLVERS[str(self.options.solver)](**{name: each for name, each in given.items() if each is not None})

    def _place(self, folder: Path, source: Dataset, poses: Poses, placing: opt.UprightOptions) -> Mapping[str, int]:
        """Write the sources in their poses, as files if they are files, else in one array; counts by file or folder."""
        import numpy as np

        from bispectral_ot.files import whole_file
        from bispectral_ot.poses import upright_files, upright_images

        asked = {name: getattr(placing, name) for name in ("fill", "expand", "include_ambiguous")}
        if Path(self.source).is_dir():
            return upright_files(poses, self.source, source.files, folder, **asked)
        images = upright_images(source.images, poses, **asked)
        sure = poses.found & (placing.include_ambiguous | ~poses.ambiguous)
        labels = {} if source.labels is None else {"labels": source.labels, "classes": source.classes}
        with whole_file(folder / "upright.npz") as partial, partial.open("wb") as file:
            np.savez_compressed(file, images=images, sure=sure, **labels)  # type: ignore[arg-type]
        return {"upright.npz": int(sure.sum()), "ambiguous": int((~sure).sum())}

    def print_plan(self) -> None:
        """Print images of both sets, features, memory and time, from trials with few images; write nothing."""
        memory = self.machine.working_memory
        with shown_warnings(), progress_bars(quiet=self.output.quiet), runtime.running(memory=memory):
            plan = self.plan()
        if self.output.as_json:
            print_json(plan)
            return
        disk = f", and {format_bytes(plan['disk_bytes'])} of disk for features" if plan["disk_bytes"] else ""
        seconds = round(plan["seconds"])
        facts = {
            "images": f"{plan['source']:,} sources, {plan['target']:,} targets, compared at {plan['compared_at']}",
            "frame": "source {}, target {}".format(*plan["frame"]),
            "features": f"{plan['features']}, {plan['columns']:,} columns",
            "distances": f"stored as {plan['storage']}",
            "memory": f"about {format_bytes(plan['memory_bytes'])}{disk}",
            "time": f"about {max(1, seconds)} s" if seconds < 100 else f"about {round(seconds / 60)} min",
        }
        print_facts(facts)
        say("nothing was written; leave --dry-run out to match")

    def plan(self) -> dict[str, Any]:
        """Sizes, storage, bytes and seconds of the match."""
        from bispectral_ot.costs.cost import plan_storage, storage_bytes
        from bispectral_ot.sampling import evenly_spaced

        listings, positions = self.listed()
        shape = len(positions[0]), len(positions[1])
        trials: list[tuple[tuple[int, int], dict[str, float]]] = []
        started = 0.0  # seconds to the end of the first trial, with the loading of libraries
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="bispectral-ot-") as folder:
            warnings.simplefilter("ignore")  # about the few images of the trials
            for most in (50, 50, 500, 1500, 4500):  # images of each set; the first trial loads libraries
                some = [each[evenly_spaced(len(each), most)] for each in positions]
                whole = len(trials) > 1 and trials[-1][0] == (len(some[0]), len(some[1]))  # all were in the last one
                if whole or (len(trials) > 1 and sum(trials[-1][1].values()) > _LONG_TRIAL):
                    break
                found, content = self.write(Path(folder), (listings, some))
                trials.append((found.coupling.shape, content["seconds"]))
                started = started or time.perf_counter() - STARTED
        loading = max(0.0, started - sum(trials[1][1].values()))
        columns, extra = int(found.settings["columns"]), self.solver.extra_bytes
        feature_bytes = 4 * columns * sum(shape)
        chosen = plan_storage(
            shape, feature_bytes=feature_bytes, solver_bytes=extra(shape), block_rows=512, may_map=True
        )

        def growing(n: int, m: int) -> int:
            """Bytes of images, features, cost and solver."""
            features = 0 if chosen.mapped_features else 4 * columns * (n + m)
            images = found.source.images[0].nbytes * n + found.target.images[0].nbytes * m
            return int(images + storage_bytes((n, m), feature_bytes=features)[chosen.storage] + extra((n, m)))

        return {
            **dict(zip(("source", "target"), shape, strict=True)),
            "compared_at": found.source.size_in_words,
            "frame": found.settings["frame"],
            "features": found.settings["features"],
            "columns": columns,
            "storage": chosen.storage,
            # libraries and fits as in the last trial
            "memory_bytes": max(found.memory.values()) + growing(*shape) - growing(*found.coupling.shape),
            "disk_bytes": feature_bytes if chosen.mapped_features else 0,
            "seconds": loading + extrapolated(trials, shape),
        }


def extrapolated(trials: Sequence[tuple[tuple[int, int], Mapping[str, float]]], shape: tuple[int, int]) -> float:
    """Seconds for two sets, by linear extrapolation of the time of each stage in the last two trials."""
    from bispectral_ot.matching.class_model import CENTRES

    (smaller, before), (larger, after), total = *trials[-2:], 0.0
    growth = {
        **dict.fromkeys(("cost", "transport", "summary"), math.prod),
        "outliers": lambda each: min(each[1], CENTRES),
        "metric": lambda each: min(each[1], CENTRES) ** 2,  # a regression on a kernel matrix
        "fit": lambda each: min(sum(each), _FITTED),
    }
    for stage, spent in after.items():
        size = growth.get(stage, sum)  # the number of images, unless it is that of pairs, or limited
        grown = size(larger) - size(smaller)
        rate = max(0.0, spent - before.get(stage, spent)) / grown if grown else 0.0
        total += spent + rate * (size(shape) - size(larger))
    return total


def print_match(found: Mapping[str, Any], out: Path) -> None:
    """Print the results of a match in a few lines."""
    settings, seconds, facts = found["settings"], found["seconds"], {}
    for name in ("source", "target"):
        side, size = found[name], " x ".join(map(str, found[name]["shape"]))
        noun = "vector" if len(side["shape"]) == 1 else "image"
        noun = "shape" if settings["symmetry"] == "so3-shapes" else noun
        classes = count_of(len(side["classes"]), "class", "classes") if side["classes"] else "no labels"
        facts[name] = f"{side['name']}: {count_of(side['images'], noun)} of {size}, {classes}"
    if set(settings["frame"]) != {"canvas"}:
        facts["frame"] = f"source {settings['frame'][0]}, target {settings['frame'][1]}"
    if found.get("accuracy") is not None:
        words = f"{found['accuracy']:.1%} of the sources get the label of their class"
        facts["accuracy"] = f"{words} ({found['majority']:.1%} if all had the label of the largest class)"
    facts |= expected_facts(found) if found["target"]["classes"] else {}
    if counts := found.get("outliers"):
        words = source_outliers(counts["sources"], counts["level"], found["n"], found["m"])
        facts["outliers"] = f"{words}, {counts['targets']:,} of {found['m']:,} targets: see outliers.csv"
    facts["marginals"] = _MARGINALS[found["marginals"]]
    if found["marginals"] == "estimated" and found.get("proportions"):
        differences = [(each["source"] - each["target"], name, each) for name, each in found["proportions"].items()]
        largest = [item for item in sorted(differences, key=lambda item: -abs(item[0]))[:3] if abs(item[0]) >= 0.01]
        named = [f"{name} {each['source']:.0%} (target {each['target']:.0%})" for _, name, each in largest]
        facts["marginals"] += f": {', '.join([*named, '...'] if named else ['as in the target'])}"
    if found["mass"] <= 0.9995:
        facts["marginals"] += f"; {found['mass']:.1%} of the source mass is transported"
    facts["distance"] = f"{found['distance']:.6g} ({settings['metric']}, {settings['features']})"
    state = "yes" if found["converged"] else "NO"
    facts["converged"] = f"{state}, marginal error {found['marginal_error']:.1e} (tolerance {found['tol']:g})"
    if poses := found.get("poses"):
        width = poses["median_uncertainty"]
        precision = "unknown" if width is None else f"+- {width:.1f} {poses['unit']}, median"
        facts["poses"] = f"{poses['certain']:,} certain (90% interval: {precision}), {poses['ambiguous']:,} ambiguous"
    if placed := found.get("upright"):
        facts["upright"] = "{:,} images rotated, {:,} left unchanged".format(*placed.values())
        if not poses or not poses["certain"]:
            facts["upright"] += ": no pose is certain; are the targets upright, and not symmetric themselves?"
    stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items() if spent >= 0.05)
    facts["seconds"] = f"{sum(seconds.values()):.1f} ({stages})"
    facts["run folder"] = str(out)
    print_facts(facts, {"accuracy": "bold", "converged": "" if found["converged"] else "bold red"})


def source_outliers(count: int, level: float, n: int, m: int) -> str:
    """Number of outliers among n sources, in words."""
    if m * level < 1:
        return "too few targets to detect outliers among the sources"
    return f"{count:,} of {n:,} sources (by chance {round(level * n):,})"


def expected_facts(found: Mapping[str, Any]) -> dict[str, str]:
    """Expected accuracy, shift and labels to check, in words."""
    from bispectral_ot.matching import ExpectedAccuracy

    if found.get("expected_accuracy") is None:
        needs = "two target classes of two images or more, and with balanced marginals, metric learning"
        return {"expected": f"unknown: it needs {needs}"}
    shift, n = found["shift"], found["to_check"]
    value = ExpectedAccuracy(*(found[f"expected_accuracy{end}"] for end in ("", "_low", "_high")))
    facts = {"expected": f"accuracy {value}" + "; not reliable, see shift" * shift["differs"], "shift": shift["words"]}
    return facts | ({"to check": f"{count_of(n, 'label')} of lowest probability, for 95% accuracy"} if n else {})


def _print_demo(found: dict[str, Any], out: Path) -> None:
    first = found[_DEMO[0]]
    say(f"{first['n']:,} rotated digits matched with {first['m']:,} upright ones")
    rows = []
    for name, each in found.items():
        working = sum(s for stage, s in each["seconds"].items() if stage not in ("tables", "figures", "page"))
        figures = f"{each['accuracy']:.1%}", f"{each['distance']:.4g}", f"{each['marginal_error']:.1e}"
        rows.append((name, each["settings"]["marginals"], *figures, f"{working:.1f} s"))
    best = max(range(len(rows)), key=lambda row: found[_DEMO[row]]["accuracy"])
    header = ("features", "marginals", "own class", "distance", "marginal error", "time")
    print_table(header, rows, left=header[:2], bold=best)
    say("(distances are in units of the features and cannot be compared)")
    say(f"run folder: {out}")
    for path in (Path(_DEMO[-1], "figures/matches.png"), Path("report.html")):
        if (out / path).exists():
            say(f"open: {out / path}")
    say("next: bispectral-ot match SOURCE TARGET --out RUN, with two folders of your own images")
