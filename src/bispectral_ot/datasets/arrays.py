"""Datasets in array files: ``.npz``, ``.npy`` and IDX."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.idx import is_idx_name, read_idx, read_idx_images
from bispectral_ot.datasets.keys import check_label_rows, find_keys, without_single_channel
from bispectral_ot.datasets.local import find_plain_or_packed
from bispectral_ot.datasets.reading import reading
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits


def read_npz(path: Path, *, split: str = "train", asked: Sequence[str] = ()) -> Dataset:
    """Read ``images`` and, where there are any, ``labels`` and ``classes``.

    Also understood, in either case: ``x``/``y``, ``data``/``targets``, the same with a split in the name
    (``x_train``, ``train_images``, ...), a file with a single array, and the names that are ``asked`` for.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        alone = names[0] if len(names) == 1 and split == "train" else None
        examples = f"'images' (and 'labels', 'classes'), 'x' (and 'y') or 'x_{split}' (and 'y_{split}')"
        asked = asked or ([alone] if alone else [])
        keys = find_keys(path, dict.fromkeys(names, ()), asked, split=split, examples=examples)
        images = _read_member(path, archive, keys.images)
        labels = check_label_rows(path, _read_member(path, archive, keys.labels)) if keys.labels else None
        named = keys.labels and keys.classes
        classes = _read_member(path, archive, named) if named else np.empty(0, dtype=str)
    if classes.ndim != 1:
        raise DatasetError(f"{path}: 'classes' has shape {classes.shape}; expected one name for each class, (n,).")
    return Dataset(without_single_channel(images), labels, name=path.stem, classes=tuple(map(str, classes)))


def read_npy(path: Path) -> Dataset:
    """Read an array of images, without labels."""
    with reading(path), open(path, "rb") as file:
        if zipfile.is_zipfile(file):
            raise DatasetError(f"{path} is an .npz archive; give it a name that ends with .npz.")
        file.seek(0)
        images = _read_array(file, str(path), "the array")
    return Dataset(without_single_channel(images), name=path.stem)


def read_idx_file(path: Path) -> Dataset:
    """Read an IDX file of images, with the labels file in the same folder where there is one.

    The labels file has the same name with ``labels`` for ``images`` and ``idx1`` for ``idx3``.
    """
    images = read_idx_images(path)
    stem = path.name.removesuffix(".gz")
    labels_stem = re.sub(r"idx\d", "idx1", stem.replace("images", "labels"))
    labels_path = find_plain_or_packed(path.parent, labels_stem) if labels_stem != stem else None
    labels = read_idx(labels_path) if labels_path else None
    if labels is not None and len(labels) != len(images):
        raise DatasetError(
            f"{labels_path} has {len(labels)} labels but {path} has {len(images)} images; "
            "put the right labels into the same folder, or remove them."
        )
    return Dataset(images, labels, name=re.sub(r"[-.]images.*|[-.]idx.*", "", stem) or stem)


def find_idx_images(folder: Path, *, split: str) -> Path | None:
    """The IDX file with the images of ``split`` in ``folder``; None where the folder has no IDX files."""
    files = sorted(path for path in folder.iterdir() if is_idx_name(path.name) and path.is_file())
    if not files:
        return None
    marks = ("train",) if split == "train" else ("t10k", "test")
    found = [path for path in files if "images" in path.name and any(mark in path.name for mark in marks)]
    stems = {path.name.removesuffix(".gz") for path in found}
    if len(stems) != 1:
        raise DatasetError(
            f"{folder} has {len(stems) or 'no'} IDX files with images of the {split} split among "
            f"{', '.join(path.name for path in files[:6])}; name the file itself."
        )
    return found[0]


def _read_member(path: Path, archive: zipfile.ZipFile, key: str) -> NDArray[Any]:
    member = f"{key}.npy" if f"{key}.npy" in archive.namelist() else key
    with archive.open(member) as file:
        return _read_array(file, f"{path}: {key!r}", key)


def _read_array(file: IO[bytes], what: str, key: str) -> NDArray[Any]:
    """Read an array in NumPy's format, once its header shows that it fits into memory.

    A zip file of some kilobytes can unpack to more than any machine has.
    """
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise DatasetError(
            f"{what} holds Python objects, which are not read; save strings as {key}.astype(str), numbers as an array "
            "of numbers."
        )
    check_fits(math.prod(shape) * dtype.itemsize, what, "save a part of it, or smaller images")
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array
