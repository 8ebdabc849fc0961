"""Command line of the studies: ``python -m studies NAME``."""

from studies.commands import app

if __name__ == "__main__":
    app(prog_name="python -m studies")
