"""Datasets: images of one size, with or without labels."""

from __future__ import annotations

import math
import os
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import drawing
from bispectral_ot.checks import check_choice, detached
from bispectral_ot.datasets.clouds import check_clouds, cloud_points, volume_points
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.errors import InputError

Kind = Literal["images", "sphere", "clouds", "volumes", "vectors"]
# Kinds, and the noun for their elements.
KINDS: dict[str, str] = {kind: kind for kind in get_args(Kind)} | {"sphere": "spheres"}

_BLOCK_PIXELS = 2**21  # pixels that are checked at once
_LEVELS = 64  # steps of float32 that the content of an image needs
_SHOWN = 8  # pictures in a notebook
_SIDE = 48  # pixels of a drawn shape
_SAMPLE = 256  # images that the range of pixels is taken from


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of one size, with or without labels; checked when it is made.

    Parameters
    ----------
    images
        (n, height, width) or (n, height, width, channels). uint8, uint16 and float32 stay as they are; other real types
        become float32 (booleans become uint8). A ``dask.array`` is read chunk by chunk when features are computed.
    labels
        One label per image, or None: indices into ``classes``, or any integers or strings, whose sorted distinct values
        become ``classes``.
    name, classes, files
        Name of the set, names of the classes, name of the file of each image.
    positions
        Row number of each image in the set that the dataset was drawn from, shape (n,); 0 to n - 1 by default.
    kind
        ``"images"``; ``"sphere"`` for signals on the sphere, (n, latitudes, longitudes[, channels]); ``"clouds"`` for
        point clouds (n, points, 3), or a list of arrays (points_i, 3), kept as one array whose unused rows are NaN;
        ``"volumes"`` for voxels (n, depth, height, width); ``"vectors"``, see :meth:`from_vectors`.
    vectors
        Of the kind ``"vectors"``: rows (n, columns) that are matched in place of the images, which illustrate reports.
    placement
        Frame by which :func:`load` placed the images on their canvas; None for the whole canvas.

    Examples
    --------
    >>> Dataset(np.zeros((4, 8, 8), dtype=np.uint8), ["cat", "dog", "dog", "cat"], name="pets")
    Dataset('pets': 4 images of 8x8 uint8, 2 classes)
    """

    images: NDArray[Any]
    labels: NDArray[np.int64] | None = None
    _: KW_ONLY
    name: str = "images"
    classes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    positions: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    kind: Kind = "images"
    vectors: NDArray[np.float32] | None = None
    placement: Placement | None = None

    def __post_init__(self) -> None:
        """Convert and check; an :class:`InputError` names the offending image or label."""
        check_choice("kind of dataset", self.kind, KINDS)
        what = f"dataset {self.name!r}"
        if self.kind == "clouds":
            images = check_clouds(self.images, what=what)
        else:
            images = check_images(self.images, what=what, are_volumes=self.kind == "volumes")
        n, vectors, positions = len(images), self.vectors, np.asarray(self.positions)
        if (self.kind == "vectors") != (vectors is not None):
            raise InputError("vectors belong to the kind 'vectors'; use Dataset.from_vectors(vectors, labels).")
        if vectors is not None:
            vectors = check_vectors(vectors, what=what)
            if len(vectors) != n:
                raise InputError(f"{what}: there are {len(vectors)} vectors for {n} images; give one each.")
        labels, classes = check_labels(self.labels, tuple(str(c) for c in self.classes), n)
        if len(self.files) not in (0, n):
            raise InputError(f"files has {len(self.files)} entries but images has {n}; give one per image, or none.")
        if positions.size == 0:
            positions = np.arange(n)
        elif positions.shape != (n,) or positions.dtype.kind not in "iu" or positions.min() < 0:
            raise InputError(f"positions must be {n} row numbers, got {positions.dtype} of shape {positions.shape}.")
        checked = {"images": images, "labels": labels, "classes": classes, "vectors": vectors}
        checked |= {"files": tuple(self.files), "positions": positions.astype(np.int64, copy=False)}
        for attribute, value in checked.items():
            object.__setattr__(self, attribute, value)

    @classmethod
    def from_vectors(
        cls,
        vectors: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        images: ArrayLike | None = None,
        name: str = "vectors",
        classes: tuple[str, ...] = (),
        files: tuple[str, ...] = (),
    ) -> Self:
        """Dataset of rows of finite numbers (n, columns), such as embeddings of a network; kept as float32.

        ``images`` that the vectors were made from, one each, illustrate reports; the rest is as for :class:`Dataset`.

        Examples
        --------
        >>> Dataset.from_vectors(np.eye(3), ["a", "b", "b"])
        Dataset('vectors': 3 vectors of 3 float32, 2 classes)
        """
        rows = check_vectors(vectors, what=f"dataset {name!r}")
        shown = cast(NDArray[Any], rows[:, None, :] if images is None else images)
        given = cast(NDArray[np.int64] | None, labels)
        return cls(shown, given, name=name, classes=classes, files=files, kind="vectors", vectors=rows)

    @property
    def signals(self) -> NDArray[Any]:
        """Input of the features: vectors, or else images."""
        return self.images if self.vectors is None else self.vectors

    def __len__(self) -> int:
        """Number of images."""
        return len(self.images)

    def __repr__(self) -> str:
        labels = f"{len(self.classes)} classes" if self.labels is not None else "no labels"
        what = f"{len(self):,} {KINDS[self.kind]} of {self.size_in_words}"
        return f"Dataset({self.name!r}: {what} {self.signals.dtype}, {labels})"

    def _repr_html_(self) -> str:
        facts = {KINDS[self.kind]: f"{len(self):,}", "size": self.size_in_words, "type": self.signals.dtype}
        facts["classes"] = len(self.classes) if self.labels is not None else "no labels"
        if is_chunked(self.images):  # not read for this
            return drawing.html_panel(f"Dataset {self.name!r}", facts)
        pictures, shown = Pictures(self), np.linspace(0, len(self) - 1, min(len(self), _SHOWN)).astype(np.int64)
        names = [i if self.labels is None else self.classes[self.labels[i]] for i in shown]
        tiles = [drawing.Tile(pictures[i], str(name)) for i, name in zip(shown, names, strict=True)]
        return drawing.html_panel(f"Dataset {self.name!r}", facts, drawing.html_tiles([tiles]))

    @property
    def frame(self) -> str:
        """Name of the frame by which the images were placed."""
        return "canvas" if self.placement is None else self.placement.frame

    @property
    def is_flat(self) -> bool:
        """Whether elements have pixels, which can be brought to one mean and deviation; shapes in 3-D have not."""
        return self.kind in ("images", "sphere")

    @property
    def size_in_words(self) -> str:
        """Size of an element, ``"28x28"``; of clouds that differ, ``"up to 900x3"``."""
        size = "x".join(map(str, self.signals.shape[1:]))
        differ = self.kind == "clouds" and bool(np.isnan(self.images[:, -1]).any())
        return f"up to {size}" if differ else size

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """Number of images in each class, shape (len(classes),)."""
        labels = np.zeros(0, dtype=np.int64) if self.labels is None else self.labels
        return np.bincount(labels, minlength=len(self.classes)).astype(np.int64)

    def select(self, index: ArrayLike | slice) -> Dataset:
        """Images at ``index`` (positions, a mask of length n, or a slice), in that order; all classes stay."""
        try:
            rows = np.arange(len(self))[index if isinstance(index, slice) else np.asarray(index)]
        except IndexError as error:
            raise InputError(f"cannot select from the {len(self)} images of {self.name!r}: {error}.") from None
        if rows.ndim != 1 or not len(rows):
            raise InputError(f"the selection from {self.name!r} has shape {rows.shape}; give one position or more.")
        return replace(
            self,
            images=self.images[rows],
            labels=None if self.labels is None else self.labels[rows],
            files=tuple(self.files[i] for i in rows) if self.files else (),
            positions=self.positions[rows],
            vectors=None if self.vectors is None else self.vectors[rows],
        )


def check_flat(dataset: Any, what: str) -> None:
    """Raise an :class:`InputError` where an operation on flat images is asked for another kind."""
    if dataset.kind != "images":
        raise InputError(f"{what}: for flat images only, but {dataset.name!r} has {KINDS[dataset.kind]}.")


def as_dataset(data: Dataset | ArrayLike | os.PathLike[str], *, name: str = "images") -> Dataset:
    """Return a Dataset as it is, an array as one called ``name``, and all else as :func:`load` reads it."""
    if isinstance(data, Dataset):
        return data
    from bispectral_ot.datasets.load import as_datasets  # which itself needs this module

    return as_datasets([data], [name])[0]


def as_shapes(dataset: Dataset) -> Dataset:
    """Images of an unspecified kind as shapes: (n, points, 3) as clouds, four axes as volumes."""
    if dataset.kind != "images":
        return dataset
    return replace(dataset, kind="volumes" if dataset.images.ndim == 4 else "clouds")


def is_chunked(images: Any) -> bool:
    """Whether images are a ``dask.array``, whose chunks are read where the work is done."""
    return hasattr(images, "__dask_graph__") and hasattr(images, "chunks")


def check_images(images: ArrayLike, *, what: str, are_volumes: bool = False) -> NDArray[Any]:
    """Return ``images`` as a valid batch (see :class:`Dataset`), or raise an :class:`InputError`."""
    _refuse_masked(images, f"{what}: images")
    try:
        batch: Any = images if is_chunked(images) else np.asarray(detached(images))
    except ValueError as error:  # a list of arrays of different shapes
        raise InputError(f"{what}: the images do not form one array ({error}); bring them to one size.") from None
    except (TypeError, RuntimeError, NotImplementedError) as error:  # on a GPU, or of a type that NumPy does not have
        raise InputError(f"{what}: NumPy cannot read it ({error}); bring it to the CPU first.") from None
    shape = batch.shape
    if batch.dtype.kind == "O" and not shape:
        raise InputError(f"{what}: expected images, such as an array (n, height, width), got {type(images).__name__}.")
    if batch.dtype.kind not in "buif":
        raise InputError(f"{what}: pixels must be real numbers, but the array has type {batch.dtype}.")
    if are_volumes and (len(shape) != 4 or shape[3] <= 4 < min(shape[1:3])):
        raise InputError(
            f"{what}: volumes must have shape (n, depth, height, width), got {shape}; a single one is given as "
            "volume[None], images with channels are no volumes."
        )
    if len(shape) not in (3, 4):
        raise InputError(f"{what}: {shape_advice(shape)}")
    if 0 in shape:
        raise InputError(f"{what} has no images or no pixels (shape {shape}); at least one is needed.")
    if is_chunked(batch):
        return cast(NDArray[Any], _check_chunks(batch, what))
    if not are_volumes and len(shape) == 4 and shape[1] <= 4 < shape[3]:
        raise InputError(f"{what}: shape {shape} has channels first; use numpy.moveaxis(images, 1, -1).")
    return as_pixels(batch, what)


def _check_chunks(images: Any, what: str) -> Any:
    """A ``dask.array`` of whole images; its pixels are checked when features are computed."""
    if any(math.isnan(size) for size in images.shape):
        raise InputError(f"{what}: chunks of unknown sizes, {images.chunks}; call images.compute_chunk_sizes() first.")
    if 0 in images.chunks[0]:
        raise InputError(f"{what}: chunk {images.chunks[0].index(0)} has no images; use images.rechunk().")
    images = images.rechunk(dict.fromkeys(range(1, images.ndim), -1))
    if images.dtype in (np.uint8, np.uint16, np.float32):
        return images
    return images.map_blocks(as_pixels, what, dtype=np.uint8 if images.dtype == np.bool_ else np.float32)


def as_pixels(batch: NDArray[Any], what: str = "images") -> NDArray[Any]:
    """Images as uint8, uint16 or finite float32; refuses images whose content float32 cannot represent."""
    if batch.dtype in (np.bool_, np.uint8, np.uint16):
        return batch.astype(np.uint8) if batch.dtype == np.bool_ else batch
    pixels = np.empty(batch.shape, dtype=np.float32) if batch.dtype != np.float32 else batch
    extents, step = [], max(1, _BLOCK_PIXELS // batch[0].size)
    for start in range(0, len(batch), step):
        block = batch[start : start + step]
        part = pixels[start : start + step].reshape(len(block), -1)
        block = block.reshape(part.shape)
        if part.dtype != block.dtype:
            with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is refused below
                part[...] = block
        wrong = (~np.isfinite(part)).sum(axis=1)
        if wrong.any():
            first = int(np.argmax(wrong > 0))
            raise InputError(
                f"{what}: image {start + first} has {wrong[first]} pixels that are NaN or infinite (or beyond float32)."
            )
        if block.dtype.itemsize > 2 and part.dtype != block.dtype:
            low, high = block.min(axis=1).astype(np.float64), block.max(axis=1).astype(np.float64)
            steps = np.spacing(np.maximum(abs(low), abs(high)).astype(np.float32))
            extents.append([high - low, steps, np.abs(part.astype(np.float64) - block).max(axis=1)])
    if extents:
        # images with much less contrast than the others do not count: what they lose is noise
        spread, steps, error = np.concatenate(extents, axis=1)
        lost = (error > 0) & (spread > 0) & (spread < _LEVELS * steps) & (spread >= np.median(spread) / 16)
        if lost.any():
            first = int(np.argmax(lost))
            raise InputError(
                f"{what}: the pixels of image {first} differ by {spread[first]:g} only, which float32 cannot resolve "
                f"at their size (steps of {steps[first]:g}); subtract an offset from the {batch.dtype} images first, "
                "as with images - images.min()."
            )
    return pixels


def check_vectors(vectors: ArrayLike, *, what: str) -> NDArray[np.float32]:
    """Rows (n, columns) of finite real numbers as float32, or an :class:`InputError`."""
    _refuse_masked(vectors, f"{what}: vectors")
    try:
        rows = np.asarray(detached(vectors))
    except ValueError:
        raise InputError(f"{what}: the vectors have different lengths; give one array (n, columns).") from None
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "buif":
        raise InputError(f"{what}: vectors must be real numbers of shape (n, columns), got {rows.shape} {rows.dtype}.")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is refused below
        rows = rows.astype(np.float32, copy=False)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise InputError(f"{what}: vector {int(np.argmin(finite))} has NaN or infinity in it (or is beyond float32).")
    return rows


def _refuse_masked(values: Any, what: str) -> None:
    """Raise an :class:`InputError` where entries are masked: NumPy would turn them into numbers."""
    parts = values if isinstance(values, (list, tuple)) else (values,)
    count = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if count:
        raise InputError(f"{what} has {count} masked entries; fill them with .filled(value), or leave those out.")


def shape_advice(shape: tuple[int, ...]) -> str:
    """Error text about an array that is no batch of images."""
    expected = f"expected images of shape (n, height, width) or (n, height, width, channels), got {shape}"
    if len(shape) != 2:
        return f"{expected}."
    side = math.isqrt(shape[1])
    flat = f"images.reshape(-1, {side}, {side}) for flattened images, " if side > 1 and side**2 == shape[1] else ""
    return f"{expected}; use {flat}image[None] for a single image, Dataset.from_vectors(vectors) for vectors."


def check_labels(
    labels: ArrayLike | None, classes: tuple[str, ...], n_images: int
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Labels as indices into classes, and the classes (see :class:`Dataset`), or an :class:`InputError`."""
    if labels is None:
        if classes:
            raise InputError(f"{len(classes)} classes are named but there are no labels; give labels too.")
        return None, ()
    _refuse_masked(labels, "labels")
    values = np.asarray(detached(labels))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]  # one column, as some .npz files have it
    if values.ndim != 1:
        raise InputError(f"labels must have shape (n,), got {values.shape}; one-hot rows use labels.argmax(axis=1).")
    if len(values) != n_images:
        raise InputError(f"labels has {len(values)} entries but images has {n_images}; give one label per image.")
    if values.dtype.kind == "f":
        # beyond 2^24 (float32) or 2^53 (float64) neighbouring integers are one number
        wrong = ~(np.abs(values) <= 2.0 ** (np.finfo(values.dtype).nmant + 1)) | (values != np.round(values))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InputError(f"label {first} is {values[first]}; labels must be integers or strings.")
        values = values.astype(np.int64)
    if values.dtype.kind not in "biuUO" or (values.dtype.kind == "O" and not all(isinstance(v, str) for v in values)):
        raise InputError(f"labels must be integers or strings, but the array has type {values.dtype}.")
    if not classes:
        distinct, indices = np.unique(values, return_inverse=True)
        return indices.astype(np.int64), tuple(str(value) for value in distinct)
    if len(set(classes)) < len(classes):
        repeated = next(name for name in classes if classes.count(name) > 1)
        raise InputError(f"the class name {repeated!r} occurs twice; class names must differ.")
    if values.dtype.kind not in "biu":
        raise InputError("labels must be indices into classes where classes are named; leave classes out for strings.")
    outside = (values < 0) | (values >= len(classes))
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(f"label {first} is {values[first]}, but classes are numbered from 0 to {len(classes) - 1}.")
    return values.astype(np.int64, copy=False), classes


