"""Verdicts of symmetry tests over many draws, and run length and delay of the monitor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from bispectral_ot import runtime
from bispectral_ot.comparing import Monitor, symmetry_tests
from bispectral_ot.datasets import Dataset, load, rotate_randomly
from bispectral_ot.files import write_json, write_text
from bispectral_ot.store import Store, dataset_hash
from studies.markdown import markdown_table

Images = NDArray[Any]
Change = Callable[[Dataset, int], Dataset]
# Images of the same kind as those of a trial on sheets of steel: standard deviations of the blur of noise.
_BLURS = ((1.0, 1.0), (2.5, 2.5), (1.0, 8.0), (4.0, 1.0), (1.5, 1.5), (0.7, 3.0))
TEXTURES = "textures"


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


CASES: dict[str, Change] = {
    "same": lambda dataset, seed: _without_labels(dataset),
    "brightness x 1.1": lambda dataset, seed: _without_labels(_brighter(dataset, seed)),
    "class removed": lambda dataset, seed: dataset.select(np.asarray(dataset.labels) != 0),
    "class removed, no labels": lambda dataset, seed: _without_labels(dataset.select(np.asarray(dataset.labels) != 0)),
    "turned": lambda dataset, seed: rotate_randomly(_without_labels(dataset), seed=seed),
}


def run_verdicts(
    out: str | Path,
    *,
    datasets: Sequence[str] = ("digits", TEXTURES),
    images: int = 300,
    repeats: int = 20,
) -> list[dict[str, Any]]:
    """Count the verdicts on five cases; writes ``verdicts.json`` and ``verdicts.md``.

    Parameters
    ----------
    datasets
        Names or folders, of 64 pixels a side; ``"textures"`` for synthetic ones.
    images
        Images of each side.
    repeats
        Draws of each case.
    """
    store, found = Store(Path(out) / "cells"), []
    tasks = [(name, case) for name in datasets for case in CASES]
    for number, (name, case) in enumerate(tasks):
        runtime.progress("cells", number, len(tasks))
        resize = 64 if Path(name).is_dir() else None
        pool = textures(4000) if name == TEXTURES else load(name, resize=resize, grey=resize is not None)
        parts = ["verdicts", dataset_hash(pool), case, images, repeats]
        counts: dict[str, int] = store.result(parts, dict, partial(_verdicts, pool, CASES[case], images, repeats))
        words = ", ".join(f"{word} {count}" for word, count in counts.items())
        found.append({"dataset": Path(name).name, "case": case, "images": images, "verdicts": words})
    rows = [[cell["dataset"], cell["case"], cell["verdicts"]] for cell in found]
    write_json(Path(out) / "verdicts.json", found)
    write_text(Path(out) / "verdicts.md", markdown_table(["set", "change", f"verdicts of {repeats} draws"], rows))
    return found


def _verdicts(pool: Dataset, change: Change, images: int, repeats: int) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for seed in range(repeats):
        order = np.random.default_rng([seed, 5]).permutation(len(pool))[: 2 * images]
        source, target = pool.select(order[:images]), change(pool.select(order[images:]), seed)
        verdict = symmetry_tests(source if target.labels is not None else _without_labels(source), target).verdict
        counts[f"{verdict.kind} {' or '.join(verdict.changes) or verdict.reason}".strip()] += 1
    return dict(counts.most_common())


def run_monitor(
    out: str | Path, *, monitors: int = 8, batches: int = 500, images: int = 60, run_length: int = 50
) -> list[dict[str, Any]]:
    """Measure the run length without change and the delay of the monitor; writes ``monitor.json`` and ``monitor.md``.

    Images are small blobs of an endless population, so that batches do not repeat.

    Parameters
    ----------
    monitors, batches
        Number of monitors, and of batches without change that each is given.
    images, run_length
        Images of a batch, and the run length that is asked for.
    """
    alarms = 0
    delays: dict[str, list[int]] = {name: [] for name in _DRIFTS}
    explain = Monitor._explained
    Monitor._explained = lambda self, result, images: result  # type: ignore[method-assign]
    try:
        for seed in range(monitors):
            runtime.progress("monitors", seed, monitors)
            random = np.random.default_rng(seed)
            monitor = Monitor.fit(blobs(1000, random), run_length=run_length, seed=seed)
            alarms += sum(monitor.update(blobs(images, random)).alarm for _ in range(batches))
            for name, drift in _DRIFTS.items():
                found = (n for n in range(1, 200) if monitor.update(drift(blobs(images, random), random)).alarm)
                delays[name].append(next(found, 200))
    finally:
        Monitor._explained = explain  # type: ignore[method-assign]
    rows = [["no change", f"{monitors * batches / max(1, alarms):.1f} (asked for {run_length})"]]
    rows += [[name, f"{np.mean(found):.1f}"] for name, found in delays.items()]
    cells = [{"case": name, "batches": value} for name, value in rows]
    write_json(Path(out) / "monitor.json", cells)
    write_text(Path(out) / "monitor.md", markdown_table(["change", "batches until an alarm"], rows))
    return cells


def blobs(n: int, random: np.random.Generator, widths: Sequence[float] = (1.0, 1.6, 2.4)) -> Images:
    """Images (n, 8, 8) of bright spots of some widths, at random places and with noise."""
    y, x = np.mgrid[:8, :8]
    centre, width = random.normal(3.5, 0.8, (n, 2, 1, 1)), random.choice(widths, n)[:, None, None]
    spots = np.exp(-((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2) / (2 * width**2))
    pixels = spots * random.uniform(0.6, 1, (n, 1, 1)) + random.normal(0, 0.05, (n, 8, 8))
    return np.asarray(np.rint(np.clip(pixels, 0, 1) * 255), dtype=np.uint8)


def _stained(images: Images) -> Images:
    images = images.copy()
    images[: len(images) // 4, 1:3, 1:3] = 255
    return images


_DRIFTS: dict[str, Callable[[Images, np.random.Generator], Images]] = {
    "class removed": lambda images, random: blobs(len(images), random, (1.0, 1.6)),
    "new class, in 10 % of the images": lambda images, random: np.concatenate(
        [images[len(images) // 10 :], blobs(len(images) // 10, random, (0.5,))]
    ),
    "blur": lambda images, random: ndimage.gaussian_filter(images, (0, 0.5, 0.5)),
    "stain on a quarter of the images": lambda images, random: _stained(images),
    "camera moved by a pixel": lambda images, random: np.roll(images, 1, axis=2),
}
