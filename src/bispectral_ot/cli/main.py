"""Commands of the program, and the exit code of each error."""

import errno
import gc
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from bispectral_ot._version import __version__
from bispectral_ot.cli import INTERRUPTED, kept, received
from bispectral_ot.cli.command import Group, add_command
from bispectral_ot.cli.compare_commands import compare, monitor
from bispectral_ot.cli.console import complain
from bispectral_ot.cli.inspect_commands import datasets, info, report
from bispectral_ot.cli.match_commands import demo, match, predict, upright
from bispectral_ot.errors import InputError, RunKeptError

KEPT_ELSEWHERE, BAD_INPUT, BUG = 1, 2, 3
# Messages of the system's loader and of Python when memory is too small for a library or a thread.
_NO_ROOM = ("failed to map segment", "cannot allocate memory", "can't start new thread")


class Program(Group):
    """All commands. Every error is one line on standard error, and JSON with ``--json``, and an exit code."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **options: Any) -> Any:
        """Run a command and exit."""
        words = list(sys.argv[1:] if args is None else args)
        options["standalone_mode"] = False
        if self.name == "bispectral-ot":
            options["prog_name"] = self.name
        more: dict[str, str] = {}
        try:
            try:
                os.getcwd()
            except OSError:  # it was deleted
                raise InputError("the current folder was deleted; change to another folder.") from None
            code, message = super().main(words, **options), ""
        except SystemExit as stop:
            code, message = stop.code, ""
        except typer.TyperException as error:
            context, said = getattr(error, "ctx", None), " ".join(str(error.format_message()).split())
            said = "no command was given" if type(error).__name__ == "NoArgsIsHelpError" else said
            message = f"{said.rstrip('.')}. See {context.command_path} --help." if context else said
            code = error.exit_code
        except RunKeptError as error:
            code, message, more = KEPT_ELSEWHERE, str(error), {"run": str(error.folder)}
        except Exception as error:
            code, message = BAD_INPUT, explain(error)
            if not message and not received:
                traceback.print_exc()
                code, message = BUG, "this is a bug in bispectral-ot; please report it with the traceback."
        if received:
            code, word = received[0], "interrupted" if received[0] == INTERRUPTED else "terminated"
            message = f"{word}; {(*kept, 'no output was written')[0]}."
        if message:
            complain("error", message)
            if "--json" in words:
                with suppress(OSError):
                    typer.echo(json.dumps({"error": message, "exit_code": code, **more}))
        sys.exit(code or 0)


def explain(error: Exception) -> str:
    """Message for an error that the user can do something about; empty for a bug."""
    if isinstance(error, InputError):
        return str(error)
    if any(words in str(error).lower() for words in _NO_ROOM):
        return "not enough memory to load the libraries; raise the limit of this shell (ulimit -v), or free memory."
    if isinstance(error, MemoryError):
        return "out of memory; set a smaller --working-memory, or use --pca or fewer images."
    if not isinstance(error, OSError):
        return ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk of --out or of the temporary folder (TMPDIR) is full, and no output was written; free space."
    return f"{error.filename or 'a file'}: {error.strerror or error}."


_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="bispectral-ot", cls=Program, no_args_is_help=True, pretty_exceptions_enable=False, context_settings=_HELP
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bispectral-ot {__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")


@app.callback()
def program(version: Annotated[bool, _VERSION] = False) -> None:
    """Match and compare datasets up to a symmetry, by optimal transport between bispectra.

    Example: bispectral-ot demo --out runs/demo

    Exit codes: 0 success; 1 not converged (results are still written), or
    saved under another name because --out was taken during the run; 2 invalid
    input; 3 a bug; 4 an alarm of monitor; 130 Ctrl-C; 143 SIGTERM.
    """


for each in (match, predict, compare, monitor, upright, demo, report, info):
    add_command(app, each)
app.add_typer(datasets, name="datasets")


def run() -> None:
    """Run the command given on the command line."""
    # show exceptions that Python drops, except those of signals, which are sent again
    sys.unraisablehook = lambda dropped: None if received else sys.__unraisablehook__(dropped)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns about read-only home directories
    gc.set_threshold(100_000, 50)  # the default spends a sixth of compilation on looking for garbage
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open to the end)
        getattr(sys, name).reconfigure(errors="backslashreplace")  # file names need not be text
    app()
