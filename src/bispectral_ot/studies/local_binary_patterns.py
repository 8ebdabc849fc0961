"""A rival that studies compare with: local binary patterns and histograms, what one would take for textures."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from bispectral_ot.errors import InputError

# Radius in pixels and points around it, as is usual (Ojala, Pietikäinen and Mäenpää 2002).
SCALES = ((1, 8), (2, 16), (3, 24))
_BINS = 16


class LocalBinaryPatterns(TransformerMixin, BaseEstimator):
    """Histograms of uniform rotation-invariant patterns at three scales and of the channels, in the inscribed disk.

    Rows of (n, height, width, channels) images; patterns are those of the mean of the channels.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.studies.local_binary_patterns import LocalBinaryPatterns
    >>> LocalBinaryPatterns().fit_transform(np.random.default_rng(0).random((2, 16, 16))).shape
    (2, 70)
    """

    symmetry = "rotation"
    low_: NDArray[np.float64]
    high_: NDArray[np.float64]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the range of the channels."""
        planes = _planes(X)
        self.low_, self.high_ = planes.min(axis=(0, 1, 2)), planes.max(axis=(0, 1, 2))
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Histograms (n, columns), each of sum 1."""
        local_binary_pattern = load_scikit_image()
        planes = _planes(X)
        height, width = planes.shape[1:3]
        y, x = np.ogrid[:height, :width]
        disk = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2) <= min(height, width) / 2
        edges = [np.linspace(low, high or low + 1, _BINS + 1) for low, high in zip(self.low_, self.high_, strict=True)]
        span = float(np.ptp(planes)) or 1.0
        grey = np.round(255 * (planes.mean(axis=3) - planes.min()) / span).astype(np.uint8)
        rows = []
        for image, channels in zip(grey, planes, strict=True):
            parts = [
                np.bincount(
                    local_binary_pattern(image, points, radius, "uniform")[disk].astype(int), minlength=points + 2
                )
                for radius, points in SCALES
            ]
            parts += [np.histogram(channels[disk, c], edge)[0] for c, edge in enumerate(edges)]
            rows.append(np.concatenate(parts) / disk.sum())
        return np.array(rows, dtype=np.float32)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def load_scikit_image() -> Any:
    """``skimage.feature.local_binary_pattern``, or an error that names the extra."""
    try:
        from skimage.feature import local_binary_pattern
    except ImportError:
        raise InputError(
            "local binary patterns need scikit-image; install it with pip install 'bispectral-ot[studies]'."
        ) from None
    return local_binary_pattern


def _planes(X: Any) -> NDArray[np.float64]:
    images = np.asarray(X, dtype=np.float64)
    return images[..., None] if images.ndim == 3 else images
