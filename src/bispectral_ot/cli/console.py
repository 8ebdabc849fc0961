"""Output of the program: results on standard output; progress, warnings and errors on standard error."""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bispectral_ot import runtime
from bispectral_ot.checks import printable
from bispectral_ot.errors import DataWarning, InputError, NotConvergedWarning

STAGE = "stage: "  # prefix of the line of a stage if there is no terminal
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def say(text: object) -> None:
    """Print a line of results without wrapping, so that paths can be copied."""
    output.print(Text(printable(text)), soft_wrap=True)


def count_of(number: int, noun: str, nouns: str = "") -> str:
    """Number and noun: ``"1 image"``, ``"2,000 images"``."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def print_json(data: Any) -> None:
    """Print JSON on standard output."""
    from bispectral_ot.files import to_json  # which loads NumPy

    print(to_json(data))


@contextmanager
def printing() -> Iterator[None]:
    """Raise an :class:`InputError` if the block cannot write to standard output, such as on a full device."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        _forget(sys.stdout)
        raise InputError("cannot write to standard output (is the device full?); the run is complete.") from None


def _forget(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(line: Text) -> None:
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    try:
        with bars.external_write_mode(file=sys.stderr) if bars else nullcontext():
            errors.print(line, soft_wrap=True)
    except OSError:  # continue if the device is full
        _forget(sys.stderr)


def complain(kind: str, message: str) -> None:
    """Print ``kind: message`` on standard error, in one line."""
    style = "bold red" if kind == "error" else "bold yellow"
    _print_error(Text.assemble((f"{kind}: ", style), printable(message)))


def print_facts(facts: Mapping[str, object], styles: Mapping[str, str] | None = None) -> None:
    """Print names and values in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(printable(name), Text(printable(value)), style=(styles or {}).get(name, ""))
    output.print(table)


def print_table(header: Sequence[str], rows: Iterable[Any], *, left: Sequence[str], bold: int = -1) -> None:
    """Print a table; the columns ``left`` are aligned to the left, the row ``bold`` is emphasized."""
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for title in header:
        table.add_column(title, justify="left" if title in left else "right", overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*(Text(printable(cell)) for cell in row), style="bold green" if number == bold else "")
    output.print(table)


@contextmanager
def shown_warnings() -> Iterator[list[str]]:
    """Show the library's warnings once each, in one line, and no others; yields their list."""
    shown: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.append(str(message))
            complain("warning", str(message))

    with warnings.catch_warnings(action="ignore"):
        for category in (DataWarning, NotConvergedWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield shown


@contextmanager
def progress_bars(*, quiet: bool = False) -> Iterator[list[str]]:
    """Draw a bar per stage, or print a line per stage without a terminal; yields the list of messages of the run."""
    begun: set[str] = set()
    messages: list[str] = []

    def print_stage(stage: str, done: int, total: int) -> None:
        if stage not in begun:
            begun.add(stage)
            _print_error(Text(f"{STAGE}{printable(stage)}{f' ({total:,})' if total > 1 else ''}"))

    def inform(text: str) -> None:
        messages.append(text)
        if not quiet:
            _print_error(Text(printable(text)))

    with ExitStack() as stack:
        shown: runtime.Progress | None = None if quiet else print_stage
        if errors.is_terminal and not quiet:
            shown = stack.enter_context(runtime.ProgressBar(leave=False))
        stack.enter_context(runtime.running(progress=shown, message=inform))
        yield messages
