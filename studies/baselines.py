"""Features that the studies compare with: power spectra and local binary patterns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from bispectral_ot.errors import InputError
from bispectral_ot.features import FEATURES, BatchTransformer, RingBispectrum
from bispectral_ot.features.kernels import normalize_rows
from bispectral_ot.transformer import columns_table, scaled_channels

# Radius in pixels and points around it, as is usual (Ojala, Pietikäinen and Mäenpää 2002).
SCALES = ((1, 8), (2, 16), (3, 24))
_BINS = 16


class RingPowerSpectrum(RingBispectrum):
    """Power spectrum of each ring: ``|F_k|^2``, k = 0 to K // 2, of unit norm per channel.

    Invariant to rotations of the image, and much shorter than the bispectrum, but without phases: images whose rings
    differ only in phases have the same spectrum. ``feature_weights_`` is 2 if ``|F_k|`` and ``|F_{K-k}|`` are two
    entries of the unfolded spectrum, else 1. ``index_map_`` has the fields channel, ring, i.

    Parameters
    ----------
    n_angles, n_rings, radial_weight, sampling
        As in :class:`RingBispectrum`.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.baselines import RingPowerSpectrum
    >>> RingPowerSpectrum().fit_transform(np.random.default_rng(0).random((3, 28, 28))).shape
    (3, 294)
    """

    symmetries = ("rotation-reflection",)  # mirrors change the phases only

    def __init__(
        self,
        *,
        n_angles: int = 40,
        n_rings: int | None = None,
        radial_weight: float = 1.0,
        sampling: str = "bilinear",
    ) -> None:
        super().__init__(n_angles=n_angles, n_rings=n_rings, radial_weight=radial_weight, sampling=sampling)

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        super()._prepare()  # makes the sampler
        n_angles = self.sampler_.n_angles
        n_frequencies = n_angles // 2 + 1
        channel, ring, i = np.ix_(range(self._channels), range(self.sampler_.n_rings), range(n_frequencies))
        index_map = columns_table(channel=channel, ring=ring, i=i)
        return index_map, np.where(index_map["i"] == -index_map["i"] % n_angles, 1, 2).astype(np.float32)

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        channels = out.reshape(len(rows) * self._channels, -1)
        images = scaled_channels(rows, self._channels).reshape(len(channels), -1)
        spectra = scipy.fft.rfft(self.sampler_.sample(images)).reshape(channels.shape)
        largest = np.abs(spectra).max(axis=1, keepdims=True)
        spectra /= np.where(largest > 0, largest, 1)
        channels[:] = spectra.real**2 + spectra.imag**2
        vanishing = np.empty(len(channels), dtype=np.bool_)
        normalize_rows(channels, self.feature_weights_[: channels.shape[1]], vanishing, 1.0, 0)
        return int(vanishing.reshape(len(rows), -1).any(axis=1).sum())


class LocalBinaryPatterns(TransformerMixin, BaseEstimator):
    """Histograms of uniform rotation-invariant patterns at three scales and of the channels, in the inscribed disk.

    Rows of (n, height, width, channels) images; patterns are those of the mean of the channels.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.baselines import LocalBinaryPatterns
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


# Features of the studies by name: those of the package and the baselines of the paper.
STUDY_FEATURES: dict[str, type[BatchTransformer]] = FEATURES | {"ring-power": RingPowerSpectrum}
