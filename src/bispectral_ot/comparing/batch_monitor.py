"""Monitor: batches of new images against a reference set, with a calibrated number of batches between false alarms."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer, printable
from bispectral_ot.comparing import change_tests as tests
from bispectral_ot.comparing.change_tests import CHANGES, FEWEST
from bispectral_ot.comparing.comparison import AnySet
from bispectral_ot.comparing.resampling import Rows, reduced, scaled
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.datasets.dataset import as_dataset, check_flat
from bispectral_ot.errors import InputError, warn
from bispectral_ot.files import write_text
from bispectral_ot.sampling import random_rows
from bispectral_ot.store import read_record, write_record

Vector = NDArray[np.float64]
_CORE, _PICTURES = 4000, 500  # images of the reference that are embedded, and kept for the verdict of an alarm
_DRAWS, _MOST_DRAWS = 100, 40_000  # simulated batches for each batch of the expected run length, and in all
_REFERENCES = 64  # references that are drawn
_KEPT = 0.8  # weight of an earlier batch, relative to the next one
_FEWEST, _SHOWN = 10, 500  # images of a batch, batches on a page


@dataclass(frozen=True)
class BatchResult:
    """Comparison of one batch with the reference; ``verdict`` and ``sentence`` are empty without an alarm.

    ``statistic`` is the largest of the standardized distances between mean embeddings, of this or of recent batches.
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


