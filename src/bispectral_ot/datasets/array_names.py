"""Arrays of a file: which one has the images and which the labels, and which axis is which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import advise
from bispectral_ot.datasets.dataset import shape_advice
from bispectral_ot.datasets.sources import ArraySource, LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits

IMAGE_WORDS = ("images", "x", "data", "image", "img", "imgs")
LABEL_WORDS = ("labels", "y", "targets", "label", "target", "ans", "class")  # ans: Galaxy10
_CLASS_WORDS = ("classes", "class_names", "label_names")
_MOST_CHANNELS = 4  # more are planes of their own
_MOST_CLASSES = 2**20


class Keys(NamedTuple):
    """Names of the arrays of a set."""

    images: str
    labels: str | None
    classes: str | None


def find_keys(
    what: object,
    shapes: Mapping[str, tuple[int, ...]],
    asked: Sequence[str],
    *,
    split: str,
    examples: str = "",
    guess: bool = True,
) -> Keys:
    """Choose among the arrays of a file, whose names may be paths.

    Understood, in either case, are ``images``/``labels``, ``x``/``y``, ``data``/``targets``, the same with a split in
    the name (``x_train``, ``train_images``, ...), and a file with a single array of images.

    Parameters
    ----------
    what
        The file, for messages.
    shapes
        Of the arrays, by name.
    asked
        Names given by the user, ``file::images::labels``; then nothing is guessed.
    split
        Names with a split in them are taken for it; those without are the training ones.
    examples
        What the error recommends.
    guess
        Whether a single array of images may have any name.
    """
    if asked:
        for name in asked[:2]:
            if name not in shapes:
                raise DatasetError(f"{what} has no array {name!r}; {advise(name, shapes)}")
        return Keys(asked[0], asked[1] if len(asked) > 1 else None, None)
    images = find_key(what, shapes, IMAGE_WORDS, split)
    if images is None and split == "train" and guess:
        batches = [name for name, shape in shapes.items() if len(shape) in (3, 4)]
        images = batches[0] if len(batches) == 1 else None
    if images is None:
        names = list(shapes)
        shown = (", ".join(names[:8]) + (", ..." if len(names) > 8 else "")) or "none"
        raise DatasetError(
            f"{what} has no images for the {split} split; its arrays are {shown}; expected {examples}. "
            f"Other arrays are named as FILE::IMAGES or FILE::IMAGES::LABELS."
        )
    classes = next((name for name in shapes if name.rsplit("/", 1)[-1].lower() in _CLASS_WORDS), None)
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


def list_arrays(
    what: str,
    name: str,
    arrays: Mapping[str, Any],
    asked: Sequence[str],
    split: str,
    *,
    read: Callable[[Any], Any] = lambda array: np.asarray(array[...]),
    examples: str = "'images' (and 'labels', 'classes') or 'x' (and 'y')",
    guess: bool = True,
) -> LazyDataset:
    """The set in a file of named arrays; ``read`` reads labels and names of classes, once their lengths are right."""
    shapes = {key: tuple(map(int, array.shape)) for key, array in arrays.items()}
    keys = find_keys(what, shapes, asked, split=split, examples=examples, guess=guess)
    source = array_source(arrays[keys.images], f"{what}::{keys.images}")
    if keys.labels is None:
        return LazyDataset(source, name)
    shape = shapes[keys.labels]
    if len(shape) == 2 and shape[1] > 1:
        raise DatasetError(
            f"{what} has {shape[1]} labels for each image, but a set has one class for each or none. Read the "
            "images alone as FILE::IMAGES, or save one column (for one-hot rows labels.argmax(axis=1)) as the labels."
        )
    if shape[:1] != (len(source),) or len(shape) > 2:
        raise DatasetError(
            f"{what}: {keys.labels!r} has shape {shape} but there are {len(source)} images; give one label for each, "
            "or read the images alone as FILE::IMAGES."
        )
    check_fits(64 * len(source), f"{what}::{keys.labels}", "read a part of it")
    labels = _as_text(read(arrays[keys.labels]))
    names: Any = ()
    if keys.classes is not None:
        if len(shapes[keys.classes]) != 1 or shapes[keys.classes][0] > _MOST_CLASSES:
            raise DatasetError(
                f"{what}: {keys.classes!r} has shape {shapes[keys.classes]}; expected one name for each class, (n,)."
            )
        names = _as_text(read(arrays[keys.classes])).tolist()
    return LazyDataset(source, name, labels.reshape(-1), tuple(map(str, names)))


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
    if len(shape) == 4 and shape[1] <= _MOST_CHANNELS < shape[3]:
        return ArraySource(rows, what, lambda images: without_single_channel(np.moveaxis(images, 1, -1)))
    return ArraySource(rows, what, without_single_channel if shape[3:] == (1,) else None)


def without_single_channel(images: Any) -> Any:
    """Images without an axis of one channel."""
    return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images


def arranged(axes: str, shape: tuple[int, ...], what: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function that turns an array with named axes into (n, height, width[, channels]).

    ``y`` and ``x`` are the image, ``s`` (samples) its channels, and ``c`` where there are four at most; all other axes
    count images.
    """
    axes = axes.lower()
    if len(axes) != len(shape) or axes.count("y") != 1 or axes.count("x") != 1:
        raise DatasetError(f"{what} has axes {axes!r} and shape {shape}; expected y and x, and others such as t, z, c.")
    if 0 in shape:
        raise DatasetError(f"{what} has shape {shape}, and so no pixels.")
    sizes = dict(zip(axes, shape, strict=False))
    channels = "s" if "s" in axes else "c" if 1 < sizes.get("c", 1) <= _MOST_CHANNELS else ""
    places = [axes.index("y"), axes.index("x"), *(axes.index(axis) for axis in channels)]
    others = [place for place in range(len(axes)) if place not in places]

    def arrange(array: NDArray[Any]) -> NDArray[Any]:
        moved = np.transpose(array, [*others, *places])
        images: NDArray[Any] = without_single_channel(moved.reshape(-1, *moved.shape[len(others) :]))
        return images

    return arrange
