"""Resampling of images by the usual interpolations, and the features by which resampled images are compared."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize_scalar

from bispectral_ot.compiled import njit
from bispectral_ot.datasets.warp import radii, rotation_maps
from bispectral_ot.sampling import evenly_spaced

Images = NDArray[np.float32]
Rows = NDArray[np.float32]
Maps = NDArray[np.float64]
Limits = tuple[float, float]
_STEPS, _BINS = 256, 16  # steps of a pixel at which weights are tabulated; ranges of a histogram


def _table(taps: int, weight: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Rows:
    """Weights (steps + 1, taps) of the nearest neighbours on both sides, by the fraction of a pixel."""
    weights = weight(np.abs(np.linspace(0, 1, _STEPS + 1)[:, None] - np.arange(1 - taps // 2, taps // 2 + 1) - 1e-9))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def _cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0.0))


blurred = partial(gaussian_filter, axes=(1, 2), mode="nearest")  # blurred(images, deviation in pixels)
INTERPOLATIONS = {
    "nearest": _table(2, lambda x: (x < 0.5).astype(np.float64)),
    "bilinear": _table(2, lambda x: np.maximum(1 - x, 0.0)),
    "bicubic": _table(4, _cubic),
    "lanczos": _table(6, lambda x: np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0.0)),
}


def resampled(images: Images, maps: Maps, interpolation: str, limits: Limits) -> Images:
    """Images (n, height, width, channels) through affine maps (n, 2, 3), clipped to limits."""
    out = np.empty(images.shape, dtype=np.float32)
    sample(np.ascontiguousarray(images), maps, INTERPOLATIONS[interpolation], limits, out)
    return out


def random_maps(images: Images, random: np.random.Generator, *, turn: bool, zoom: bool) -> Maps:
    """Random motions (n, 2, 3) about the centre: turns and zooms, or a shift by part of a pixel."""
    n, height, width = images.shape[:3]
    maps = rotation_maps(np.asarray(random.uniform(0, 360, size=n) if turn else np.zeros(n)), height, width)
    if zoom:
        factors = 1.25 ** random.uniform(-1, 1, n)
        middle = np.array([(height - 1) / 2, (width - 1) / 2])
        maps[:, :, 2] = middle + factors[:, None] * (maps[:, :, 2] - middle)
        maps[:, :, :2] *= factors[:, None, None]
    if not turn:
        maps[:, :, 2] += random.uniform(-0.5, 0.5, (n, 2))
    return maps


def content_maps(images: Images, *, zoom: bool) -> Maps:
    """Maps (n, 2, 3) that bring the content of each image to the centre and, where asked for, to one size.

    Content is the squared difference from the median of the rim of the inscribed disk, within a disk about its centre.
    """
    n, height, width = images.shape[:3]
    y, x = (each.ravel().astype(np.float32) for each in _grid(height, width))
    radius = disk_radius(height, width)
    centres = np.zeros((n, 2), dtype=np.float32)
    mass = np.square(images - rim_levels(images)).sum(axis=3).reshape(n, -1) + np.float32(1e-12)
    for _ in range(5):  # steps in which the centre is found
        squares = np.square(y - centres[:, :1]) + np.square(x - centres[:, 1:])
        # a smooth edge, that no pixel enters or leaves at once
        inside = mass * np.clip(radius + 0.5 - np.sqrt(squares), 0, 1)
        total = inside.sum(axis=1)
        centres = np.stack([inside @ y, inside @ x], axis=1) / total[:, None]
        spreads = np.sqrt(np.maximum((inside * squares).sum(axis=1) / total, 0))
    factors = np.clip(spreads / (0.4 * radius), 0.25, 4.0) if zoom else np.ones(n)
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    offsets = middle + centres - factors[:, None] * middle
    return np.concatenate([factors[:, None, None] * np.eye(2), offsets[:, :, None]], axis=2)


def matched_intensity(images: Images, reference: Images) -> Images:
    """Images with mean and deviation of the whole set brought to those of another, clipped to the range of both."""
    limits = min(images.min(), reference.min()), max(images.max(), reference.max())
    mean, std = reference.mean(dtype=np.float64), reference.std(dtype=np.float64)
    gain, offset, found = 1.0, 0.0, images
    for _ in range(4):
        factor = std / (found.std(dtype=np.float64) or 1.0)
        gain, offset = gain * factor, (offset - found.mean(dtype=np.float64)) * factor + mean
        found = np.clip(np.float32(gain) * images + np.float32(offset), *limits)
    return found


def matching_blurs(sets: Sequence[Images]) -> list[float]:
    """Deviations in pixels of Gaussians that make two sets equally blurred, so much that no other blur shows."""
    side = min(sets[0].shape[1:3])
    least = min(1.0, side / 32)  # pixels: more than the shapes of usual blurs differ by
    planes = [images[evenly_spaced(len(images), 256)].mean(axis=3) for images in sets]
    found = [_sharpness(each, least) for each in planes]
    sharper = int(np.argmax(found))

    def difference(sigma: float) -> float:
        return abs(_sharpness(planes[sharper], sigma) - min(found))

    more = minimize_scalar(difference, bounds=(least, side / 4), method="bounded", options={"xatol": 0.02}).x
    return [float(more) if place == sharper else least for place in (0, 1)]


def _sharpness(planes: NDArray[Any], sigma: float) -> float:
    """Mean squared difference of neighbouring pixels, relative to that of the next ones, after a blur."""
    soft = blurred(planes, sigma)
    lags = (soft[:, :-2], soft[:, 1:-1], soft[:, 2:]), (soft[:, :, :-2], soft[:, :, 1:-1], soft[:, :, 2:])
    near, far = (sum(np.square(each[lag] - each[0]).mean() for each in lags) for lag in (1, 2))
    return float(near / (far + 1e-12))


def reduced(images: NDArray[Any]) -> NDArray[Any]:
    """Images (n, height, width, channels); those of more than 128 pixels a side become means of blocks."""
    images = np.asarray(images).reshape(*images.shape[:3], -1)
    step = -(-max(images.shape[1:3]) // 128)
    if step == 1:
        return images
    return np.concatenate([block_means(images[at : at + 32], step) for at in range(0, len(images), 32)])


def scaled(images: NDArray[Any], limits: Limits) -> Images:
    """Images as float32, with the limits brought to 0 and 1."""
    return (images.astype(np.float32) - np.float32(limits[0])) / np.float32(limits[1] - limits[0] or 1)


def disk_radius(height: int, width: int) -> float:
    """Radius of the inscribed disk less a margin: turning never brings what is beyond the border into it."""
    side = min(height, width)
    return (side - 1) / 2 - max(1.0, 0.04 * side)


def disk(images: Images) -> NDArray[np.bool_]:
    """Pixels (height, width) inside the disk."""
    return np.asarray(radii(*images.shape[1:3]) <= disk_radius(*images.shape[1:3]))


def rim_levels(images: Images) -> Images:
    """Median (n, 1, 1, channels) of the rim of the disk, the background of content."""
    rim = np.abs(radii(*images.shape[1:3]) - disk_radius(*images.shape[1:3])) <= 1
    return np.asarray(np.median(images[:, rim], axis=1)[:, None, None])


def _grid(height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y, x = np.mgrid[:height, :width]
    return y - (height - 1) / 2, x - (width - 1) / 2


def block_means(images: NDArray[Any], step: int) -> Images:
    """Means (n, rows, columns, channels) of blocks of pixels; a remainder at the border is left out."""
    height, width = images.shape[1:3]
    rows, columns = (max(1, size // step) * step for size in (height, width))
    # sums of strided views: several times as fast as reduceat
    others = (images[:, i:rows:step] for i in range(1, min(step, height)))
    lines = sum(others, images[:, :rows:step].astype(np.float32))
    sums = sum((lines[:, :, i:columns:step] for i in range(1, min(step, width))), lines[:, :, :columns:step])
    return np.asarray(sums / np.float32(step**2), dtype=np.float32)


def block_rows(images: Images, step: int) -> list[Rows]:
    """Means of blocks of pixels, and standard deviations within blocks of more than one: where, and how sharp."""
    means = block_means(images, step)
    if step == 1:
        return [_columns([means])]
    spread = np.sqrt(np.maximum(block_means(np.square(images), step) - np.square(means), 0))
    return [_columns([means]), _columns([spread])]


def intensity_rows(images: Images, *, within_disk: bool) -> Rows:
    """Mean and standard deviation (n, 2) of the pixels of each image."""
    inside = disk(images) if within_disk else np.ones(images.shape[1:3], dtype=bool)
    pixels = images[:, inside].reshape(len(images), -1)
    return np.stack([pixels.mean(axis=1), pixels.std(axis=1)], axis=1)


def histogram_rows(images: Images) -> Rows:
    """Square roots of the fractions of pixels in 16 equal ranges from 0 to 1."""
    pixels = images.reshape(len(images), -1)
    codes = np.clip((pixels * np.float32(_BINS)).astype(np.int64), 0, _BINS - 1)
    codes += _BINS * np.arange(len(images))[:, None]
    counts = np.bincount(codes.ravel(), minlength=_BINS * len(images)).reshape(len(images), _BINS)
    return np.asarray(np.sqrt(counts / pixels.shape[1]), dtype=np.float32)


def texture_rows(images: Images, *, turn: bool, peaks: bool = False) -> Rows:
    """Root mean square differences at 1, 2 and 4 blocks of 2 x 2 pixels; with ``turn`` both directions of the disk.

    With ``peaks``, the mean differences relative to these: small where a few large ones stand out, as of scratches.
    """
    coarse = block_means(images, 2)
    inside = (disk(coarse) if turn else np.ones(coarse.shape[1:3], dtype=bool)).astype(np.float32)
    found = [np.zeros((len(images), 1))]
    for lag in (1, 2, 4):
        down = coarse[:, lag:] - coarse[:, :-lag], inside[lag:] * inside[:-lag]
        right = coarse[:, :, lag:] - coarse[:, :, :-lag], inside[:, lag:] * inside[:, :-lag]
        counts = np.array([mask.sum() for _, mask in (down, right)])[:, None, None]
        powers = []
        for power in (np.square, np.abs) if peaks else (np.square,):
            # sums over pixels inside: a product, as picking them would copy them
            sums = np.stack([np.tensordot(power(each), mask, axes=((1, 2), (0, 1))) for each, mask in (down, right)])
            each = (sums.sum(axis=0), counts.sum(axis=0)) if turn else (sums, counts)
            powers.append(each[0] / np.maximum(each[1], 1))
        rows = np.log((powers[1] + 1e-6) / (np.sqrt(powers[0]) + 1e-6)) if peaks else np.sqrt(powers[0])
        found += [rows] if turn else [*rows]
    return _columns(found)


@lru_cache(maxsize=4)  # as all blocks of all tests need them
def _polar_filters(height: int, width: int) -> tuple[Rows, int]:
    """Real and imaginary parts (pixels, 2 * rings * frequencies) in turn, and the number of rings."""
    radius = disk_radius(height, width)
    count = int(np.clip(radius / 2, 2, 6))
    y, x = _grid(height, width)
    distance = np.hypot(y, x) / radius
    unit = 1 / (count + 0.75)
    rings = np.exp(-0.5 * ((distance - unit * (np.arange(count)[:, None, None] + 0.5)) / (0.55 * unit)) ** 2)
    rings *= distance <= 1
    k = np.arange(count + 1)[:, None, None]
    # waves that are too short for the pixels near the centre vanish there, as those of a smooth function do
    waves = np.minimum(np.hypot(y, x) / (0.6 * np.maximum(k, 1)), 1) ** k * np.exp(-1j * k * np.arctan2(y, x))
    filters = rings[:, None] / rings.sum(axis=(1, 2))[:, None, None, None] * waves
    return np.ascontiguousarray(filters.reshape(-1, height * width).T.astype(np.complex64)).view(np.float32), count


def turn_invariant_rows(images: Images) -> Rows:
    """Rotation invariants of degree 1: means of rings, magnitudes, products of near rings, bispectra of rings."""
    n, height, width, channels = images.shape
    filters, count = _polar_filters(height, width)
    planes = np.moveaxis(images, 3, 1).reshape(n * channels, -1)
    # low Fourier coefficients of a few smooth rings of the inscribed disk
    found = np.asarray(planes @ filters).view(np.complex64).reshape(n, channels, count, count + 1)
    size = np.maximum(np.abs(found), np.float32(1e-20))
    square, cube = found / np.sqrt(size), found / np.power(size, np.float32(2 / 3))  # degrees 1/2 and 1/3
    products = [square[:, :, :-step, 1:] * square[:, :, step:, 1:].conj() for step in (1, 2)]
    for i in range(1, found.shape[3]):
        products += [cube[..., i] * cube[..., j] * cube[..., i + j].conj() for j in range(i, found.shape[3] - i)]
    parts = [part(each) for part in (np.real, np.imag) for each in products]
    return _columns([found[..., 0].real, size[..., 1:], *parts])


def _columns(parts: list[NDArray[Any]]) -> Rows:
    return np.concatenate([each.reshape(len(each), -1) for each in parts], axis=1, dtype=np.float32)


@njit(nogil=True, cache=True)
def sample(planes: Images, maps: Maps, table: Rows, limits: Limits, out: Images) -> None:
    """Fill ``out`` with planes (n, rows, columns, channels) at ``maps @ (row, column, 1)``; border pixels repeat."""
    n, height, width, channels = planes.shape
    steps, taps = table.shape[0] - 1, table.shape[1]
    before = (taps - 1) // 2
    low, high = np.float32(limits[0]), np.float32(limits[1])
    for i in range(n):
        for row in range(height):
            for column in range(width):
                y = maps[i, 0, 0] * row + maps[i, 0, 1] * column + maps[i, 0, 2]
                x = maps[i, 1, 0] * row + maps[i, 1, 1] * column + maps[i, 1, 2]
                top, left = int(np.floor(y)), int(np.floor(x))
                by_row, by_column = table[int((y - top) * steps + 0.5)], table[int((x - left) * steps + 0.5)]
                top, left = top - before, left - before
                within = left >= 0 and left + taps <= width
                for channel in range(channels):
                    total = np.float32(0)
                    for a in range(taps):
                        at = min(max(top + a, 0), height - 1)
                        line = np.float32(0)
                        if within:
                            for b in range(taps):
                                line += by_column[b] * planes[i, at, left + b, channel]
                        else:
                            for b in range(taps):
                                line += by_column[b] * planes[i, at, min(max(left + b, 0), width - 1), channel]
                        total += by_row[a] * line
                    out[i, row, column, channel] = min(max(total, low), high)
