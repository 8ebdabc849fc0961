"""Execution context of a call (progress callback, memory budget and engine), and progress bars.

Public functions set it once with :func:`running`, functions below read it with :func:`current`. It belongs to the
thread that set it: block functions take what they need as arguments.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bispectral_ot.memory import parse_bytes

if TYPE_CHECKING:
    from bispectral_ot.engines import Engine

# Called as ``progress(stage, done, total)``; ``total`` is 0 if unknown.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Runtime:
    """Progress and messages, memory budget in bytes (None: 70 % of the free memory), and engine (None: threads)."""

    progress: Progress = lambda stage, done, total: None
    message: Callable[[str], object] = str
    memory: int | None = None
    engine: "Engine | None" = None


_current: ContextVar[Runtime] = ContextVar("bispectral_ot_runtime", default=Runtime())  # noqa: B039 (frozen)
current = _current.get  # the execution context of the running call: ``current()``
_blas_lock = threading.Lock()
_blas_users = 0
_blas_limits: Any = None
# The search for libraries takes milliseconds: it is repeated only after modules were imported.
_blas_found: tuple[int, Any] = (0, None)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of overlapping contexts ends: digits do not depend on the cores."""
    global _blas_users, _blas_limits, _blas_found
    from threadpoolctl import ThreadpoolController

    with _blas_lock:
        if _blas_users == 0:
            if _blas_found[0] != len(sys.modules):
                _blas_found = len(sys.modules), ThreadpoolController()
            _blas_limits = _blas_found[1].limit(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limits.restore_original_limits()


@contextmanager
def running(
    *,
    progress: Progress | None = None,
    message: Callable[[str], object] | None = None,
    memory: str | int | float | None = None,
    engine: Any = None,
) -> Iterator[Runtime]:
    """Change the execution context within a block, with BLAS at one thread; None leaves a part unchanged."""
    size = None if memory is None else parse_bytes(memory)
    changes = {"progress": progress, "message": message, "memory": size, "engine": engine}
    context = replace(current(), **{name: value for name, value in changes.items() if value is not None})
    token = _current.set(context)
    try:
        with one_blas_thread():
            yield context
    finally:
        _current.reset(token)


def progress(stage: str, done: int, total: int) -> None:
    """Report that ``done`` of ``total`` units (0: unknown) of ``stage`` are finished; work without a name is not."""
    if stage:
        current().progress(stage, done, total)


def message(text: str) -> None:
    """Report one line about the run."""
    current().message(text)


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Progress bar for each stage, drawn by tqdm; with ``leave`` the bars of finished stages stay visible.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bot.match(source, target, progress=bot.ProgressBar()).converged
    True
    """

    def __init__(self, *, leave: bool = True) -> None:
        self._leave = leave
        self._bars: dict[str, Any] = {}
        self._finished: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Draw the bar of a stage; one that begins again, for the other side, gets a new bar."""
        finished = done >= total > 0
        if stage not in self._bars:
            if finished and stage in self._finished:
                return
            with warnings.catch_warnings(action="ignore"):  # about missing ipywidgets: the bar is then text
                from tqdm.auto import tqdm
            self._bars[stage] = tqdm(desc=stage, total=total or None, leave=self._leave)
        bar = self._bars[stage]
        bar.total = total or None
        bar.update(max(0, done - bar.n))
        if finished:
            self._finished.add(stage)
            self._bars.pop(stage).close()
        else:
            self._finished.discard(stage)

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
