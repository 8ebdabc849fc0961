"""Report: results in, tables and figures out."""
