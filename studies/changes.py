"""Verdicts of symmetry tests over many draws; run length and delay of the monitor, and of MMD on windows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.metrics.pairwise import euclidean_distances

from bispectral_ot import runtime
from bispectral_ot._version import __version__
from bispectral_ot.comparing import BatchResult, Monitor, SymmetryTests, symmetry_tests
from bispectral_ot.datasets import Dataset, load, rotate_randomly
from bispectral_ot.files import write_json, write_text
from bispectral_ot.store import Store, dataset_hash
from studies.markdown import markdown_table

Images = NDArray[Any]
Change = Callable[[Dataset, int], Dataset]
# Images of the same kind as those of a trial on sheets of steel: standard deviations of the blur of noise.
_BLURS = ((1.0, 1.0), (2.5, 2.5), (1.0, 8.0), (4.0, 1.0), (1.5, 1.5), (0.7, 3.0))
TEXTURES, BLOBS = "textures", "blobs"
_REPEATS = 4  # of each change of the batches of a monitor


def textures(n: int, *, side: int = 64, seed: int = 0) -> Dataset:
    """Synthetic textures of six classes, as of rolled steel: no position, and no orientation in half of them."""
    random = np.random.default_rng(seed)
    labels = random.integers(len(_BLURS), size=n)
    found = np.empty((n, side, side), dtype=np.uint8)
    for image, label in zip(found, labels, strict=True):
        field = ndimage.gaussian_filter(random.normal(size=(side, side)), _BLURS[label], mode="wrap")
        image[:] = np.clip(128 + 30 * field / field.std() + random.normal(0, 10), 0, 255)
    return Dataset(found, labels, name=TEXTURES)


def _brighter(dataset: Dataset, seed: int) -> Dataset:
    largest = 255 if dataset.images.max() > 17 else 16 * 1.1
    return replace(dataset, images=np.clip(dataset.images * 1.1, 0, largest).astype(np.float32))


def _without_labels(dataset: Dataset) -> Dataset:
    return Dataset(dataset.images)


def _shifted(dataset: Dataset, seed: int) -> Dataset:
    """Each image moved by a tenth of its side at most, bilinear, with the border repeated."""
    random, most = np.random.default_rng([seed, 9]), 0.1 * dataset.images.shape[1]
    pairs = ((image, random.uniform(-most, most, 2)) for image in dataset.images.astype(np.float32))
    return Dataset(np.stack([ndimage.shift(image, by, order=1, mode="nearest") for image, by in pairs]))


# Change of one side, and the correct verdicts; "same" is also correct if a population has the symmetry itself.
CASES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "same": (lambda dataset, seed: _without_labels(dataset), ("same",)),
    "brightness x 1.1": (lambda dataset, seed: _without_labels(_brighter(dataset, seed)), ("explained intensity",)),
    "class removed": (
        lambda dataset, seed: dataset.select(np.asarray(dataset.labels) != 0),
        ("explained class proportions",),
    ),
    "class removed, no labels": (
        lambda dataset, seed: _without_labels(dataset.select(np.asarray(dataset.labels) != 0)),
        ("changed",),
    ),
    "turned": (lambda dataset, seed: rotate_randomly(_without_labels(dataset), seed=seed), ("explained rotation",)),
    "mirrored": (lambda dataset, seed: Dataset(dataset.images[:, :, ::-1]), ("explained mirrors", "same")),
    # no test allows for a shift if images have no plain background
    "shifted": (_shifted, ("explained translation", "explained sharpness", "changed")),
    "blurred": (
        lambda dataset, seed: Dataset(ndimage.gaussian_filter(dataset.images.astype(np.float32), (0, 0.7, 0.7))),
        ("explained sharpness", "changed"),
    ),
}


def run_verdicts(
    out: str | Path,
    *,
    datasets: Sequence[str] = ("digits", TEXTURES),
    images: int = 300,
    repeats: int = 20,
) -> list[dict[str, Any]]:
    """Verdicts by set and change, and sentences that contradict p-values; writes ``verdicts.json``, ``verdicts.md``.

    Parameters
    ----------
    datasets
        Names or folders, resized to 64 pixels; ``"textures"`` for synthetic ones.
    images
        Number of images on each side.
    repeats
        Number of draws of each case.
    """
    store, found = Store(Path(out) / "cells"), []
    tasks = [(name, case) for name in datasets for case in CASES]
    for number, (name, case) in enumerate(tasks):
        runtime.progress("cells", number, len(tasks))
        resize = 64 if Path(name).is_dir() else None
        pool = textures(4000) if name == TEXTURES else load(name, resize=resize, grey=resize is not None)
        change, expected = CASES[case]
        parts = ["verdicts", __version__, dataset_hash(pool), case, images]
        made = [
            store.result([*parts, seed], SymmetryTests, partial(_tested, pool, change, images, seed))
            for seed in range(repeats)
        ]
        words = [f"{v.kind} {' or '.join(v.changes) or v.reason}".strip() for v in (each.verdict for each in made)]
        counts = Counter(words)
        found.append(
            {
                **{"dataset": Path(name).name, "case": case, "images": images, "repeats": repeats},
                "verdicts": ", ".join(f"{word} {count}" for word, count in counts.most_common()),
                "right": sum(counts[word] for word in expected),
                "undecided": sum(word.startswith("undecided") for word in words),
                "contradictions": sum(contradicts(each.sentence, each.level) for each in made),
            }
        )
    rows = [[cell["dataset"], cell["case"], cell["verdicts"]] for cell in found]
    write_json(Path(out) / "verdicts.json", found)
    write_text(Path(out) / "verdicts.md", markdown_table(["set", "change", f"verdicts of {repeats} draws"], rows))
    return found


def _tested(pool: Dataset, change: Change, images: int, seed: int) -> SymmetryTests:
    order = np.random.default_rng([seed, 5]).permutation(len(pool))[: 2 * images]
    source, target = pool.select(order[:images]), change(pool.select(order[images:]), seed)
    return symmetry_tests(source if target.labels is not None else _without_labels(source), target)


def contradicts(sentence: str, level: float) -> bool:
    """Whether a sentence of a verdict contradicts a p-value in it; parsed from the words, as a user would read them."""
    for part in re.split(r"(?<=\.) (?=[A-Z])|; ", sentence):
        found = [
            float(corrected or p)
            for p, corrected in re.findall(r"p = ([\d.e-]+\d)(?:, ([\d.e-]+\d) after correction)?", part)
        ]
        if "not significant" in part or "Undecided whether" in part:
            continue
        claims = bool(re.search(r"differ( by [a-z ]+| as well)? \(|have different", part))
        if any((p <= level) != claims for p in found):
            return True
    return False


def run_monitor(
    out: str | Path,
    *,
    datasets: Sequence[str] = (BLOBS, "mnist"),
    monitors: int = 8,
    batches: int = 400,
    images: int = 60,
    run_length: int = 50,
    skip: int = 20_000,
    root: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Run length without change and detection delay of monitors, and of MMD on windows of 1 and 3 batches.

    Writes ``monitor.json`` and ``monitor.md``. Each monitor has a reference of 2,000 images of its own.

    Parameters
    ----------
    datasets
        Names or folders, resized to 64 pixels; ``"blobs"`` is an infinite population of small images.
    monitors
        Number of monitors.
    batches
        Number of batches without change for each monitor.
    images
        Number of images in a batch.
    run_length
        Run length of the monitors: expected number of batches between false alarms.
    skip
        Number of images to leave out at the beginning of larger sets: those on which parameters were chosen.
    """
    cells = []
    explain = Monitor._explained
    Monitor._explained = lambda self, result, images: result  # type: ignore[method-assign]
    try:
        for name in datasets:
            resize = 64 if Path(name).is_dir() else None
            pool = None if name == BLOBS else load(name, resize=resize, grey=resize is not None, root=root)
            draw = blobs if pool is None else _drawn_from(pool.select(slice(skip if skip < len(pool) else 0, None)))
            alarms, delays = np.zeros(3), {change: np.zeros((monitors, 3)) for change in _DRIFTS}
            for seed in range(monitors):
                runtime.progress(f"monitors of {name}", seed, monitors)
                random = np.random.default_rng(seed)
                reference = draw(2000, random)
                rivals = [WindowedMMD(reference, width * images, run_length, random) for width in (1, 3)]
                watchers: list[Any] = [Monitor.fit(reference, run_length=run_length, seed=seed), *rivals]
                for _ in range(batches):
                    batch = draw(images, random)
                    alarms += [watcher.update(batch).alarm for watcher in watchers]
                for change, drift in [*_DRIFTS.items()] * _REPEATS:
                    for batch in [draw(images, random) for _ in range(3)]:  # windows without the change before
                        [watcher.update(batch) for watcher in watchers]
                    found = _delays(watchers, lambda: drift(draw, images, random))  # noqa: B023
                    delays[change][seed] += np.array(found) / _REPEATS
            lengths = [f"{monitors * batches / max(1, count):.1f}" for count in alarms]
            cells.append({"dataset": Path(name).name, "change": "nothing", "batches": lengths})
            cells += [
                {"dataset": Path(name).name, "change": change, "batches": [f"{mean:.1f}" for mean in each.mean(axis=0)]}
                for change, each in delays.items()
            ]
    finally:
        Monitor._explained = explain  # type: ignore[method-assign]
    header = ["set", "change", "monitor", "MMD, each batch", "MMD, windows of 3 batches"]
    rows = [[cell["dataset"], cell["change"], *cell["batches"]] for cell in cells]
    write_json(Path(out) / "monitor.json", cells)
    write_text(Path(out) / "monitor.md", markdown_table(header, rows))
    return cells


