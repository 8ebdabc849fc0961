"""Arrays of a file: which one has the images and which the labels, and which axis is which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import advise
from bispectral_ot.datasets.dataset import shape_advice
from bispectral_ot.datasets.sources import ArraySource, LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits

IMAGE_WORDS = ("images", "x", "data", "image", "img", "imgs")
# "ans" is the name in Galaxy10; "y" comes late, since tables also have coordinates x and y
LABEL_WORDS = ("labels", "label", "targets", "target", "ans", "class", "class_name", "category", "y")
_CLASS_WORDS = ("classes", "class_names", "label_names")
MOST_CHANNELS = 4  # more are planes of their own
_MOST_CLASSES = 2**20


def choose_names(
    what: object,
    names: Sequence[str],
    asked: Sequence[str] = (),
    split: str = "train",
    *,
    words: tuple[str, ...] = IMAGE_WORDS,
    candidates: Sequence[str] = (),
) -> tuple[str, str | None]:
    """Names of the images and of the labels (or None) among the arrays or columns of a file."""
    if asked:
        for name in asked[:2]:
            if name not in names:
                raise DatasetError(f"{what} has no array or column {name!r}; {advise(name, names)}")
        return asked[0], asked[1] if len(asked) > 1 else None
    images = find_name(what, names, words, split)
    if images is None and split == "train" and len(candidates) == 1:
        images = candidates[0]
    if images is None:
        shown = (", ".join(names[:8]) + (", ..." if len(names) > 8 else "")) or "none"
        raise DatasetError(
            f"{what} has no images for the {split} split; it has {shown}; expected {words[0]!r}. Other arrays are "
            "named as FILE::IMAGES or FILE::IMAGES::LABELS."
        )
    return images, find_name(what, [name for name in names if name != images], LABEL_WORDS, split)


def find_name(what: object, names: Iterable[str], words: tuple[str, ...], split: str = "train") -> str | None:
    """The name that is one of the words, for ``split``; a name without a split counts as the training one."""
    wanted = [form for word in words for form in (f"{word}_{split}", f"{split}_{word}", f"{split}/{word}")]
    for form in [*wanted, *(words if split == "train" else ())]:
        found = [name for name in names if f"/{name.lower()}".endswith(f"/{form}")]
        if len(found) > 1:
            raise DatasetError(f"{what} has {' and '.join(map(repr, found))}; keep the one that is meant.")
        if found:
            return found[0]
    return None


def list_arrays(
    what: str,
    name: str,
    arrays: Mapping[str, Any],
    asked: Sequence[str],
    split: str,
    read: Callable[[Any], Any] = lambda array: np.asarray(array[...]),
) -> LazyDataset:
    """The set in a file of named arrays; ``read`` reads labels and names of classes, once their lengths are right."""
    shapes = {key: tuple(map(int, array.shape)) for key, array in arrays.items()}
    names = list(shapes)
    images, labels = choose_names(what, names, asked, split, candidates=names if len(names) == 1 else ())
    source = array_source(arrays[images], f"{what}::{images}")
    if labels is None:
        return LazyDataset(source, name)
    shape = shapes[labels]
    if shape[:1] != (len(source),) or len(shape) > 2 or shape[1:] > (1,):
        raise DatasetError(
            f"{what}: {labels!r} has shape {shape} for {len(source)} images, but a set has one label for each or none. "
            "Save one column (of one-hot rows labels.argmax(axis=1)), or read the images alone as FILE::IMAGES."
        )
    check_fits(64 * len(source), f"{what}::{labels}", "read a part of it")
    values, classes = _as_text(read(arrays[labels])), find_name(what, shapes, _CLASS_WORDS)
    if asked or classes is None:
        return LazyDataset(source, name, values.reshape(-1))
    if len(shapes[classes]) != 1 or shapes[classes][0] > _MOST_CLASSES:
        raise DatasetError(f"{what}: {classes!r} has shape {shapes[classes]}; expected one name for each class, (n,).")
    return LazyDataset(source, name, values.reshape(-1), tuple(map(str, _as_text(read(arrays[classes])).tolist())))


def _as_text(values: NDArray[Any]) -> NDArray[Any]:
    """Byte strings as text."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "O":
        texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values.ravel()]
        return np.array(texts, dtype=object)
    return values


def array_source(rows: Any, what: str) -> ArraySource:
    """Images (n, height, width[, channels]) in a file; channels that come first are moved to the end."""
    shape, dtype = tuple(map(int, rows.shape)), np.dtype(rows.dtype)
    if dtype.kind not in "buif":
        raise DatasetError(f"{what} has shape {shape} and type {dtype}; expected images of real numbers.")
    if len(shape) not in (3, 4) or 0 in shape:
        raise DatasetError(f"{what}: {shape_advice(shape)}")
    return ArraySource(rows, what, channels_first=len(shape) == 4 and shape[1] <= MOST_CHANNELS < shape[3])
