"""The size of double-precision invariants: taken out before products are formed, put back or divided away after."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import InputError

# Fourier coefficients in double precision have errors of about 1e-16 of the largest; products of them a few times that.
VANISHING = 1e-12


def take_out_sizes(coefficients: NDArray[Any]) -> NDArray[np.float64]:
    """Divide each row (n, ...) in place by its largest magnitude, so that products stay in range; return these."""
    sizes: NDArray[np.float64] = np.abs(coefficients).max(axis=tuple(range(1, coefficients.ndim)))
    coefficients /= np.where(sizes > 0, sizes, 1).reshape(-1, *[1] * (coefficients.ndim - 1))
    return sizes


def write_scaled(
    values: NDArray[np.float64],
    out: NDArray[np.float32],
    *,
    weights: NDArray[np.float32],
    sizes: NDArray[np.float64],
    degree: int,
    normalize: bool,
) -> int:
    """Write invariants of coefficients whose sizes were taken out, at their own scale or with norm 1.

    Parameters
    ----------
    values : ndarray of shape (n, n_columns)
        Products of ``degree`` coefficients; overwritten.
    out : ndarray of shape (n, n_columns)
        Gets ``values * sizes ** degree``, or ``values / sqrt(sum w values^2)`` with ``normalize``. Rows whose norm is
        only rounding become zero.
    weights : ndarray of shape (n_columns,)
        Of the squares in the norm.
    sizes : ndarray of shape (n,)
        From :func:`take_out_sizes`.

    Returns
    -------
    int
        How many rows vanish.
    """
    norms = np.sqrt(np.square(values) @ weights.astype(np.float64))
    vanishing = norms <= VANISHING
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        factors = 1 / norms if normalize else sizes**degree
        values *= np.where(vanishing, 0, factors)[:, None]
        out[:] = values
    extent = np.abs(out).max(axis=1)
    if not np.isfinite(extent).all() or (extent[~vanishing] < np.finfo(np.float32).tiny).any():
        raise InputError(
            f"features leave the range of float32 (they grow with the signal to the power of {degree}); "
            "scale the signals, or use normalize=True."
        )
    return int(vanishing.sum())
