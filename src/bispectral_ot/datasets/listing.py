"""What a set holds, known before its images are read: so that only those are read that are kept, at the right size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.datasets.dataset import Dataset, Kind, check_labels
from bispectral_ot.datasets.grey import to_grey
from bispectral_ot.datasets.image_file import Look
from bispectral_ot.datasets.reading import reading
from bispectral_ot.datasets.resize import Size, resize_images
from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress, silent

Positions = NDArray[np.int64]
_BLOCK_BYTES = 32 * 2**20


class Content(Protocol):
    """The images of a set, still where they are stored."""

    def __len__(self) -> int:
        """Number of images."""

    def looks(self, positions: Positions, progress: Progress) -> Sequence[Look]:
        """Size and mode of the images at ``positions``; one look where all are alike."""

    def read(self, positions: Positions, size: Size | None, grey: bool, progress: Progress) -> NDArray[Any]:
        """The images at ``positions`` (increasing), scaled to fit into ``size`` and turned to grey where asked."""


@dataclass(frozen=True)
class Stack:
    """Images in one array, of memory or of a file: anything with a shape, a dtype and slices of rows.

    ``arrange`` turns rows as they are stored into (n, height, width[, channels]); ``row_shape`` is what becomes of one.
    """

    rows: Any
    what: str
    arrange: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    row_shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Learn the shape of a row, from the first where rows are rearranged."""
        row: Any = self.rows
        if self.arrange is not None and len(self):
            row = self.arrange(np.asarray(self.rows[:1]))
        object.__setattr__(self, "row_shape", tuple(int(side) for side in row.shape[1:]))
        object.__setattr__(self, "dtype", np.dtype(row.dtype))

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def looks(self, positions: Positions, progress: Progress) -> Sequence[Look]:
        """One for all."""
        sides = (*self.row_shape, 1, 1)
        mode = "colour" if len(self.row_shape) == 3 and self.row_shape[2] in (3, 4) else "grey"
        return [Look(sides[0], sides[1], mode)]

    def read(self, positions: Positions, size: Size | None, grey: bool, progress: Progress) -> NDArray[Any]:
        """Block by block, so that what is stored may be larger than memory."""
        if isinstance(self.rows, np.ndarray) and not isinstance(self.rows, np.memmap) and self.arrange is None:
            whole = len(positions) == len(self)
            return _prepared(self.rows if whole else self.rows[positions], size, grey, progress)
        row_bytes = self.dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))
        small = row_bytes if size is None else row_bytes * size[0] * size[1] // max(1, int(np.prod(self.row_shape[:2])))
        check_fits(
            len(positions) * small,
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
                parts.append(_prepared(self.arrange(part) if self.arrange else part, size, grey, silent))
                done += len(kept)
                progress(f"read {Path(self.what).name}", done, len(positions))
        return np.concatenate(parts)


def _prepared(images: NDArray[Any], size: Size | None, grey: bool, progress: Progress) -> NDArray[Any]:
    images = to_grey(images, progress=progress) if grey else images
    return images if size is None else resize_images(images, size, progress=progress)


@dataclass(frozen=True, eq=False)
class Listing:
    """A set before it is read; labels and classes are checked as those of a :class:`Dataset` are."""

    content: Content
    name: str
    labels: ArrayLike | None = None
    classes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kind: Kind = "images"
    dataset: Dataset | None = None  # where it was read before

    def __post_init__(self) -> None:
        """Turn labels into indices into the classes."""
        if not len(self):
            raise InputError(f"dataset {self.name!r} has no images; at least one is needed.")
        labels, classes = check_labels(self.labels, tuple(map(str, self.classes)), len(self))
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "classes", classes)

    @classmethod
    def of(cls, dataset: Dataset) -> Listing:
        """A dataset that is in memory already."""
        content = Stack(dataset.images, dataset.name)
        return cls(content, dataset.name, dataset.labels, dataset.classes, dataset.files, dataset.kind, dataset)

    def __len__(self) -> int:
        return len(self.content)

    def read(
        self,
        positions: Positions | None = None,
        *,
        size: Size | None = None,
        grey: bool = False,
        progress: Progress = silent,
    ) -> Dataset:
        """The images at ``positions``, which are increasing, as a dataset; all by default."""
        places = np.arange(len(self)) if positions is None else positions
        if self.dataset is not None and size is None and not grey and len(places) == len(self):
            return self.dataset
        labels: Any = self.labels
        return Dataset(
            self.content.read(places, size, grey, progress),
            None if labels is None else labels[places],
            name=self.name,
            classes=self.classes,
            files=tuple(self.files[i] for i in places) if self.files else (),
            kind=self.kind,
        )
