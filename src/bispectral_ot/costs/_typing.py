from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.float32] | NDArray[np.uint16]


class Pairs(NamedTuple):
    """Pairs of a row of the source and a row of the target, and the factors that these are multiplied by; (k,) each."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    row_scales: NDArray[np.float64]
    column_scales: NDArray[np.float64]
