"""Report: results in, tables and figures out."""

from bispectral_ot.report.run_folder import Run, open_run

__all__ = ["Run", "open_run"]
