"""The one type that every dataset becomes: images, and where there are any, labels."""

from __future__ import annotations

import math
import os
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import drawing
from bispectral_ot.checks import check_choice
from bispectral_ot.datasets.clouds import are_clouds, check_clouds, check_volumes
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.errors import InputError

Kind = Literal["images", "sphere", "clouds", "volumes", "vectors"]
# ... and what a report calls their elements
KINDS: dict[str, str] = {
    "images": "images",
    "sphere": "spheres",
    "clouds": "clouds",
    "volumes": "volumes",
    "vectors": "vectors",
}

_BLOCK_PIXELS = 2**21  # pixels that are checked at once
_LEVELS = 64  # steps of float32 that the content of an image needs
_SHOWN = 8  # pictures in a notebook


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of one size, with or without labels. Everything is checked when it is made.

    Parameters
    ----------
    images
        (n, height, width) or (n, height, width, channels). uint8, uint16 and float32 stay as they are;
        other real types become float32 (booleans become uint8). A ``dask.array`` is not read here, but where and
        when features are made of its chunks.
    labels
        One label per image, or None. With ``classes``: indices into it. Without: any integers or strings; the
        distinct ones, sorted, become ``classes``, and ``labels`` the int64 indices into them.
    name
        What reports call the set.
    classes
        Names of the classes; () without labels.
    files
        Name of the file that each image came from; () where there is none.
    positions
        Row number of each image in the set that the dataset was drawn from, shape (n,); 0 to n - 1 by default.
        :meth:`select`, splits and limits keep them.
    kind
        ``"images"``; ``"sphere"`` for signals on the sphere, (n, latitudes, longitudes) with or without channels;
        ``"clouds"`` for point clouds (n, points, 3), or a list of arrays (points_i, 3) of different sizes, which are
        kept as one array whose unused rows are NaN; ``"volumes"`` for voxels (n, depth, height, width); ``"vectors"``
        for rows of numbers, see :meth:`from_vectors`.
    vectors
        Of the kind ``"vectors"``: rows (n, columns) that are matched in place of the images, which illustrate reports.
    placement
        Frame by which :func:`load` placed the images on their canvas; None where they are as they were.

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
            images = check_images(self.images, what=what, has_channels=self.kind != "volumes")
        if self.kind == "volumes":
            check_volumes(images, what=what)
        if (self.kind == "vectors") != (self.vectors is not None):
            raise InputError("vectors belong to the kind 'vectors'; use Dataset.from_vectors(vectors, labels).")
        if self.vectors is not None:
            object.__setattr__(self, "vectors", check_vectors(self.vectors, len(images), what=what))
        labels, classes = check_labels(self.labels, tuple(str(c) for c in self.classes), len(images))
        if len(self.files) not in (0, len(images)):
            raise InputError(
                f"files has {len(self.files)} entries but images has {len(images)}; "
                "give one file name per image, or leave files out."
            )
        for attribute, value in {
            "images": images,
            "labels": labels,
            "classes": classes,
            "files": tuple(self.files),
            "positions": _check_positions(self.positions, len(images)),
        }.items():
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
        """Rows of numbers (n, columns), such as embeddings of a network, as a dataset.

        Parameters
        ----------
        vectors
            Finite real numbers, one row for each element; kept as float32.
        labels, name, classes, files
            As for :class:`Dataset`.
        images
            Images that the vectors were made from, one each, to illustrate reports.

        Examples
        --------
        >>> Dataset.from_vectors(np.eye(3), ["a", "b", "b"])
        Dataset('vectors': 3 vectors of 3 float32, 2 classes)
        """
        rows = check_vectors(vectors, None, what=f"dataset {name!r}")
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
        from bispectral_ot.datasets.pictures import Pictures  # which itself needs this module

        facts = {
            KINDS[self.kind]: f"{len(self):,}",
            "size": self.size_in_words,
            "type": self.signals.dtype,
            "classes": len(self.classes) if self.labels is not None else "no labels",
        }
        if is_chunked(self.images):  # what is stored elsewhere is not read for this
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
        if self.labels is None:
            return np.zeros(0, dtype=np.int64)
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.int64)

    def select(self, index: ArrayLike | slice) -> Dataset:
        """Keep the images at ``index`` (positions, a mask of length n, or a slice), in that order.

        All classes stay, also those that lose their last image, so that labels keep their meaning.
        """
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


