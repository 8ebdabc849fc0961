"""Engines run row-block work: here on the cores of this machine."""

from bispectral_ot.engines.threads import core_count, one_blas_thread, run_blocks, split_rows

__all__ = ["core_count", "one_blas_thread", "run_blocks", "split_rows"]
