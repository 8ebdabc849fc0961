"""The images themselves, as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.invariants.base import BatchTransformer, columns_table


class Pixels(BatchTransformer):
    """The pixels of each image as one float32 row, in the order of the array: no invariance.

    Rows of any length are taken as they are. ``index_map_`` has the fields row, column, channel for images
    and column for rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.invariants import Pixels
    >>> Pixels().fit_transform(np.arange(8).reshape(2, 2, 2))
    array([[0., 1., 2., 3.],
           [4., 5., 6., 7.]], dtype=float32)
    """

    symmetries = ("none",)

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        return (n_columns,)

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        names = ("column",) if len(self.image_shape_) == 1 else ("row", "column", "channel")
        position = np.indices((*self.image_shape_, 1)[: len(names)])
        index_map = columns_table(**dict(zip(names, position, strict=True)))
        return index_map, np.ones(len(index_map), dtype=np.float32)

    def _scratch_per_row(self) -> int:
        return 4 * self.n_features_in_

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        with np.errstate(over="ignore"):
            out[:] = rows
        if not np.isfinite(out).all():
            raise InputError("pixel values are beyond the range of float32; scale the images first.")
        return 0
