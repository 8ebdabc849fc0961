"""Runs as objects: open a run folder, and save a match as one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bispectral_ot.datasets import Dataset, center, load
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json
from bispectral_ot.matching import Match, Prediction, Predictor
from bispectral_ot.report.page import write_report
from bispectral_ot.report.run_folder import MODEL, decorate, write_match
from bispectral_ot.report.tables import read_table
from bispectral_ot.runs import RECORD, REPORT, new_run, run_record


@dataclass(frozen=True)
class Run:
    """Run folder of a match or a comparison.

    Attributes
    ----------
    folder : path
    results : content of results.json
    config : command, datasets and options of the run
    """

    folder: Path
    results: Mapping[str, Any]
    config: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.config.get('verb')})"

    def table(self, name: str) -> pd.DataFrame:
        """Table NAME.csv of the run: ``"matches"``, ``"labels"``, ``"outliers"``, ``"poses"``, ``"distances"``, ..."""
        known = sorted(path.stem for path in self.folder.glob("*.csv"))
        if name not in known:
            raise InputError(f"{self.folder} has no table {name!r}; its tables are {', '.join(known) or 'none'}.")
        try:
            return read_table(self.folder / f"{name}.csv")
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / name}.csv is damaged ({error}).") from None

    def labels(self) -> pd.DataFrame:
        """Labels that one set gets from the other, with their probabilities."""
        return self.table("labels")

    def outliers(self) -> pd.DataFrame:
        """Outliers of both sets."""
        return self.table("outliers")

    @property
    def predictor(self) -> Predictor:
        """Model of a match without encoder."""
        return self.load_predictor()

    def load_predictor(self, encoder: str | None = None) -> Predictor:
        """Model of a match; an encoder that took part is loaded only if it is named again."""
        path = self.folder / MODEL
        if not path.is_file():
            raise InputError(
                f"{self.folder} has no {MODEL}, which predictions need; give the folder of a match with an entropic "
                "solver."
            )
        return Predictor.load(path, encoder=encoder)

    def read(
        self, images: Any, predictor: Predictor, *, split: str = "train", root: Any = None, seed: int = 0
    ) -> Dataset:
        """New images at the size, in the frame, with the colours and centred as the images of the match."""
        target = predictor.target
        flat = target.kind == "images"
        dataset = load(
            images,
            split=split,
            root=root,
            resize=target.images.shape[1:3] if flat else None,
            grey=flat and target.images.ndim == 3,
            frame=predictor.placement,
            kind="sphere" if target.kind == "sphere" else None,
            seed=seed,
        )
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
    """Open the folder that ``match``, ``compare``, ``upright``, ``predict`` or :meth:`Match.save` has written.

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
        parts = [json.loads((folder / name).read_text(encoding="utf-8")) for name in ("results.json", RECORD)]
        results, config = dict(parts[0]), dict(parts[1]["config"])
    except OSError as error:
        raise InputError(f"{folder} is not a run: cannot read {error.filename} ({error.strerror}).") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError(f"{folder} is not a run, or its results.json or run.json is damaged.") from None
    return Run(folder, results, config)


def save_match(match: Match, folder: str | Path, *, report: bool, figures: bool, k: int, overwrite: bool) -> Path:
    """Write what the command ``match`` writes; see :meth:`Match.save`."""
    start = time.perf_counter()
    with new_run(folder, verb="match", overwrite=overwrite) as place:
        write_match(place, match, k=k, figures=figures)
        config = {"verb": "match", "center": False, "n_matches": k, "report": report, "figures": figures}
        write_json(place / RECORD, run_record(config, seconds=time.perf_counter() - start))
        if report:
            decorate({REPORT: lambda: write_report(place)})
    return Path(folder)
