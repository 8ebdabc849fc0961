"""Engines run row-block work: here on the cores of this machine."""

from bispectral_ot.engines.threads import core_count, run_blocks, split_rows

__all__ = ["core_count", "run_blocks", "split_rows"]
