"""The program ``bispectral-ot``: one file per verb."""

from __future__ import annotations

import sys


def run() -> None:
    """Entry point of the program."""
    try:
        from bispectral_ot.cli import main

        main.run()
    except KeyboardInterrupt:  # during the imports, before anybody handles it
        sys.exit(130)
