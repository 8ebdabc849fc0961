"""A second process that works while this one does."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bispectral_ot.engines.engine import core_count

Call = Callable[[], Any]


@contextmanager
def aside(*modules: str) -> Iterator[Callable[..., Call]]:
    """Start a process that loads some modules; gives ``begin(function, *given)``, whose result waits for the answer.

    One function, at module level, can be called. With one core, or where the process fails, it is called in this one.
    """
    here, there = multiprocessing.Pipe()
    # not forked: threads of this process may hold locks
    process = multiprocessing.get_context("spawn").Process(target=_answer, args=(there, modules), daemon=True)
    if started := core_count() > 1:
        process.start()
    there.close()

    def begin(function: Callable[..., Any], *given: Any) -> Call:
        def result() -> Any:
            with suppress(EOFError, OSError):
                found, error = here.recv()
                if error is not None:
                    raise error
                return found
            return function(*given)

        with suppress(OSError):
            here.send((function, given))
        return result

    try:
        yield begin
    finally:
        here.close()
        if started:
            process.terminate()
            process.join()


def _answer(connection: Any, modules: tuple[str, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to both; the first ends this one
    for module in modules:
        importlib.import_module(module)
    function, given = connection.recv()
    try:
        connection.send((function(*given), None))
    except Exception as error:
        connection.send((None, error))
