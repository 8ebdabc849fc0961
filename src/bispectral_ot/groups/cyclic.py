"""The bispectrum of 1-D signals on a circle, in full or as the few coefficients that determine the signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_choice
from bispectral_ot.errors import InputError
from bispectral_ot.groups.orbits import cyclic_orbits
from bispectral_ot.transformer import VANISHING, BatchTransformer, columns_table, take_out_sizes, write_scaled


class CyclicBispectrum(BatchTransformer):
    """The bispectrum of real signals of length n, invariant to cyclic shifts.

    ``B[i, j] = F_i F_j conj(F_{(i + j) mod n})`` with F the DFT of the signal. Rows of the input are signals.

    Parameters
    ----------
    coefficients : {"full", "selective"}
        All n x n coefficients, one entry per symmetry orbit, with multiplicities in ``feature_weights_``; or the about
        n / 2 of them ``B[0, 0]``, ``B[0, 1]`` and ``B[1, k]``, k = 1 to
        (n - 1) // 2, which already determine a signal without vanishing Fourier coefficients up to a shift
        (the selective bispectrum of Mataigne et al. 2024; half of the k are enough for a real signal) and can
        be inverted.
    normalize : bool
        Divide each bispectrum by its L2 norm (of the unfolded array), so that the scale of a signal does not count.

    Notes
    -----
    ``index_map_`` has the fields i, j, part (0 real, 1 imaginary).

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import CyclicBispectrum
    >>> signals = np.array([[1.0, 4.0, 2.0, 5.0, 3.0]])
    >>> bispectrum = CyclicBispectrum().fit(signals)
    >>> np.allclose(bispectrum.transform(np.roll(signals, 2, axis=1)), bispectrum.transform(signals), atol=1e-6)
    True
    >>> selective = CyclicBispectrum(coefficients="selective", normalize=False).fit(signals)
    >>> selective.invert(selective.transform(signals)).round(3)  # up to a shift
    array([[5., 3., 1., 4., 2.]])
    """

    _accepts_images = False

    def __init__(self, *, coefficients: str = "full", normalize: bool = True) -> None:
        self.coefficients = coefficients
        self.normalize = normalize

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        n = self.n_features_in_
        if check_choice("coefficients", self.coefficients, ("full", "selective")) == "selective":
            real = np.array([[0, 0], [0, 1]])[: min(n, 2)]
            chain = np.stack([np.ones((n - 1) // 2, dtype=np.int64), np.arange(1, (n - 1) // 2 + 1)], axis=1)
            i, j = np.concatenate([real, chain, chain]).T
            part = np.repeat([0, 1], [len(real) + len(chain), len(chain)])
            weights = np.ones(len(i))
        else:
            orbits = cyclic_orbits(n)
            i, j, part = orbits.to_columns(orbits.i), orbits.to_columns(orbits.j), orbits.part
            weights = orbits.to_columns(orbits.multiplicity).astype(np.float64)
        return columns_table(i=i, j=j, part=part), weights.astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 24 * self.n_features_in_ + 64 * self.n_features_out_

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        spectra = scipy.fft.fft(rows.astype(np.float64))
        sizes = take_out_sizes(spectra)
        i, j = self.index_map_["i"], self.index_map_["j"]
        products = spectra[:, i] * spectra[:, j] * spectra[:, (i + j) % spectra.shape[1]].conj()
        values = np.where(self.index_map_["part"] == 0, products.real, products.imag)
        return write_scaled(values, out, self.feature_weights_, sizes, degree=3, normalize=self.normalize)

    def invert(self, features: ArrayLike) -> NDArray[np.float64]:
        """Signals with the given selective bispectra, each up to a cyclic shift.

        ``F_0 = cbrt B[0, 0]``, ``|F_1|^2 = B[0, 1] / F_0`` and ``F_{k+1} = conj(B[1, k] / (F_1 F_k))``, with
        the phase of ``F_1`` chosen so that the signal is real. With ``normalize=True`` a signal also comes
        back divided by the cube root of its bispectrum's norm.

        Parameters
        ----------
        features : array of shape (n_signals, columns)
            What ``transform`` gave with ``coefficients="selective"``.

        Returns
        -------
        ndarray of shape (n_signals, length), float64

        Raises
        ------
        InputError
            Where a Fourier coefficient that the chain needs vanishes: the signal is then not determined.
        """
        check_is_fitted(self)
        values = np.asarray(features, dtype=np.float64)
        if self.coefficients != "selective":
            raise InputError("only selective bispectra can be inverted; use coefficients='selective'.")
        if values.ndim != 2 or values.shape[1] != self.n_features_out_ or not np.isfinite(values).all():
            raise InputError(f"expected finite features of shape (n, {self.n_features_out_}), got {values.shape}.")
        n = self.n_features_in_
        n_chain = (n - 1) // 2
        spectra = np.zeros((len(values), n_chain + 2), dtype=np.complex128)
        spectra[:, 0] = np.cbrt(values[:, 0])
        if n > 1:
            with np.errstate(divide="ignore", invalid="ignore"):  # _require_nonzero looks at the outcome
                spectra[:, 1] = np.sqrt(values[:, 1] / spectra[:, 0])
                for k in range(1, n_chain + 1):
                    coefficient = values[:, 1 + k] + 1j * values[:, 1 + n_chain + k]
                    spectra[:, k + 1] = np.conj(coefficient / (spectra[:, 1] * spectra[:, k]))
            _require_nonzero(spectra if n > 2 else spectra[:, :1])
            # F_1 was taken as positive, so F_k came out times exp(-i k phase). The last one, F_m, must be
            # the conjugate of F_{n-m}: this gives n * phase, hence the signal up to a whole shift.
            last = n_chain + 1
            phase = -np.angle(spectra[:, last] * spectra[:, n - last]) / n
            spectra *= np.exp(1j * phase[:, None] * np.arange(last + 1))
        signals: NDArray[np.float64] = scipy.fft.irfft(spectra[:, : n // 2 + 1], n=n)
        return signals


def _require_nonzero(spectra: NDArray[np.complex128]) -> None:
    """Refuse signals with a Fourier coefficient that is zero but for rounding."""
    magnitude = np.where(np.isfinite(spectra), np.abs(spectra), 0)
    vanishing = magnitude <= VANISHING * magnitude.max(axis=1, keepdims=True)
    if vanishing.any():
        signal, frequency = np.argwhere(vanishing)[0]
        raise InputError(
            f"signal {signal} (counting from 0) has no Fourier coefficient at frequency {frequency}, so its "
            "selective bispectrum does not determine it; use coefficients='full'."
        )
