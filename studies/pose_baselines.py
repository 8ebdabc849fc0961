"""Baselines for the rotation of an image, to compare poses with."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.warp import border_levels, to_grey
from bispectral_ot.errors import InputError
from bispectral_ot.poses.motions import wrapped

Angles = NDArray[np.float64]


def contents(images: NDArray[Any]) -> NDArray[np.float64]:
    """Grey images (n, height, width) without their background, and nothing outside the largest disk inside."""
    grey = to_grey(images).astype(np.float64)
    height, width = grey.shape[1:]
    row, column = np.mgrid[:height, :width]
    inside = np.hypot(row - (height - 1) / 2, column - (width - 1) / 2) <= min(height, width) / 2
    levels = border_levels(grey[..., None])[:, None]
    return np.where(inside, np.abs(grey - levels), 0.0)


def principal_axes(images: NDArray[Any]) -> Angles:
    """Direction (n,) of the longer axis of the second moments of an image, in degrees counter-clockwise.

    Of its two senses, the one in which the third moment is positive.
    """
    weights = contents(images)
    height, width = weights.shape[1:]
    mass = np.maximum(weights.sum(axis=(1, 2)), 1e-12)
    up, right = (height - 1) / 2 - np.arange(height), np.arange(width) - (width - 1) / 2
    y = up[:, None] - (weights.sum(axis=2) @ up / mass)[:, None, None]
    x = right - (weights.sum(axis=1) @ right / mass)[:, None, None]
    xx, yy, xy = ((weights * product).sum(axis=(1, 2)) for product in (x * x, y * y, x * y))
    axes = np.arctan2(2 * xy, xx - yy) / 2
    along = x * np.cos(axes)[:, None, None] + y * np.sin(axes)[:, None, None]
    skewed = (weights * along**3).sum(axis=(1, 2))
    directions: Angles = np.degrees(np.where(skewed < 0, axes + np.pi, axes))
    return directions


def by_axes(source: NDArray[Any], target: NDArray[Any], best: NDArray[np.int64]) -> Angles:
    """Angles (n,) that rotate the principal axis of each source to that of its best target."""
    return wrapped(principal_axes(target)[best] - principal_axes(source))


def load_scikit_image() -> tuple[Any, Any]:
    """Phase correlation and polar transform of scikit-image, or an :class:`InputError` if it is not installed."""
    try:
        # it may or may not have types
        return (
            import_module("skimage.registration").phase_cross_correlation,
            import_module("skimage.transform").warp_polar,
        )
    except ImportError:
        raise InputError("phase correlation is that of scikit-image: pip install scikit-image.") from None


def by_phase_correlation(
    source: NDArray[Any], target: NDArray[Any], source_labels: NDArray[Any], target_labels: NDArray[Any]
) -> Angles:
    """Angles (n,) by phase correlation of a source with the mean of the targets of its label, on a polar grid."""
    phase_cross_correlation, warp_polar = load_scikit_image()
    contents_of = {"source": contents(source), "target": contents(target)}
    means = {
        label: warp_polar(contents_of["target"][target_labels == label].mean(axis=0), output_shape=(360, 32))
        for label in np.unique(target_labels)
    }
    angles = np.zeros(len(source))
    for i, (image, label) in enumerate(zip(contents_of["source"], source_labels, strict=True)):
        polar = warp_polar(image, output_shape=(360, 32))
        # rows go clockwise by a degree each, so a shift down is a clockwise rotation
        (down, _), _, _ = phase_cross_correlation(means[label], polar, upsample_factor=4)
        angles[i] = -down
    return wrapped(angles)
