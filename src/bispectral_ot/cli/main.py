"""The program: its verbs, and the exit code that each error becomes."""

from __future__ import annotations

import errno
import json
import logging
import re
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bispectral_ot._version import __version__
from bispectral_ot.checks import advise
from bispectral_ot.cli import datasets, study
from bispectral_ot.cli.compare import compare
from bispectral_ot.cli.console import complain
from bispectral_ot.cli.demo import demo
from bispectral_ot.cli.help import tidy
from bispectral_ot.cli.info import info
from bispectral_ot.cli.match import match
from bispectral_ot.cli.predict import predict
from bispectral_ot.cli.report import report
from bispectral_ot.cli.streams import guard_streams
from bispectral_ot.cli.upright import upright
from bispectral_ot.errors import InputError, RunKeptError
from bispectral_ot.memory import format_bytes

KEPT_ELSEWHERE, BAD_INPUT, BUG, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# What the system's loader and Python say where a library or a thread does not fit into memory.
_NO_ROOM = ("failed to map segment", "cannot allocate memory", "can't start new thread")

_LEAST_ADDRESS_SPACE = 10**9


class Program(TyperGroup):
    """The group of all verbs; turns the errors a user can do something about into one line and a code.

    With ``--json`` the error is on standard output as well: ``{"error": ..., "exit_code": ...}``.
    """

    as_json = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        tidy(self)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run the program."""
        words = sys.argv[1:] if args is None else list(args)
        self.as_json = "--json" in words
        return super().main(words, *rest, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the verb."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            self.stop(error.exit_code, usage_message(error))
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            if not {"-h", "--help"} & set(sys.argv):
                check_address_space()
            return super().invoke(ctx)
        except typer.TyperException as error:  # a word that is no option, and the like
            self.stop(error.exit_code, usage_message(error))
        except InputError as error:
            self.stop(BAD_INPUT, str(error))
        except RunKeptError as error:
            self.stop(KEPT_ELSEWHERE, str(error), run=str(error.folder))
        except KeyboardInterrupt:
            self.stop(INTERRUPTED, "interrupted; nothing half-written was left behind.")
        except SystemExit as stop:
            if stop.code == TERMINATED:
                self.stop(TERMINATED, "terminated, so no run was kept (a study keeps the cells that were finished).")
            raise
        except BrokenPipeError:
            raise
        except (MemoryError, ImportError, RuntimeError, OSError) as error:
            message = explain(error)
            if message is None:
                raise
            self.stop(BAD_INPUT, message)

    def stop(self, code: int, message: str, **more: str) -> None:
        """Print an error and leave."""
        complain("error", message)
        self.print_json(code, message, **more)
        raise typer.Exit(code) from None

    def print_json(self, code: int, message: str, **more: str) -> None:
        """Print an error on standard output, where ``--json`` was asked for."""
        if self.as_json:
            typer.echo(json.dumps({"error": message, "exit_code": code, **more}))


def usage_message(error: Any) -> str:
    """What is wrong with the command line, in one line, with the nearest of the words that would do."""
    message = " ".join(str(error.format_message()).replace("Value error, ", "").split())
    found = re.match(r"(.*): '([^']*)' is not one of (.*)\.$", message)
    if found:
        known = re.findall("'([^']*)'", found[3])
        message = f"{found[1]}: {found[2]!r} is unknown; {advise(found[2], known)}"
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message.rstrip('.')}. See {context.command_path} --help."


def check_address_space() -> None:
    """Refuse a limit below which OpenBLAS and LLVM end the process while they are loaded, each in its own way."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < _LEAST_ADDRESS_SPACE:
        raise InputError(
            f"this shell limits the address space to {format_bytes(limit)}, too little to load the libraries; "
            f"allow at least {format_bytes(_LEAST_ADDRESS_SPACE)} (ulimit -v), or no limit."
        )


def explain(error: Exception) -> str | None:
    """What the user can do about an error of the system; None where the program is to blame."""
    text = str(error).lower()
    importing = any("importlib" in frame.filename for frame in traceback.extract_tb(error.__traceback__))
    if any(words in text for words in _NO_ROOM) or (importing and isinstance(error, MemoryError)):
        return (
            "not enough memory to load the libraries; raise the limit of this shell (ulimit -v), or free some memory."
        )
    if isinstance(error, MemoryError):
        return "out of memory; allow less with --working-memory, or use --pca or fewer images."
    if not isinstance(error, OSError):
        return None
    if error.errno in _DISK_FULL:
        return (
            "the disk is full (that of --out, or of the temporary folder, which TMPDIR names), so nothing was kept; "
            "free some space, or use another one."
        )
    return f"{error.filename or 'a file'}: {error.strerror or error}."


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

    Exit codes: 0 done; 1 not converged (results are written and say so), or
    kept under another name because --out was taken meanwhile; 2 bad input;
    3 a bug; 130 Ctrl-C; 143 SIGTERM.
    """


app.command()(match)
app.command()(predict)
app.command()(compare)
app.command()(upright)
app.command()(demo)
app.command()(report)
app.command()(info)
app.add_typer(datasets.app, name="datasets")
app.add_typer(study.app, name="study")


def run() -> None:
    """Run the verb that the command line names."""
    # A request to end, as a batch system sends it, cleans up like Ctrl-C does.
    for sign, stop in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit(TERMINATED))):
        signal.signal(sign, _stopper(stop))
    sys.unraisablehook = _come_again
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of every home that it cannot write to
    output = guard_streams()
    try:
        app()
    except SystemExit:
        output.flush()
        if output.failed:
            complain("error", "cannot write to standard output (a full device?); a finished run is where --out put it.")
            sys.exit(BAD_INPUT)
        raise
    except Exception as error:
        code, message = BAD_INPUT, explain(error)
        if message is None:
            code, message = BUG, "this is a bug in bispectral-ot; please report it with the traceback."
            traceback.print_exc()
        complain("error", message)
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": message, "exit_code": code}))
        sys.exit(code)


def _stopper(stop: BaseException | type[BaseException]) -> Callable[..., None]:
    def handle(*_: object) -> None:
        raise stop

    return handle


def _come_again(dropped: Any) -> None:
    """Report what Python drops; a request to stop is sent again.

    Python drops what is raised in a destructor or in a callback from compiled code, and every import runs some.
    """
    sign = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}.get(dropped.exc_type)
    if sign is None:
        sys.__unraisablehook__(dropped)
        return
    main = threading.main_thread().ident
    if main is not None:
        threading.Timer(0.1, signal.pthread_kill, (main, sign)).start()
