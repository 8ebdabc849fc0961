"""Images up to quarter turns and mirrors (D_4), exactly on the pixel grid.

A cosine transform sorts an image by how D_4 moves it. Its coefficient ``c[u, v]`` gets the sign ``(-1)^u``
when the rows are mirrored, ``(-1)^v`` when the columns are, and changes places with ``c[v, u]`` when the
image is transposed. So the coefficients, combined, are copies of the five irreps of D_4:

====  ===============================================  ====================================
A1    ``c[u, v] + c[v, u]``, u and v even              never changes
B1    ``c[u, v] - c[v, u]``, u and v even              sign: transposing
B2    ``c[u, v] + c[v, u]``, u and v odd               sign: one mirror
A2    ``c[u, v] - c[v, u]``, u and v odd               sign: both of these
E     ``(c[u, v], c[v, u])``, u odd and v even         a vector, turned and mirrored
====  ===============================================  ====================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table

Index = NDArray[np.int64]
VANISHING = 1e-7  # a band-limited part smaller than this relative to the brightest pixel is only rounding


class D4Bispectrum(BatchTransformer):
    """Invariants of first, second and third order of an image under quarter turns and mirrors.

    With the components above, divided by the norm of them all: each A1; all products of two A2, of two B1, of
    two B2; the inner product ``e . e'`` of all pairs of E; and of the components below ``triple_band`` all
    third-order invariants ``a2 (e x e')``, ``b1 (e_1 e'_1 - e_2 e'_2)``, ``b2 (e_1 e'_2 + e_2 e'_1)`` and
    ``a2 b1 b2``.

    Two band-limited images whose low components do not vanish have equal features only if one is a turned or mirrored
    and scaled version of the other.

    Parameters
    ----------
    band : int
        Frequencies u, v below ``band`` are used (all, for an image smaller than that). There are
        about ``band ** 4 / 18 + triple_band ** 6 / 80`` columns: 1,137 for the defaults and grey images.
    triple_band : int
        Frequencies below it enter the third-order invariants, which are many.

    Notes
    -----
    Channels are more components of each irrep, so that columns grow with the square of their number; the third-order
    invariants are those of the mean of the channels. ``index_map_`` has the
    fields kind (0: A1; 1, 2, 3: two A2, B1, B2; 4: two E; 5, 6, 7: two E and an A2, B1, B2; 8: A2, B1, B2)
    and first, second, third: rows of ``components_``, -1 where there is none. ``components_`` has the fields
    irrep (0 to 4: A1, A2, B1, B2, E), channel (one more than there are for the mean), u, v.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import D4Bispectrum
    >>> images = np.random.default_rng(0).random((2, 28, 28))
    >>> bispectrum = D4Bispectrum().fit(images)
    >>> mirrored = np.rot90(images, axes=(1, 2))[:, :, ::-1]
    >>> np.allclose(bispectrum.transform(mirrored), bispectrum.transform(images), atol=1e-6)
    True
    """

    symmetries = ("d4",)
    components_: NDArray[np.void]
    basis_: NDArray[np.float64]

    def __init__(self, *, band: int = 10, triple_band: int = 6) -> None:
        self.band = band
        self.triple_band = triple_band

    def _prepare(self) -> Columns:
        height, width = self.image_shape_[:2]
        if height != width:
            raise InputError(
                f"images are {height} x {width}, but a quarter turn maps only square images onto themselves; "
                "crop them, or pad them to squares (resize, --resize)."
            )
        band = min(check_integer("band", self.band, minimum=1), height)
        triple_band = check_integer("triple_band", self.triple_band, minimum=0)
        self.basis_ = scipy.fft.dct(np.eye(height), axis=0, norm="ortho")[:band]
        self._planes = self._channels + (self._channels > 1)  # channels, and their mean where there are several
        self._make_components(band)
        return self._make_columns(triple_band)

    def _make_components(self, band: int) -> None:
        """Number the components, irrep by irrep; ``_first`` and ``_second`` are their two coefficients."""
        u, v = np.indices((band, band)).reshape(2, -1)
        is_odd, both_odd, upper = u % 2 != v % 2, u % 2 + v % 2 == 2, u <= v
        members = [  # A1, A2, B1, B2, E
            ~is_odd & ~both_odd & upper,
            both_odd & (u < v),
            ~is_odd & ~both_odd & (u < v),
            both_odd & upper,
            is_odd & (u % 2 == 1),
        ]
        chosen = np.concatenate([np.flatnonzero(inside) for inside in members])
        sizes = [int(inside.sum()) * self._planes for inside in members]
        irrep, channel = np.repeat(np.arange(5), sizes), np.tile(np.arange(self._planes), len(chosen))
        u, v = (np.repeat(part[chosen], self._planes) for part in (u, v))
        self.components_ = columns_table(irrep=irrep, channel=channel, u=u, v=v)
        self._first, self._second = (
            (a * band + b) * self._planes + self.components_["channel"] for a, b in ((u, v), (v, u))
        )

    def _make_columns(self, triple_band: int) -> Columns:
        irrep, channel, u, v = (self.components_[name] for name in ("irrep", "channel", "u", "v"))
        single = channel < self._channels
        low = (u < triple_band) & (v < triple_band) & (channel == self._planes - 1)
        everyone, few = ([np.flatnonzero((irrep == k) & keep) for k in range(5)] for keep in (single, low))
        nobody = np.array([-1])
        parts = [(0, everyone[0], nobody, nobody)]
        parts += [(kind, *_pairs(everyone[kind]), nobody) for kind in range(1, 5)]
        # e x e' vanishes for equal vectors, so the pairs with A2 leave them out
        parts += [(4 + k, *_pairs(few[4], strict=k == 1), few[k]) for k in range(1, 4)]
        first, second = np.meshgrid(few[1], few[2], indexing="ij")
        parts.append((8, first.ravel(), second.ravel(), few[3]))
        tables = (columns_table(kind=kind, first=p[:, None], second=q[:, None], third=r) for kind, p, q, r in parts)
        index_map = np.concatenate(list(tables))
        pair = (index_map["kind"] > 0) & (index_map["kind"] < 8)
        return index_map, np.where(pair & (index_map["first"] != index_map["second"]), 2, 1).astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 16 * self.n_features_in_ + 48 * len(self.components_) + 32 * self.n_features_out_

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        side = self.image_shape_[0]
        images = rows.astype(np.float64).reshape(len(rows), side, side, self._channels)
        largest = np.abs(images).max(axis=(1, 2, 3))
        images /= np.where(largest > 0, largest, 1)[:, None, None, None]
        half = np.tensordot(images, self.basis_, axes=(1, 1))  # (n, columns, channels, u)
        spectra = np.tensordot(half, self.basis_, axes=(1, 1)).transpose(0, 2, 3, 1)  # (n, u, v, channels)
        norms = np.sqrt(np.square(spectra).sum(axis=(1, 2, 3)))
        vanishing = norms <= VANISHING * side
        spectra *= np.divide(1, norms, out=np.zeros_like(norms), where=~vanishing)[:, None, None, None]
        if self._planes > self._channels:
            spectra = np.concatenate([spectra, spectra.mean(axis=3, keepdims=True)], axis=3)
        self._fill_products(spectra.reshape(len(rows), -1), out)
        return int(vanishing.sum())

    def _fill_products(self, spectra: NDArray[np.float64], out: Rows) -> None:
        irrep = self.components_["irrep"]
        x, y = spectra[:, self._first], spectra[:, self._second]  # for E these are the two coordinates
        diagonal = self.components_["u"] == self.components_["v"]
        combined = x + np.where((irrep == 0) | (irrep == 3), 1, -1) * y
        scalar = combined * np.where(diagonal, 0.5, np.sqrt(0.5))
        stops = np.searchsorted(self.index_map_["kind"], np.arange(10))
        for kind in range(9):
            where = slice(stops[kind], stops[kind + 1])
            p, q, r = (self.index_map_[name][where] for name in ("first", "second", "third"))
            if kind == 0:
                out[:, where] = scalar[:, p]
            elif kind < 4:
                out[:, where] = scalar[:, p] * scalar[:, q]
            elif kind == 4:
                out[:, where] = x[:, p] * x[:, q] + y[:, p] * y[:, q]
            elif kind == 5:
                out[:, where] = scalar[:, r] * (x[:, p] * y[:, q] - y[:, p] * x[:, q])
            elif kind == 6:
                out[:, where] = scalar[:, r] * (x[:, p] * x[:, q] - y[:, p] * y[:, q])
            elif kind == 7:
                out[:, where] = scalar[:, r] * (x[:, p] * y[:, q] + y[:, p] * x[:, q])
            else:
                out[:, where] = scalar[:, p] * scalar[:, q] * scalar[:, r]


def _pairs(members: Index, *, strict: bool = False) -> tuple[Index, Index]:
    """All unordered pairs of members, with or without equal ones."""
    first, second = np.triu_indices(len(members), int(strict))
    return members[first], members[second]
