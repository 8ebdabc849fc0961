"""Levels and power of the symmetry test for rotated images: sets, sizes, interpolations and fills.

One side has unchanged images, the other has images of the same population, rotated by any angle with one of the usual
interpolations and fills. A test at 5 % should reject in 5 % of the repeats, for any number of images. So should the
test of all features if nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.comparing.change_tests import CHANGES, features_allowing_for, permutation_p_value, relabellings
from bispectral_ot.comparing.resampling import INTERPOLATIONS, matching_blurs
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.files import write_json, write_text
from bispectral_ot.store import Store, content_hash, dataset_hash

FILLS = ("zero", "mean", "edge", "reflect")
KINDS = ("bilinear", "bicubic", "lanczos", "nearest")
_LEVEL, _PERMUTATIONS = 0.05, 99
_BLUR = "blur"  # the version with both sides blurred to one sharpness

Stack = NDArray[np.float32]
Cell = dict[str, Any]


def run_symmetry_levels(
    out: str | Path,
    *,
    datasets: Sequence[str] = ("mnist", "fashion-mnist"),
    sizes: Sequence[int] = (60, 300, 1000),
    repeats: Sequence[int] = (200, 100, 60),
    images: int = 12_000,
    skip: int = 20_000,
    root: str | Path | None = None,
) -> list[Cell]:
    """Level of the symmetry tests, and power to detect a removed class; writes ``levels.json`` and ``levels.md``.

    Each set has each interpolation and each fill once; four sets have all 16 pairs of them.

    Parameters
    ----------
    datasets
        Names or folders; read in grey, at most 64 pixels.
    sizes
        Numbers of images on each side; sizes too large for a set are left out.
    repeats
        Number of tests for each size.
    images
        Number of images from which all tests of a cell are drawn.
    skip
        Number of images to leave out at the beginning of larger sets: those on which parameters were chosen.
    """
    store, found = Store(Path(out) / "cells"), []
    tasks = []
    for place, name in enumerate(datasets):
        cells = zip(KINDS, (*FILLS[place % 4 :], *FILLS[: place % 4]), strict=True)
        tasks += [(name, *cell) for cell in (*cells, ("none", "class removed"), ("none", "same"))]
    for number, (name, kind, fill) in enumerate(tasks):
        runtime.progress("cells", number, len(tasks))
        pool = _pool(name, images, skip=skip, root=root)
        counts = {n: count for n, count in zip(sizes, repeats, strict=True) if 2 * n <= len(pool)}
        parts = ["symmetry levels", dataset_hash(pool), kind, fill, list(counts.items()), _PERMUTATIONS]
        rates: dict[str, Any] = store.result(parts, dict, partial(_rates, pool, kind, fill, counts))
        found.append({"dataset": name, "interpolation": kind, "fill": fill, **rates})
        write_json(Path(out) / "levels.json", found)
        write_text(Path(out) / "levels.md", _table(found))
    runtime.progress("cells", len(tasks), len(tasks))
    return found


def _pool(name: str, images: int, *, skip: int, root: str | Path | None) -> Dataset:
    path = Path(name)
    found = load(path, resize=64, grey=True) if path.is_dir() else load(name, root=root)
    found = found.select(slice(skip if skip < len(found) else 0, None))
    return found.select(np.sort(np.random.default_rng(0).permutation(len(found))[:images]))


def _rates(pool: Dataset, kind: str, fill: str, counts: dict[int, int]) -> Cell:
    """Fraction of tests that reject, by size: of the whole test, and of the version without further resampling."""
    start, random = time.perf_counter(), np.random.default_rng(int(content_hash(kind, fill, pool.name), 16))
    plain = np.asarray(pool.images, dtype=np.float32)
    changed = plain if kind == "none" else turned(plain, random, kind, fill)
    low, high = min(plain.min(), changed.min()), max(plain.max(), changed.max())
    sides = [(side[..., None] - low) / (high - low) for side in (plain, changed)]
    again = [] if fill == "same" else [*INTERPOLATIONS]
    versions = [(None, None), *((name, None) for name in again), *((None, name) for name in again)]
    versions += [(_BLUR, _BLUR)] if again else []
    blurs = matching_blurs(sides)  # of all images, those of a draw differ little
    allowed = [frozenset[str](), CHANGES["intensity"]] if fill == "same" else [CHANGES["rotation"]]

    def features(images: Stack, name: str | float | None) -> list[Stack]:
        return [rows for each in allowed for rows in features_allowing_for(images, each, random, again=name)]

    groups = [{name: features(side, name) for name in (None, *again)} for side in sides]
    for each, side, blur in zip(groups, sides, blurs, strict=True):
        each[_BLUR] = features(side, blur)
    kept = np.ones(len(pool), dtype=bool)
    if fill == "class removed" and pool.labels is not None:
        kept = pool.labels != 0
    cell: Cell = {}
    for n, repeats in counts.items():
        rejected = {"test": 0, "plain": 0}
        for _ in range(repeats):
            order = random.permutation(len(pool))
            source, target = order[:n], order[n:][kept[order[n:]]][:n]
            signs, seed = relabellings((n, len(target)), _PERMUTATIONS, random), int(random.integers(2**63))

            def rejects(version: tuple[str | None, str | None]) -> bool:
                one = [rows[source] for rows in groups[0][version[0]]]  # noqa: B023
                other = [rows[target] for rows in groups[1][version[1]]]  # noqa: B023
                return permutation_p_value((one, other), signs, seed) <= _LEVEL  # noqa: B023

            first = rejects(versions[0])
            rejected["plain"] += first
            rejected["test"] += first and all(map(rejects, versions[1:]))
        cell |= {f"{what} {n}": count / repeats for what, count in rejected.items()}
    return cell | {"seconds": time.perf_counter() - start}


def turned(images: Stack, random: np.random.Generator, kind: str, fill: str) -> Stack:
    """Images rotated by any angle, with an interpolation of SciPy (Lanczos: a literal sum), in whole grey values."""
    from scipy import ndimage

    mode = {"edge": "nearest", "reflect": "reflect"}.get(fill, "constant")
    level = float(images.mean()) if fill == "mean" else 0.0
    found = []
    for image, angle in zip(images, random.uniform(0, 360, len(images)), strict=True):
        if kind == "lanczos":
            found.append(_lanczos(image, angle, mode, level))
        else:
            order: Any = {"nearest": 0, "bilinear": 1, "bicubic": 3}[kind]
            place: dict[str, Any] = {"mode": mode, "cval": level}
            found.append(ndimage.rotate(image, angle, reshape=False, order=order, **place))
    return np.rint(np.clip(np.stack(found), images.min(), images.max())).astype(np.float32)


def _lanczos(image: Stack, degrees: float, mode: str, level: float) -> Stack:
    """One image resampled through a window of 6 x 6 pixels, after padding."""
    side, t = image.shape[0], np.deg2rad(degrees)
    options: Any = {"constant_values": level} if mode == "constant" else {}
    pad = side // 2 + 4
    kinds: Any = {"nearest": "edge", "reflect": "symmetric", "constant": "constant"}
    padded = np.pad(image, pad, mode=kinds[mode], **options)
    y, x = (each - (size - 1) / 2 for each, size in zip(np.mgrid[:side, : image.shape[1]], image.shape, strict=True))
    rows = np.cos(t) * y + np.sin(t) * x + (side - 1) / 2 + pad
    columns = np.cos(t) * x - np.sin(t) * y + (image.shape[1] - 1) / 2 + pad
    total, weights = np.zeros(image.shape), np.zeros(image.shape)
    for i in range(-2, 4):
        for j in range(-2, 4):
            at = np.floor(rows).astype(int) + i, np.floor(columns).astype(int) + j
            down, right = rows - at[0], columns - at[1]
            weight = np.sinc(down) * np.sinc(down / 3) * np.sinc(right) * np.sinc(right / 3)
            at = tuple(np.clip(place, 0, size - 1) for place, size in zip(at, padded.shape, strict=True))
            total, weights = total + weight * padded[at], weights + weight
    return (total / weights).astype(np.float32)


def _table(cells: Sequence[Cell]) -> str:
    sizes = sorted({int(name.split()[1]) for cell in cells for name in cell if name.startswith("test ")})
    header = ["set", "other side", "fill", *(f"{n:,} images" for n in sizes)]
    lines = [header, ["---", "---", "---", *["---:"] * len(sizes)]]
    for cell in cells:
        fill = cell["fill"]
        side = "as it is" if cell["interpolation"] == "none" else f"turned, {cell['interpolation']}"
        side, fill = ("as it is, test of all features", "") if fill == "same" else (side, fill)
        figures = [
            f"{100 * cell[f'test {n}']:.3g} ({100 * cell[f'plain {n}']:.3g})" if f"test {n}" in cell else ""
            for n in sizes
        ]
        lines.append([Path(cell["dataset"]).name, side, fill, *figures])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
