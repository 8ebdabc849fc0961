"""Verdicts of ``compare`` on folders of files, of which one was changed as an editor or a camera would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from bispectral_ot import compare, runtime
from bispectral_ot.datasets import load
from bispectral_ot.files import write_json, write_text
from bispectral_ot.store import Store
from studies import frames
from studies.markdown import markdown_table

STEEL, DEFECTS = "steel-like", ("crazing", "inclusion", "patches", "pits", "scale", "scratches")
# What is done to the files of one side, and whether both sides have a folder for each class.
CHANGES = {
    "same": ("upright", False),
    "brightness x 1.1, clipped": ("brighter", False),
    "class removed, labels": ("class removed", True),
    "class removed, no labels": ("class removed", False),
    "turned in place": ("in place", False),
    "turned, enlarged canvas, black": ("enlarged, black", False),
    "turned, enlarged canvas, white": ("enlarged, white", False),
}


def run_edited_files(
    out: str | Path,
    *,
    datasets: Sequence[str] = ("digits", STEEL),
    images: int = 300,
    seeds: int = 1,
    root: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Verdicts on pairs of folders, one of which was edited; writes ``files.json`` and ``files.md``.

    Both sides are saved in the same way: grey images as PNG, colour images as JPEG of quality 90.

    Parameters
    ----------
    datasets
        Names, or folders with a sub-folder for each class; ``"steel-like"`` for synthetic surfaces of 200 pixels.
    images
        Images of each side.
    seeds
        Pairs of each kind.
    """
    store, cells = Store(Path(out) / "cells"), []
    tasks = list(product(datasets, CHANGES, range(seeds)))
    for number, (name, change, seed) in enumerate(tasks):
        runtime.progress("pairs of folders", number, len(tasks))
        parts = ["edited files", Path(name).name, change, images, seed]
        found: dict[str, Any] = store.result(parts, dict, partial(_compared, name, change, images, seed, root))
        cells.append({"dataset": Path(name).name, "change": change, "seed": seed, **found})
        write_json(Path(out) / "files.json", cells)
        write_text(Path(out) / "files.md", _table(cells))
    runtime.progress("pairs of folders", len(tasks), len(tasks))
    return cells


def _compared(name: str, change: str, images: int, seed: int, root: str | Path | None) -> dict[str, Any]:
    """Tests between two folders of files that are made for them."""
    files, random = _files(name, root, seed, 2 * images), np.random.default_rng([seed, 3])
    files = [files[i] for i in random.permutation(len(files))[: 2 * images]]
    edit, labelled = CHANGES[change]
    first = min(label for label, _ in files)
    with TemporaryDirectory() as folder:
        for number, (label, opened) in enumerate(files):
            image, is_second = opened(), number >= len(files) // 2
            if is_second and edit == "class removed" and label == first:
                continue
            image = _edited(image, edit, random) if is_second else image
            suffix = "png" if image.mode == "L" else "jpg"
            path = Path(folder, "second" if is_second else "first", label if labelled else "", f"{number}.{suffix}")
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path, quality=90)  # which PNG ignores
        found = compare([Path(folder, side) for side in ("first", "second")], permutations=199, symmetry_tests=True)
    return {**found.symmetry_tests[0].summary(), "frame": found.settings["frame"]}


def _edited(image: Image.Image, edit: str, random: np.random.Generator) -> Image.Image:
    if edit == "brighter":
        return image.point(lambda level: min(255, round(1.1 * level)))
    return image if edit in ("upright", "class removed") else frames.changed(image, edit, random)


def _files(name: str, root: str | Path | None, seed: int, count: int) -> list[tuple[str, Callable[[], Image.Image]]]:
    """Class of each image, and a function that opens it."""
    if name == STEEL:
        return [(DEFECTS[i % 6], partial(steel_like, DEFECTS[i % 6], [seed, i])) for i in range(count)]
    if Path(name).is_dir():
        return [(path.parent.name, partial(_opened, path)) for path in sorted(Path(name).glob("*/*"))]
    found = load(name, root=root)
    pixels = np.rint(np.asarray(found.images, dtype=float) * (255 / found.images.max())).astype(np.uint8)
    classes = np.asarray(found.classes)[found.labels]
    return [(str(label), partial(Image.fromarray, each)) for label, each in zip(classes, pixels, strict=True)]


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("L" if image.mode in ("1", "L") else "RGB")


def steel_like(defect: str, seed: Sequence[int], side: int = 200) -> Image.Image:
    """Rolled steel with a defect: grain along one direction, uneven light, and what the defect adds."""
    random = np.random.default_rng(seed)

    def noise(*blur: float) -> NDArray[np.float64]:
        found = ndimage.gaussian_filter(random.normal(size=(side, side)), blur, mode="wrap")
        return np.asarray(found / found.std())

    def lines(count: int, wander: float, thickness: float) -> NDArray[np.float64]:
        mask = np.zeros((side, side))
        for _ in range(count):
            turns = random.normal(0, wander, side).cumsum() + random.uniform(0, 2 * np.pi)
            walk = np.stack([np.sin(turns), np.cos(turns)]).cumsum(axis=1) + random.uniform(0, side, (2, 1))
            mask[tuple(np.rint(walk).astype(int) % side)] = 1
        return np.asarray(np.minimum(1, 3 * thickness * ndimage.gaussian_filter(mask, thickness, mode="wrap")))

    surface = 120 + 8 * noise(0.7, 4) + 6 * noise(30, 30) + random.normal(0, 12)
    if defect == "crazing":
        surface -= 60 * lines(14, 0.3, 0.8)
    elif defect == "scratches":
        surface += 80 * lines(int(random.integers(2, 5)), 0.01, 1.2)
    elif defect == "inclusion":
        surface -= 55 * (noise(12, 3) > 2.3)
    elif defect == "patches":
        surface -= 40 * (noise(14, 14) > 0.8)
    elif defect == "pits":
        surface -= 45 * (noise(1.5, 1.5) > 2.5)
    elif defect == "scale":
        surface -= 18 * np.abs(noise(3, 5))
    return Image.fromarray(surface.clip(0, 255).astype(np.uint8))


def _table(cells: Sequence[dict[str, Any]]) -> str:
    """Verdicts; rows are changes, columns sets."""
    names, rows = list(dict.fromkeys(cell["dataset"] for cell in cells)), []
    for change in dict.fromkeys(cell["change"] for cell in cells):
        found = [[c for c in cells if (c["dataset"], c["change"]) == (name, change)] for name in names]
        words = (Counter(map(_word, some)).most_common() for some in found)
        several = max(map(len, found)) > 1
        rows.append([change, *(", ".join(f"{w} {n}" if several else w for w, n in each) for each in words)])
    return markdown_table(["change", *names], rows)


def _word(cell: dict[str, Any]) -> str:
    changes = " or ".join(cell["changes"])
    if cell["verdict"] == "explained":
        return changes
    return f"undecided: {changes or 'distance only'}" if cell["verdict"] == "undecided" else cell["verdict"]
