"""Datasets in array files: ``.npz``, ``.npy`` and IDX."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.idx import is_idx_name, read_idx, read_idx_images
from bispectral_ot.datasets.local import find_plain_or_packed
from bispectral_ot.errors import DatasetError

_IMAGE_KEYS = ("images", "x", "data")
_LABEL_KEYS = ("labels", "y", "targets")


def read_npz(path: Path, *, split: str = "train") -> Dataset:
    """Read ``images`` and, where there are any, ``labels`` and ``classes``.

    Also understood, in either case: ``x``/``y``, ``data``/``targets``, the same with a split in the name
    (``x_train``, ``train_images``, ...), and a file with a single array.
    """
    content = _load(path)
    if not isinstance(content, np.lib.npyio.NpzFile):
        raise DatasetError(f"{path} is not an .npz archive; save it with numpy.savez.")
    with content:
        keys = content.files
        images_key = _find_key(keys, _IMAGE_KEYS, split)
        if images_key is None and len(keys) == 1 and split == "train":
            images_key = keys[0]
        if images_key is None:
            raise DatasetError(
                f"{path} has no images for the {split} split; its keys are {', '.join(keys) or 'none'}; "
                f"expected 'images' (and 'labels', 'classes'), 'x' (and 'y') or 'x_{split}' (and 'y_{split}')."
            )
        labels_key = _find_key(keys, _LABEL_KEYS, split)
        return Dataset(
            _without_single_channel(_read_key(path, content, images_key)),
            _read_key(path, content, labels_key) if labels_key else None,
            name=path.stem,
            classes=tuple(map(str, _read_key(path, content, "classes"))) if labels_key and "classes" in keys else (),
        )


def read_npy(path: Path) -> Dataset:
    """Read an array of images, without labels."""
    return Dataset(_without_single_channel(_load(path)), name=path.stem)


def read_idx_file(path: Path) -> Dataset:
    """Read an IDX file of images, with the labels file beside it where there is one.

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
            "put the right labels beside the images, or remove them."
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


def _find_key(keys: list[str], words: tuple[str, ...], split: str) -> str | None:
    """The key that names ``words`` for ``split``; a key without a split counts as the training one."""
    wanted = [form for word in words for form in (f"{word}_{split}", f"{split}_{word}")]
    if split == "train":
        wanted += words
    by_lower_case = {key.lower(): key for key in keys}
    return next((by_lower_case[form] for form in wanted if form in by_lower_case), None)


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from None


def _read_key(path: Path, content: Any, key: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = content[key]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "pickle" in str(error):
            raise DatasetError(
                f"{path}: {key!r} holds Python objects, which are not read; "
                f"save texts as {key}.astype(str), numbers as an array of numbers."
            ) from None
        raise _unreadable(path, error) from None
    return array


def _unreadable(path: Path, error: Exception) -> DatasetError:
    if "pickle" in str(error):
        return DatasetError(f"{path} is not an array file, or holds Python objects; save plain arrays of numbers.")
    return DatasetError(f"cannot read {path}: {error}; the file is damaged, get or save it again.")


def _without_single_channel(images: NDArray[Any]) -> NDArray[Any]:
    return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images
