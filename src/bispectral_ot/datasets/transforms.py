"""What an experiment does to a dataset before the comparison: halve, rotate, normalize, centre."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.datasets.dataset import Dataset, as_dataset, check_flat, is_chunked
from bispectral_ot.datasets.warp import rotation_maps, shift_maps, warp
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DataWarning, InputError, warn

_BLOCK_ROWS = 2048
# Of the float64 copy of a block of images, small enough that one for each core does not matter.
BLOCK_BYTES = 32 * 2**20
_NOISES = 4  # standard deviations of the background that are no content


def split_halves(
    dataset: Dataset | ArrayLike, *, seed: int = 0, per_class: int | None = None
) -> tuple[Dataset, Dataset]:
    """Cut a dataset into two disjoint halves, every class in two, as the paper does.

    Class after class, the images of the class are permuted at random; the first half goes to the source, the second
    to the target, an odd one is left out. Without labels the whole set is treated as one class.

    Parameters
    ----------
    seed
        Of the permutations.
    per_class
        At most this many images of each class in each half. Smaller values give subsets of larger ones.

    Examples
    --------
    >>> split_halves(np.zeros((10, 4, 4), dtype=np.uint8))[0]
    Dataset('images/source': 5 images of 4x4 uint8, no labels)
    """
    dataset = as_dataset(dataset)
    source, target = half_positions(dataset, seed=seed, per_class=per_class)
    return (
        replace(dataset.select(source), name=f"{dataset.name}/source"),
        replace(dataset.select(target), name=f"{dataset.name}/target"),
    )


def half_positions(
    dataset: Any, *, seed: int = 0, per_class: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the images of the two halves of :func:`split_halves` stand in a :class:`Dataset`, or in the list of one."""
    per_class = None if per_class is None else check_integer("per_class", per_class, minimum=1)
    random = np.random.default_rng(check_integer("seed", seed, minimum=0))
    labels = np.zeros(len(dataset), dtype=np.int64) if dataset.labels is None else dataset.labels
    sources, targets = [], []
    for label in range(max(1, len(dataset.classes))):
        members = random.permutation(np.flatnonzero(labels == label))
        half = len(members) // 2
        kept = half if per_class is None else min(half, per_class)
        sources.append(members[:kept])
        targets.append(members[half : half + kept])
    source, target = np.concatenate(sources), np.concatenate(targets)
    if len(source) == 0:
        raise InputError(f"{dataset.name!r} has no class with two images, so that it cannot be cut into halves.")
    return source, target


def count_shared(source: Dataset, target: Dataset) -> int:
    """How many images of ``source`` are also in ``target``, pixel by pixel; constant images do not count.

    Examples
    --------
    >>> digits = Dataset(np.arange(48).reshape(3, 4, 4))
    >>> count_shared(digits, digits.select([1]))
    1
    """
    one, other = source.signals, target.signals
    if one.shape[1:] != other.shape[1:] or is_chunked(one) or is_chunked(other):  # chunks are not read for this
        return 0
    dtype = np.result_type(one, other)

    def digests(images: NDArray[Any]) -> Iterator[bytes]:
        for image in images:
            pixels = np.ascontiguousarray(image, dtype=dtype)
            yield hashlib.blake2b(pixels.data, digest_size=16).digest() if np.ptp(pixels) else b""

    known = set(digests(other)) - {b""}
    return sum(digest in known for digest in digests(one))


def warn_of_shared(source: Dataset, target: Dataset) -> None:
    """Warn where images are on both sides of a comparison."""
    count = count_shared(source, target)
    if count:
        warn(
            f"{count:,} of the {len(source):,} source images are also on the target side, where they match themselves, "
            "so that the accuracy looks better than it is; compare disjoint halves (split_halves, --split-halves), or "
            "leave them out.",
            DataWarning,
        )


def rotate(
    dataset: Dataset | ArrayLike,
    degrees: ArrayLike,
    *,
    fill: str | ArrayLike = "background",
) -> Dataset:
    """Turn each image counter-clockwise (as displayed) by its own angle about the exact centre; they become float32.

    Bilinear; what comes from outside the image is ``fill``, and the border blends into it. Exact for
    multiples of 90 degrees where the images are square.

    Parameters
    ----------
    degrees
        (n,), or one angle for all.
    fill
        What the empty corners get: ``"background"`` (median of the border pixels of all images, per
        channel), ``"mean"`` (mean of all pixels, per channel; as the paper did, which normalized first and
        then filled with 0), a number, or one number per channel.

    Examples
    --------
    >>> rotate(np.array([[[1.0, 2.0], [3.0, 4.0]]]), 90).images[0]
    array([[2., 4.],
           [1., 3.]], dtype=float32)
    """
    dataset = as_dataset(dataset)
    check_flat(dataset, "rotate")
    angles = np.asarray(degrees, dtype=np.float64)
    if angles.shape not in ((), (len(dataset),)):
        raise InputError(f"degrees has shape {angles.shape} but there are {len(dataset)} images; give one angle each.")
    if not np.isfinite(angles).all():
        raise InputError("degrees has entries that are NaN or infinite; give finite angles.")
    images = dataset.images
    maps = rotation_maps(np.broadcast_to(angles, len(images)), *images.shape[1:3])
    turned = warp(images, maps, fill=_fill_value(images, fill), stage="rotate")
    return replace(dataset, images=turned)


