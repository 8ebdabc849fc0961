"""Exact optimal transport, by the network simplex of POT."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from bispectral_ot import runtime
from bispectral_ot.checks import check_integer, check_positive
from bispectral_ot.costs import Cost, as_cost
from bispectral_ot.transport.coupling import SparseCoupling
from bispectral_ot.transport.marginals import as_weights


@dataclass(frozen=True, kw_only=True)
class ExactTransport:
    """Solve ``min <P, C>`` over plans with the given marginals, without regularisation (network simplex).

    For up to some thousands of elements: it forms the cost in float64 and grows with the cube of the size.

    ``tol`` is the marginal error ``|P 1 - p|_1 + |P^T 1 - q|_1`` to accept, ``max_iter`` the maximum number of steps.

    Examples
    --------
    >>> ExactTransport().solve([[0.0, 1.0], [1.0, 0.0]]).to_dense().tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    tol: float = 1e-9
    max_iter: int = 10_000_000

    def __post_init__(self) -> None:
        check_positive("tol", self.tol, "give the marginal error to accept, such as 1e-9")
        check_integer("max_iter", self.max_iter, minimum=1)

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve takes in addition to the cost: five float64 matrices and a byte an entry, measured."""
        return 41 * shape[0] * shape[1]

    def solve(
        self,
        cost: Cost | ArrayLike,
        source_weights: ArrayLike | None = None,
        target_weights: ArrayLike | None = None,
    ) -> SparseCoupling:
        """Compute the plan; see :meth:`Sinkhorn.solve`."""
        import ot

        cost = as_cost(cost)
        n, m = cost.shape
        p, q = as_weights(source_weights, n, "source_weights"), as_weights(target_weights, m, "target_weights")
        runtime.progress("transport", 0, 0)
        # shifted and scaled, which does not change the plan, so that POT's tolerances suit any numbers
        matrix = cost.block(0, n, dtype=np.float64)
        least = matrix.min()
        matrix -= least
        range_of_costs = matrix.max() or 1.0
        matrix /= range_of_costs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # POT warns where we measure
            plan, log = ot.emd(p, q, matrix, numItermax=self.max_iter, log=True)
        optimal = log["warning"] is None  # the marginals are right long before the plan is the best
        coupling = SparseCoupling(
            cost=cost,
            source_weights=p,
            target_weights=q,
            tol=self.tol,
            iterations=0 if optimal else self.max_iter,
            plan=csr_array(plan),
            source_potential=log["u"] * range_of_costs + least,
            target_potential=log["v"] * range_of_costs,
            optimal=optimal,
        )
        return coupling.checked()
