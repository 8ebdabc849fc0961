"""Engines place blocks of rows and map pure functions over them: here on the cores of this machine."""

from bispectral_ot.engines.engine import (
    Block,
    Engine,
    Threads,
    core_count,
    fill_rows,
    gram,
    joined,
    product,
    row_blocks,
    side_by_side,
)
from bispectral_ot.runtime import one_blas_thread

__all__ = ["Block", "Engine", "Threads", "core_count", "fill_rows", "gram", "joined", "one_blas_thread", "product"]
__all__ += ["row_blocks", "side_by_side"]