def rotate_randomly(
    dataset: Dataset | ArrayLike,
    *,
    seed: int = 0,
    fill: str | ArrayLike = "background",
) -> Dataset:
    """Turn every image by an angle drawn uniformly from [0, 360) degrees; see :func:`rotate`.

    Parameters
    ----------
    seed
        Of the angles: ``numpy.random.default_rng(seed).uniform(0, 360, n)``.
    fill
        What the empty corners get, as for :func:`rotate`.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> turned = bot.rotate_randomly(bot.load("digits"), seed=0)
    >>> turned.images.dtype
    dtype('float32')
    """
    dataset = as_dataset(dataset)
    degrees = np.random.default_rng(check_integer("seed", seed, minimum=0)).uniform(0.0, 360.0, len(dataset))
    return rotate(dataset, degrees, fill=fill)


def normalize(dataset: Dataset | ArrayLike, *, mean: float | None = None, std: float | None = None) -> Dataset:
    """Subtract the mean of all pixels and divide by their standard deviation: ``(image - mean) / std``.

    ``mean`` and ``std`` default to those of the dataset; give those of another to put both on one scale.

    Examples
    --------
    >>> import numpy as np
    >>> import bispectral_ot as bot
    >>> images = bot.normalize(np.arange(8.0).reshape(2, 2, 2)).images
    >>> round(float(images.mean()), 6), round(float(images.std()), 6)
    (0.0, 1.0)
    """
    dataset = as_dataset(dataset)
    measured_mean, measured_std = (0.0, 1.0)
    if mean is None or std is None:
        measured_mean, measured_std = mean_and_std(dataset.images)
    mean = measured_mean if mean is None else float(mean)
    std = measured_std if std is None else float(std)
    if not np.isfinite(mean) or not np.isfinite(std) or std <= 0:
        raise InputError(
            f"cannot normalize {dataset.name!r} with mean {mean:g} and standard deviation {std:g}: "
            "the deviation must be positive (all pixels are equal?)."
        )
    return replace(dataset, images=rescale(dataset.images, mean, std))


