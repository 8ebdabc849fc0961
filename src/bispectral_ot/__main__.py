"""The program ``bispectral-ot``, also as ``python -m bispectral_ot``."""

from bispectral_ot.cli import run

if __name__ == "__main__":
    run()
