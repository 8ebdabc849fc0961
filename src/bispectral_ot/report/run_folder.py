"""Run folders of matches and comparisons, written (results and tables first, then figures and page) and opened."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bispectral_ot import drawing, runtime
from bispectral_ot.comparing import Comparison
from bispectral_ot.datasets import Dataset, center
from bispectral_ot.errors import InputError, warn
from bispectral_ot.files import any_names, read_json, write_json, write_text
from bispectral_ot.matching import Match, Prediction, Predictor, class_table
from bispectral_ot.poses import Poses
from bispectral_ot.report import tables
from bispectral_ot.report.page import write_report
from bispectral_ot.report.page_data import PAGE_DATA, compact_json, comparison_page, match_page
from bispectral_ot.runs import RECORD, REPORT, RESULTS, new_run, run_record
from bispectral_ot.transport import EntropicCoupling

MODEL = "model.npz"
Draw = Callable[[Any], Any]


@any_names
def write_match(
    folder: Path,
    match: Match,
    *,
    title: str = "",
    k: int = 5,
    poses: Poses | None = None,
    figures: bool = True,
    settings: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> tables.JsonObject:
    """Write a match to ``folder``, tables and results first, and return the content of ``results.json``.

    ``title`` names this match among others of the run, ``k`` is the number of targets of each source in
    ``matches.csv``; ``settings`` and ``extra`` are further entries of ``results.json``.
    """
    start, table = time.perf_counter(), class_table(match)
    content = tables.match_results(match, table, poses) | dict(extra or {})
    content["settings"] = {**match.settings, **(settings or {})}
    content["seconds"] = {**dict((extra or {}).get("seconds", {})), **match.seconds}
    written = {
        "matches": tables.match_table(match, k=k),
        "labels": tables.label_table(match),
        "confusion": None if table is None else tables.confusion_table(table),
        "poses": None if poses is None else tables.pose_table(poses, match.source),
        "outliers": tables.outlier_table(match),
    }
    tables.write_tables(folder, written)
    write_json(folder / RESULTS, content)
    parts: dict[str, Callable[[], object]] = {}
    if match.images_elsewhere:
        warn("figures and model.npz are skipped because the images are a dask.array.")
    else:
        if isinstance(match.coupling, EntropicCoupling):
            parts[MODEL] = lambda: match.predictor.save(folder / MODEL)
        drawn: dict[str, Draw] = {"matches": lambda ax: match.plot("pairs", n=8, ax=ax)}
        if table is not None:
            drawn["confusion"] = lambda ax: match.plot("classes", ax=ax)
        parts |= _figures(folder, drawn) if figures else {}
        page = partial(match_page, match, content, title=title, poses=poses)
        parts[PAGE_DATA] = lambda: write_text(folder / PAGE_DATA, compact_json(page()))
    content["seconds"]["tables"] = time.perf_counter() - start
    decorate(parts, content["seconds"])
    write_json(folder / RESULTS, content)
    return content


def decorate(parts: Mapping[str, Callable[[], object]], seconds: dict[str, float] | None = None) -> None:
    """Write models, figures and pages; one that fails is a warning, and the run continues."""
    for number, (name, write) in enumerate(parts.items()):
        stage = {MODEL: "model", PAGE_DATA: "page", REPORT: "page"}.get(name, "figures")
        runtime.progress(stage, number, len(parts))
        start = time.perf_counter()
        try:
            write()
        except Exception as error:  # results are written even if a decoration fails
            warn(f"{name} was not written ({type(error).__name__}: {error}); the results are complete.")
        if seconds is not None:
            seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - start
        runtime.progress(stage, number + 1, len(parts))


def _figures(folder: Path, drawn: Mapping[str, Draw]) -> dict[str, Callable[[], object]]:
    def write(draw: Draw, path: Path) -> None:
        with drawing.house_style():
            figure = draw(drawing.fitted_axes()).figure
        drawing.save(figure, path)

    return {f"figures/{name}.png": partial(write, draw, folder / f"figures/{name}.png") for name, draw in drawn.items()}


@any_names
def write_comparison(
    folder: Path, comparison: Comparison, datasets: Sequence[Dataset], *, figures: bool = True
) -> tables.JsonObject:
    """Write a comparison to ``folder``, as :func:`write_match` does, and return the content of ``results.json``."""
    names = ("names", "sizes", "converged", "distances", "errors", "references", "p_values", "scale")
    content = {name: getattr(comparison, name) for name in names} | {
        "sampling_bias": [vars(bias) for bias in comparison.biases],
        "pairs": comparison.table(),
        "symmetry_tests": [found.summary() for found in comparison.symmetry_tests],
        **{"settings": comparison.settings, "seconds": comparison.seconds},
    }
    written = {
        "distances": comparison.to_frame(),
        "contributors": tables.contributor_table(comparison, list(datasets)),
        "classes": tables.class_contribution_table(comparison),
    }
    tables.write_tables(folder, written)
    write_json(folder / RESULTS, content)
    parts = _figures(folder, {"distances": lambda ax: comparison.plot(ax=ax)}) if figures else {}
    parts[PAGE_DATA] = lambda: write_text(folder / PAGE_DATA, compact_json(comparison_page(comparison, datasets)))
    decorate(parts)
    return content


@dataclass(frozen=True)
class Run:
    """Run folder; ``results`` is the content of results.json, ``config`` has command and options."""

    folder: Path
    results: Mapping[str, Any]
    config: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.config.get('verb')})"

    @property
    def _folder(self) -> Path:
        """Folder of tables and model; of the demo, that of its last features, the default."""
        return self.folder / str([*self.results.get("features", [""])][-1])

    def table(self, name: str) -> pd.DataFrame:
        """Table NAME.csv of the run: ``"matches"``, ``"labels"``, ``"outliers"``, ``"poses"``, ``"distances"``, ..."""
        known = sorted(path.stem for path in self._folder.glob("*.csv"))
        if name not in known:
            raise InputError(f"{self.folder} has no table {name!r}; its tables are {', '.join(known) or 'none'}.")
        try:
            return tables.read_table(self._folder / f"{name}.csv")
        except (OSError, ValueError) as error:
            raise InputError(f"{self._folder / name}.csv is damaged ({error}).") from None

    def labels(self) -> pd.DataFrame:
        """Labels that one set gets from the other, with their probabilities."""
        return self.table("labels")

    def outliers(self) -> pd.DataFrame:
        """Outliers of both sets, the most distant of each first."""
        return self.table("outliers")

    def load_predictor(self, encoder: str | None = None) -> Predictor:
        """Model of a match; an encoder that took part is loaded only if it is named again."""
        path = self._folder / MODEL
        if not path.is_file():
            raise InputError(f"{self.folder} has no {MODEL}; match with Sinkhorn and features that can be saved.")
        return Predictor.load(path, encoder=encoder)

    def read(self, images: Any, predictor: Predictor, **options: Any) -> Dataset:
        """New images, prepared like those of the match; ``options`` are those of :meth:`Predictor.read`."""
        dataset = predictor.read(images, **options)
        return center(dataset) if self.config.get("center") else dataset

    def predict(
        self, images: Any, *, k: int = 5, poses: bool = False, seed: int = 0, encoder: str | None = None
    ) -> Prediction:
        """Labels and best targets of new images (a Dataset, an array, a name or a path); see :meth:`Match.predict`."""
        predictor = self.load_predictor(encoder)
        return predictor.predict(self.read(images, predictor, seed=seed), k=k, poses=poses, seed=seed)

    def report(self) -> Path:
        """Write report.html and return its path."""
        return write_report(self.folder)


def open_run(folder: str | Path) -> Run:
    """Open the run folder of any command with ``--out``, or of :meth:`Match.save`.

    Examples
    --------
    >>> import tempfile, bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     run = bot.open_run(bot.match(source, target).save(f"{place}/run", report=False, figures=False))
    ...     labels = run.labels()
    >>> len(labels), list(labels)[:3]
    (100, ['source', 'label', 'probability'])
    """
    folder = Path(folder)
    try:
        results, record = read_json(folder / RESULTS), read_json(folder / RECORD)
        return Run(folder, results, dict(record["config"]))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder} is not a run: {error}") from None


def save_match(match: Match, folder: str | Path, *, report: bool, figures: bool, k: int, overwrite: bool) -> Path:
    """Write the files of the command ``match``; see :meth:`Match.save`."""
    start = time.perf_counter()
    config = {"verb": "match", "center": False, "n_matches": k, "report": report, "figures": figures}
    doubts = [] if match.classes is None else match.classes.doubts(match.target, match.settings["symmetry"])
    with new_run(folder, verb="match", overwrite=overwrite) as place:
        write_json(place / RECORD, run_record(config, seconds=0.0))
        write_match(place, match, k=k, figures=figures, extra={"warnings": doubts})
        write_json(place / RECORD, run_record(config, seconds=time.perf_counter() - start))
        if report:
            decorate({REPORT: lambda: write_report(place)})
    return Path(folder)
