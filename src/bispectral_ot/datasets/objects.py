"""Sets of other libraries in memory, recognised by their methods: none of these libraries is imported here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import detached
from bispectral_ot.datasets.array_names import choose_names
from bispectral_ot.datasets.formats.encoded import PATH_WORDS, list_table
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import InputError


def scan_object(data: Any) -> LazyDataset | None:
    """The set that an object of another library holds; None where it is none that is known.

    A data frame with a column of paths (``columns``, ``iloc``), a ``datasets.Dataset``
    (``column_names``, ``features``), a map-style dataset of torch or torchvision (``__len__``, ``__getitem__``).
    """
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        columns = {str(name): data[name].tolist() for name in data.columns}
        has_paths = any(name.lower() in PATH_WORDS for name in columns)
        return list_table(columns, "the data frame", "frame") if has_paths else None
    if hasattr(data, "column_names") and hasattr(data, "features"):
        images, column = choose_names("the dataset", list(data.column_names))
        labels = None if column is None else list(data[column])
        classes = () if column is None else tuple(getattr(data.features[column], "names", None) or ())
        return LazyDataset(_items(lambda i: data[i][images], len(data)), "dataset", labels, classes)
    plain = (
        isinstance(data, (list, tuple, dict, np.ndarray)) or hasattr(data, "__array__") or hasattr(data, "__dlpack__")
    )
    if not plain and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _scan_items(data)
    return None


def as_array(data: Any) -> Any:
    """An array of another library as one of NumPy, without a copy where it allows that; anything else as it is."""
    if isinstance(data, (np.ndarray, list, tuple)) or not hasattr(data, "__dlpack__"):
        return data
    try:
        data = detached(data)
        return np.from_dlpack(data)
    except Exception as error:  # on a GPU, with a gradient, or of a type that NumPy does not have
        with suppress(Exception):
            array = np.asarray(data)
            if array.dtype.kind != "O":
                return array
        raise InputError(
            f"cannot read the {type(data).__name__} as an array ({error}); bring it to the CPU first."
        ) from None


def _scan_items(data: Any) -> LazyDataset:
    """Items are images, or pairs of an image and a label; torchvision also keeps the labels in ``targets``."""
    n, name = len(data), type(data).__name__.lower()
    if not n or not isinstance(data[0], (tuple, list)) or len(data[0]) < 2:
        return LazyDataset(_items(lambda i: data[i], n), name)
    targets = getattr(data, "targets", None)
    found = targets if targets is not None and len(targets) == n else (data[i][1] for i in range(n))
    labels = [label.item() if hasattr(label, "item") else label for label in found]
    classes: Sequence[Any] = getattr(data, "classes", None) or ()
    are_indices = all(isinstance(label, int) for label in labels)
    return LazyDataset(_items(lambda i: data[i][0], n), name, labels, tuple(map(str, classes)) if are_indices else ())


def _items(get: Callable[[int], Any], count: int) -> FileSource:
    names = [f"item {number}" for number in range(count)]
    return FileSource(range(count), names, "the dataset", lambda i: _pixels(get(i), names[i]))


def _pixels(image: Any, what: str) -> NDArray[Any]:
    """Pixels of a Pillow image, an array, or a tensor, whose channels come first as those of torch do."""
    if hasattr(image, "convert") and getattr(image, "mode", "L") not in ("L", "I;16", "I", "F", "RGB"):
        image = image.convert("RGB")
    pixels = np.asarray(as_array(image))
    if pixels.ndim == 3 and pixels.shape[0] <= 4 < pixels.shape[2]:
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or 0 in pixels.shape or pixels.dtype.kind not in "buif":
        raise InputError(
            f"{what} is no image: expected (height, width[, channels]), got {type(image).__name__} of "
            f"shape {pixels.shape} and type {pixels.dtype}."
        )
    return pixels.astype(np.uint8) if pixels.dtype == np.bool_ else pixels
