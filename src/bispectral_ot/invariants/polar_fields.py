"""Images to fields on a polar grid that turn with the image: intensity, and edges as seen from the centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.ndimage
from numpy.typing import NDArray

from bispectral_ot.invariants.area_means import AreaMeans
from bispectral_ot.invariants.polar import PolarSampler
from bispectral_ot.invariants.products import ROUNDING, edge_fields

N_EDGE_FIELDS = 5
# Widths of the Gaussians, in units of the distance of two rings (docs/coupled.md says how they were chosen).
_INTENSITY_BLUR, _EDGE_BLUR, _EDGE_POOLING = 0.35, 0.5, 0.7
# A derivative needs a few pixels, however fine the rings.
_LEAST_EDGE_BLUR = 0.7


@dataclass(frozen=True)
class PolarFields:
    """Real fields ``f(r, t)`` of an image; turning the image by an angle shifts them all along t.

    The intensity of each channel, and with the gradient ``m e^{i p}`` of the smoothed image, summed over channels
    and pooled over a small neighbourhood, the strength of edges ``m^(1/2)`` and its products with ``cos`` and
    ``sin`` of ``2 (p - t)`` and ``4 (p - t)``: how strong edges are and how they lie to the ray from the centre.

    What lies outside the image is background: in each channel the median of the largest circle inside the image,
    which is subtracted first.

    Attributes
    ----------
    inside : (height * width,) share of each pixel that is image; the rest of it is background
    border : the circle that gives the background
    sampler : the polar grid
    blur, slope, smooth, pool : pairs of matrices (height, height) and (width, width)
        One-dimensional Gaussian filters of intensity, of gradients (along and across) and of edges.
    edges : whether edge fields follow the intensities
    """

    inside: NDArray[np.float32]
    border: PolarSampler
    sampler: PolarSampler
    blur: tuple[NDArray[np.float32], NDArray[np.float32]]
    slope: tuple[NDArray[np.float32], NDArray[np.float32]]
    smooth: tuple[NDArray[np.float32], NDArray[np.float32]]
    pool: tuple[NDArray[np.float32], NDArray[np.float32]]
    edges: bool

    @classmethod
    def build(cls, means: AreaMeans, *, radii: NDArray[np.float64], spacing: float, n_angles: int, edges: bool) -> Self:
        """Tables for images of one size; ``spacing`` is the resolution that is wanted along a ray.

        Lengths are in pixels of the ``means`` that will be sampled.
        """
        height, width = means.shape

        def rings(at: NDArray[np.float64]) -> PolarSampler:
            return PolarSampler.build(
                height, width, radii=at, n_angles=n_angles, sampling="bilinear", ring_weights=np.ones(len(at))
            )

        def gaussian(width_wanted: float, order: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            sigma = math.sqrt(width_wanted**2 - means.variance)
            rows, columns = (
                scipy.ndimage.gaussian_filter1d(np.eye(size), sigma, axis=0, order=order, mode="constant")
                for size in (height, width)
            )
            return rows.astype(np.float32), columns.astype(np.float32)

        edge_blur = max(_LEAST_EDGE_BLUR, _EDGE_BLUR * spacing)
        return cls(
            inside=means.inside,
            border=rings(np.array([means.inscribed_radius])),
            sampler=rings(radii),
            blur=gaussian(_INTENSITY_BLUR * spacing),
            slope=gaussian(edge_blur, order=1),
            smooth=gaussian(edge_blur),
            pool=gaussian(_EDGE_POOLING * spacing),
            edges=edges,
        )

    def sample(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Images (n, channels, height * width) to fields (n, channels [+ 5], n_rings, n_angles)."""
        n, channels, n_pixels = images.shape
        size = len(self.blur[0]), len(self.blur[1])
        border = self.border.sample(images.reshape(n * channels, n_pixels))
        contents = (images - np.median(border, axis=2).reshape(n, channels, 1)) * self.inside
        contents[np.abs(contents) < ROUNDING] = 0  # or the square root would make edges of it
        planes = contents.reshape(n, channels, *size)
        fields = np.empty((n, channels + (N_EDGE_FIELDS if self.edges else 0), *size), dtype=np.float32)
        fields[:, :channels] = _filter(planes, self.blur[0], self.blur[1])
        if self.edges:
            across = _filter(planes, self.smooth[0], self.slope[1])
            down = _filter(planes, self.slope[0], self.smooth[1])
            edges = np.empty((n, N_EDGE_FIELDS, *size), dtype=np.float32)
            edge_fields(across.reshape(n, channels, -1), down.reshape(n, channels, -1), edges.reshape(n, 5, -1))
            fields[:, channels:] = _filter(edges, self.pool[0], self.pool[1])
        samples = self.sampler.sample(fields.reshape(-1, n_pixels))
        samples = samples.reshape(n, -1, self.sampler.n_rings, self.sampler.n_angles)
        if self.edges:
            angles = 2 * np.pi * np.arange(self.sampler.n_angles) / self.sampler.n_angles
            for cosine, multiple in ((channels + 1, 2), (channels + 3, 4)):
                _turn_to_the_ray(samples[:, cosine], samples[:, cosine + 1], multiple * angles)
        return samples


def _filter(
    images: NDArray[np.float32], rows: NDArray[np.float32], columns: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Apply a matrix down the columns of images (..., height, width) and another along their rows."""
    filtered: NDArray[np.float32] = rows @ (images @ columns.T)
    return filtered


def _turn_to_the_ray(cosine: NDArray[np.float32], sine: NDArray[np.float32], angles: NDArray[np.float64]) -> None:
    """Turn the vector (cosine, sine) back by ``angles``, in place."""
    c, s = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    cosine[:], sine[:] = cosine * c + sine * s, sine * c - cosine * s
