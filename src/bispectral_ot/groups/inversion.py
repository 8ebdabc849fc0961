"""Signals from their selective bispectra: an eigenproblem that works for every finite group.

With ``y(g)`` the entries of all ``sqrt(d_s / |G|) F_s s(g)^H``, the Fourier coefficients of the signal moved by
``g^-1``, the power spectra ``B[0, s]`` give ``A = sum_g y(g) y(g)^H`` and the pairs ``B[r, s]`` give
``W = sum_g w(g) y(g) y(g)^H`` for every function w(g) that is linear in the entries of ``F_r r(g)^H``. Hence
``A^-1/2 W A^-1/2`` has the eigenvalues w(g), all different where r is faithful and w is random, and each of its
eigenvectors is ``A^-1/2 y(g)``: the signal itself, moved by one element of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.groups.blocks import BlockSet, separating_irreps
from bispectral_ot.groups.finite import FiniteGroup

_DRAWS = 8  # random functions w; the most isolated eigenvalue of all of them is used
_SINGULAR = 1e-3  # smallest relative to largest singular value of one F_rho: its square is the resolution of float32
_VANISHING = 1e-6  # the same relative to the largest of all F_rho: its square is the resolution of float64
_ROUNDING = 2.0**-24  # of float32 features
_UNCERTAIN = 1e-2  # largest accepted error of a recovered signal, relative to its root mean square

Values = Callable[[NDArray[np.float64]], NDArray[np.float64]]
LabelledBlock = tuple[tuple[int, int, int], NDArray[np.complex128], NDArray[Any]]


def invert_selective(
    group: FiniteGroup,
    blocks: BlockSet,
    entries: NDArray[np.complex128],
    *,
    columns: Values,
    target: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Signals (n, order) with the given selective bispectra, each up to the action of the group.

    ``entries`` (n, n_entries) are the values of the blocks, unfolded from the features ``target`` (n, n_columns);
    ``columns`` computes the features of signals.
    """
    signals = np.empty((len(entries), group.order))
    labels = [tuple(label[:3].tolist()) for part in blocks.groups for label in part.labels]
    tensors = [tensor for part in blocks.groups for tensor in part.tensor]
    cuts = np.cumsum([tensor.size for tensor in tensors])[:-1]
    for number, values in enumerate(entries):
        parts = np.split(values, cuts)
        listed: list[LabelledBlock] = [
            (label, part.reshape(tensor.shape), tensor)
            for label, part, tensor in zip(labels, parts, tensors, strict=True)
        ]
        rough = _from_eigenvector(group, listed, number)
        signals[number], error = _refine(rough, columns, target[number])
        if not error < _UNCERTAIN:
            raise InputError(
                f"signal {number} (counting from 0) cannot be recovered: its selective bispectrum leaves a relative "
                f"error of {error:.1e}. A Fourier coefficient is too near zero, or these are not bispectra."
            )
    return signals


def _from_eigenvector(group: FiniteGroup, blocks: list[LabelledBlock], number: int) -> NDArray[np.float64]:
    root, inverse_root, mean = _whitening(blocks, number)
    moments = inverse_root @ _third_moments(group, blocks) @ inverse_root
    eigenvalues, eigenvectors = np.linalg.eigh(moments)
    # the eigenvalue farthest from its neighbours, relative to the range of its draw
    gaps = np.diff(eigenvalues, axis=1, prepend=-np.inf, append=np.inf)
    isolation = np.minimum(gaps[:, :-1], gaps[:, 1:])
    isolation /= np.maximum(np.ptp(eigenvalues, axis=1, keepdims=True), np.finfo(float).tiny)
    draw, place = np.unravel_index(np.argmax(isolation), isolation.shape)
    found = root @ eigenvectors[draw][:, place]
    found *= np.sign(mean) * np.conj(found[0]) / np.abs(found[0])  # F_0 is real, and its sign is known
    found /= np.sqrt(np.repeat(group.dimensions, group.dimensions**2) / group.order)
    return group.inverse_fourier(group.split_coefficients(found)).real


def _whitening(blocks: list[LabelledBlock], number: int) -> tuple[NDArray[Any], NDArray[Any], float]:
    """``A^1/2``, ``A^-1/2`` and F_0, from the blocks ``B[0, s] = F_0 F_s F_s^H``."""
    powers = {s: block[0] * np.sqrt(block.shape[1]) for (r, s, _), block, _ in blocks if r == 0}
    mean = float(np.cbrt(powers[0].real.item()))
    spectra = [np.linalg.eigh(powers[s] / (mean or 1)) for s in sorted(powers)]
    largest = max(float(values.max()) for values, _ in spectra)
    for s, (values, _) in enumerate(spectra):
        if not values.min() > max(_SINGULAR**2 * values.max(), _VANISHING**2 * largest):
            raise InputError(
                f"signal {number} (counting from 0) cannot be recovered from its selective bispectrum: "
                + ("its mean is zero" if s == 0 else f"the Fourier coefficient of irrep {s} is zero or nearly singular")
                + ", and inversion divides by it. Use coefficients='full' to compare such signals."
            )
    root, inverse_root = (
        scipy.linalg.block_diag(
            *(np.kron((vectors * values**power) @ vectors.conj().T, np.eye(len(values))) for values, vectors in spectra)
        )
        for power in (0.5, -0.5)
    )
    return root, inverse_root, mean


def _third_moments(group: FiniteGroup, blocks: list[LabelledBlock]) -> NDArray[np.complex128]:
    """Several random ``W``, Hermitian, shape (_DRAWS, order, order)."""
    rng = np.random.default_rng(0)
    weights = {r: rng.standard_normal((_DRAWS, *[group.dimensions[r]] * 2)) for r in separating_irreps(group)}
    starts = np.concatenate([[0], np.cumsum(group.dimensions**2)])
    moments = np.zeros((_DRAWS, group.order, group.order), dtype=np.complex128)
    for (r, s, t), block, tensor in blocks:
        pairs = [(r, s, block, tensor)]
        if r != s:  # B[s, r] holds the same numbers as B[r, s]
            pairs.append((s, r, block.swapaxes(0, 1), tensor.swapaxes(0, 1)))
        for first, second, value, clebsch_gordan in pairs:
            if first in weights:
                d1, d2, d3 = value.shape
                mixed = weights[first].swapaxes(1, 2) @ value.reshape(d1, -1)  # (_DRAWS, j, k m)
                added = np.tensordot(mixed.reshape(_DRAWS, d1, d2, d3), clebsch_gordan.conj(), axes=(1, 0))
                added = added.transpose(0, 1, 3, 2, 4).reshape(_DRAWS, d2 * d2, d3 * d3)
                rows, columns = slice(starts[second], starts[second + 1]), slice(starts[t], starts[t + 1])
                moments[:, rows, columns] += np.sqrt(d2 * d3) * added
    return moments + moments.conj().swapaxes(1, 2)


def _refine(
    signal: NDArray[np.float64], columns: Values, target: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Least-squares fit to the features; the signal, and a bound of its error relative to its root mean square."""
    size = float(np.sqrt(np.mean(signal**2)))
    noise = _ROUNDING * (np.abs(target) + 1e-3 * np.abs(target).max())

    def residuals(values: NDArray[np.float64]) -> Any:
        return (columns(values[None])[0] - target) / noise

    found: Any = scipy.optimize.least_squares(residuals, signal, jac="3-point", x_scale=size)
    smallest = max(float(np.linalg.svd(found.jac, compute_uv=False)[-1]), np.finfo(float).tiny)
    return found.x, max(1.0, float(np.abs(found.fun).max())) / smallest / size
