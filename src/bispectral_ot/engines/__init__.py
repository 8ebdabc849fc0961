"""Engines place blocks of rows and map pure functions over them: here on the cores of this machine."""

from bispectral_ot.engines.engine import Block, Engine, Reduced, row_blocks
from bispectral_ot.engines.threads import Threads, core_count, one_blas_thread, run_blocks, split_rows

__all__ = [
    "Block",
    "Engine",
    "Reduced",
    "Threads",
    "core_count",
    "one_blas_thread",
    "row_blocks",
    "run_blocks",
    "split_rows",
]