def _delays(watchers: Sequence[Any], draw: Callable[[], Images]) -> list[int]:
    """Batches until each of the watchers raises an alarm, 200 at most."""
    found = [0] * len(watchers)
    for number in range(1, 201):
        batch = draw()
        for place, watcher in enumerate(watchers):
            if not found[place] and (watcher.update(batch).alarm or number == 200):
                found[place] = number
        if all(found):
            break
    return found


class WindowedMMD:
    """MMD between pixels of a reference and a window of the newest images, as in alibi-detect.

    Half of the reference is compared with; windows of the other half give the threshold.
    """

    def __init__(self, reference: Images, size: int, run_length: int, random: np.random.Generator) -> None:
        rows = reference.reshape(len(reference), -1).astype(np.float32)
        self._reference, rest = np.split(random.permutation(rows), 2)
        self._width = float(np.median(euclidean_distances(self._reference, squared=True)))
        self._size, self._newest = size, rest[:0]
        within, across = self._kernel(rest, rest), self._kernel(rest, self._reference)
        windows = (random.choice(len(rest), size, replace=False) for _ in range(40 * run_length))
        found = [self._statistic(within[np.ix_(at, at)], across[at]) for at in windows]
        self._threshold = float(np.quantile(found, 1 - 1 / run_length))

    def _kernel(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(np.exp(-euclidean_distances(one, other, squared=True) / self._width))

    @staticmethod
    def _statistic(within: NDArray[np.float32], across: NDArray[np.float32]) -> float:
        """Unbiased MMD without the term of the reference alone."""
        size = len(within)
        return float((within.sum() - size) / (size * (size - 1)) - 2 * across.mean())

    def update(self, batch: Images) -> BatchResult:
        """Add a batch to the window; no alarm before it is full."""
        self._newest = np.concatenate([self._newest, batch.reshape(len(batch), -1).astype(np.float32)])[-self._size :]
        full = len(self._newest) == self._size
        found = -np.inf
        if full:
            within, across = (self._kernel(self._newest, other) for other in (self._newest, self._reference))
            found = self._statistic(within, across)
        return BatchResult("", len(batch), found, self._threshold)


class Draw(Protocol):
    """Images drawn from a population: of its classes, of fewer, or of another class."""

    def __call__(self, n: int, random: np.random.Generator, kind: str = "all") -> Images:
        """Draw n images of ``"all"`` classes, ``"fewer"`` or the ``"new"`` one."""


def blobs(n: int, random: np.random.Generator, kind: str = "all") -> Images:
    """Images (n, 8, 8) of long bright spots of some widths, at random places and with noise."""
    widths = {"all": (1.0, 1.6, 2.4), "fewer": (1.0, 1.6), "new": (0.5,)}[kind]
    y, x = np.mgrid[:8, :8]
    centre, width = random.normal(3.5, 0.8, (n, 2, 1, 1)), random.choice(widths, n)[:, None, None]
    spots = np.exp(-((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2 / 2) / (2 * width**2))
    pixels = spots * random.uniform(0.6, 1, (n, 1, 1)) + random.normal(0, 0.05, (n, 8, 8))
    return np.asarray(np.rint(np.clip(pixels, 0, 1) * 255), dtype=np.uint8)


def _drawn_from(dataset: Dataset) -> Draw:
    """Draws without the last class; the first one is missing from "fewer", and "new" are images of the last.

    They are independent: the set is the population, and an image may be drawn again.
    """
    labels = np.asarray(dataset.labels)
    last = labels == labels.max()
    places = {"all": ~last, "fewer": ~last & (labels != 0), "new": last}

    def draw(n: int, random: np.random.Generator, kind: str = "all") -> Images:
        return np.asarray(dataset.images[random.choice(np.flatnonzero(places[kind]), n)])

    return draw


def _stained(images: Images) -> Images:
    images, side = images.copy(), images.shape[1] // 4
    images[: len(images) // 4, side : 2 * side, side : 2 * side] = 255
    return images


_DRIFTS: dict[str, Callable[[Draw, int, np.random.Generator], Images]] = {
    "class removed": lambda draw, n, random: draw(n, random, "fewer"),
    "new class, in 10 % of the images": lambda draw, n, random: np.concatenate(
        [draw(n - n // 10, random), draw(n // 10, random, "new")]
    ),
    "blur of half a pixel": lambda draw, n, random: ndimage.gaussian_filter(draw(n, random), (0, 0.5, 0.5)),
    "stain on a quarter of the images": lambda draw, n, random: _stained(draw(n, random)),
    "camera rotated by 10 degrees": lambda draw, n, random: ndimage.rotate(
        draw(n, random), 10, (1, 2), reshape=False, order=1
    ),
}
