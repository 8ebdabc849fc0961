"""Greenkhorn, the solver of the paper, through POT."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bispectral_ot import runtime
from bispectral_ot.checks import check_integer, check_positive
from bispectral_ot.costs import Cost
from bispectral_ot.errors import InputError
from bispectral_ot.transport.coupling import EntropicCoupling
from bispectral_ot.transport.marginals import as_weights


@dataclass(frozen=True, kw_only=True)
class Greenkhorn:
    """Entropic transport by greedy updates of one row or column, as the paper solved it (through POT).

    Here to reproduce the paper; :class:`Sinkhorn` reaches the same plan far sooner. POT's version works on
    ``exp(-C / reg)`` itself, which underflows for small ``reg``: that is reported as not converged.

    Parameters
    ----------
    reg, tol, max_iter
        As for :class:`Sinkhorn`, except that an iteration updates a single row or column.

    Examples
    --------
    >>> from studies.greenkhorn import Greenkhorn
    >>> Greenkhorn(reg=0.1).solve([[0.0, 1.0], [1.0, 0.0]]).converged
    True
    """

    reg: float = 0.01
    tol: float = 1e-4
    max_iter: int = 10_000_000

    def __post_init__(self) -> None:
        check_positive("reg", self.reg, "the entropic problem needs some regularization")
        check_positive("tol", self.tol, "give the marginal error to reach, such as 1e-4")
        check_integer("max_iter", self.max_iter, minimum=1)

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve takes in addition to the cost: four float64 matrices, measured."""
        return 32 * shape[0] * shape[1]

    def solve(
        self,
        cost: Cost | ArrayLike,
        source_weights: ArrayLike | None = None,
        target_weights: ArrayLike | None = None,
    ) -> EntropicCoupling:
        """Find the plan; see :meth:`Sinkhorn.solve`."""
        import ot

        cost = cost if isinstance(cost, Cost) else Cost.from_matrix(cost)
        n, m = cost.shape
        p, q = (
            as_weights(source_weights, n, "source_weights"),
            as_weights(target_weights, m, "target_weights"),
        )
        if (p == 0).any() or (q == 0).any():
            raise InputError("Greenkhorn needs every weight to be positive; leave elements without mass out.")
        runtime.progress("transport", 0, 0)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # POT warns; the marginal error is measured instead
            matrix = cost.block(0, n).astype(np.float64) / cost.scale
            # POT stops on the worst single row or column; ours is the sum over all of them
            stop = self.tol / (n + m)
            _, log = ot.bregman.greenkhorn(p, q, matrix, self.reg, numItermax=self.max_iter, stopThr=stop, log=True)
            f, g = (self.reg * cost.scale * np.log(log[name]) for name in ("u", "v"))
        coupling = EntropicCoupling(
            cost=cost,
            source_weights=p,
            target_weights=q,
            tol=self.tol,
            iterations=int(log["n_iter"]) + 1,  # POT counts from 0
            reg=self.reg,
            source_potential=np.nan_to_num(f, nan=0.0, posinf=0.0, neginf=-1e3 * cost.scale),
            target_potential=np.nan_to_num(g, nan=0.0, posinf=0.0, neginf=-1e3 * cost.scale),
        )
        return coupling.checked()
