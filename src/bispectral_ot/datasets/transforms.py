"""Transforms of datasets: halves, rotations, normalization, centring."""

import hashlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.datasets.dataset import Dataset, as_dataset, check_flat, is_chunked
from bispectral_ot.datasets.warp import as_planes, border_levels, border_pixels, radii, rotation_maps, shift_maps, warp
from bispectral_ot.engines import Block, Threads, fill_rows, row_blocks
from bispectral_ot.errors import InputError, warn

_BLOCK_BYTES = 2**24  # of a block of images, as float64
_NOISES = 4  # differences of up to so many standard deviations of the background are not content


def split_halves(
    dataset: "Dataset | ArrayLike", *, seed: int = 0, per_class: int | None = None
) -> tuple[Dataset, Dataset]:
    """Two disjoint random halves of a dataset, stratified by class; an odd image of a class is left out.

    ``per_class`` is the maximum number of images of each class in each half; smaller halves are subsets of larger ones.

    Examples
    --------
    >>> split_halves(np.zeros((10, 4, 4), dtype=np.uint8))[0]
    Dataset('images/source': 5 images of 4x4 uint8, no labels)
    """
    dataset = as_dataset(dataset)
    one, other = map(dataset.select, half_positions(dataset, seed=seed, per_class=per_class))
    return replace(one, name=f"{dataset.name}/source"), replace(other, name=f"{dataset.name}/target")


