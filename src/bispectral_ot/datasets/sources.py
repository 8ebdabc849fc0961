"""Lazy datasets: what a set holds, known before its images are read, and the sources that read them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import runtime
from bispectral_ot.datasets.dataset import Dataset, Kind, as_pixels, check_labels
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.datasets.image_file import ImageInfo, decode_image, image_header
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.memory import check_fits

Positions = NDArray[np.int64]
_BLOCK_BYTES = 32 * 2**20
_BLOCK_ROWS = 32


class Source(Protocol):
    """Images of a set, still where they are stored."""

    def __len__(self) -> int:
        """Number of images."""

    def headers(self, positions: Positions) -> Sequence[ImageInfo]:
        """Size and mode of the images at ``positions``; a single one where all are alike."""

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[Any]:
        """The images at ``positions`` (increasing), as ``canvas`` maps them."""


@dataclass(frozen=True)
class ArraySource:
    """Images in one array, of memory or of a file: anything with a shape, a dtype and slices of rows.

    ``arrange`` turns rows as they are stored into (n, height, width[, channels]).
    """

    rows: Any
    what: str
    arrange: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    row_shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Determine the shape of an image, from the first where rows are rearranged."""
        row: Any = self.rows
        if self.arrange is not None and len(self):
            row = self.arrange(np.asarray(self.rows[:1]))
        object.__setattr__(self, "row_shape", tuple(int(side) for side in row.shape[1:]))
        object.__setattr__(self, "dtype", np.dtype(row.dtype))

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def headers(self, positions: Positions) -> Sequence[ImageInfo]:
        """One for all."""
        sides = (*self.row_shape, 1, 1)
        mode = "colour" if len(self.row_shape) == 3 and self.row_shape[2] in (3, 4) else "grey"
        return [ImageInfo(sides[0], sides[1], mode)]

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[Any]:
        """Read block by block: what is stored may be larger than memory."""
        if isinstance(self.rows, np.ndarray) and not isinstance(self.rows, np.memmap) and self.arrange is None:
            return canvas(self.rows if len(positions) == len(self) else self.rows[positions])
        row_bytes = self.dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))
        size = canvas.size or self.row_shape[:2]
        check_fits(
            len(positions) * row_bytes * size[0] * size[1] // max(1, int(np.prod(self.row_shape[:2]))),
            f"{self.what} with {len(positions):,} images",
            "read fewer (limit=..., --limit), or smaller ones (resize=..., --resize)",
        )
        step = max(1, _BLOCK_BYTES // max(1, row_bytes))
        parts, done = [], 0
        for start in range(0, len(self), step):
            kept = positions[np.searchsorted(positions, start) : np.searchsorted(positions, start + step)] - start
            if len(kept):
                with reading(self.what):
                    part = np.asarray(self.rows[start + kept[0] : start + kept[-1] + 1])
                part = part if len(part) == len(kept) else part[kept - kept[0]]
                parts.append(canvas(self.arrange(part) if self.arrange else part))
                done += len(kept)
                runtime.progress(f"read {Path(self.what).name}", done, len(positions))
        return np.concatenate(parts)


@dataclass(frozen=True)
class FileSource:
    """Images that are stored one by one, as files or parts of files; read on all cores.

    Where some are grey and some in colour, all become colour; where some have 8 and some 16 bits, all become 16-bit. A
    :class:`DataWarning` names those that are not like the others.

    Parameters
    ----------
    items
        Arguments of ``decode``: paths, or the bytes of files.
    names
        Of the items, relative to ``place``, for messages.
    place
        Folder or file that they are in, for messages.
    header, decode
        Called with an item and its full name (and ``decode`` with the canvas): size and mode; pixels, and whether some
        of them are transparent.
    """

    items: Sequence[Any]
    names: Sequence[str]
    place: str
    header: Callable[[Any, str], ImageInfo] = image_header
    decode: Callable[[Any, str, Canvas], tuple[NDArray[Any], bool]] = decode_image

    def __len__(self) -> int:
        return len(self.items)

    def headers(self, positions: Positions) -> list[ImageInfo]:
        """Size and mode of each image."""
        return self._map(self._header_block, positions, (), f"scan {self._short_name}")

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[Any]:
        """Decode all images, and give them one type and number of channels."""
        one = self._decoded(int(positions[0]), canvas)[0].nbytes
        check_fits(
            len(positions) * one,
            f"{self.place} with {len(positions):,} images",
            "make them smaller with resize=... (--resize)",
        )
        read = self._map(self._read_block, positions, (canvas,), f"read {self._short_name}")
        names = [self.names[i] for i in positions]
        transparent = [name for name, (_, is_transparent) in zip(names, read, strict=True) if is_transparent]
        if transparent:
            warn(
                f"{self.place}: {len(transparent)} of {len(names)} images have transparent pixels "
                f"({_some(transparent)}), which become black; save the images on a background of their own where that "
                "is wrong.",
                DataWarning,
            )
        return self._stacked([image for image, _ in read], names)

    @property
    def _short_name(self) -> str:
        return Path(self.place).resolve().name  # also of the current folder

    def _map(
        self, function: Callable[..., list[Any]], positions: Positions, shared: tuple[Any, ...], stage: str
    ) -> list[Any]:
        blocks = row_blocks(len(positions), block_rows=_BLOCK_ROWS)
        with warnings.catch_warnings():  # Pillow warns of what it repairs, one line for each file
            warnings.filterwarnings("ignore", module=r"PIL|bispectral_ot\.datasets")
            parts = list(Threads().map(function, blocks, rows=(positions,), shared=shared, stage=stage))
        return [result for part in parts for result in part]

    def _header_block(self, _block: Block, positions: Positions) -> list[ImageInfo]:
        return [self.header(self.items[i], f"{self.place}/{self.names[i]}") for i in positions]

    def _read_block(self, _block: Block, positions: Positions, canvas: Canvas) -> list[tuple[NDArray[Any], bool]]:
        return [self._decoded(i, canvas) for i in positions]

    def _decoded(self, i: int, canvas: Canvas) -> tuple[NDArray[Any], bool]:
        name = f"{self.place}/{self.names[i]}"
        image, is_transparent = self.decode(self.items[i], name, canvas)
        return canvas(image[None])[0], is_transparent

    def _stacked(self, images: list[NDArray[Any]], names: list[str]) -> NDArray[Any]:
        """All images in one array; sizes differ where the header of a file is wrong."""
        for image, name in zip(images, names, strict=True):
            if image.shape[:2] != images[0].shape[:2]:
                one, other = (f"{shape[0]} x {shape[1]} (height x width)" for shape in (images[0].shape, image.shape))
                raise DatasetError(
                    f"the images of {self.place} have different sizes: {names[0]} is {one} but {name} is {other}; "
                    "bring them to one size with resize=64 (--resize 64)."
                )
        kinds = {image.dtype: name for image, name in zip(images, names, strict=True)}
        whole = [dtype for dtype in kinds if dtype in (np.uint8, np.uint16)]
        others = [dtype for dtype in kinds if dtype not in whole]
        if whole and others:
            raise DatasetError(
                f"{self.place}: {kinds[others[0]]} has {others[0]} pixels but {kinds[whole[0]]} has {whole[0]} ones, "
                "so their grey values cannot be compared; save all images in one way."
            )
        grey = [name for name, image in zip(names, images, strict=True) if image.ndim == 2]
        colour = [name for name, image in zip(names, images, strict=True) if image.ndim == 3]
        if grey and colour:
            warn(
                f"{self.place}: {len(grey)} images are grey ({_some(grey)}) and {len(colour)} in colour "
                f"({_some(colour)}); all become colour. To compare them in grey, use grey=True (--grey).",
                DataWarning,
            )
        stack = np.empty((len(images), *max((i.shape for i in images), key=len)), dtype=np.result_type(*kinds))
        for i, image in enumerate(images):
            stack[i] = image if image.ndim == stack.ndim - 1 else image[..., None]
            if stack.dtype == np.uint16 and image.dtype == np.uint8:
                stack[i] *= 257  # white is 255 in the one and 65535 = 255 * 257 in the other
            images[i] = image[:0]  # its pixels are not kept twice
        return as_pixels(stack, self.place)


def decoded_source(images: Sequence[NDArray[Any]], names: Sequence[str], place: str) -> FileSource:
    """Images of different sizes that are in memory."""
    return FileSource(images, names, place, lambda image, _: ImageInfo.of(image), lambda image, *_: (image, False))


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


@dataclass(frozen=True, eq=False)
class LazyDataset:
    """A dataset before its images are read; labels and classes are checked as those of a :class:`Dataset` are."""

    source: Source
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
        dataset = None if self.dataset is None else replace(self.dataset, kind=kind)
        return replace(self, kind=kind, dataset=dataset)

    def __len__(self) -> int:
        return len(self.source)

    def headers(self, positions: Positions | None = None) -> Sequence[ImageInfo]:
        """Size and mode of the images at ``positions`` (all by default), a single one where all are alike."""
        if self.kind != "images":
            return []
        return self.source.headers(np.arange(len(self)) if positions is None else positions)

    def read(self, positions: Positions | None = None, canvas: Canvas | None = None) -> Dataset:
        """The images at ``positions``, which are increasing, as a dataset; all by default."""
        places, canvas = np.arange(len(self)) if positions is None else positions, canvas or Canvas()
        if self.dataset is not None and canvas == Canvas():
            return self.dataset if len(places) == len(self) else self.dataset.select(places)
        return self.with_images(self.source.read(places, canvas), places, canvas.placement)

    def with_images(self, images: Any, places: Positions, placement: Placement | None = None) -> Dataset:
        """``images`` as a dataset with what is known of the images at ``places``, and how they are placed now."""
        labels: Any = self.labels
        return Dataset(
            images,
            None if labels is None else labels[places],
            name=self.name,
            classes=self.classes,
            files=tuple(self.files[i] for i in places) if self.files else (),
            positions=places if self.dataset is None else self.dataset.positions[places],
            kind=self.kind,
            placement=placement or (None if self.dataset is None else self.dataset.placement),
        )