class Pictures:
    """The elements of a dataset, by position, as pixels from 0 (the smallest of a sample of the set) to 1."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.has_pixels = dataset.is_flat or dataset.kind == "vectors"
        if self.has_pixels:  # by a sample: no pass over all pixels
            some = np.asarray(dataset.images[:: -(-len(dataset) // _SAMPLE)])
            self.limits = float(some.min()), float(some.max())

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        image = self.dataset.images[index]
        if self.has_pixels:
            return as_shown(image, self.limits)
        if self.dataset.kind == "clouds":
            return draw_points(cloud_points(image))
        return draw_points(*volume_points(image))


def as_shown(image: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.float64]:
    """Pixels brought from ``limits`` to 0 ... 1, grey or RGB; the mean of the channels where they are neither."""
    lowest, highest = limits
    shown: NDArray[np.float64] = (image.astype(np.float64) - lowest) / (highest - lowest or 1.0)
    if shown.ndim == 3 and shown.shape[2] != 3:
        shown = shown.mean(axis=2)
    return shown.clip(0.0, 1.0)


def draw_points(points: NDArray[Any], weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Draw points (n, 3) as small dots, scaled to fit and seen obliquely from above: (48, 48)."""
    centred = points.astype(np.float64) - np.average(points, axis=0, weights=weights)
    reach = np.linalg.norm(centred, axis=1).max() or 1.0
    turn, tilt = np.radians((35.0, 25.0))
    x, y, z = centred.T / reach
    right, behind = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    down = -(z * np.cos(tilt) + behind * np.sin(tilt))
    depth = behind * np.cos(tilt) - z * np.sin(tilt)
    shade = 1 - 0.75 * (depth - depth.min()) / (np.ptp(depth) or 1.0)
    large = 2 * _SIDE
    columns, rows = (np.clip((axis + 1) / 2 * large, 0, large - 1).astype(np.int64) for axis in (right, down))
    canvas = np.zeros((large + 2, large + 2))
    for row in range(3):  # a dot is 3 x 3 pixels of the larger picture
        for column in range(3):
            np.maximum.at(canvas, (rows + row, columns + column), shade)
    brightness: NDArray[np.float64] = canvas[1:-1, 1:-1].reshape(_SIDE, 2, _SIDE, 2).mean(axis=(1, 3))
    return brightness