def _check_positions(positions: ArrayLike, n_images: int) -> NDArray[np.int64]:
    rows = np.asarray(positions)
    if rows.size == 0:
        return np.arange(n_images)
    if rows.shape != (n_images,) or rows.dtype.kind not in "iu" or rows.min() < 0:
        raise InputError(
            f"positions must be one row number (0 or more) for each of the {n_images} images, got {rows.dtype} of "
            f"shape {rows.shape}."
        )
    return rows.astype(np.int64, copy=False)


def check_flat(dataset: Any, what: str) -> None:
    """Raise an :class:`InputError` where something that is done to flat images is asked for another kind."""
    if dataset.kind != "images":
        raise InputError(f"{what}: for flat images only, but {dataset.name!r} has {KINDS[dataset.kind]}.")


def as_dataset(data: Dataset | ArrayLike | os.PathLike[str], *, name: str = "images") -> Dataset:
    """Return a Dataset as it is, an array as one called ``name``, and all else as :func:`load` reads it."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (np.ndarray, list, tuple)):
        return of_array(data, name=name)
    from bispectral_ot.datasets.load import as_datasets  # which itself needs this module

    return as_datasets([data], [name])[0]


def of_array(data: ArrayLike, *, name: str) -> Dataset:
    """An array, or a list of clouds, as a dataset without labels."""
    # checked there
    return Dataset(cast(NDArray[Any], data), name=name, kind="clouds" if are_clouds(data) else "images")


def as_shapes(dataset: Dataset) -> Dataset:
    """Take an array whose kind nobody said for shapes: (n, points, 3) for clouds, four axes for volumes."""
    if dataset.kind != "images":
        return dataset
    if dataset.images.ndim == 4:
        return replace(dataset, kind="volumes")
    return replace(dataset, kind="clouds")


def check_images(images: ArrayLike, *, what: str, has_channels: bool = True) -> NDArray[Any]:
    """Return ``images`` as a valid batch (see :class:`Dataset`), or raise an :class:`InputError`.

    ``has_channels`` says whether a fourth axis would be that of the channels.
    """
    _refuse_masked(images, f"{what}: images")
    if is_chunked(images):
        chunked: NDArray[Any] = _check_chunked(images, what)
        return chunked
    try:
        batch = np.asarray(images)
    except ValueError as error:  # a list of arrays of different shapes
        raise InputError(
            f"{what}: the images do not form one array ({error}); bring them to one size. Clouds of different sizes "
            "are given as a list of arrays (points, 3), Dataset(clouds, kind='clouds')."
        ) from None
    if batch.dtype.kind == "O" and batch.ndim == 0:
        raise InputError(f"{what}: expected images, such as an array (n, height, width), got {type(images).__name__}.")
    _check_pixels(batch, what)
    if 0 in batch.shape:
        raise InputError(f"{what}: images of shape {batch.shape[1:]} have no pixels.")
    if has_channels and batch.ndim == 4 and batch.shape[3] > 4 and batch.shape[1] <= 4:
        raise InputError(
            f"{what}: images of shape {batch.shape} have their channels first; "
            "expected (n, height, width, channels): use numpy.moveaxis(images, 1, -1)."
        )
    return as_pixels(batch, what)


def as_pixels(batch: NDArray[Any], what: str = "images") -> NDArray[Any]:
    """Images as uint8, uint16 or finite float32; refuses images whose content float32 cannot represent."""
    if batch.dtype == np.bool_:
        return batch.astype(np.uint8)
    if batch.dtype in (np.uint8, np.uint16):
        return batch
    pixels = np.empty(batch.shape, dtype=np.float32) if batch.dtype != np.float32 else batch
    extents, step = [], max(1, _BLOCK_PIXELS // batch[0].size)
    for start in range(0, len(batch), step):
        block, part = batch[start : start + step], pixels[start : start + step]
        if part.dtype != block.dtype:
            with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is refused below
                part[...] = block
        finite = np.isfinite(part).reshape(len(part), -1)
        if not finite.all():
            first = int(np.argmin(finite.all(axis=1)))
            raise InputError(
                f"{what}: image {start + first} has {int((~finite[first]).sum())} pixels that are NaN or infinite (or "
                "beyond float32); repair the image or leave it out."
            )
        if block.dtype.itemsize > 2 and part.dtype != block.dtype:
            extents.append(_extents(block, part))
    if extents:
        _refuse_lost_content(np.concatenate(extents, axis=1), what, batch.dtype)
    return pixels


def _extents(given: NDArray[Any], rounded: NDArray[np.float32]) -> NDArray[np.float64]:
    """Range of the pixels of each image, the resolution of float32 there, and the largest rounding error: (3, n)."""
    rows, other = given.reshape(len(given), -1), rounded.reshape(len(given), -1)
    low, high = rows.min(axis=1).astype(np.float64), rows.max(axis=1).astype(np.float64)
    error = np.abs(other.astype(np.float64) - rows).max(axis=1)
    return np.stack([high - low, np.spacing(np.maximum(abs(low), abs(high)).astype(np.float32)), error])


def _refuse_lost_content(extents: NDArray[np.float64], what: str, dtype: np.dtype[Any]) -> None:
    """Refuse images on an offset so large that float32 rounds away what they show.

    Images with much less contrast than the others do not count: what they lose is noise.
    """
    spread, resolution, error = extents
    lost = (error > 0) & (spread > 0) & (spread < _LEVELS * resolution) & (spread >= np.median(spread) / 16)
    if lost.any():
        first = int(np.argmax(lost))
        raise InputError(
            f"{what}: the pixels of image {first} differ by {spread[first]:g} only, which float32 cannot resolve at "
            f"their size (steps of {resolution[first]:g}); subtract an offset from the {dtype} images first, as with "
            "images - images.min()."
        )


def check_vectors(vectors: ArrayLike, n_rows: int | None, *, what: str) -> NDArray[np.float32]:
    """Rows (n, columns) of finite real numbers as float32, or an error that says what is wrong with them."""
    _refuse_masked(vectors, f"{what}: vectors")
    try:
        rows = np.asarray(vectors)
    except ValueError:
        raise InputError(f"{what}: the vectors have different lengths; give one array (n, columns).") from None
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"{what}: vectors must have shape (n, columns), got {rows.shape}.")
    if rows.dtype.kind not in "buif":
        raise InputError(f"{what}: vectors must be real numbers, but the array has type {rows.dtype}.")
    if n_rows not in (None, len(rows)):
        raise InputError(f"{what}: there are {len(rows)} vectors for {n_rows} images; give one each.")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is named below
        rows = rows.astype(np.float32, copy=False)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        first = int(np.argmin(finite))
        raise InputError(
            f"{what}: vector {first} (counting from 0) has NaN or infinity in it (or is beyond float32), and so have "
            f"{int((~finite).sum()) - 1} others; repair them or leave them out."
        )
    return rows


def is_chunked(images: Any) -> bool:
    """Whether images are a ``dask.array``, whose chunks are read where the work is done."""
    return hasattr(images, "__dask_graph__") and hasattr(images, "chunks")


def _check_pixels(images: Any, what: str) -> None:
    """Refuse wrong types and shapes, and no images at all."""
    if images.dtype.kind not in "buif":
        raise InputError(f"{what}: pixels must be real numbers, but the array has type {images.dtype}.")
    if images.ndim not in (3, 4):
        raise InputError(f"{what}: {shape_advice(images.shape)}")
    if images.shape[0] == 0:
        raise InputError(f"{what} has no images; at least one is needed.")


def _check_chunked(images: Any, what: str) -> Any:
    """Check the metadata of a ``dask.array``; its pixels are checked when features are computed."""
    _check_pixels(images, what)
    if any(math.isnan(size) for size in images.shape):
        raise InputError(f"{what}: chunks of unknown sizes, {images.chunks}; call images.compute_chunk_sizes() first.")
    if 0 in images.shape:
        raise InputError(f"{what} has no images; at least one is needed.")
    if 0 in images.chunks[0]:
        raise InputError(
            f"{what}: chunk {images.chunks[0].index(0)} has no images; leave it out, or use images.rechunk()."
        )
    images = images.rechunk(dict.fromkeys(range(1, images.ndim), -1))  # whole images
    if images.dtype in (np.uint8, np.uint16, np.float32):
        return images
    return images.map_blocks(as_pixels, what, dtype=np.uint8 if images.dtype == np.bool_ else np.float32)


def _refuse_masked(values: Any, what: str) -> None:
    """Masked entries would come back as numbers that nobody meant."""
    parts = values if isinstance(values, (list, tuple)) else (values,)
    count = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if count:
        raise InputError(
            f"{what} has {count} masked entries; fill them with .filled(value), or leave those images out."
        )


def shape_advice(shape: tuple[int, ...]) -> str:
    """Error text about an array that is no batch of images."""
    expected = "expected images of shape (n, height, width) or (n, height, width, channels)"
    if len(shape) != 2:
        return f"{expected}, got {shape}."
    side = math.isqrt(shape[1])
    flat = f"flattened images use images.reshape(-1, {side}, {side}), for " if side > 1 and side**2 == shape[1] else ""
    return (
        f"{expected}, got {shape}; for {flat}one signal a row signals[:, :, None], for a single image image[None], for "
        "vectors Dataset.from_vectors(vectors)."
    )


def check_labels(
    labels: ArrayLike | None, classes: tuple[str, ...], n_images: int
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Labels as indices into classes, and the classes (see :class:`Dataset`), or an error that says what is wrong."""
    if labels is None:
        if classes:
            raise InputError(f"{len(classes)} classes are named but there are no labels; give labels too.")
        return None, ()
    _refuse_masked(labels, "labels")
    values = np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]  # one column, as some .npz files have it
    if values.ndim != 1:
        raise InputError(
            f"labels must have shape (n,), got {values.shape}; for one-hot rows use labels.argmax(axis=1)."
        )
    if len(values) != n_images:
        raise InputError(
            f"labels has {len(values)} entries but images has {n_images}; "
            "give one label per image, or leave labels out."
        )
    if values.dtype.kind == "f":
        odd = ~np.isfinite(values) | (values != np.round(values))
        if odd.any():
            first = int(np.argmax(odd))
            raise InputError(f"label {first} is {values[first]}; labels must be integers or strings.")
        largest = 2.0 ** (np.finfo(values.dtype).nmant + 1)
        if (np.abs(values) > largest).any():
            first = int(np.argmax(np.abs(values) > largest))
            raise InputError(
                f"label {first} is {values[first]}, beyond the integers that {values.dtype} can distinguish; "
                "give labels as integers or strings."
            )
        values = values.astype(np.int64)
    if values.dtype.kind == "O" and not all(isinstance(value, str) for value in values):
        raise InputError("labels must be integers or strings, but they are other Python objects.")
    if values.dtype.kind not in "biuUO":
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
        raise InputError(
            f"label {first} is {values[first]}, but the {len(classes)} classes are 0 to {len(classes) - 1}."
        )
    return values.astype(np.int64, copy=False), classes
