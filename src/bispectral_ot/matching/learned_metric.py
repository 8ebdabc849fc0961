"""Learned metric: Mahalanobis distances by the shrunk within-class covariance of the targets.

The covariance within classes is shrunk towards a multiple of the identity, ``(1 - s) S + s (tr S / d) I``; with
``s = 1`` distances are as they were. Leaving one target out is a rank-one change of ``S``: distances and discriminant
scores of left-out targets follow exactly from one decomposition, whatever the shrinkage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.features.fitted import LinearMap
from bispectral_ot.transformer import symmetric_eigh

Rows = NDArray[np.float32]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Shrinkages to choose from; 1 is no learning.
SHRINKAGES = (0.1, 0.3, 0.6, 0.9, 1.0)
# Leaving an element out cannot take more than this fraction of its own variance away.
_LEAST_LEFT = 1e-3


@dataclass(frozen=True, eq=False)
class WithinClass:
    """Covariance within the classes of some rows (n, columns).

    ``basis`` (columns, r) and ``variances`` (r,) are eigenvectors and eigenvalues that are not 0, ``mean_variance`` is
    the mean of all eigenvalues, ``degrees`` is n less the number of classes.
    """

    means: Rows = field(repr=False)
    counts: Vector
    basis: Rows = field(repr=False)
    variances: Vector = field(repr=False)
    mean_variance: float
    degrees: int

    @classmethod
    def fit(cls, rows: Rows, labels: Index, n_classes: int) -> WithinClass | None:
        """Estimate it, by the smaller of covariance and Gram matrix; None where no class varies."""
        from scipy.sparse import csr_array

        n, columns = rows.shape
        counts = np.bincount(labels, minlength=n_classes).astype(np.float64)
        members = csr_array((np.ones(n), (labels, np.arange(n))), (n_classes, n))
        means = (members @ rows) / np.maximum(counts, 1)[:, None]
        residuals = rows - means[labels].astype(np.float32)
        degrees = n - int((counts > 0).sum())
        if degrees < 1:
            return None
        small = residuals.T @ residuals if n >= columns else residuals @ residuals.T
        # float32 suffices: shrinkage adds a tenth of the mean variance, or more, to all of them
        variances, vectors = symmetric_eigh(small / np.float32(degrees))
        variances = variances.astype(np.float64)
        kept = variances > 1e-6 * variances[-1]
        if not variances[-1] > 0:
            return None
        variances, vectors = variances[kept], vectors[:, kept]
        if n < columns:
            vectors = residuals.T @ (vectors / np.sqrt(variances * degrees)).astype(np.float32)
        mean_variance = float(variances.sum() / columns)
        return cls(means.astype(np.float32), counts, vectors.astype(np.float32), variances, mean_variance, degrees)

    def power(self, shrinkage: float, exponent: float) -> LinearMap:
        """Power of the shrunk covariance, in units of its mean variance."""
        spectrum = (1 - shrinkage) * self.variances / self.mean_variance + shrinkage
        return LinearMap(self.basis, spectrum**exponent, shrinkage**exponent)

    def discriminant(self, metric: float, shrinkage: float) -> tuple[Rows, Vector]:
        """Coefficients (columns, classes) and intercepts of the discriminant, for rows whitened by ``metric``."""
        centre = self.means[self.counts > 0].mean(axis=0)
        centred = (self.means - centre).astype(np.float64)
        solved = self.power(shrinkage, -1.0)(centred) / self.mean_variance
        intercepts = -0.5 * np.einsum("cd,cd->c", centred, solved) - solved @ centre
        unwhitened = solved if metric == 1 else self.power(metric, 0.5)(solved)
        return np.ascontiguousarray(unwhitened.T, dtype=np.float32), intercepts


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Targets that are left out of means and covariance, after a random motion.

    ``moved`` (k, columns) are rows of their moved images, ``residuals`` (k, columns) differences of their own rows from
    the means of their classes ``labels`` (k,). All shrinkages scale coordinates along one basis: rows are projected
    once. Residuals have no part outside the basis.
    """

    within: WithinClass
    moved: Rows = field(repr=False)
    residuals: Rows = field(repr=False)
    labels: Index

    @cached_property
    def _coordinates(self) -> tuple[Rows, Rows]:
        return self.moved @ self.within.basis, self.residuals @ self.within.basis

    def squared_distances(self, references: Rows, shrinkages: Iterable[float]) -> Iterator[Rows]:
        """Squared distances (k, m) to references for each shrinkage, by the covariance without each one."""
        basis, centre = self.within.basis, references.mean(axis=0)
        moved, others = self._coordinates[0] - centre @ basis, (references - centre) @ basis
        outside = None
        if basis.shape[1] < basis.shape[0]:
            outside = _squares(self.moved - centre, references - centre) - _squares(moved, others)
        for shrinkage in shrinkages:
            residuals, gains, whiten = self._without(shrinkage)
            scales = whiten.gains.astype(np.float32)
            one, other = moved * scales, others * scales
            squares = _squares(one, other)
            if outside is not None:
                squares += np.float32(whiten.rest**2) * outside
            along = np.einsum("kr,kr->k", residuals, one)[:, None] - residuals @ other.T
            squares += gains[:, None].astype(np.float32) * np.square(along, out=along)
            yield np.maximum(squares, 0, out=squares)

    def discriminants(self, shrinkage: float) -> Vector:
        """Scores (k, classes) of the linear discriminant, by means and covariance without each one."""
        within, own, k = self.within, self.labels, np.arange(len(self.labels))
        residuals, gains, whiten = self._without(shrinkage)
        centre = within.means[within.counts > 0].mean(axis=0)
        offsets, scales, rest = within.means - centre, whiten.gains.astype(np.float32), whiten.rest**2
        inside = offsets @ within.basis
        means, moved = inside * scales, (self._coordinates[0] - centre @ within.basis) * scales
        count = np.maximum(within.counts[own] - 1, 1)
        length = np.einsum("kr,kr->k", residuals, residuals, dtype=np.float64)
        along = np.einsum("kr,kr->k", moved, residuals, dtype=np.float64)
        products, towards = (side.astype(np.float64) for side in (moved @ means.T, residuals @ means.T))
        outside = (offsets - inside @ within.basis.T).astype(np.float32)  # the part of the means beyond the basis
        products += rest * ((self.moved - centre) @ outside.T)
        norms = np.einsum("cr,cr->c", means, means, dtype=np.float64) + rest * np.einsum("cd,cd->c", outside, outside)
        norms = np.tile(norms, (len(k), 1))
        # the mean of its own class without it
        products[k, own] -= along / count
        norms[k, own] += -2 * towards[k, own] / count + length / count**2
        towards[k, own] -= length / count
        scores = products - 0.5 * norms + gains[:, None] * towards * (along[:, None] - 0.5 * towards)
        found: Vector = scores / within.mean_variance
        return found

    def _without(self, shrinkage: float) -> tuple[Rows, Vector, LinearMap]:
        """Whitened residuals, the factor of the rank-one change that leaving each one out makes, and the whitening."""
        within, whiten = self.within, self.within.power(shrinkage, -0.5)
        residuals = self._coordinates[1] * whiten.gains.astype(np.float32)
        counts = within.counts[self.labels]
        taken = (1 - shrinkage) * counts / np.maximum(counts - 1, 1) / within.degrees / within.mean_variance
        own = np.einsum("kr,kr->k", residuals, residuals, dtype=np.float64)
        return residuals, taken / np.maximum(1 - taken * own, _LEAST_LEFT), whiten


def _squares(rows: Rows, others: Rows) -> Rows:
    """Squared Euclidean distances, not clipped."""
    squares: Rows = np.einsum("kd,kd->k", rows, rows)[:, None] + np.einsum("md,md->m", others, others)
    squares -= 2 * rows @ others.T
    return squares
