"""Translation-invariant features: the 2-D bispectrum of the low frequencies of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.features.kernels import multiply, normalize_rows
from bispectral_ot.groups.orbits import triple_orbits
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, scaled_channels, take_out_sizes


class TranslationBispectrum(BatchTransformer):
    """The bispectrum on Z/height x Z/width: invariant to cyclic shifts of the image.

    ``B[k1, k2] = F[k1] F[k2] conj(F[k1 + k2])`` with F the 2-D DFT, for all frequencies within the band
    ``|k|_inf <= band_limit``. One entry per symmetry orbit is kept, with the orbit sizes as ``feature_weights_``; the
    whole of a channel is divided by its L2 norm.

    Parameters
    ----------
    band_limit : int
        Highest frequency, in periods per image side. The number of columns grows with its fourth power: 1,393 for 5.

    Notes
    -----
    A shift is cyclic: what leaves on one side comes back on the other, so content that moves needs a border of plain
    background. ``index_map_`` has the fields channel, row_1, column_1, row_2, column_2 (the signed frequencies k1 and
    k2) and part (0 real, 1 imaginary).

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import TranslationBispectrum
    >>> images = np.random.default_rng(0).random((2, 20, 30))
    >>> bispectrum = TranslationBispectrum().fit(images)
    >>> shifted = np.roll(images, (3, -7), axis=(1, 2))
    >>> np.allclose(bispectrum.transform(shifted), bispectrum.transform(images), atol=1e-6)
    True
    """

    symmetries = ("translation",)

    def __init__(self, *, band_limit: int = 5) -> None:
        self.band_limit = band_limit

    def _prepare(self) -> Columns:
        height, width = self.image_shape_[:2]
        band_limit = check_integer("band_limit", self.band_limit, minimum=0)
        row, column = (_low_frequencies(size, band_limit) for size in (height, width))
        rows, columns = (axis.ravel() for axis in np.meshgrid(row, column, indexing="ij"))
        self.band_ = rows, columns
        number = np.full((height, width), -1)
        number[rows, columns] = np.arange(len(rows))
        third = number[-(rows[:, None] + rows) % height, -(columns[:, None] + columns) % width]
        orbits = self.orbits_ = triple_orbits(third, number[-rows % height, -columns % width])
        i, j = orbits.to_columns(orbits.i), orbits.to_columns(orbits.j)
        index_map = columns_table(
            channel=np.arange(self._channels)[:, None],
            row_1=_signed(rows[i], height),
            column_1=_signed(columns[i], width),
            row_2=_signed(rows[j], height),
            column_2=_signed(columns[j], width),
            part=orbits.part,
        )
        return index_map, np.tile(orbits.to_columns(orbits.multiplicity), self._channels).astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 24 * self.n_features_in_

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        orbits = self.orbits_
        images = scaled_channels(rows, self._channels).reshape(-1, *self.image_shape_[:2])
        band = np.ascontiguousarray(scipy.fft.fft2(images)[:, *self.band_])
        take_out_sizes(band.view(np.float32))
        features = out.reshape(len(images), orbits.n_columns)
        multiply(band, np.stack([orbits.i, orbits.j, orbits.k]), orbits.n_real, features)
        vanishing = np.empty(len(images), dtype=np.bool_)
        normalize_rows(features, self.feature_weights_[: orbits.n_columns], vanishing)
        return int(vanishing.reshape(len(rows), -1).any(axis=1).sum())


def _low_frequencies(size: int, band_limit: int) -> NDArray[np.int64]:
    """Frequencies of Z/size within the band, as numbers 0 to size - 1."""
    frequency = np.arange(size)
    return frequency[np.minimum(frequency, size - frequency) <= band_limit]


def _signed(frequency: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Frequencies 0 to size - 1 as -(size - 1) // 2 to size // 2."""
    return np.where(frequency > size // 2, frequency - size, frequency)
