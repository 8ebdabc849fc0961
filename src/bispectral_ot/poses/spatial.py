"""Rotations in space, of signals on the sphere and of shapes, by correlation of harmonic coefficients."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.groups.sphere import generators, wigner_matrices
from bispectral_ot.poses.motions import Floats, Indices, Located, MotionArray, Motions, Rows, climb

# Rotations of the grid, about 15 degrees apart, and the largest step away from one of them.
_N_ROTATIONS, _REACH = 4608, np.radians(15)


class SpatialMotions(Motions):
    """Rotations of signals by their harmonic coefficients.

    With coefficients x, y of source and target, the fit of the rotation R is ``sum over l of <y_l, D_l(R) x_l>``,
    summed over channels or shells; it is refined by Newton's method on the group. ``analyse`` computes real harmonic
    coefficients (n, signals, (lmax + 1) ** 2).
    """

    identity = (0.0, 0.0, 0.0, 1.0)

    def __init__(self, analyse: Callable[[Any], Floats], lmax: int) -> None:
        from scipy.spatial.transform import Rotation

        self._analyse, self.lmax = analyse, lmax
        self.grid, self._generators = super_fibonacci(_N_ROTATIONS), generators(lmax)
        matrices = wigner_matrices(Rotation.from_quat(self.grid), lmax)
        flat = np.concatenate([matrix.reshape(_N_ROTATIONS, -1) for matrix in matrices], axis=1)
        self._matrices = flat.astype(np.float32)  # of all degrees, a row for each rotation

    def coefficients(self, signals: Any) -> Rows:
        """Harmonic coefficients (n, signals * harmonics) of unit norm; of single signals without their mean."""
        values = self._analyse(signals)
        if values.shape[1] == 1:
            values = np.where(np.arange(values.shape[2]) == 0, 0.0, values)
        rows = values.reshape(len(values), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        runtime.progress("features", len(rows), len(rows))
        return (rows / np.where(norms > 0, norms, np.inf)).astype(np.float32)

    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Products ``y_a x_b`` of all orders of each degree, summed over signals: (n, k, p)."""
        n_harmonics = (self.lmax + 1) ** 2
        x, y = source.reshape(len(source), 1, -1, n_harmonics), target.reshape(len(target), -1, n_harmonics)[indices]
        parts = []
        for degree in range(self.lmax + 1):
            orders = slice(degree**2, (degree + 1) ** 2)
            parts.append((y[..., orders].swapaxes(-1, -2) @ x[..., orders]).reshape(*indices.shape, -1))
        products = np.concatenate(parts, axis=-1)
        products[indices < 0] = 0.0
        return products

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) of all rotations of the grid."""
        return products @ self._matrices.T

    def locate(self, products: Rows, start: Indices) -> Located:
        """Best rotation, within 15 degrees of the start."""
        from scipy.spatial.transform import Rotation

        flat = products.reshape(-1, products.shape[-1]).astype(np.float64)
        first = Rotation.from_quat(self.grid[start.ravel()])

        def move(rotations: Any, step: Floats) -> Any:
            moved = (Rotation.from_rotvec(step) * rotations * first.inv()).as_rotvec()
            lengths = np.linalg.norm(moved, axis=-1, keepdims=True)
            return Rotation.from_rotvec(moved * np.minimum(1.0, _REACH / np.maximum(lengths, 1e-12))) * first

        def derivatives(rotations: Any) -> tuple[Floats, Floats, Floats]:
            n, begin = len(flat), 0
            fits, slope, hessian = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
            for matrices, generator in zip(wigner_matrices(rotations, self.lmax), self._generators, strict=True):
                end = begin + matrices[0].size
                # <H, g D> = <H D^T, g>
                turned = flat[:, begin:end].reshape(matrices.shape) @ matrices.swapaxes(1, 2)
                fits += np.trace(turned, axis1=1, axis2=2)
                slope += np.einsum("nij,aij->na", turned, generator)
                second = generator[:, None] @ generator
                hessian -= np.einsum("nij,abij->nab", turned, (second + second.swapaxes(0, 1)) / 2)
                begin = end
            return fits, slope, hessian

        rotations, fits, widths = climb(derivatives, first, move)
        quaternions = rotations.as_quat().reshape(*start.shape, 4)
        return Located(quaternions, fits.reshape(start.shape), widths.reshape(start.shape))

    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Angle of the rotation that leads from one to the other."""
        cosine = np.abs(np.sum(motions * others, axis=-1))
        return np.degrees(2 * np.arccos(np.minimum(cosine, 1.0)))

    def by_name(self, motions: Floats) -> MotionArray:
        """Quaternions."""
        return MotionArray(quaternions=motions)


def super_fibonacci(count: int) -> Floats:
    """Quaternions (count, 4) spread evenly over all rotations (Alexa, CVPR 2022)."""
    golden, psi = np.sqrt(2), 1.533751168755204288118041  # psi^4 = psi + 4
    s = np.arange(count) + 0.5
    r, t, alpha, beta = np.sqrt(s / count), np.sqrt(1 - s / count), 2 * np.pi * s / golden, 2 * np.pi * s / psi
    return np.stack([r * np.sin(alpha), r * np.cos(alpha), t * np.sin(beta), t * np.cos(beta)], axis=1)
