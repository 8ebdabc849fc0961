"""Pixels and vectors as they are, as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, unit_weights


class Pixels(BatchTransformer):
    """The pixels of each image, or any numbers, as one float32 row: no invariance.

    ``index_map_`` has the fields row, column, channel for images and column for rows.
    """

    symmetries = ("none",)

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        return (n_columns,)

    def _prepare(self) -> Columns:
        names = ("column",) if len(self.image_shape_) == 1 else ("row", "column", "channel")
        position = np.indices((*self.image_shape_, 1)[: len(names)])
        return unit_weights(columns_table(**dict(zip(names, position, strict=True))))

    def _scratch_per_row(self) -> int:
        return 4 * self.n_features_in_

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        with np.errstate(over="ignore"):
            out[:] = rows
        if not np.isfinite(out).all():
            raise InputError("pixel values are beyond the range of float32; scale the images first.")
        return 0


class Vectors(Pixels):
    """Vectors of a :class:`~bispectral_ot.Dataset`, such as embeddings, as they are."""

    default_metric = "sqeuclidean"
    _accepts_images = False

    def _fit(self, rows: NDArray[Any]) -> None:
        super()._fit(rows)
        constant = int((np.ptp(rows, axis=0) == 0).sum())
        if constant and len(rows) > 1:
            warn(
                f"{constant} of the {rows.shape[1]} columns of the vectors are constant and carry nothing.", DataWarning
            )
