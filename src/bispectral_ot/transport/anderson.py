"""Anderson acceleration of a fixed-point iteration x <- F(x)."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

# Largest extrapolation beyond the plain step, as an exponent of 2. Where costs are tied, residuals hardly change from
# step to step, and without a bound the extrapolation leaps so far that the plan never comes back.
_TRUST = 16.0


class Anderson:
    """Extrapolate from the last few steps of a fixed-point iteration.

    Keeps ``memory`` differences of residuals ``r = F(x) - x`` and of images ``F(x)`` and returns
    ``F(x) - dF t`` with ``t = argmin |r - dR t|^2`` (slightly regularised, since the differences soon point the same
    way, and bounded). On Sinkhorn's iteration this needs a fifth of the passes of plain steps (docs/performance.md).
    """

    def __init__(self, memory: int = 8) -> None:
        self._images: deque[NDArray[np.float64]] = deque(maxlen=memory)
        self._residuals: deque[NDArray[np.float64]] = deque(maxlen=memory)
        self._last: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._pause, self._plain_steps = 1, 0

    def reset(self) -> None:
        """Forget all earlier steps and go on with plain ones, twice as many each time, so that no cycle lasts."""
        if self._plain_steps == 0:
            self._pause *= 2
            self._plain_steps = self._pause
        self._images.clear()
        self._residuals.clear()
        self._last = None

    def next(self, x: NDArray[np.float64], image: NDArray[np.float64]) -> NDArray[np.float64]:
        """The next point to evaluate, given ``image = F(x)``; arrays of any one shape."""
        residual = image - x
        if self._last is not None:
            self._images.append(image - self._last[0])
            self._residuals.append(residual - self._last[1])
        self._last = image, residual
        if self._plain_steps > 0:
            self._plain_steps -= 1
            return image
        if not self._residuals:
            return image
        differences = np.stack(self._residuals).reshape(len(self._residuals), -1)
        gram = differences @ differences.T
        gram[np.diag_indices_from(gram)] += 1e-8 * np.trace(gram) + np.finfo(float).tiny
        mix = np.linalg.solve(gram, differences @ residual.ravel())
        move = np.tensordot(mix, np.stack(self._images), axes=1)
        if not np.isfinite(move).all():
            return image
        bounded: NDArray[np.float64] = image - move * (_TRUST / max(float(np.abs(move).max()), _TRUST))
        return bounded