def half_positions(dataset: Any, *, seed: int = 0, per_class: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of the two halves of :func:`split_halves` in a :class:`Dataset` or lazy dataset."""
    per_class = len(dataset) if per_class is None else check_integer("per_class", per_class, minimum=1)
    random = np.random.default_rng(check_integer("seed", seed, minimum=0))
    labels = np.zeros(len(dataset), dtype=np.int64) if dataset.labels is None else dataset.labels
    sources, targets = [], []
    for label in range(max(1, len(dataset.classes))):
        members = random.permutation(np.flatnonzero(labels == label))
        half = len(members) // 2
        sources.append(members[: min(half, per_class)])
        targets.append(members[half : half + min(half, per_class)])
    source, target = np.concatenate(sources), np.concatenate(targets)
    if len(source) == 0:
        raise InputError(f"{dataset.name!r} has no class with two images, so it cannot be split into halves.")
    return source, target


def count_copies(*sets: Dataset) -> int:
    """Number of images that are copies of others, in their set or another one; constant images do not count."""
    found = [digest for digests in _digests(*sets) for digest in digests if digest]
    return len(found) - len({*found})


def _digests(*sides: Dataset) -> list[list[bytes]]:
    """Digest of each image of each side, empty for constant images; no digests of chunks, which are not read."""
    signals = [side.signals for side in sides]
    if len({each.shape[1:] for each in signals}) > 1 or any(map(is_chunked, signals)):
        return [[] for _ in sides]
    dtype, found = np.result_type(*signals), []
    for images in signals:
        digests: list[bytes] = []
        for start in range(0, len(images), 64):
            rows = np.ascontiguousarray(images[start : start + 64], dtype=dtype).reshape(-1, images[0].size)
            both = zip(rows, rows.min(axis=1) < rows.max(axis=1), strict=True)
            digests += [hashlib.blake2b(row.data, digest_size=16).digest() if varies else b"" for row, varies in both]
        found.append(digests)
    return found


def blank_sources(source: Dataset, target: Dataset) -> NDArray[np.int64]:
    """Positions of constant images of ``source``, which may be of any class; none if the target has constant images."""
    if not source.is_flat or is_chunked(source.images) or is_chunked(target.images):
        return np.zeros(0, dtype=np.int64)
    sides = (np.asarray(side.images).reshape(len(side), -1) for side in (source, target))
    found, others = (np.flatnonzero(rows.max(axis=1) == rows.min(axis=1)) for rows in sides)
    return found[: 0 if len(others) else None]


def warn_of_copies(source: Dataset, target: Dataset) -> list[NDArray[np.int64]]:
    """Warn of images that are on both sides or twice in the target; positions of each side's distinct images."""
    distinct = []
    digests = _digests(source, target)
    for side, found in zip((source, target), digests, strict=True):
        first: dict[tuple[bytes | int, int], int] = {}  # image of a class
        for i in range(len(side)):
            first.setdefault((found[i] or i if found else i, 0 if side.labels is None else int(side.labels[i])), i)
        distinct.append(np.array([*first.values()]))
    known = {*digests[1]} - {b""}
    count = sum(each in known for each in digests[0])
    if count:
        shared = f"{count:,} of the {len(source):,} source images are also on the target side"
        advice = "compare disjoint halves (split_halves, --split-halves), or leave them out"
        warn(f"{shared} and match themselves; {advice}.")
    copies = len(target) - len(distinct[1])
    if copies:
        warn(f"{copies:,} of the {len(target):,} target images are copies of others; each is counted once.")
    return distinct


def rotate(dataset: "Dataset | ArrayLike", degrees: "ArrayLike", *, fill: "str | ArrayLike" = "background") -> Dataset:
    """Rotate each image counter-clockwise (as displayed) by its own angle about the exact centre, bilinearly.

    Images become float32; multiples of 90 degrees are exact for square images. ``degrees`` is one angle for all, or
    (n,). ``fill`` is the value of empty corners: ``"background"`` (median of the border pixels of all images, per
    channel), a number, or one for each channel.

    Examples
    --------
    >>> rotate(np.array([[[1.0, 2.0], [3.0, 4.0]]]), 90).images[0]
    array([[2., 4.],
           [1., 3.]], dtype=float32)
    """
    dataset = as_dataset(dataset)
    check_flat(dataset, "rotate")
    images, angles = dataset.images, np.asarray(degrees, dtype=np.float64)
    if angles.shape not in ((), (len(dataset),)):
        raise InputError(f"degrees has shape {angles.shape} but there are {len(dataset)} images; give one angle each.")
    if not np.isfinite(angles).all():
        raise InputError("degrees has entries that are NaN or infinite; give finite angles.")
    if isinstance(fill, str):
        if fill != "background":
            raise InputError(f"fill must be 'background' or a number, got {fill!r}.")
        fill = np.median(border_pixels(as_planes(images)), axis=(0, 1)).astype(np.float64)
    maps = rotation_maps(np.broadcast_to(angles, len(images)), *images.shape[1:3])
    return replace(dataset, images=warp(images, maps, fill=fill, stage="rotate"))


def rotate_randomly(
    dataset: "Dataset | ArrayLike", *, seed: int = 0, fill: "str | ArrayLike" = "background"
) -> Dataset:
    """Rotate every image by ``numpy.random.default_rng(seed).uniform(0, 360, n)`` degrees; see :func:`rotate`."""
    dataset = as_dataset(dataset)
    degrees = np.random.default_rng(check_integer("seed", seed, minimum=0)).uniform(0.0, 360.0, len(dataset))
    return rotate(dataset, degrees, fill=fill)


def normalize(dataset: "Dataset | ArrayLike", *, mean: float | None = None, std: float | None = None) -> Dataset:
    """Standardize pixels: ``(image - mean) / std``.

    ``mean`` and ``std`` default to those of the dataset; pass those of another dataset to use its scale.
    """
    dataset = as_dataset(dataset)
    images, count = dataset.images, dataset.images.size
    level = float(images.sum(dtype=np.float64) / count)
    step = max(1, _BLOCK_BYTES // (8 * math.prod(images.shape[1:])))
    blocks = (images[i : i + step].astype(np.float64) for i in range(0, len(images), step))
    squares = sum(float(np.square(block - level).sum()) for block in blocks)
    mean, std = level if mean is None else mean, float(np.sqrt(squares / count)) if std is None else std
    if not np.isfinite(mean) or not np.isfinite(std) or std <= 0:
        raise InputError(f"cannot normalize {dataset.name!r} with mean {mean:g} and standard deviation {std:g}.")
    return replace(dataset, images=rescale(images, mean, std))


def rescale(images: NDArray[Any], mean: float, std: float) -> NDArray[np.float32]:
    """``(image - mean) / std``, in float64 and in blocks, rounded to float32."""
    scaled, step = np.empty(images.shape, dtype=np.float32), _BLOCK_BYTES // (8 * math.prod(images.shape[1:]))
    return fill_rows(lambda _, some: (some.astype(np.float64) - mean) / std, scaled, block_rows=step, rows=(images,))


def center(dataset: "Dataset | ArrayLike") -> Dataset:
    """Move the centre of mass of the content of every image to its centre, bilinearly; images become float32.

    The content is ``|image - background|`` wherever it exceeds four standard deviations of the border; the
    background is the median of the border. Images without content are not changed.
    """
    dataset = as_dataset(dataset)
    check_flat(dataset, "center")
    background, shifts = content_shifts(dataset.images)
    return replace(dataset, images=warp(dataset.images, shift_maps(*shifts.T), fill=background, stage="center"))


def content_shifts(images: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Background (n, channels) of images, and pixels (n, 2) down and right that bring their content to the centre."""
    planes = as_planes(images)
    blocks = row_blocks(len(images), block_rows=2**22 // planes[0].size)
    background, shifts = map(np.concatenate, zip(*Threads().map(_content_shifts, blocks, rows=(planes,)), strict=True))
    return background, shifts


def _content_shifts(_block: Block, planes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pixels = planes.astype(np.float64)
    background, shifts = border_levels(pixels), np.zeros((len(planes), 2))
    noise = _NOISES * 1.4826 * np.median(np.abs(border_pixels(pixels) - background[:, None]), axis=1)
    pixels -= background[:, None, None]
    np.abs(pixels, out=pixels)
    pixels[pixels <= noise[:, None, None]] = 0
    content = pixels.sum(axis=3)
    mass = content.sum(axis=(1, 2))
    filled = mass > 0
    for axis, side in enumerate(planes.shape[1:3]):
        shifts[filled, axis] = (side - 1) / 2 - content[filled].sum(axis=2 - axis) @ np.arange(side) / mass[filled]
    return background, shifts


def center_clear(planes: NDArray[Any]) -> NDArray[np.float32]:
    """Images (n, height, width, channels), centred if they show content on a background."""
    background, shifts = _content_shifts(Block(0, len(planes)), planes)
    shifts[~has_background(planes)] = 0
    return warp(planes, shift_maps(*shifts.T), fill=background)


def has_background(planes: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether images (n, height, width, channels) show content on the median of the rim of their largest disk: (n,).

    At most a third of the rim may differ from it, and the image as a whole must differ more than textures do.
    """
    height, width = planes.shape[1:3]
    distance = radii(height, width) - (min(height, width) - 1) / 2
    pixels = planes.astype(np.float32)
    rim = pixels[:, np.abs(distance) <= 1]
    level = np.median(rim, axis=1)
    rim = np.abs(rim - level[:, None])
    noise = np.float32(1.4826) * np.median(rim, axis=1)
    inside = pixels[:, distance <= 0] - level[:, None]
    least = np.maximum(_NOISES * noise, np.abs(inside).max(axis=1) / 20)
    foreign = (rim > least[:, None]).any(axis=2).mean(axis=1)
    strength = np.sqrt(np.square(inside).mean(axis=1).sum(axis=1))
    return np.asarray((foreign <= 1 / 3) & (strength > 3 * np.sqrt(np.square(noise).sum(axis=1))))