@dataclass
class Monitor:
    """Reference set to which batches of new images are compared; see :meth:`fit`.

    The statistic of a batch is the largest distance between its mean embeddings and those of the reference, for the
    kernels of one symmetry test. A weighted mean of all batches since the last alarm is compared in the same way.
    Thresholds come from simulated batches, which are bootstrap samples of the reference.

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
    shape: tuple[int, ...]  # of images
    limits: tuple[float, float]  # smallest and largest pixel
    frequencies: Rows = field(repr=False)  # random Fourier frequencies
    core: Rows = field(repr=False)  # embedded images of the reference, 4,000 at most, and their mean
    mean: Vector = field(repr=False)
    moments: Vector = field(repr=False)  # mean and deviation of the squared distance of each kernel
    pictures: NDArray[Any] = field(repr=False)  # images of the reference, for the verdict
    recent: NDArray[Any] = field(repr=False)  # images of batches since the last alarm, for the verdict
    total: Vector = field(repr=False)  # weighted sum of differences since the last alarm
    weights: Vector = field(repr=False)  # sums of its weights and of their squares
    thresholds: dict[int, float] = field(default_factory=dict, repr=False)  # by number of images of a batch

    @classmethod
    def fit(cls, reference: AnySet, *, run_length: int = 200, allowing_for: str = "nothing", seed: int = 0) -> Self:
        """Monitor for a reference set of at least a few hundred images, more than a batch has.

        ``run_length`` is the expected number of batches between two false alarms, ``allowing_for`` a change that does
        not raise an alarm: a name in :data:`~bispectral_ot.comparing.change_tests.CHANGES`.
        """
        check_integer("run_length", run_length, minimum=2)
        check_choice("change", allowing_for, CHANGES)
        if isinstance(reference, (str, os.PathLike)):
            reference = load(reference, frame="auto")
        dataset = as_dataset(reference)
        check_flat(dataset, "a monitor")
        if len(dataset) < FEWEST:
            raise InputError(f"the reference has {len(dataset)} images; a monitor needs at least {FEWEST}.")
        dataset = dataset.select(random_rows(len(dataset), _CORE, seed=seed))
        images = reduced(dataset.images)
        limits = float(images.min()), float(images.max())
        random = np.random.default_rng(seed)
        groups = tests.features_allowing_for(scaled(images, limits), CHANGES[allowing_for], random)
        frequencies = tests.fourier_frequencies(groups, random)
        if not frequencies.any():
            raise InputError("all images of the reference are the same; a monitor needs a reference with variation.")
        core = tests.fourier_embedding(groups, frequencies)
        mean = core.mean(axis=0, dtype=np.float64)
        centred = np.moveaxis(core - mean.astype(np.float32), 1, 0)
        spread = centred.transpose(0, 2, 1) @ centred / len(core)  # covariances; their squares give the deviations
        moments = np.trace(spread, axis1=1, axis2=2), np.sqrt(2 * np.square(spread).sum(axis=(1, 2))) + 1e-9
        return cls(
            run_length=run_length,
            allowing_for=allowing_for,
            seed=seed,
            shape=tuple(dataset.images.shape[1:]),
            limits=limits,
            frequencies=frequencies,
            core=core,
            mean=mean,
            moments=np.stack(moments).astype(np.float64),
            pictures=images[random_rows(len(images), _PICTURES, seed=seed)],
            recent=images[:0],
            total=np.zeros((1, *mean.shape)),
            weights=np.zeros((1, 2)),
        )

    def update(self, batch: AnySet, *, name: str | None = None) -> BatchResult:
        """Compare a batch with the reference; an alarm comes with a verdict where the batch has 20 images or more."""
        if isinstance(batch, (str, os.PathLike)):
            batch = self.read(batch)
        dataset = as_dataset(batch, name="batch")
        check_flat(dataset, "a monitor")
        name = name or dataset.name
        n = len(dataset)
        shape = tuple(dataset.images.shape[1:])
        if shape != self.shape:
            raise InputError(f"images of {name!r} have shape {shape}; expected {self.shape}, as in the reference.")
        if not _FEWEST <= n <= len(self.core):
            raise InputError(f"{name!r} has {n} images; a batch must have {_FEWEST} to {len(self.core)}.")
        threshold = self.threshold(n)
        images = reduced(dataset.images)
        random = np.random.default_rng(self.seed + 1)
        groups = tests.features_allowing_for(scaled(images, self.limits), CHANGES[self.allowing_for], random)
        found = tests.fourier_embedding(groups, self.frequencies).mean(axis=0, dtype=np.float64) - self.mean
        self.recent = np.concatenate([self.recent, images])[-_PICTURES:]
        alone, together = self._accumulate(self.total, self.weights, found[None], n)[:, 0]
        result = BatchResult(name, n, float(max(alone, together)), threshold)
        if not result.alarm:
            return result
        unlike = images if alone > threshold else self.recent
        self.recent = self.recent[:0]
        self.total[:] = 0
        self.weights[:] = 0
        return self._explained(result, unlike)

    def read(self, batch: str | os.PathLike[str], *, frame: str = "auto") -> Dataset:
        """Images at the size and in the colours of the reference, without margins that an editor filled."""
        return load(batch, resize=(self.shape[0], self.shape[1]), grey=self.shape[2:] in ((), (1,)), frame=frame)

    def _accumulate(self, total: Vector, weights: Vector, found: Vector, n: int) -> Vector:
        """Add differences of batches (k, kernels, 2 * frequencies) to sums; statistics (2, k) of both."""
        root = np.sqrt(n)
        total[:] = _KEPT * total + root * found
        weights[:] = (_KEPT, _KEPT**2) * weights + (root, 1)

        def statistic(squares: Vector, roots: Any, ones: Any) -> Any:
            """Squared norms relative to their expectations: all batches share the error of the reference."""
            return ((squares / (ones + roots**2 / len(self.core)) - self.moments[0]) / self.moments[1]).max(axis=1)

        both = np.square(found).sum(axis=2) * n, np.square(total).sum(axis=2)
        return np.stack([statistic(both[0], root, 1), statistic(both[1], *weights.T[:, :, None])])

    def threshold(self, n: int) -> float:
        """Threshold for batches of n images, computed when it is first needed."""
        if n not in self.thresholds:
            random = np.random.default_rng([self.seed, n])
            draws = int(min(max(_DRAWS * self.run_length, 4000), _MOST_DRAWS))
            references = self._resampled_means(len(self.core), random)
            total = np.zeros_like(references)
            weights = np.zeros((_REFERENCES, 2))
            found = np.empty(0)
            for start in range(0, draws, _REFERENCES):  # each reference has a stream of its own, as the real one has
                runtime.progress("calibration", start, draws)
                batches = self._resampled_means(n, random) - references
                newest = self._accumulate(total, weights, batches, n).max(axis=0)
                found = np.concatenate([found, newest])
                threshold = float(np.quantile(found, 1 - 1 / self.run_length))
                total[newest > threshold] = 0
                weights[newest > threshold] = 0
            runtime.progress("calibration", draws, draws)
            self.thresholds[n] = threshold
        return self.thresholds[n]

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
        verdict, sentence = "undecided", "Undecided what changed. "
        if found.verdict.kind != "same":  # else the monitor has found a change that the tests have not
            verdict, sentence = " or ".join(found.verdict.changes) or found.verdict.kind, ""
        return replace(result, verdict=verdict, sentence=sentence + found.sentence)

    def save(self, path: str | Path) -> None:
        """Write the monitor to one ``.npz`` file, with all thresholds and the state of recent batches."""
        write_record(Path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a monitor that :meth:`save` has written."""
        try:
            record = read_record(Path(path))
            record |= {name: tuple(record[name]) for name in ("shape", "limits")}
            record["thresholds"] = {int(n): each for n, each in record["thresholds"].items()}
            return cls(**record)
        except FileNotFoundError:
            raise InputError(f"there is no monitor at {path}; make one with --model FILE (Monitor.fit).") from None
        except Exception as error:
            raise InputError(f"{path} is not a monitor, or damaged ({error}); make one with --model FILE.") from None


