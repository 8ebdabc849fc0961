"""Monitor: batches of new images against a reference set, with a calibrated number of batches between false alarms."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.comparing.compare import AnySet
from bispectral_ot.comparing.symmetry_tests import CHANGES, fourier_frequencies, rows_allowing_for, symmetry_tests
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import as_dataset, check_flat
from bispectral_ot.errors import InputError
from bispectral_ot.sampling import random_rows
from bispectral_ot.store import read_record, write_record

Rows = NDArray[np.float32]
# Images of the reference that are kept: embedded ones for the calibration, pictures for the verdict of an alarm.
_CORE, _PICTURES = 4000, 500
# Simulated batches for each batch of the expected run length, and at most.
_DRAWS, _MOST_DRAWS = 100, 40_000
_REFERENCES = 64
_FEWEST = 10
COLUMNS = ("time", "batch", "images", "statistic", "threshold", "alarm", "verdict", "sentence")


@dataclass(frozen=True)
class BatchResult:
    """Comparison of one batch with the reference.

    Attributes
    ----------
    batch : its name
    images : number of images
    statistic : largest of the standardised distances between mean embeddings
    threshold : value above which there is an alarm
    verdict, sentence : what changed, as by :func:`symmetry_tests`; empty without an alarm
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
class Calibration:
    """Null distribution of the statistic for one number of images.

    Attributes
    ----------
    means, deviations : of the squared distances of each kernel
    threshold : value that the statistic exceeds once in as many batches as were asked for
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    threshold: float


@dataclass(frozen=True)
class Monitor:
    """Reference set to which batches of new images are compared; see :meth:`fit`.

    Each batch is compared by the distances of its mean embedding from that of the reference, for Gaussian kernels of
    three widths, of the pixels and of the mean and deviation of each image. The null distribution comes from bootstrap
    samples of the reference: batches of as many images, and references of as many images as there were.

    Attributes
    ----------
    run_length : expected number of batches between two false alarms
    allowing_for : change of images that is no reason for an alarm, a name in ``CHANGES``
    seed : random seed
    size : number of images of the reference
    scale : mean and standard deviation of its pixels
    frequencies : (columns, kernels, frequencies) random Fourier frequencies
    core : (n, kernels * 2 * frequencies) embedded images of the reference
    mean : mean embedding of the reference
    pictures : images of the reference for the verdict
    calibrations : by number of images of a batch

    Examples
    --------
    >>> import numpy as np
    >>> import bispectral_ot as bot
    >>> from bispectral_ot.comparing import Monitor
    >>> digits = bot.load("digits")
    >>> digits = digits.select(np.random.default_rng(0).permutation(len(digits)))
    >>> monitor = Monitor.fit(digits.select(slice(800)), run_length=50)
    >>> monitor.update(digits.select(slice(800, 860))).alarm
    False
    >>> monitor.update(digits.images[800:860, :, ::-1]).alarm
    True
    """

    run_length: int
    allowing_for: str
    seed: int
    size: int
    scale: NDArray[np.float64] = field(repr=False)
    frequencies: Rows = field(repr=False)
    core: Rows = field(repr=False)
    mean: NDArray[np.float64] = field(repr=False)
    pictures: NDArray[Any] = field(repr=False)
    calibrations: dict[int, Calibration] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def fit(cls, reference: AnySet, *, run_length: int = 200, allowing_for: str = "nothing", seed: int = 0) -> Monitor:
        """Monitor for a reference set.

        Parameters
        ----------
        reference
            Images without the changes that should be found; some hundred at least, and more than a batch has.
        run_length
            Expected number of batches between two false alarms.
        allowing_for
            Change that is no reason for an alarm, such as ``"intensity"`` or ``"rotation"``: a name in
            :data:`~bispectral_ot.comparing.symmetry_tests.CHANGES`.
        seed
            Random seed.
        """
        check_integer("run_length", run_length, minimum=2)
        check_choice("change", allowing_for, CHANGES)
        dataset = as_dataset(reference)
        check_flat(dataset, "a monitor")
        if len(dataset) < 2 * _FEWEST:
            raise InputError(f"the reference has {len(dataset)} images; a monitor needs {2 * _FEWEST} at least.")
        images = np.asarray(dataset.images)
        scale = np.array([images.mean(dtype=np.float64), images.std(dtype=np.float64) or 1.0])
        rows = _rows(images, scale, allowing_for, seed)
        random = np.random.default_rng(seed)
        found = fourier_frequencies(rows, random)
        frequencies = np.zeros((rows.shape[1], len(found), found[0][1].shape[1]), dtype=np.float32)
        for kernel, (columns, values) in enumerate(found):
            frequencies[columns, kernel] = values
        core = _embedded(rows[random_rows(len(rows), _CORE, seed=seed)], frequencies)
        blocks = [_embedded(rows[start : start + _CORE], frequencies) for start in range(0, len(rows), _CORE)]
        mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / len(rows)
        pictures = images[random_rows(len(images), _PICTURES, seed=seed)]
        return cls(run_length, allowing_for, seed, len(rows), scale, frequencies, core, np.asarray(mean), pictures)

    def update(self, batch: AnySet, *, name: str | None = None) -> BatchResult:
        """Compare a batch with the reference; an alarm comes with a verdict where the batch has 20 images or more."""
        dataset = as_dataset(batch, name="batch")
        check_flat(dataset, "a monitor")
        name = name or dataset.name
        if dataset.images.shape[1:] != self.pictures.shape[1:]:
            raise InputError(
                f"the images of {name!r} have the shape {dataset.images.shape[1:]}, but those of the reference "
                f"{self.pictures.shape[1:]}; bring them to one size."
            )
        if not _FEWEST <= len(dataset) <= self.size:
            raise InputError(
                f"{name!r} has {len(dataset)} images; a batch needs {_FEWEST} at least, and no more than the "
                f"{self.size} of the reference."
            )
        rows = _rows(np.asarray(dataset.images), self.scale, self.allowing_for, self.seed + 1)
        calibration = self.calibration(len(dataset))
        distances = _squared(
            _embedded(rows, self.frequencies).mean(axis=0, dtype=np.float64) - self.mean, self.frequencies.shape[1]
        )
        statistic = float(((distances - calibration.means) / calibration.deviations).max())
        result = BatchResult(name, len(dataset), statistic, calibration.threshold)
        return self._explained(result, dataset) if result.alarm else result

    def calibration(self, n: int) -> Calibration:
        """Null distribution for batches of n images, computed when it is first needed."""
        if n not in self.calibrations:
            random = np.random.default_rng([self.seed, n])
            kernels, draws = self.frequencies.shape[1], int(min(max(_DRAWS * self.run_length, 4000), _MOST_DRAWS))
            references = _resampled_means(self.core, self.size, _REFERENCES, random)
            found = np.empty((draws, kernels))
            for start in range(0, draws, _REFERENCES):
                runtime.progress("calibration", start, draws)
                stop = min(start + _REFERENCES, draws)
                batches = _resampled_means(self.core, n, stop - start, random)
                found[start:stop] = _squared(
                    batches - references[random.permutation(_REFERENCES)[: stop - start]], kernels
                )
            runtime.progress("calibration", draws, draws)
            means, deviations = found.mean(axis=0), found.std(axis=0)
            largest = ((found - means) / deviations).max(axis=1)
            self.calibrations[n] = Calibration(means, deviations, float(np.quantile(largest, 1 - 1 / self.run_length)))
        return self.calibrations[n]

    def _explained(self, result: BatchResult, dataset: Dataset) -> BatchResult:
        try:
            found = symmetry_tests(
                Dataset(self.pictures, name="reference"), replace(dataset, labels=None, classes=(), name=result.batch)
            )
        except InputError as error:
            return replace(result, verdict="not tested", sentence=str(error))
        verdict = found.verdict
        return replace(result, verdict=" or ".join(verdict.changes) or verdict.kind, sentence=found.sentence)

    def save(self, path: str | Path) -> None:
        """Write the monitor to one ``.npz`` file, with all calibrations that were made."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "calibrations"}
        for n, each in self.calibrations.items():
            record[f"calibration {n}"] = np.array([*each.means, *each.deviations, each.threshold])
        write_record(Path(path), record)

    @classmethod
    def load(cls, path: str | Path) -> Monitor:
        """Read a monitor that :meth:`save` has written."""
        try:
            record = read_record(Path(path))
            kept = {int(name.split()[1]): record.pop(name) for name in [*record] if name.startswith("calibration ")}
            monitor = cls(**record)
            numbers = [monitor.scale, monitor.frequencies, monitor.core, monitor.mean, *kept.values()]
            kernels = monitor.frequencies.shape[1]
            width = 2 * kernels * monitor.frequencies.shape[2]
            if (
                monitor.core.shape[1:] != (width,)
                or monitor.mean.shape != (width,)
                or monitor.allowing_for not in CHANGES
            ):
                raise ValueError("its parts do not fit together")
            if not all(np.isfinite(each).all() for each in numbers) or monitor.scale[1] <= 0 or monitor.run_length < 2:
                raise ValueError("it has numbers that no monitor has")
        except FileNotFoundError:
            raise InputError(f"there is no monitor at {path}; make one with Monitor.fit and save.") from None
        except Exception as error:
            raise InputError(f"{path} is no monitor, or it is damaged ({error}).") from None
        for n, values in kept.items():
            monitor.calibrations[n] = Calibration(values[:kernels], values[kernels:-1], float(values[-1]))
        return monitor


