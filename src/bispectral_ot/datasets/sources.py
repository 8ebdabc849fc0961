"""Lazy datasets: labels, names and sizes of a set, known before its images are read, and the sources that read them."""

import math
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import advise
from bispectral_ot.datasets.dataset import ArrayKind, Dataset, Kind, check_labels, shape_advice
from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.image_file import decode_image, image_size
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.warp import Size, are_grey, as_pixels
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, InputError, warn
from bispectral_ot.memory import check_fits

Positions = NDArray[np.int64]
_BLOCK_BYTES = 32 * 2**20
Names = Sequence[str]
IMAGE_WORDS = ("images", "x", "data", "image", "img", "imgs")
# "ans" is the name in Galaxy10; "y" comes late, since tables also have coordinates x and y
LABEL_WORDS = ("labels", "label", "targets", "target", "ans", "class", "class_name", "category", "y")
_SPLITS = (("train", "training"), ("val", "valid", "validation"), ("test", "testing", "t10k"))
SPLIT_WORDS = {words[0]: words for words in _SPLITS}  # names of the splits in folders, files and columns


@dataclass(frozen=True)
class ArraySource:
    """Images (n, height, width[, channels]), or channels first, in one array, of memory or of a file."""

    rows: Any
    what: str
    channels_first: bool = False
    stored_chunks: int = 0

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def sizes(self, positions: Positions) -> list[Size]:
        """Height and width, one for all."""
        sides = self.rows.shape[2 if self.channels_first else 1 :]
        return [(int(sides[0]), int(sides[1]))]

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[Any]:
        """Images at ``positions`` (increasing), read block by block: the array may be larger than memory."""
        if type(self.rows) is np.ndarray:
            return canvas(self._arranged(self.rows if len(positions) == len(self) else self.rows[positions]), self.what)
        row_bytes = max(1, np.dtype(self.rows.dtype).itemsize * math.prod(self.rows.shape[1:]))
        (stored,) = self.sizes(positions)
        needed = len(positions) * row_bytes * math.prod(canvas.size or stored) // math.prod(stored)
        advice = "read fewer (limit=..., --limit), or smaller ones (resize=..., --resize)"
        check_fits(needed, f"{self.what} with {len(positions):,} images", advice)
        parts, done, step = [], 0, max(1, _BLOCK_BYTES // row_bytes)
        for start in range(0, len(self), step):
            kept = positions[np.searchsorted(positions, start) : np.searchsorted(positions, start + step)]
            if len(kept):
                check_length(self.rows, self.what)
                with reading(self.what):
                    part = np.asarray(self.rows[kept[0] : kept[-1] + 1])[kept - kept[0]]
                parts.append(canvas(self._arranged(part), self.what))
                done += len(kept)
                runtime.progress(f"read {Path(self.what).name}", done, len(positions))
        check_length(self.rows, self.what)
        if getattr(self.rows, "nchunks_initialized", 0) < self.stored_chunks:  # Zarr reads missing chunks as zeros
            raise DatasetError(f"{self.what}, or a part of it, was deleted while it was read; restore it.")
        return np.concatenate(parts)

    def _arranged(self, images: Any) -> Any:
        """Channels at the end, and no axis of a single one."""
        images = np.moveaxis(images, 1, -1) if self.channels_first else images
        return images[..., 0] if images.shape[3:] == (1,) else images


@dataclass(frozen=True)
class FileSource:
    """Images that are stored one by one: paths, bytes or pixels, or ``get`` of each item; read on all cores."""

    items: Sequence[Any]
    names: Sequence[str]
    place: str
    get: Callable[[Any], Any] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def sizes(self, positions: Positions) -> list[Size]:
        """Height and width of each image, from its header."""
        return self.map(self._size, positions, "scan")

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[Any]:
        """Images at ``positions``, of one type and number of channels."""
        first, _ = self._decode(int(positions[0]), canvas)
        advice = "make them smaller with resize=... (--resize)"
        check_fits(len(positions) * first.nbytes, f"{self.place} with {len(positions):,} images", advice)
        stack = np.empty((len(positions), *first.shape), dtype=first.dtype)

        def decode(place: int) -> tuple[NDArray[Any] | None, bool]:
            """Write an image that is like the first one to the stack, and return any other."""
            image, is_transparent = self._decode(int(positions[place]), canvas)
            if image.shape != first.shape or image.dtype != first.dtype:
                return image, is_transparent
            stack[place] = image
            return None, is_transparent

        read = self.map(decode, np.arange(len(positions)), "read")
        names = [self.names[i] for i in positions]
        transparent = [name for name, (_, is_transparent) in zip(names, read, strict=True) if is_transparent]
        if transparent:
            count = f"{len(transparent)} of {len(names)} images have transparent pixels ({_some(transparent)})"
            warn(f"{self.place}: {count}, which become black (white around black content) where the frame shows them.")
        others = {place: image for place, (image, _) in enumerate(read) if image is not None}
        return as_pixels(self._mixed(stack, others, names) if others else stack, self.place)

    def _mixed(self, stack: NDArray[Any], others: dict[int, NDArray[Any]], names: Names) -> NDArray[Any]:
        """Images of several types or numbers of channels, in one array; ``others`` are not in the stack."""
        images = [others.get(place, image) for place, image in enumerate(stack)]
        if any(image.ndim == 2 for image in images) and are_grey(images):
            images = [image if image.ndim == 2 else image[..., 0] for image in images]
        kinds = defaultdict[Any, list[str]](list)  # names of the images of each type, and of each number of axes
        for image, name in zip(images, names, strict=True):
            if image.shape[:2] != images[0].shape[:2]:  # the header of a file is wrong
                sizes = f"{names[0]} is {images[0].shape[:2]} but {name} is {image.shape[:2]} (height, width)"
                raise DatasetError(f"{self.place}: {sizes}; bring them to one size with resize=64 (--resize 64).")
            for kind in (image.dtype, image.ndim):
                kinds[kind].append(name)
        dtypes = [kind for kind in kinds if not isinstance(kind, int)]
        if len(dtypes) > 1 and not {*dtypes} <= {np.dtype(np.uint8), np.dtype(np.uint16)}:
            one, other = (f"{kinds[dtype][0]} has {dtype}" for dtype in dtypes[:2])
            raise DatasetError(f"{self.place}: {one} pixels but {other} pixels; save all images with one type.")
        if 2 in kinds and 3 in kinds:
            grey, colour = (f"{len(kinds[axes])} ({_some(kinds[axes])})" for axes in (2, 3))
            advice = "all become colour. To compare them in grey, match with grey=True (--grey)"
            warn(f"{self.place} has grey images, {grey}, and colour images, {colour}; {advice}.")
        mixed = np.empty((len(images), *max((i.shape for i in images), key=len)), dtype=np.result_type(*dtypes))
        for place, image in enumerate(images):
            mixed[place] = image if image.ndim == mixed.ndim - 1 else image[..., None]
            if mixed.dtype == np.uint16 and image.dtype == np.uint8:
                mixed[place] *= 257  # white is 255 in the one and 65535 = 255 * 257 in the other
        return mixed

    def content(self, i: int) -> tuple[Any, str]:
        """Path, bytes or pixels of image ``i``, and its full name."""
        what = f"{self.place}/{self.names[i]}"
        with reading(what):
            return self.items[i] if self.get is None else self.get(self.items[i]), what

    def map(self, function: Callable[[int], Any], positions: Positions, stage: str) -> list[Any]:
        """Results of ``function(position)``, on all cores."""
        blocks = row_blocks(len(positions), block_rows=8)
        stage = f"{stage} {Path(self.place).resolve().name}"  # also of the current folder

        def work(_block: Block, rows: Positions) -> list[Any]:
            return [function(int(i)) for i in rows]

        with warnings.catch_warnings():  # Pillow warns about repairs, one line for each file
            warnings.filterwarnings("ignore", module=r"PIL|bispectral_ot\.datasets")
            return [result for part in Threads().map(work, blocks, rows=(positions,), stage=stage) for result in part]

    def _size(self, i: int) -> Size:
        content, what = self.content(i)
        return content.shape[:2] if isinstance(content, np.ndarray) else image_size(content, what)

    def _decode(self, i: int, canvas: Canvas) -> tuple[NDArray[Any], bool]:
        content, what = self.content(i)
        known = isinstance(content, np.ndarray)
        image, is_transparent = (content, False) if known else decode_image(content, what, canvas)
        return canvas(image[None], what)[0], is_transparent


def check_length(rows: Any, what: str) -> None:
    """Raise an error if the file of an array was cut off: HDF5 reads zeros, a mapped file would end the process."""
    if isinstance(rows, np.memmap):
        file, expected = str(rows.filename), rows.offset + rows.nbytes
    elif hasattr(rows, "file"):  # of h5py
        file, expected = rows.file.filename, rows.file.id.get_filesize()
    else:
        return
    if os.path.isfile(file) and os.path.getsize(file) < expected:
        raise DatasetError(f"{what} was truncated while it was read; it had {expected:,} bytes.")


def _some(names: Names, count: int = 3) -> str:
    return ", ".join(names[:count]) + (", ..." if len(names) > count else "")


@dataclass(frozen=True, eq=False)
class LazyDataset:
    """Dataset before its images are read; labels and classes are checked as in a :class:`Dataset`."""

    source: Any  # ArraySource, FileSource or another one with their methods
    name: str
    labels: ArrayLike | None = None
    classes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kind: Kind = "images"
    dataset: Dataset | None = None  # if it is in memory

    def __post_init__(self) -> None:
        if self.dataset is None:  # else it was checked when it was made
            if not len(self):
                raise InputError(f"dataset {self.name!r} has no images; at least one is needed.")
            labels, classes = check_labels(self.labels, tuple(map(str, self.classes)), len(self))
            object.__setattr__(self, "labels", labels)
            object.__setattr__(self, "classes", classes)

    @classmethod
    def of(cls, data: Dataset) -> Self:
        """Lazy dataset of one that is in memory."""
        source = ArraySource(data.images, data.name)
        return cls(source, data.name, data.labels, data.classes, data.files, data.kind, data)

    def of_kind(self, kind: ArrayKind | None) -> Self:
        """Same set with its arrays read as another kind, ``"shapes"`` being clouds or volumes; None keeps theirs."""
        if kind == "shapes":
            axes = len(getattr(self.source, "rows", np.empty(0)).shape)  # 1 for a folder of files
            kind = None if self.kind != "images" or axes == 1 else "volumes" if axes == 4 else "clouds"
        if kind in (None, self.kind):
            return self
        return replace(self, kind=kind, dataset=None if self.dataset is None else replace(self.dataset, kind=kind))

    def __len__(self) -> int:
        return len(self.source)

    def sizes(self, positions: Positions) -> list[Size]:
        """Height and width of the images at ``positions``; a single one if all are equal."""
        return list(self.source.sizes(positions)) if self.kind == "images" else []

    def read(self, positions: Positions | None = None, canvas: Canvas | None = None) -> Dataset:
        """Dataset of the images at ``positions`` (increasing; all by default)."""
        places, canvas = np.arange(len(self)) if positions is None else positions, canvas or Canvas()
        if self.dataset is not None and canvas == Canvas():
            return self.dataset if len(places) == len(self) else self.dataset.select(places)
        known, own = self.labels, self.dataset
        return Dataset(
            self.source.read(places, canvas),
            None if known is None else np.asarray(known)[places],
            name=self.name,
            classes=self.classes,
            kind=self.kind,
            files=tuple(self.files[i] for i in places) if self.files else (),
            placement=canvas.placement or (None if own is None else own.placement),
            positions=places if own is None else own.positions[places],
        )


def choose_names(
    what: object, names: Names, asked: Names = (), split: str = "train", *, words: Names = IMAGE_WORDS, only: Names = ()
) -> tuple[str, str | None]:
    """Names of the images (else the ``only`` candidate) and of the labels (or None) among arrays or columns."""
    if asked:
        for name in asked[:2]:
            if name not in names:
                raise DatasetError(f"{what} has no array or column {name!r}; {advise(name, names)}")
        return asked[0], asked[1] if len(asked) > 1 else None
    images = find_name(what, names, words, split)
    if images is None and split == "train" and len(only) == 1:
        images = only[0]
    if images is None:
        found = f"it has {_some(list(names), 8) or 'none'}; expected {words[0]!r}"
        advice = "Other arrays are named as FILE::IMAGES or FILE::IMAGES::LABELS"
        raise DatasetError(f"{what} has no images for the {split} split; {found}. {advice}.")
    return images, find_name(what, [name for name in names if name != images], LABEL_WORDS, split)


def find_name(what: object, names: Iterable[str], words: Names, split: str = "train") -> str | None:
    """Name among the words, for ``split``; a name without a split counts as the training split."""
    wanted = [form for word in words for form in (f"{word}_{split}", f"{split}_{word}", f"{split}/{word}")]
    for form in [*wanted, *(words if split == "train" else ())]:
        found = [name for name in names if f"/{name.lower()}".endswith(f"/{form}")]
        if len(found) > 1:
            raise DatasetError(f"{what} has {' and '.join(map(repr, found))}; keep only one of them.")
        if found:
            return found[0]
    return None


def list_arrays(
    path: Path, arrays: Mapping[str, Any], asked: Sequence[str], split: str, read: Callable[[Any], Any]
) -> LazyDataset:
    """Set in a file of named arrays; ``read`` reads labels and class names once their lengths are checked."""
    shapes = {key: tuple(map(int, array.shape)) for key, array in arrays.items()}
    images, labels = choose_names(path, list(shapes), asked, split, only=list(shapes))
    source = array_source(arrays[images], f"{path}::{images}")
    if labels is None:
        return LazyDataset(source, path.stem)
    shape = shapes[labels]
    if shape[:1] != (len(source),) or len(shape) > 2 or shape[1:] > (1,):
        advice = "save one column (of one-hot rows labels.argmax(axis=1)), or read the images alone as FILE::IMAGES"
        raise DatasetError(f"{path}: {labels!r} has shape {shape} for {len(source)} images; {advice}.")
    check_fits(64 * len(source), f"{path}::{labels}", "read a part of it")
    values, classes = as_text(read(arrays[labels])), find_name(path, shapes, ("classes", "class_names", "label_names"))
    if asked or classes is None:
        return LazyDataset(source, path.stem, values.reshape(-1))
    if len(shapes[classes]) != 1 or shapes[classes][0] > 2**20:
        raise DatasetError(f"{path}: {classes!r} has shape {shapes[classes]}; expected one name for each class, (n,).")
    return LazyDataset(source, path.stem, values.reshape(-1), tuple(map(str, as_text(read(arrays[classes])).tolist())))


def as_text(values: NDArray[Any]) -> NDArray[Any]:
    """Byte strings as text."""
    if values.dtype.kind not in "SO":
        return values
    texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values.ravel()]
    return np.array(texts, dtype=object)


def array_source(rows: Any, what: str) -> ArraySource:
    """Images (n, height, width[, channels]) in a file; channels that come first are moved to the end."""
    shape, dtype = tuple(map(int, rows.shape)), np.dtype(rows.dtype)
    if dtype.kind not in "buif":
        raise DatasetError(f"{what} has shape {shape} and type {dtype}; expected images of real numbers.")
    if len(shape) not in (3, 4) or 0 in shape:
        raise DatasetError(f"{what}: {shape_advice(shape)}")
    channels_first = len(shape) == 4 and shape[1] <= 4 < shape[3]  # more are planes of their own
    return ArraySource(rows, what, channels_first, getattr(rows, "nchunks_initialized", 0))