def append_results(path: str | Path, results: Sequence[BatchResult]) -> None:
    """Add a row for each batch to a CSV file, which is made where there is none, and write a page of all rows."""
    import pandas

    path = Path(path)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [{"time": now, **vars(each), "alarm": str(each.alarm).lower()} for each in results]
    table = pandas.DataFrame(rows).assign(batch=[each.batch.lstrip("=+-@") for each in results])
    table.to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.6g")
    try:
        _write_page(path)
    except Exception as error:  # the row is written; a table that was edited may have no such columns
        warn(f"the page of {path} was not written ({type(error).__name__}: {error}).")


def _write_page(path: Path) -> None:
    """HTML page beside a CSV file, with a chart and a table of the last batches."""
    import pandas

    log = pandas.read_csv(path, keep_default_na=False, dtype={"batch": str})
    table, summary = log.tail(_SHOWN), f"Batches: {len(log)}, alarms: {log.alarm.sum()}"
    heights = 120 - 40 * (table.statistic / table.threshold).clip(0, 2.5)
    colours = np.where(table.alarm, "#cc3311", "#4477aa")
    points = zip(itertools.count(8, 10), heights, colours, map(escape, map(printable, table.batch)), strict=False)
    dot = '<circle cx="{}" cy="{:.1f}" r="4" fill="{}"><title>{}</title></circle>'
    dots, width = "".join(dot.format(*point) for point in points), 16 + 10 * len(table)
    shown = table.assign(time=table.time.str[:16], alarm=table.alarm.map({True: "ALARM", False: ""}))[::-1]
    shown = shown[["batch", "alarm", "statistic", "threshold", "images", "time", "sentence"]]
    shown = shown.map(lambda each: printable(each) if isinstance(each, str) else each)
    rows = shown.to_html(index=False, border=0, float_format="{:.3g}".format)
    page = Path(__file__).with_name("monitor_page.html").read_text(encoding="utf-8")
    write_text(path.with_suffix(".html"), page.format(summary=summary, width=width, dots=dots, table=rows))
