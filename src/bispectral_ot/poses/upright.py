"""Images moved into their poses, once, at full resolution and depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from bispectral_ot.datasets.resize import as_type
from bispectral_ot.datasets.transforms import border_levels
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.engines.engine import Block
from bispectral_ot.errors import InputError
from bispectral_ot.poses.estimate import Poses

# Background around an image before it is turned, in pixels: borders blend into it.
_MARGIN = 2


def turn_image(
    image: NDArray[Any],
    angle: float,
    *,
    mirrored: bool = False,
    shift: Sequence[float] = (0.0, 0.0),
    fill: ArrayLike | None = None,
    expand: bool = False,
) -> NDArray[Any]:
    """Mirror an image left to right, if asked, turn it counter-clockwise about its centre, move it; keeps the type.

    Bicubic; quarter turns of what fits the canvas are exact.

    Parameters
    ----------
    image
        (height, width) or (height, width, channels), of any real type.
    angle
        Degrees, counter-clockwise as displayed.
    mirrored
        Whether to mirror it first.
    shift
        Pixels down and to the right, afterwards.
    fill
        What the corners get, one number or one per channel; the median of the border by default.
    expand
        Enlarge the canvas so that nothing is cut off; there is no shift then.

    Examples
    --------
    >>> turn_image(np.array([[1, 2], [3, 4]], dtype=np.uint8), 90.0).tolist()
    [[2, 4], [1, 3]]
    """
    image = image[:, ::-1] if mirrored else image
    quarters, rest = divmod(angle, 90.0)
    shift = (0.0, 0.0) if expand else (float(shift[0]), float(shift[1]))
    if rest == 0 and shift == (0.0, 0.0) and (expand or quarters % 2 == 0 or image.shape[0] == image.shape[1]):
        return np.ascontiguousarray(np.rot90(image, int(quarters)))
    planes = image.reshape(*image.shape[:2], -1).astype(np.float32)
    levels = border_levels(planes[None])[0] if fill is None else np.asarray(fill, dtype=np.float64)
    turned = [
        _turn_plane(plane, angle, shift, float(level), expand=expand)
        for plane, level in zip(np.moveaxis(planes, -1, 0), np.broadcast_to(levels, planes.shape[2]), strict=True)
    ]
    moved = np.stack(turned, axis=-1)
    return as_type(moved.reshape(*moved.shape[:2], *image.shape[2:]), image.dtype)


def _turn_plane(
    plane: NDArray[np.float32], angle: float, shift: tuple[float, float], level: float, *, expand: bool
) -> NDArray[np.float32]:
    padded = np.pad(plane, _MARGIN, constant_values=level)
    turned = Image.fromarray(padded).rotate(
        angle, Image.Resampling.BICUBIC, expand=expand, translate=cast(Any, shift[::-1]), fillcolor=level
    )
    return np.asarray(turned)[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]


def shift_image(image: NDArray[Any], shift: NDArray[np.float64]) -> NDArray[Any]:
    """Move an image (height, width[, channels]) down and to the right, cyclically, by a cubic spline; keeps the type.

    Examples
    --------
    >>> shift_image(np.array([[1, 2], [3, 4]], dtype=np.uint8), np.array([1.0, 0.0])).tolist()
    [[3, 4], [1, 2]]
    """
    from scipy import ndimage

    steps = (*shift, *[0.0] * (image.ndim - 2))
    return as_type(ndimage.shift(image.astype(np.float32), steps, mode="grid-wrap"), image.dtype)


def upright_images(
    images: NDArray[Any],
    poses: Poses,
    *,
    fill: float | None = None,
    expand: bool = False,
    guess: bool = False,
) -> NDArray[Any]:
    """Move each image (n, height, width[, channels]) into its pose; those without a certain one stay as they are.

    Parameters
    ----------
    images
        The sources, or the same ones at another resolution. Point clouds (n, points, 3) for rotations in space.
    fill
        What corners get; the median of each image's border by default.
    expand
        Enlarge the canvas of all images so that nothing is cut off.
    guess
        Move those whose pose is ambiguous, too.
    """
    if len(images) != len(poses):
        raise InputError(f"there are {len(images)} images but {len(poses)} poses; give one image for each source.")
    sure = poses.found & (guess | ~poses.ambiguous)
    if poses.rotations is not None:
        if images.ndim != 3 or images.shape[2] != 3:
            raise InputError("rotations in space move point clouds (n, points, 3), not other signals.")
        turned = np.einsum("nij,npj->npi", poses.rotations.as_matrix(), images)
        return np.where(sure[:, None, None], turned, images).astype(images.dtype)
    moves = np.zeros((len(images), 2))
    if poses.shifts is not None:
        moves = np.where(sure[:, None], poses.shifts, 0.0) * poses.scale_of(images.shape[1:3])
    if poses.angles is None:
        return np.stack([shift_image(image, move) for image, move in zip(images, moves, strict=True)])
    angles = np.where(sure, poses.angles, 0.0)
    mirrored = np.zeros(len(images), dtype=np.bool_) if poses.mirrored is None else sure & poses.mirrored
    if expand:
        images = _on_larger_canvas(images, fill)
    blocks = row_blocks(len(images), block_rows=32)
    parts = Threads().map(_turn_block, blocks, rows=[images, angles, mirrored, moves], shared=[fill], stage="upright")
    return np.concatenate(list(parts))


def _turn_block(
    _block: Block,
    images: NDArray[Any],
    angles: NDArray[np.float64],
    mirrored: NDArray[np.bool_],
    moves: NDArray[np.float64],
    fill: float | None,
) -> NDArray[Any]:
    each = zip(images, angles.tolist(), mirrored.tolist(), moves.tolist(), strict=True)
    return np.stack([turn_image(image, a, mirrored=mirror, shift=move, fill=fill) for image, a, mirror, move in each])


def _on_larger_canvas(images: NDArray[Any], fill: float | None) -> NDArray[Any]:
    """Images in the middle of squares that hold them at every angle."""
    height, width = images.shape[1:3]
    side = int(np.ceil(np.hypot(height, width)))
    # an even number of pixels more, so that the centre stays the centre
    rows, columns = (given + 2 * -(-(side - given) // 2) for given in (height, width))
    planes = images.reshape(*images.shape[:3], -1)
    levels = border_levels(planes) if fill is None else np.full((len(images), planes.shape[3]), fill)
    canvas = np.empty((len(images), rows, columns, planes.shape[3]), dtype=images.dtype)
    canvas[:] = as_type(levels, images.dtype)[:, None, None]
    top, left = (rows - height) // 2, (columns - width) // 2
    canvas[:, top : top + height, left : left + width] = planes
    return canvas.reshape(len(images), rows, columns, *images.shape[3:])
