"""Which array of a file has the images, and which the labels: by name, in all formats alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bispectral_ot.checks import advise
from bispectral_ot.datasets.listing import Listing, Stack
from bispectral_ot.errors import DatasetError

IMAGE_WORDS = ("images", "x", "data", "image", "img", "imgs")
LABEL_WORDS = ("labels", "y", "targets", "label", "target", "ans", "class")  # ans: Galaxy10
CLASS_WORDS = ("classes", "class_names", "label_names")


class Keys(NamedTuple):
    """Names of the arrays of a set."""

    images: str
    labels: str | None
    classes: str | None


def find_keys(
    what: object, shapes: dict[str, tuple[int, ...]], asked: Sequence[str], *, split: str, examples: str
) -> Keys:
    """Choose among the arrays of a file, whose names may be paths.

    Parameters
    ----------
    what
        The file, for messages.
    shapes
        Of the arrays, by name.
    asked
        Names given by the user, ``file::images::labels``; then nothing is guessed.
    split
        Names with a split in them, such as ``x_train`` or ``train_images``, are taken for it; those without are the
        training ones.
    examples
        What the error recommends.
    """
    if asked:
        for name in asked[:2]:
            if name not in shapes:
                raise DatasetError(f"{what} has no array {name!r}; {advise(name, shapes)}")
        return Keys(asked[0], asked[1] if len(asked) > 1 else None, None)
    images = find_key(what, shapes, IMAGE_WORDS, split)
    if images is None and split == "train":
        batches = [name for name, shape in shapes.items() if len(shape) in (3, 4)]
        images = batches[0] if len(batches) == 1 else None
    if images is None:
        raise DatasetError(
            f"{what} has no images for the {split} split; its arrays are {_listed(shapes)}; expected {examples}. "
            f"Other arrays are named as FILE::IMAGES or FILE::IMAGES::LABELS."
        )
    classes = next((name for name in shapes if _last(name) in CLASS_WORDS), None)
    return Keys(images, find_key(what, shapes, LABEL_WORDS, split), classes)


def find_key(what: object, keys: Iterable[str], words: tuple[str, ...], split: str) -> str | None:
    """The key that names one of the words for ``split``; a key without a split counts as the training one."""
    wanted = [form for word in words for form in (f"{word}_{split}", f"{split}_{word}", f"{split}/{word}")]
    if split == "train":
        wanted += words
    for form in wanted:
        found = [key for key in keys if f"/{key.lower()}".endswith(f"/{form}")]
        if len(found) > 1:
            raise DatasetError(f"{what} has {' and '.join(map(repr, found))}; keep the one that is meant.")
        if found:
            return found[0]
    return None


def list_arrays(what: str, name: str, arrays: dict[str, Any], asked: Sequence[str], split: str) -> Listing:
    """The set in a file of named arrays, of which only shapes are looked at yet."""
    shapes = {key: tuple(map(int, array.shape)) for key, array in arrays.items()}
    keys = find_keys(what, shapes, asked, split=split, examples="'images' (and 'labels', 'classes') or 'x' (and 'y')")
    labels = None if keys.labels is None else check_label_rows(what, np.asarray(arrays[keys.labels][...]))
    named = [] if keys.classes is None or labels is None else np.asarray(arrays[keys.classes][...]).ravel().tolist()
    classes = tuple(each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in named)
    return Listing(stack_of(arrays[keys.images], f"{what}::{keys.images}"), name, labels, classes)


def stack_of(rows: Any, what: str) -> Stack:
    """Images (n, height, width[, channels]) in a file; channels that come first are moved to the end."""
    shape, dtype = tuple(map(int, rows.shape)), np.dtype(rows.dtype)
    if len(shape) not in (3, 4) or 0 in shape or dtype.kind not in "buif":
        raise DatasetError(
            f"{what} has shape {shape} and type {dtype}; expected numbers (n, height, width) or (n, height, width, "
            "channels)."
        )
    if len(shape) == 4 and shape[1] <= 4 < shape[3]:
        return Stack(rows, what, lambda images: without_single_channel(np.moveaxis(images, 1, -1)))
    return Stack(rows, what, without_single_channel if shape[3:] == (1,) else None)


def check_label_rows(what: object, labels: Any) -> Any:
    """Refuse several labels for each image, as some published sets have them."""
    if getattr(labels, "ndim", 0) == 2 and labels.shape[1] > 1:
        raise DatasetError(
            f"{what} has {labels.shape[1]} labels for each image, but a set has one class for each or none. Read the "
            "images alone as FILE::IMAGES, or save one column (for one-hot rows labels.argmax(axis=1)) as the labels."
        )
    if labels.dtype.kind == "O":
        return [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in labels.ravel()]
    return labels.astype(str) if labels.dtype.kind == "S" else labels


def without_single_channel(images: Any) -> Any:
    """Images without an axis of one channel."""
    return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images


def _last(name: str) -> str:
    return name.rsplit("/", 1)[-1].lower()


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return (", ".join(names[:8]) + (", ..." if len(names) > 8 else "")) or "none"
