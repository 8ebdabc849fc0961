"""Official sets from a folder that already has their IDX files.

Looked for, plain or ``.gz``: ``<folder>/<name>/``, torchvision's ``<folder>/MNIST/raw/``, the folder itself.

EMNIST letters come in two forms. Files with the official names (``emnist-letters-train-images-idx3-ubyte``)
hold transposed images and are turned upright. Files with MNIST's names (``train-images-idx3-ubyte``) inside a
folder called ``emnist-letters`` are taken as already upright. Both have labels 1 to 26.

A set whose number of images is not the official one is called ``<name>-assembled``, so that no result on it
is ever reported under the official name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.idx import read_idx, read_idx_images
from bispectral_ot.datasets.official import MNIST_FILES, OFFICIAL, OfficialSet
from bispectral_ot.errors import DatasetError


def find_plain_or_packed(folder: Path, stem: str) -> Path | None:
    """The file ``stem`` or ``stem.gz`` in ``folder``, whichever is there."""
    return next((path for path in (folder / stem, folder / f"{stem}.gz") if path.is_file()), None)


def find_pair(official: OfficialSet, folder: Path, split: str) -> tuple[Path, Path] | None:
    """The (images, labels) files of a split under ``folder``, or None."""
    for place, (images_stem, labels_stem) in _places(official, folder, split):
        images, labels = find_plain_or_packed(place, images_stem), find_plain_or_packed(place, labels_stem)
        if images and labels:
            return images, labels
    return None


def read_local(official: OfficialSet, folder: Path, split: str) -> Dataset:
    """Read a split from ``folder``; where it is not there, say what was looked for."""
    pair = find_pair(official, folder, split)
    if pair is None:
        state = "has" if folder.is_dir() else "is not a folder, so it cannot have"
        looked = "\n  ".join(
            f"{place / images} and {labels}" for place, (images, labels) in _places(official, folder, split)
        )
        raise DatasetError(
            f"{folder} {state} no {split} split of {official.name}. Looked for (plain or .gz):\n  {looked}\n"
            "Put the files there, or leave out root= (and unset BISPECTRAL_OT_DATA) to fetch them."
        )
    images_path, labels_path = pair
    images, labels = read_idx_images(images_path), read_idx(labels_path).astype(np.int64)
    if labels.ndim != 1 or len(labels) != len(images):
        raise DatasetError(
            f"{labels_path} has labels of shape {labels.shape}, but {images_path} has {len(images)} images; "
            "the two files do not belong together."
        )
    _refuse_another_set(official, "".join(map(str, labels[:10])), labels_path)
    indices = labels - official.first_label
    if len(labels) and (indices.min() < 0 or indices.max() >= len(official.classes)):
        last = official.first_label + len(official.classes) - 1
        raise DatasetError(
            f"{labels_path} has labels {labels.min()} to {labels.max()}, but those of {official.name} are "
            f"{official.first_label} to {last}; this is another set."
        )
    name = official.name if len(images) == official.counts[split] else f"{official.name}-assembled"
    return Dataset(images, indices, name=name, classes=official.classes)


def _places(official: OfficialSet, folder: Path, split: str) -> list[tuple[Path, tuple[str, str]]]:
    folders = [folder / official.name, folder / official.torchvision_folder / "raw", folder]
    places = [(place, official.files[split]) for place in folders]
    if official.files is not MNIST_FILES:
        places += [(place, MNIST_FILES[split]) for place in folders if place.name == official.name]
    return places


def _refuse_another_set(official: OfficialSet, first_labels: str, path: Path) -> None:
    """MNIST, Fashion-MNIST and KMNIST name their files alike: a flat folder may hold any of them."""
    for other in OFFICIAL.values():
        if other is not official and first_labels in other.first_labels:
            raise DatasetError(f"{path} belongs to {other.name}, not to {official.name}; ask for that, or move it.")
