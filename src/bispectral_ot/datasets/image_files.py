"""Images that are encoded one by one, as the files of a folder are: read with all cores, and made alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.grey import to_grey
from bispectral_ot.datasets.image_file import Look, decode_image, look_at_image
from bispectral_ot.datasets.listing import Positions
from bispectral_ot.datasets.resize import Size, resize_images
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, DataWarning, warn
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress

_BLOCK_ROWS = 32


@dataclass(frozen=True)
class ImageFiles:
    """Items that become one image each.

    Parameters
    ----------
    items
        Whatever ``decode`` takes: paths, or the bytes of files.
    names
        Of the items, relative to ``place``, for messages.
    place
        The folder or file that they are in, for messages.
    look, decode
        Called with an item and its full name: size and mode, and pixels with whether some of them are transparent.

    Where some images are grey and some in colour, all become colour, or grey with ``grey``; where some have 8 and some
    16 bits, all become 16-bit. A :class:`DataWarning` names files that are not like the others.
    """

    items: Sequence[Any]
    names: Sequence[str]
    place: str
    look: Callable[[Any, str], Look] = look_at_image
    decode: Callable[[Any, str], tuple[NDArray[Any], bool]] = decode_image

    def __len__(self) -> int:
        return len(self.items)

    def looks(self, positions: Positions, progress: Progress) -> list[Look]:
        """Size and mode of each."""
        return self._map(self._look_block, positions, (), f"look at {self._short_name}", progress)

    def read(self, positions: Positions, size: Size | None, grey: bool, progress: Progress) -> NDArray[Any]:
        """Decode all, then make them alike."""
        one = self._prepared(int(positions[0]), size, grey)[0].nbytes
        check_fits(
            len(positions) * one,
            f"{self.place} with {len(positions):,} images",
            "make them smaller with resize=... (--resize)",
        )
        read = self._map(self._read_block, positions, (size, grey), f"read {self._short_name}", progress)
        images = [image for image, _ in read]
        names = [self.names[i] for i in positions]
        self._refuse_different_sizes(images, names)
        transparent = [name for name, (_, is_transparent) in zip(names, read, strict=True) if is_transparent]
        if transparent:
            warn(
                f"{self.place}: {len(transparent)} of {len(names)} images have transparent pixels "
                f"({_some(transparent)}), which become black; save the images on a background of their own where that "
                "is wrong.",
                DataWarning,
            )
        return np.stack(self._to_one_kind(images, names))

    @property
    def _short_name(self) -> str:
        return Path(self.place).resolve().name  # of the current folder, too

    def _map(
        self,
        function: Callable[..., list[Any]],
        positions: Positions,
        shared: tuple[Any, ...],
        stage: str,
        progress: Progress,
    ) -> list[Any]:
        blocks = row_blocks(len(positions), block_rows=_BLOCK_ROWS)
        parts = Threads().map(function, blocks, rows=(positions,), shared=shared, stage=stage, progress=progress)
        return [result for part in parts for result in part]

    def _look_block(self, _block: Block, positions: Positions) -> list[Look]:
        return [self.look(self.items[i], f"{self.place}/{self.names[i]}") for i in positions]

    def _read_block(
        self, _block: Block, positions: Positions, size: Size | None, grey: bool
    ) -> list[tuple[NDArray[Any], bool]]:
        return [self._prepared(i, size, grey) for i in positions]

    def _prepared(self, i: int, size: Size | None, grey: bool) -> tuple[NDArray[Any], bool]:
        image, is_transparent = self.decode(self.items[i], f"{self.place}/{self.names[i]}")
        if size is not None:
            image = resize_images(image[None], size)[0]
        return to_grey(image[None])[0] if grey else image, is_transparent

    def _refuse_different_sizes(self, images: list[NDArray[Any]], names: list[str]) -> None:
        """Sizes were looked at before; they differ where the head of a file says another one than its image."""
        shapes = [image.shape[:2] for image in images]
        for shape, name in zip(shapes, names, strict=True):
            if shape != shapes[0]:
                raise DatasetError(
                    f"the images of {self.place} have different sizes: {names[0]} is {_size(shapes[0])} but {name} is "
                    f"{_size(shape)}; bring them to one size with resize=64 (--resize 64)."
                )

    def _to_one_kind(self, images: list[NDArray[Any]], names: list[str]) -> list[NDArray[Any]]:
        """Give all images the same number of channels and the same type."""
        kinds = {image.dtype: name for image, name in zip(images, names, strict=True)}
        if np.dtype(np.float32) in kinds and len(kinds) > 1:
            whole = next(dtype for dtype in kinds if dtype != np.float32)
            raise DatasetError(
                f"{self.place}: {kinds[np.dtype(np.float32)]} has floating-point pixels but {kinds[whole]} has {whole} "
                "ones, so their grey values cannot be compared; save all images in one way."
            )
        if len(kinds) > 1:  # white is 255 in the one and 65535 = 255 * 257 in the other
            images = [image.astype(np.uint16) * 257 if image.dtype == np.uint8 else image for image in images]
        grey = [name for name, image in zip(names, images, strict=True) if image.ndim == 2]
        colour = [name for name, image in zip(names, images, strict=True) if image.ndim == 3]
        if grey and colour:
            warn(
                f"{self.place}: {len(grey)} images are grey ({_some(grey)}) and {len(colour)} in colour "
                f"({_some(colour)}); all become colour. To compare them in grey, use grey=True (--grey).",
                DataWarning,
            )
            images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
        return images


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} x {shape[1]} (height x width)"
