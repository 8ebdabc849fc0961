"""Lazy datasets: labels, names and sizes of a set, known before its images are read, and the sources that read them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import advise
from bispectral_ot.datasets.dataset import Dataset, Kind, as_pixels, check_labels, shape_advice
from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.image_file import decode_image, image_size
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.warp import Size
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.memory import check_fits

Positions = NDArray[np.int64]
_BLOCK_BYTES = 32 * 2**20
_BLOCK_ROWS = 8
IMAGE_WORDS = ("images", "x", "data", "image", "img", "imgs")
# "ans" is the name in Galaxy10; "y" comes late, since tables also have coordinates x and y
LABEL_WORDS = ("labels", "label", "targets", "target", "ans", "class", "class_name", "category", "y")
_CLASS_WORDS = ("classes", "class_names", "label_names")
MOST_CHANNELS = 4  # more are planes of their own
_MOST_CLASSES = 2**20
# Names of the splits in folders, files and columns.
SPLIT_WORDS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing", "t10k"),
}


@dataclass(frozen=True)
class ArraySource:
    """Images (n, height, width[, channels]), or channels first, in one array, of memory or of a file."""

    rows: Any
    what: str
    channels_first: bool = False

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def size(self) -> Size:
        """Height and width of an image."""
        sides = (*map(int, self.rows.shape[2 if self.channels_first else 1 :]), 1)
        return sides[0], sides[1]

    def sizes(self, positions: Positions) -> list[Size]:
        """Height and width, one for all."""
        return [self.size]

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[Any]:
        """Images at ``positions`` (increasing), read block by block: the array may be larger than memory."""
        if type(self.rows) is np.ndarray:
            return canvas(self._arranged(self.rows if len(positions) == len(self) else self.rows[positions]))
        row_bytes = max(1, np.dtype(self.rows.dtype).itemsize * math.prod(self.rows.shape[1:]))
        check_fits(
            len(positions) * row_bytes * math.prod(canvas.size or self.size) // max(1, math.prod(self.size)),
            f"{self.what} with {len(positions):,} images",
            "read fewer (limit=..., --limit), or smaller ones (resize=..., --resize)",
        )
        step = max(1, _BLOCK_BYTES // row_bytes)
        parts, done = [], 0
        for start in range(0, len(self), step):
            kept = positions[np.searchsorted(positions, start) : np.searchsorted(positions, start + step)]
            if len(kept):
                with reading(self.what):
                    part = np.asarray(self.rows[kept[0] : kept[-1] + 1])[kept - kept[0]]
                parts.append(canvas(self._arranged(part)))
                done += len(kept)
                runtime.progress(f"read {Path(self.what).name}", done, len(positions))
        if hasattr(self.rows, "store_path") and not Path(self.what.partition("::")[0]).exists():
            raise DatasetError(f"{self.what} has vanished while it was read.")  # Zarr takes lost chunks for zeros
        return np.concatenate(parts)

    def _arranged(self, images: Any) -> Any:
        """Channels at the end, and no axis of a single one."""
        images = np.moveaxis(images, 1, -1) if self.channels_first else images
        return images[..., 0] if images.shape[3:] == (1,) else images


@dataclass(frozen=True)
class FileSource:
    """Images that are stored one by one, as files or parts of files; read on all cores.

    Items are paths of image files, bytes or pixels, or ``get`` returns one of these; ``names`` are relative to
    ``place``. Grey and colour together become colour, 8 and 16 bits together 16.
    """

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
        needed = len(positions) * self._decode(int(positions[0]), canvas)[0].nbytes
        advice = "make them smaller with resize=... (--resize)"
        check_fits(needed, f"{self.place} with {len(positions):,} images", advice)
        read = self.map(self._decode, positions, "read", canvas)
        names = [self.names[i] for i in positions]
        transparent = [name for name, (_, is_transparent) in zip(names, read, strict=True) if is_transparent]
        if transparent:
            warn(
                f"{self.place}: {len(transparent)} of {len(names)} images have transparent pixels "
                f"({_some(transparent)}), which become black.",
                DataWarning,
            )
        return self._stacked([image for image, _ in read], names)

    def content(self, i: int) -> tuple[Any, str]:
        """Path, bytes or pixels of image ``i``, and its full name."""
        what = f"{self.place}/{self.names[i]}"
        if self.get is None:
            return self.items[i], what
        with reading(what):
            return self.get(self.items[i]), what

    def map(self, function: Callable[..., Any], positions: Positions, stage: str, *shared: Any) -> list[Any]:
        """Results of ``function(position, *shared)``, on all cores."""
        blocks = row_blocks(len(positions), block_rows=_BLOCK_ROWS)
        stage = f"{stage} {Path(self.place).resolve().name}"  # also of the current folder
        with warnings.catch_warnings():  # Pillow warns of what it repairs, one line for each file
            warnings.filterwarnings("ignore", module=r"PIL|bispectral_ot\.datasets")
            parts = list(Threads().map(_map_block, blocks, rows=(positions,), shared=(function, *shared), stage=stage))
        return [result for part in parts for result in part]

    def _size(self, i: int) -> Size:
        content, what = self.content(i)
        return content.shape[:2] if isinstance(content, np.ndarray) else image_size(content, what)

    def _decode(self, i: int, canvas: Canvas) -> tuple[NDArray[Any], bool]:
        content, what = self.content(i)
        known = isinstance(content, np.ndarray)
        image, is_transparent = (content, False) if known else decode_image(content, what, canvas)
        return canvas(image[None])[0], is_transparent

    def _stacked(self, images: list[NDArray[Any]], names: list[str]) -> NDArray[Any]:
        """All images in one array; sizes differ where the header of a file is wrong."""
        kinds: dict[Any, list[str]] = {}
        for image, name in zip(images, names, strict=True):
            if image.shape[:2] != images[0].shape[:2]:
                raise DatasetError(
                    f"the images of {self.place} have different sizes: {names[0]} is {images[0].shape[:2]} but {name} "
                    f"is {image.shape[:2]} (height, width); bring them to one size with resize=64 (--resize 64)."
                )
            for kind in (image.dtype, image.ndim):
                kinds.setdefault(kind, []).append(name)
        dtypes = [kind for kind in kinds if not isinstance(kind, int)]
        if len(dtypes) > 1 and not {*dtypes} <= {np.dtype(np.uint8), np.dtype(np.uint16)}:
            one, other = (f"{kinds[dtype][0]} has {dtype}" for dtype in dtypes[:2])
            raise DatasetError(f"{self.place}: {one} pixels but {other} ones; save all images in one way.")
        if 2 in kinds and 3 in kinds:
            warn(
                f"{self.place}: {len(kinds[2])} images are grey ({_some(kinds[2])}) and {len(kinds[3])} in colour "
                f"({_some(kinds[3])}); all become colour. To compare them in grey, use grey=True (--grey).",
                DataWarning,
            )
        stack = np.empty((len(images), *max((i.shape for i in images), key=len)), dtype=np.result_type(*dtypes))
        for i, image in enumerate(images):
            stack[i] = image if image.ndim == stack.ndim - 1 else image[..., None]
            if stack.dtype == np.uint16 and image.dtype == np.uint8:
                stack[i] *= 257  # white is 255 in the one and 65535 = 255 * 257 in the other
            images[i] = image[:0]  # its pixels are not kept twice
        return as_pixels(stack, self.place)


def _map_block(_block: Block, positions: Positions, function: Callable[..., Any], *shared: Any) -> list[Any]:
    return [function(int(i), *shared) for i in positions]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


@dataclass(frozen=True, eq=False)
class LazyDataset:
    """A dataset before its images are read; labels and classes are checked as those of a :class:`Dataset` are."""

    source: Any  # ArraySource, FileSource or another one with their methods
    name: str
    labels: ArrayLike | None = None
    classes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kind: Kind = "images"
    dataset: Dataset | None = None  # where it is in memory

    def __post_init__(self) -> None:
        """Turn labels into indices into the classes."""
        if not len(self):
            raise InputError(f"dataset {self.name!r} has no images; at least one is needed.")
        if self.dataset is None:
            labels, classes = check_labels(self.labels, tuple(map(str, self.classes)), len(self))
            object.__setattr__(self, "labels", labels)
            object.__setattr__(self, "classes", classes)

    @classmethod
    def of(cls, dataset: Dataset) -> LazyDataset:
        """A dataset that is in memory."""
        source = ArraySource(dataset.images, dataset.name)
        return cls(source, dataset.name, dataset.labels, dataset.classes, dataset.files, dataset.kind, dataset)

    def of_kind(self, kind: Kind) -> LazyDataset:
        """The same set, its arrays taken for another kind."""
        return replace(self, kind=kind, dataset=None if self.dataset is None else replace(self.dataset, kind=kind))

    def __len__(self) -> int:
        return len(self.source)

    def sizes(self, positions: Positions) -> list[Size]:
        """Height and width of the images at ``positions``, a single one where all are alike."""
        return list(self.source.sizes(positions)) if self.kind == "images" else []

    def read(self, positions: Positions | None = None, canvas: Canvas | None = None) -> Dataset:
        """The images at ``positions``, which are increasing, as a dataset; all by default."""
        places, canvas = np.arange(len(self)) if positions is None else positions, canvas or Canvas()
        if self.dataset is not None and canvas == Canvas():
            return self.dataset if len(places) == len(self) else self.dataset.select(places)
        labels: Any = self.labels
        return Dataset(
            self.source.read(places, canvas),
            None if labels is None else labels[places],
            name=self.name,
            classes=self.classes,
            files=tuple(self.files[i] for i in places) if self.files else (),
            positions=places if self.dataset is None else self.dataset.positions[places],
            kind=self.kind,
            placement=canvas.placement or (None if self.dataset is None else self.dataset.placement),
        )


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
    values, classes = as_text(read(arrays[labels])), find_name(what, shapes, _CLASS_WORDS)
    if asked or classes is None:
        return LazyDataset(source, name, values.reshape(-1))
    if len(shapes[classes]) != 1 or shapes[classes][0] > _MOST_CLASSES:
        raise DatasetError(f"{what}: {classes!r} has shape {shapes[classes]}; expected one name for each class, (n,).")
    return LazyDataset(source, name, values.reshape(-1), tuple(map(str, as_text(read(arrays[classes])).tolist())))


def as_text(values: NDArray[Any]) -> NDArray[Any]:
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
