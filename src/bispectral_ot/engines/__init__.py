"""Engines place blocks of rows and map pure functions over them: here on the cores of this machine."""

from bispectral_ot.engines.engine import Block, Engine, Threads, core_count, fill_rows, joined, row_blocks
from bispectral_ot.runtime import one_blas_thread

__all__ = ["Block", "Engine", "Threads", "core_count", "fill_rows", "joined", "one_blas_thread", "row_blocks"]
