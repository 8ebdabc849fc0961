"""Standard output and standard error that outlive a full device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class Stream:
    """A text stream that remembers the error of a full device, so that the work goes on and its run is kept.

    A broken pipe is raised once, since whoever read has enough.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.failed = stream, False
        if hasattr(stream, "reconfigure"):  # file names may hold what the terminal cannot print
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write what can be written."""
        with self._remembered():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with self._remembered():
            self.stream.flush()

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())  # for what is still in a buffer
            if isinstance(error, BrokenPipeError):
                raise
            self.failed = True


def guard_streams() -> Stream:
    """Put a :class:`Stream` in the place of both; return that of standard output. Closed ones lead nowhere."""
    streams = (sys.stdout, sys.stderr)
    output, errors = (Stream(stream or open(os.devnull, "w")) for stream in streams)  # noqa: SIM115 (open to the end)
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, errors)
    return output
