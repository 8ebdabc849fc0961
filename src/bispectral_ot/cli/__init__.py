"""Command-line program ``bispectral-ot``; each file contains related commands."""

import os
import signal
import sys
import threading
import time
from types import FrameType

STARTED = time.perf_counter()
INTERRUPTED, TERMINATED = 130, 143
# Exit codes of received signals; compiled code may replace the exception of a signal by another one.
received: list[int] = []
kept: list[str] = []  # output of an interrupted command
_PATIENCE = 3.0  # seconds until a signal whose exception was swallowed, as in a destructor, is sent again


def _stop(number: int, frame: FrameType | None) -> None:
    received.append(128 + number)
    again = threading.Timer(_PATIENCE, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(TERMINATED)


def run() -> None:
    """Entry point of the program."""
    try:
        # shells start background jobs with SIGINT ignored; handle it nevertheless
        signal.signal(signal.SIGINT, _stop)
        signal.signal(signal.SIGTERM, _stop)
        from bispectral_ot.cli import main

        main.run()
    except KeyboardInterrupt:  # while modules are loaded or unloaded
        sys.exit(INTERRUPTED)
    except (MemoryError, OSError, ImportError) as error:
        sys.exit(received[0] if received else f"error: the program cannot be loaded ({error or 'no memory'}).")
