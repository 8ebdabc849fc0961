"""Transformers whose row blocks are matrix products."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from bispectral_ot.invariants.base import BatchTransformer
from bispectral_ot.progress import Progress, silent


class BlasTransformer(BatchTransformer):
    """A batch transformer that keeps BLAS to one thread: the cores are already busy with one block each.

    Threads of BLAS beside those of the blocks wait for each other busily: many times slower on a shared machine.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the size of a signal, as :meth:`~bispectral_ot.invariants.base.BatchTransformer.fit` says."""
        with threadpool_limits(limits=1, user_api="blas"):
            return super().fit(X, y)

    def transform(
        self, X: Any, *, out: NDArray[np.float32] | None = None, progress: Progress = silent
    ) -> NDArray[np.float32]:
        """Compute the features, as :meth:`~bispectral_ot.invariants.base.BatchTransformer.transform` says."""
        with threadpool_limits(limits=1, user_api="blas"):
            return super().transform(X, out=out, progress=progress)
