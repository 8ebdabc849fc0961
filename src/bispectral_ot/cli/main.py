"""The program: its verbs, and the exit code that each error becomes."""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bispectral_ot._version import __version__
from bispectral_ot.cli import datasets, study
from bispectral_ot.cli.console import complain
from bispectral_ot.cli.demo import demo
from bispectral_ot.cli.match import match
from bispectral_ot.cli.report import report
from bispectral_ot.errors import InputError

BAD_INPUT, BUG, INTERRUPTED, TERMINATED = 2, 3, 130, 143
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Program(TyperGroup):
    """The group of all verbs; turns the errors a user can do something about into one line and a code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            _stop(BAD_INPUT, str(error))
        except KeyboardInterrupt:
            _stop(INTERRUPTED, "interrupted; nothing half-written was left behind.")
        except MemoryError:
            _stop(BAD_INPUT, "out of memory; allow less with --working-memory, or use --pca or fewer images.")
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.errno in _DISK_FULL:
                _stop(BAD_INPUT, "the disk is full, so nothing was kept; free some space or use another --out.")
            _stop(BAD_INPUT, f"{error.filename or 'a file'}: {error.strerror or error}.")


app = typer.Typer(
    name="bispectral-ot",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bispectral-ot {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """Match and compare two datasets up to a symmetry: optimal transport between bispectra.

    Example: bispectral-ot demo --out runs/demo

    Exit codes: 0 done; 1 not converged (results are written and say so);
    2 bad input; 130 Ctrl-C.
    """


app.command()(match)
app.command()(demo)
app.command()(report)
app.add_typer(datasets.app, name="datasets")
app.add_typer(study.app, name="study")


def run() -> None:
    """Run the verb that the command line names."""
    # A request to end, as a batch system sends it, cleans up like Ctrl-C does.
    for sign, stop in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit(TERMINATED))):
        signal.signal(sign, _stopper(stop))
    sys.unraisablehook = _tell_unraisable
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # file names may hold what the terminal cannot print
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except Exception:
        traceback.print_exc()
        complain("error", "this is a bug in bispectral-ot; please report it with the lines above.")
        sys.exit(BUG)
    finally:
        _ask_again(None)


def _stopper(stop: BaseException | type[BaseException]) -> Callable[..., None]:
    """A handler that raises ``stop``, and again every second until the program ends.

    Python drops what is raised in a destructor or in a callback from compiled code, and every import runs some.
    """

    def handle(*_: object) -> None:
        _ask_again(handle)
        raise stop

    return handle


def _tell_unraisable(dropped: Any) -> None:
    """Tell what Python drops, but for a wish to stop, which comes again."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt | SystemExit):
        sys.__unraisablehook__(dropped)


def _ask_again(handle: Callable[..., None] | None) -> None:
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, handle or signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 1.0 if handle else 0.0)


def _stop(code: int, message: str) -> None:
    complain("error", message)
    raise typer.Exit(code) from None