def rescale(images: NDArray[Any], mean: float, std: float) -> NDArray[np.float32]:
    """``(image - mean) / std``, in float64 and in blocks, rounded to float32."""
    scaled = np.empty(images.shape, dtype=np.float32)
    for start in range(0, len(images), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        scaled[part] = (images[part].astype(np.float64) - mean) / std
    return scaled


def mean_and_std(*batches: NDArray[Any]) -> tuple[float, float]:
    """Of all pixels of all batches, in float64 and in blocks, so that no float64 copy of a whole set is made."""
    count = sum(images.size for images in batches)
    mean = float(sum(images.sum(dtype=np.float64) for images in batches) / count)
    squares = sum(
        float(np.square(images[start : start + _BLOCK_ROWS].astype(np.float64) - mean).sum())
        for images in batches
        for start in range(0, len(images), _BLOCK_ROWS)
    )
    return mean, float(np.sqrt(squares / count))


def center(dataset: Dataset | ArrayLike) -> Dataset:
    """Move the content of every image to its centre; images become float32.

    The content is ``|image - background|`` summed over channels, where that is beyond the noise. Background and
    noise are the median of the image's border pixels and four times their standard deviation (from their median
    deviation), per channel. The centre of mass goes to ((H - 1) / 2, (W - 1) / 2) by a sub-pixel bilinear
    shift, which smooths a little. Images without content stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> import bispectral_ot as bot
    >>> image = np.zeros((1, 5, 5))
    >>> image[0, 1, 3] = 1.0
    >>> np.argwhere(bot.center(image).images[0] == 1).tolist()
    [[2, 2]]
    """
    dataset = as_dataset(dataset)
    check_flat(dataset, "center")
    background, shifts = content_shifts(dataset.images)
    maps = shift_maps(shifts[:, 0], shifts[:, 1])
    return replace(dataset, images=warp(dataset.images, maps, fill=background, stage="center"))


def content_shifts(images: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Background (n, channels) of images, and pixels (n, 2) down and right that bring their content to the centre."""
    planes = images.reshape(*images.shape[:3], -1)
    blocks = row_blocks(len(images), block_rows=max(1, BLOCK_BYTES // (8 * planes[0].size)))
    background, shifts = Threads().reduce(_find_content, blocks, rows=(planes,)).rows
    return background, shifts


def _find_content(
    block: Block, planes: NDArray[Any]
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], tuple[()]]:
    return find_content(planes), ()


def find_content(planes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Background (n, channels) of images (n, height, width, channels), and shifts (n, 2) that centre their content."""
    height, width = planes.shape[1:3]
    pixels = planes.astype(np.float64)
    background, shifts = border_levels(pixels), np.zeros((len(planes), 2))
    border = pixels[:, _border(height, width)]
    noise = _NOISES * 1.4826 * np.median(np.abs(border - background[:, None]), axis=1)
    pixels -= background[:, None, None]
    np.abs(pixels, out=pixels)
    pixels[pixels <= noise[:, None, None]] = 0
    content = pixels.sum(axis=3)
    mass = content.sum(axis=(1, 2))
    filled = mass > 0
    row_mass, column_mass = content[filled].sum(axis=2), content[filled].sum(axis=1)
    shifts[filled, 0] = (height - 1) / 2 - row_mass @ np.arange(height) / mass[filled]
    shifts[filled, 1] = (width - 1) / 2 - column_mass @ np.arange(width) / mass[filled]
    return background, shifts


def center_clear(planes: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Centre those images (n, height, width, channels) that show content on a background; says which these are."""
    clear = has_background(planes)
    background, shifts = find_content(planes)
    shifts[~clear] = 0
    return warp(planes, shift_maps(shifts[:, 0], shifts[:, 1]), fill=background), clear


def has_background(planes: NDArray[Any]) -> NDArray[np.bool_]:
    """Which images (n, height, width, channels) show content on a background, as far as their rim tells: (n,).

    The rim is the last pixels of the largest disk, whose median is the background, so that turned images have the same
    answer. Content is on it where at most a third of the rim differs from that by more than four times the rim's noise
    (and a twentieth of the largest difference), and the image as a whole differs by at least three times the noise.
    Textures fail at the latter, large content at the former.
    """
    height, width = planes.shape[1:3]
    y, x = np.ogrid[:height, :width]
    distance = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2) - (min(height, width) - 1) / 2
    pixels = planes.astype(np.float32)
    rim = pixels[:, np.abs(distance) <= 1]
    level = np.median(rim, axis=1)
    rim = np.abs(rim - level[:, None])
    noise = np.float32(1.4826) * np.median(rim, axis=1)
    inside = pixels[:, distance <= 0] - level[:, None]
    largest = np.abs(inside).max(axis=1)
    foreign = (rim > np.maximum(_NOISES * noise, largest / 20)[:, None]).any(axis=2).mean(axis=1)
    strength = np.sqrt(np.square(inside).mean(axis=1).sum(axis=1))
    clear: NDArray[np.bool_] = (foreign <= 1 / 3) & (strength > 3 * np.sqrt(np.square(noise).sum(axis=1)))
    return clear


def _fill_value(images: NDArray[Any], fill: str | ArrayLike) -> ArrayLike:
    if not isinstance(fill, str):
        return fill
    if fill == "background":
        return background_level(images)
    if fill == "mean":
        mean: NDArray[np.float64] = images.reshape(-1, _channels(images)).mean(axis=0, dtype=np.float64)
        return mean
    raise InputError(f"fill must be 'background', 'mean' or a number, got {fill!r}.")


def border_levels(planes: NDArray[Any]) -> NDArray[np.float64]:
    """Median of the border pixels of each image (n, height, width, channels), per channel: shape (n, channels)."""
    sides = (planes[:, 0], planes[:, -1], planes[:, 1:-1, 0], planes[:, 1:-1, -1])
    kept = sides if min(planes.shape[1:3]) > 1 else (planes.reshape(len(planes), -1, planes.shape[3]),)
    levels: NDArray[np.float64] = np.median(np.concatenate(kept, axis=1), axis=1)
    return levels


def background_level(images: NDArray[Any]) -> NDArray[np.float64]:
    """Median of the border pixels of all images, per channel: shape (channels,)."""
    planes = images.reshape(*images.shape[:3], _channels(images))
    border = planes[:, _border(*images.shape[1:3])]
    median: NDArray[np.float64] = np.median(border.reshape(-1, planes.shape[3]), axis=0)
    return median.astype(np.float64)


def _border(height: int, width: int) -> NDArray[np.bool_]:
    """Which pixels (height, width) are on the border."""
    border = np.ones((height, width), dtype=bool)
    border[1:-1, 1:-1] = False
    return border


def _channels(images: NDArray[Any]) -> int:
    return images.shape[3] if images.ndim == 4 else 1
