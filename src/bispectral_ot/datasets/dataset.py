"""Datasets: images of one size, with or without labels."""

import math
import os
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import drawing
from bispectral_ot.checks import check_choice, detached
from bispectral_ot.datasets.clouds import check_clouds, check_rows, cloud_points, refuse_masked, volume_points
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.datasets.warp import as_pixels
from bispectral_ot.errors import InputError

Kind = Literal["images", "sphere", "clouds", "volumes", "vectors"]
ArrayKind = Kind | Literal["shapes"]  # clouds or volumes
KINDS: dict[str, str] = {kind: kind for kind in get_args(Kind)} | {"sphere": "spheres"}  # nouns for their elements


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of one size, with or without labels; validated on construction.

    Parameters
    ----------
    images
        (n, height, width[, channels]). uint8, uint16 and float32 are kept; other real types become float32
        (booleans uint8). A ``dask.array`` is read chunk by chunk when features are computed.
    labels
        One per image, or None: indices into ``classes``, or any integers or strings, whose values become ``classes``.
    name, classes, files : Name of the set, names of the classes, name of the file of each image.
    positions : Row number of each image in the set that the dataset was drawn from, shape (n,); 0 to n - 1 by default.
    kind
        ``"images"``; ``"sphere"`` for signals on the sphere, (n, latitudes, longitudes[, channels]); ``"clouds"`` for
        point clouds (n, points, 3), or a list of arrays (points_i, 3), kept as one array whose unused rows are NaN;
        ``"volumes"`` for voxels (n, depth, height, width); ``"vectors"``, see :meth:`from_vectors`.
    vectors
        Rows (n, columns) of the kind ``"vectors"``; they are matched, and images are only shown in reports.
    placement : Frame by which :func:`load` placed the images on their canvas; None for the whole canvas.

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
            vectors = check_rows(vectors, what, "vectors")
            if len(vectors) != n:
                raise InputError(f"{what}: there are {len(vectors)} vectors for {n} images; give one per image.")
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
        vectors: "ArrayLike",
        labels: "ArrayLike | None" = None,
        *,
        images: "ArrayLike | None" = None,
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
        rows = check_rows(vectors, f"dataset {name!r}", "vectors")
        shown, given = cast(tuple[Any, Any], (rows[:, None, :] if images is None else images, labels))
        return cls(shown, given, name=name, classes=classes, files=files, kind="vectors", vectors=rows)

    @property
    def signals(self) -> NDArray[Any]:
        """Input of the features, which are the vectors if there are any, else the images."""
        return self.images if self.vectors is None else self.vectors

    def __len__(self) -> int:
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
        pictures, shown = Pictures(self), np.linspace(0, len(self) - 1, min(len(self), 8)).astype(np.int64)
        names = [i if self.labels is None else self.classes[self.labels[i]] for i in shown]
        tiles = [drawing.Tile(pictures[i], str(name)) for i, name in zip(shown, names, strict=True)]
        return drawing.html_panel(f"Dataset {self.name!r}", facts, drawing.html_tiles([tiles]))

    @property
    def frame(self) -> str:
        """Name of the frame by which the images were placed."""
        return "canvas" if self.placement is None else self.placement.frame

    @property
    def is_flat(self) -> bool:
        """Whether elements have pixels that can be standardized; 3-D shapes do not."""
        return self.kind in ("images", "sphere")

    @property
    def size_in_words(self) -> str:
        """Size of an element, ``"28x28"``; of clouds that differ, ``"up to 900x3"``."""
        size = "x".join(map(str, self.signals.shape[1:]))
        return f"up to {size}" if self.kind == "clouds" and np.isnan(self.images[:, -1]).any() else size

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """Number of images in each class, shape (len(classes),)."""
        labels = np.zeros(0, dtype=np.int64) if self.labels is None else self.labels
        return np.bincount(labels, minlength=len(self.classes)).astype(np.int64)

    @property
    def present_classes(self) -> list[str]:
        """Names of the classes that have images."""
        return [name for name, count in zip(self.classes, self.class_counts, strict=True) if count]

    def select(self, index: "ArrayLike | slice") -> Self:
        """Images at ``index`` (positions, a mask of length n, or a slice), in that order; all classes are kept."""
        try:
            rows = np.arange(len(self))[index if isinstance(index, slice) else np.asarray(index)]
        except IndexError as error:
            raise InputError(f"cannot select from the {len(self)} images of {self.name!r}: {error}.") from None
        if rows.ndim != 1 or not len(rows):
            raise InputError(f"the selection from {self.name!r} has shape {rows.shape}; give one position or more.")
        arrays = {key: getattr(self, key) for key in ("images", "labels", "positions", "vectors")}
        kept: dict[str, Any] = {key: array[rows] for key, array in arrays.items() if array is not None}
        return replace(self, files=tuple(self.files[i] for i in rows) if self.files else (), **kept)


def check_flat(dataset: Any, what: str) -> None:
    """Raise an :class:`InputError` if an operation on flat images gets another kind of dataset."""
    if dataset.kind != "images":
        raise InputError(f"{what}: for flat images only, but {dataset.name!r} has {KINDS[dataset.kind]}.")


def as_dataset(data: "Dataset | ArrayLike | os.PathLike[str]", *, name: str = "images") -> Dataset:
    """Return a Dataset unchanged, an array as a Dataset called ``name``, and anything else as :func:`load` reads it."""
    if isinstance(data, Dataset):
        return data
    from bispectral_ot.datasets.load import as_datasets  # which itself needs this module

    return as_datasets([data], [name])[0]


