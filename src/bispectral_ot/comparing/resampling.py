"""Resampling of images by the usual interpolations, and the features by which resampled images are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.warp import rotation_maps

Images = NDArray[np.float32]
Rows = NDArray[np.float32]
# Steps of a pixel at which weights are tabulated, and taps of the widest interpolation.
_STEPS, _TAPS = 256, 6
# Range of random zooms.
ZOOM = 1.25
# Side of the largest images whose pixels are columns; larger ones are averaged over blocks.
_PIXELS = 32
_BLOCK_IMAGES = 1024
# Steps in which the centre of the content is found.
_CENTRE_STEPS = 5


def _cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    x = np.abs(x)
    return np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0.0))


def _table(weight: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Weights (steps + 1, taps) of the neighbours at -2 to 3 pixels, by the fraction of a pixel."""
    weights = weight(np.linspace(0, 1, _STEPS + 1)[:, None] - np.arange(-2, _TAPS - 2))
    normalized: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normalized


INTERPOLATIONS = {
    "nearest": _table(lambda x: (np.abs(x - 1e-9) < 0.5).astype(np.float64)),
    "bilinear": _table(lambda x: np.maximum(1 - np.abs(x), 0.0)),
    "bicubic": _table(_cubic),
    "lanczos": _table(lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)),
}


def resampled(images: Images, maps: NDArray[np.float64], interpolation: str) -> Images:
    """Images (n, height, width, channels) through affine maps (n, 2, 3), clipped to the range of all of them."""
    from bispectral_ot.comparing.resampling_kernel import sample

    out = np.empty_like(images)
    sample(images, maps, INTERPOLATIONS[interpolation], (float(images.min()), float(images.max())), out)
    return out


def random_maps(images: Images, random: np.random.Generator, *, turn: bool, zoom: bool) -> NDArray[np.float64]:
    """Random motions (n, 2, 3) about the centre: turns, zooms, and in any case a shift by part of a pixel."""
    n, height, width = images.shape[:3]
    degrees = random.uniform(0, 360, size=n) if turn else np.zeros(n)
    maps = rotation_maps(np.asarray(degrees), height, width)
    if zoom:
        factors = ZOOM ** random.uniform(-1, 1, n)
        middle = np.array([(height - 1) / 2, (width - 1) / 2])
        maps[:, :, 2] = middle + factors[:, None] * (maps[:, :, 2] - middle)
        maps[:, :, :2] *= factors[:, None, None]
    if not turn:
        maps[:, :, 2] += random.uniform(-0.5, 0.5, (n, 2))
    return maps


def content_maps(images: Images, *, zoom: bool) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that bring the content of each image to the centre and, where asked for, to one size.

    Content is the squared difference from the median of the rim of the inscribed disk, within a disk about its own
    centre, which is found in a few steps. Its size is the root mean square distance from there, which becomes 0.4 of
    the radius of the disk.
    """
    blocks = [images[start : start + _BLOCK_IMAGES] for start in range(0, len(images), _BLOCK_IMAGES)]
    centres, spreads = (np.concatenate(each) for each in zip(*map(_content, blocks), strict=True))
    height, width = images.shape[1:3]
    factors = np.ones(len(images))
    if zoom:
        factors = np.clip(spreads / (0.4 * disk_radius(height, width)), 0.25, 4.0)
    maps = np.zeros((len(images), 2, 3))
    maps[:, 0, 0] = maps[:, 1, 1] = factors
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    maps[:, :, 2] = middle + centres - factors[:, None] * middle
    return maps


def _content(images: Images) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centre (n, 2) and size (n,) of the content of images, about the centre of the image."""
    height, width = images.shape[1:3]
    y, x = (each.ravel().astype(np.float32) for each in _grid(height, width))
    radius = disk_radius(height, width)
    rim = np.abs(np.hypot(y, x) - radius) <= 1
    planes = images.reshape(len(images), height * width, -1)
    mass = np.square(planes - np.median(planes[:, rim], axis=1)[:, None]).sum(axis=2) + np.float32(1e-12)
    centres, spreads = np.zeros((len(images), 2)), np.zeros(len(images))
    for _ in range(_CENTRE_STEPS):
        squares = np.square(y - centres[:, :1].astype(np.float32)) + np.square(x - centres[:, 1:].astype(np.float32))
        # a smooth edge, that no pixel enters or leaves at once
        inside = mass * np.clip(radius + 0.5 - np.sqrt(squares), 0, 1)
        total = inside.sum(axis=1)
        centres = np.stack([inside @ y, inside @ x], axis=1) / total[:, None]
        spreads = np.sqrt(np.maximum((inside * squares).sum(axis=1) / total, 0))
    return centres, spreads


