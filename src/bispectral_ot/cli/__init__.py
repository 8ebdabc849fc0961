"""The program ``bispectral-ot``: one file per verb."""

from __future__ import annotations

import sys


def run() -> None:
    """Entry point of the program."""
    try:
        from bispectral_ot.cli import main
    except KeyboardInterrupt:  # during the imports, before anybody handles it
        sys.exit(130)
    except (MemoryError, OSError) as error:
        sys.exit(f"error: the program cannot be loaded ({error or 'not enough memory'}).")
    main.run()