def is_chunked(images: Any) -> bool:
    """Whether images are a ``dask.array``, whose chunks are read by the workers."""
    return hasattr(images, "__dask_graph__") and hasattr(images, "chunks")


def check_images(images: ArrayLike, *, what: str, are_volumes: bool = False) -> NDArray[Any]:
    """Return ``images`` as a valid batch (see :class:`Dataset`), or raise an :class:`InputError`."""
    refuse_masked(images, f"{what}: images")
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
        paths = "; give paths as a list, or a folder" if batch.dtype.kind in "UO" else ""
        raise InputError(f"{what}: pixels must be real numbers, but the array has type {batch.dtype}{paths}.")
    if are_volumes and (len(shape) != 4 or shape[3] <= 4 < min(shape[1:3])):
        advice = "give a single one as volume[None]; images with channels are not volumes"
        raise InputError(f"{what}: volumes must have shape (n, depth, height, width), got {shape}; {advice}.")
    if len(shape) not in (3, 4):
        raise InputError(f"{what}: {shape_advice(shape)}")
    if 0 in shape:
        raise InputError(f"{what} has no images or no pixels (shape {shape}); at least one is needed.")
    if is_chunked(batch):  # pixels are checked when features are computed
        if any(math.isnan(size) for size in shape) or 0 in batch.chunks[0]:
            advice = "call images.compute_chunk_sizes(), or images.rechunk() if some are empty"
            raise InputError(f"{what}: chunks of unknown sizes, or without images, {batch.chunks}; {advice}.")
        batch = batch.rechunk(dict.fromkeys(range(1, batch.ndim), -1))
        if batch.dtype not in (np.uint8, np.uint16, np.float32):
            batch = batch.map_blocks(as_pixels, what, dtype=np.uint8 if batch.dtype == np.bool_ else np.float32)
        return cast(NDArray[Any], batch)
    if not are_volumes and len(shape) == 4 and shape[1] <= 4 < shape[3]:
        raise InputError(f"{what}: shape {shape} has channels first; use numpy.moveaxis(images, 1, -1).")
    return as_pixels(batch, what)


def shape_advice(shape: tuple[int, ...]) -> str:
    """Error text about an array that is not a batch of images."""
    expected = f"expected images of shape (n, height, width) or (n, height, width, channels), got {shape}"
    if len(shape) != 2:
        return f"{expected}."
    side = math.isqrt(shape[1])
    flat = f"images.reshape(-1, {side}, {side}) for flattened images, " if side > 1 and side**2 == shape[1] else ""
    vectors = "Dataset.from_vectors(vectors) (--features vectors) for vectors"
    return f"{expected}; use {flat}image[None] for a single image, {vectors}."


def check_labels(
    labels: ArrayLike | None, classes: tuple[str, ...], n_images: int
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Labels as indices into classes, and the classes (see :class:`Dataset`), or an :class:`InputError`."""
    if labels is None:
        if classes:
            raise InputError(f"{len(classes)} classes are given but no labels; give both.")
        return None, ()
    refuse_masked(labels, "labels")
    values = np.asarray(detached(labels))
    values = values[:, 0] if values.shape[1:] == (1,) else values  # one column, as some .npz files have it
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
        raise InputError("labels must be indices into classes if classes are given; leave classes out for strings.")
    outside = np.flatnonzero((values < 0) | (values >= len(classes)))
    if len(outside):
        found = f"label {outside[0]} is {values[outside[0]]}"
        raise InputError(f"{found}, but classes are numbered from 0 to {len(classes) - 1}.")
    return values.astype(np.int64, copy=False), classes


class Pictures:
    """Pictures of the elements of a dataset, by position: pixels from 0 (the smallest of a sample of the set) to 1."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.has_pixels = dataset.is_flat or dataset.kind == "vectors"
        if self.has_pixels:  # by a sample of 256: no pass over all pixels
            some = np.asarray(dataset.images[:: -(-len(dataset) // 256)])
            self.limits = float(some.min()), float(some.max())

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        image = self.dataset.images[index]
        if self.has_pixels:
            return as_shown(image, self.limits)
        return draw_points(cloud_points(image)) if self.dataset.kind == "clouds" else draw_points(*volume_points(image))


def as_shown(image: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.float64]:
    """Pixels scaled from ``limits`` to 0 ... 1, grey or RGB; the mean of the channels if they are neither."""
    lowest, highest = limits
    shown: NDArray[np.float64] = (image.astype(np.float64) - lowest) / (highest - lowest or 1.0)
    if shown.ndim == 3 and shown.shape[2] != 3:
        shown = shown.mean(axis=2)
    return shown.clip(0.0, 1.0)


def draw_points(points: NDArray[Any], weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Draw points (n, 3) as small dots, scaled to fit, in an oblique view from above: (48, 48)."""
    from scipy.ndimage import maximum_filter
    from scipy.spatial.transform import Rotation

    centred = points.astype(np.float64) - np.average(points, axis=0, weights=weights)
    reach = np.linalg.norm(centred, axis=1).max() or 1.0
    right, depth, up = Rotation.from_euler("zx", [-35, 25], degrees=True).apply(centred / reach).T
    shade = 1 - 0.75 * (depth - depth.min()) / (np.ptp(depth) or 1.0)
    side, large = 48, 96  # of the picture, and of a larger one that is averaged
    columns, rows = (np.clip((axis + 1) / 2 * large, 0, large - 1).astype(np.int64) for axis in (right, -up))
    canvas = np.zeros((large, large))
    np.maximum.at(canvas, (rows, columns), shade)
    dots = maximum_filter(canvas, size=3)  # 3 x 3 pixels of the larger picture each
    return np.asarray(dots.reshape(side, 2, side, 2).mean(axis=(1, 3)))
