"""Monitor: batches of new images against a reference set, with a calibrated number of batches between false alarms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer, printable
from bispectral_ot.comparing import change_tests as tests
from bispectral_ot.comparing.change_tests import CHANGES, FEWEST
from bispectral_ot.comparing.resampling import reduced, scaled
from bispectral_ot.comparing.set_distances import AnySet
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_dataset, check_flat
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.files import write_text
from bispectral_ot.sampling import random_rows
from bispectral_ot.store import read_record, write_record

Rows = NDArray[np.float32]
Vector = NDArray[np.float64]
# Images of the reference that are kept: embedded ones for the calibration, pictures for the verdict of an alarm.
_CORE, _PICTURES = 4000, 500
# Simulated batches for each batch of the expected run length, and at most; references that are drawn.
_DRAWS, _MOST_DRAWS, _REFERENCES = 100, 40_000, 64
_FEWEST, _SHOWN = 10, 500  # images of a batch, batches on a page


@dataclass(frozen=True)
class BatchResult:
    """Comparison of one batch with the reference; ``verdict`` and ``sentence`` are empty without an alarm.

    ``statistic`` is the largest of the standardised distances between mean embeddings.
    """

    batch: str
    images: int
    statistic: float
    threshold: float
    verdict: str = ""
    sentence: str = ""

    @property
    def alarm(self) -> bool:
        """Whether the statistic is above the threshold."""
        return self.statistic > self.threshold


@dataclass(frozen=True)
class Monitor:
    """Reference set to which batches of new images are compared; see :meth:`fit`.

    Each batch is compared by the distances of its mean embeddings from those of the reference, for the kernels of the
    symmetry test that allows for one change. The null distribution comes from bootstrap samples of the reference.

    Attributes
    ----------
    size, shape, limits : number of images of the reference, their shape, smallest and largest pixel
    frequencies, core, mean : random Fourier frequencies, embedded images of the reference, and their mean
    pictures : images of the reference for the verdict
    calibrations : by number of images of a batch: mean and deviation of the squared distance of each kernel, threshold

    Examples
    --------
    >>> import numpy as np
    >>> import bispectral_ot as bot
    >>> from bispectral_ot.comparing import Monitor
    >>> digits = bot.load("digits").images[np.random.default_rng(0).permutation(1797)]
    >>> monitor = Monitor.fit(digits[:800], run_length=50)
    >>> monitor.update(digits[800:860]).alarm, monitor.update(digits[800:860, :, ::-1]).alarm
    (False, True)
    """

    run_length: int
    allowing_for: str
    seed: int
    size: int
    shape: tuple[int, ...]
    limits: tuple[float, float]
    frequencies: Rows = field(repr=False)
    core: Rows = field(repr=False)
    mean: Vector = field(repr=False)
    pictures: NDArray[Any] = field(repr=False)
    calibrations: dict[int, Vector] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def fit(cls, reference: AnySet, *, run_length: int = 200, allowing_for: str = "nothing", seed: int = 0) -> Monitor:
        """Monitor for a reference set of some hundred images, and more than a batch has.

        ``run_length`` is the expected number of batches between two false alarms, ``allowing_for`` a change that is no
        reason for an alarm: a name in :data:`~bispectral_ot.comparing.change_tests.CHANGES`.
        """
        check_integer("run_length", run_length, minimum=2)
        check_choice("change", allowing_for, CHANGES)
        dataset = as_dataset(reference)
        check_flat(dataset, "a monitor")
        if len(dataset) < FEWEST:
            raise InputError(f"the reference has {len(dataset)} images; a monitor needs {FEWEST} at least.")
        images, shape = reduced(dataset.images), tuple(dataset.images.shape[1:])
        limits, random = (float(images.min()), float(images.max())), np.random.default_rng(seed)
        groups = tests.features_allowing_for(scaled(images, limits), CHANGES[allowing_for], random)
        frequencies = tests.fourier_frequencies(groups, random)

        rows = random_rows(len(images), _CORE, seed=seed)
        core = tests.fourier_embedding([each[rows] for each in groups], frequencies)
        total = np.zeros(core.shape[1:])
        for start in range(0, len(images), _CORE):
            part = [each[start : start + _CORE] for each in groups]
            total += tests.fourier_embedding(part, frequencies).sum(axis=0, dtype=np.float64)
        mean = total / len(images)
        pictures = images[random_rows(len(images), _PICTURES, seed=seed)]
        return cls(run_length, allowing_for, seed, len(images), shape, limits, frequencies, core, mean, pictures)

    def update(self, batch: AnySet, *, name: str | None = None) -> BatchResult:
        """Compare a batch with the reference; an alarm comes with a verdict where the batch has 20 images or more."""
        dataset = as_dataset(batch, name="batch")
        check_flat(dataset, "a monitor")
        name, n, shape = name or dataset.name, len(dataset), tuple(dataset.images.shape[1:])
        if shape != self.shape:
            shapes = f"images of {name!r} have the shape {shape}, those of the reference {self.shape}"
            raise InputError(f"{shapes}; bring them to one size.")
        if not _FEWEST <= n <= self.size:
            raise InputError(f"{name!r} has {n} images; a batch needs {_FEWEST} at least, {self.size} at most.")
        images, random = reduced(dataset.images), np.random.default_rng(self.seed + 1)
        groups = tests.features_allowing_for(scaled(images, self.limits), CHANGES[self.allowing_for], random)
        means, deviations, (threshold, *_) = self.calibration(n)
        found = tests.fourier_embedding(groups, self.frequencies).mean(axis=0, dtype=np.float64) - self.mean
        statistic = float(((np.square(found).sum(axis=1) - means) / deviations).max())
        result = BatchResult(name, n, statistic, float(threshold))
        return self._explained(result, images) if result.alarm else result

    def calibration(self, n: int) -> Vector:
        """Null distribution for batches of n images, computed when it is first needed; see ``calibrations``."""
        if n not in self.calibrations:
            random = np.random.default_rng([self.seed, n])
            draws = int(min(max(_DRAWS * self.run_length, 4000), _MOST_DRAWS))
            references = self._resampled_means(self.size, random)
            found = []
            for start in range(0, draws, _REFERENCES):
                runtime.progress("calibration", start, draws)
                differences = self._resampled_means(n, random) - references[random.permutation(_REFERENCES)]
                found.append(np.square(differences).sum(axis=2))
            runtime.progress("calibration", draws, draws)
            squares = np.concatenate(found)
            means, deviations = squares.mean(axis=0), np.maximum(squares.std(axis=0), 1e-9)
            threshold = np.quantile(((squares - means) / deviations).max(axis=1), 1 - 1 / self.run_length)
            self.calibrations[n] = np.stack([means, deviations, np.full_like(means, threshold)])
        return self.calibrations[n]

    def _resampled_means(self, n: int, random: np.random.Generator) -> Vector:
        """Mean embeddings (references, kernels, 2 * frequencies) of bootstrap samples of n images."""
        chances = np.full(len(self.core), 1 / len(self.core))
        weights = random.multinomial(n, chances, size=_REFERENCES).astype(np.float32)
        return np.asarray(np.tensordot(weights, self.core, axes=1), dtype=np.float64) / n

    def _explained(self, result: BatchResult, images: NDArray[Any]) -> BatchResult:
        reference, batch = Dataset(self.pictures, name="reference"), Dataset(images, name=result.batch)
        try:
            found = tests.symmetry_tests(reference, batch)
        except InputError as error:
            return replace(result, verdict="not tested", sentence=str(error))
        verdict = " or ".join(found.verdict.changes) or found.verdict.kind
        return replace(result, verdict=verdict, sentence=found.sentence)

    def save(self, path: str | Path) -> None:
        """Write the monitor to one ``.npz`` file, with all calibrations that were made."""
        record = dict(vars(self))
        write_record(Path(path), record | {f"calibration {n}": each for n, each in record.pop("calibrations").items()})

    @classmethod
    def load(cls, path: str | Path) -> Monitor:
        """Read a monitor that :meth:`save` has written."""
        try:
            record = read_record(Path(path))
            kept = {int(name.split()[1]): record.pop(name) for name in [*record] if name.startswith("calibration ")}
            record |= {name: tuple(record[name]) for name in ("shape", "limits")}
            monitor = cls(**record, calibrations=kept)
            fits = monitor.core.shape[1:] == monitor.mean.shape and monitor.allowing_for in CHANGES
            numbers = [monitor.core, monitor.mean, monitor.limits, monitor.frequencies, *kept.values()]
            if not fits or monitor.run_length < 2 or not all(np.isfinite(each).all() for each in numbers):
                raise ValueError("its parts do not fit together")
        except FileNotFoundError:
            raise InputError(f"there is no monitor at {path}; make one with Monitor.fit and save.") from None
        except Exception as error:
            raise InputError(f"{path} is no monitor, or it is damaged ({error}).") from None
        return monitor


def append_results(path: str | Path, results: Sequence[BatchResult]) -> None:
    """Add a row for each batch to a CSV file, which is made where there is none, and write a page of all rows."""
    import pandas

    path = Path(path)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [{"time": now, **vars(each), "alarm": int(each.alarm)} for each in results]
    table = pandas.DataFrame(rows).assign(batch=[each.batch.lstrip("=+-@") for each in results])
    table.to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.6g")
    try:
        _write_page(path)
    except Exception as error:  # the row is written; a table that was edited may have no such columns
        warn(f"the page of {path} was not written ({type(error).__name__}: {error}).", DataWarning)


def _write_page(path: Path) -> None:
    """HTML page beside a CSV file, with a chart and a table of the last batches."""
    import pandas

    table = pandas.read_csv(path, keep_default_na=False).tail(_SHOWN)
    heights = 120 - 40 * (table.statistic / table.threshold).clip(0, 2.5)
    colours = np.where(table.alarm == 1, "#cc3311", "#4477aa")
    points = zip(itertools.count(8, 10), heights, colours, strict=False)
    dots = "".join(f'<circle cx="{x}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y, colour in points)
    width, summary = 16 + 10 * len(table), f"Batches: {len(table)}, alarms: {table.alarm.sum()}"
    page = f"""<!doctype html><meta charset="utf-8"><title>Monitor</title>
<meta name="color-scheme" content="light dark">
<body style="font-family:system-ui,sans-serif;margin:1em"><h1>{summary}</h1>
<p>Statistic of each batch relative to its threshold (line); red dots are alarms. Dots
beyond 2.5 times the threshold are at the top.</p><div style="overflow-x:auto">
<svg width="{width}" height="130" role="img" aria-label="{summary}">
<path d="M0 80H{width}" stroke="currentColor"/>{dots}</svg>
{table[::-1].map(lambda each: printable(each) if isinstance(each, str) else each).to_html(index=False)}</div>"""
    write_text(path.with_suffix(".html"), page)