def disk_radius(height: int, width: int) -> float:
    """Radius of the inscribed disk less a margin: turning never brings what is beyond the border into it."""
    side = min(height, width)
    return (side - 1) / 2 - max(1.0, 0.04 * side)


def disk(images: Images) -> NDArray[np.bool_]:
    """Pixels (height, width) inside the disk."""
    y, x = _grid(*images.shape[1:3])
    inside: NDArray[np.bool_] = np.hypot(y, x) <= disk_radius(*images.shape[1:3])
    return inside


def _grid(height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y, x = np.mgrid[:height, :width]
    return y - (height - 1) / 2, x - (width - 1) / 2


def pixel_rows(images: Images) -> Rows:
    """Pixels; of images of more than 32 pixels a side, means and standard deviations of blocks."""
    step = -(-max(images.shape[1:3]) // _PIXELS)
    if step == 1:
        return images.reshape(len(images), -1)
    n, height, width, channels = images.shape
    height, width = height // step, width // step
    blocks = images[:, : height * step, : width * step].reshape(n, height, step, width, step, channels)
    columns = [blocks.mean(axis=(2, 4)), blocks.std(axis=(2, 4))]
    return np.concatenate([each.reshape(n, -1) for each in columns], axis=1)


def intensity_rows(images: Images, *, within_disk: bool) -> Rows:
    """Mean and standard deviation (n, 2) of the pixels of each image."""
    inside = disk(images) if within_disk else np.ones(images.shape[1:3], dtype=bool)
    pixels = images[:, inside].reshape(len(images), -1)
    return np.stack([pixels.mean(axis=1), pixels.std(axis=1)], axis=1)


def coarse_rows(images: Images) -> Rows:
    """Means of blocks of at least two pixels a side, at most 16 blocks a side."""
    step = max(2, -(-max(images.shape[1:3]) // 16))
    n, height, width, channels = images.shape
    height, width = max(1, height // step), max(1, width // step)
    blocks = images[:, : height * step, : width * step].reshape(n, height, step, width, step, channels)
    means: Rows = blocks.mean(axis=(2, 4)).reshape(n, -1)
    return means


def polar_coefficients(images: Images) -> NDArray[np.complex64]:
    """Fourier coefficients (n, channels, rings, frequencies) of smooth rings of the inscribed disk.

    Few wide rings and low frequencies: what one more interpolation changes most is not in them.
    """
    n, height, width, channels = images.shape
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
    flat = filters.reshape(-1, height * width).T.astype(np.complex64)
    real, imaginary = np.ascontiguousarray(flat.real), np.ascontiguousarray(flat.imag)
    planes = np.moveaxis(images, 3, 1).reshape(n * channels, -1)
    found = np.empty((len(planes), flat.shape[1]), dtype=np.complex64)
    for start in range(0, len(planes), _BLOCK_IMAGES):
        part = slice(start, start + _BLOCK_IMAGES)
        found[part] = planes[part] @ real + 1j * (planes[part] @ imaginary)
    return found.reshape(n, channels, count, count + 1)


def smooth_rows(images: Images) -> Rows:
    """Real and imaginary parts of the polar coefficients: smooth linear features."""
    found = polar_coefficients(images)
    parts = [found.real, found.imag[..., 1:]]
    return np.concatenate([each.reshape(len(images), -1) for each in parts], axis=1)


def turn_invariant_rows(images: Images) -> Rows:
    """Rotation invariants of the polar coefficients, of degree 1 in the image: contrast is seen.

    Means of rings, magnitudes, products of neighbouring rings, and the bispectrum of each ring.
    """
    found = polar_coefficients(images)
    n, *_, frequencies = found.shape
    columns = [found[..., 0].real, np.abs(found[..., 1:])]
    root = _compressed(found, 1 / 2)
    for step in (1, 2):
        product = root[:, :, :-step, 1:] * root[:, :, step:, 1:].conj()
        columns += [product.real, product.imag]
    root = _compressed(found, 1 / 3)
    for i in range(1, frequencies):
        for j in range(i, frequencies - i):
            product = root[..., i] * root[..., j] * root[..., i + j].conj()
            columns += [product.real, product.imag]
    return np.concatenate([each.reshape(n, -1) for each in columns], axis=1)


def _compressed(values: NDArray[np.complex64], power: float) -> NDArray[np.complex64]:
    """Same phases, magnitudes raised to a power."""
    size = np.abs(values)
    scaled: NDArray[np.complex64] = values * np.where(size > 0, np.maximum(size, 1e-20) ** (power - 1), 0)
    return scaled