def append_results(path: str | Path, results: Sequence[BatchResult]) -> None:
    """Add a row for each batch to a CSV file, which is made where there is none."""
    new = not Path(path).exists()
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        for each in results:
            figures = (f"{each.statistic:.6g}", f"{each.threshold:.6g}", int(each.alarm))
            writer.writerow((now, each.batch.lstrip("=+-@"), each.images, *figures, each.verdict, each.sentence))


def _rows(images: NDArray[Any], scale: NDArray[np.float64], allowing_for: str, seed: int) -> Rows:
    pixels = (images.astype(np.float32) - np.float32(scale[0])) / np.float32(scale[1])
    pixels = pixels.reshape(*images.shape[:3], -1)
    return rows_allowing_for(pixels, CHANGES[allowing_for], np.random.default_rng(seed))


def _embedded(rows: Rows, frequencies: Rows) -> Rows:
    """Random Fourier features (n, kernels * 2 * frequencies), those of each kernel together."""
    angles = np.tensordot(rows, frequencies, axes=1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(rows), -1)


def _squared(differences: NDArray[np.float64], kernels: int) -> NDArray[np.float64]:
    """Squared lengths (..., kernels) of the parts of mean embeddings."""
    parts = differences.reshape(*differences.shape[:-1], kernels, -1)
    return np.asarray(np.square(parts).sum(axis=-1))


def _resampled_means(core: Rows, n: int, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Means (count, columns) of bootstrap samples of n rows."""
    weights = random.multinomial(n, np.full(len(core), 1 / len(core)), size=count).astype(np.float32)
    return np.asarray(weights @ core, dtype=np.float64) / n
