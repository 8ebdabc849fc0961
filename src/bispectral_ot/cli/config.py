"""The option ``--config``: the options of an earlier run, taken from its run.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bispectral_ot._version import __version__
from bispectral_ot.checks import advise
from bispectral_ot.cli.console import complain
from bispectral_ot.errors import InputError

# What belongs to one call, and not to what it computes.
_OF_THE_CALL = ("verb", "out", "overwrite", "as_json", "quiet", "dry_run")


def _take(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options of a run the defaults of this one; words on the command line go before them."""
    if path is not None and not context.resilient_parsing:
        known = {parameter.name for parameter in context.command.params}
        context.default_map = read_options(path, str(context.info_name), known)
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="RUN.JSON",
        callback=_take,
        is_eager=True,
        help="Take sets and options from an earlier run, and repeat it; options that are given go before.",
        rich_help_panel="Output",
    ),
]


def read_options(path: Path, verb: str, known: set[str]) -> dict[str, Any]:
    """The options in a ``run.json`` (or in the folder of a run) of the same verb."""
    path = path / "run.json" if path.is_dir() else path
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        config, version = dict(record["config"]), record.get("bispectral_ot")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path} is no run.json of this program: it has no 'config'.") from None
    if config.get("verb") != verb:
        raise InputError(f"{path} is of {config.get('verb')!r}, not of {verb!r}; repeat it with that verb.")
    options = {name: value for name, value in config.items() if name not in _OF_THE_CALL and value is not None}
    for name, value in options.items():
        if name not in known:
            raise InputError(f"{path} has the option {name!r}, which is unknown here; {advise(name, known)}")
        if not isinstance(value, (str, int, float, list)) or (name != "sets" and isinstance(value, list)):
            raise InputError(f"{path}: the option {name!r} is {value!r}; expected a word or a number.")
    if version != __version__:
        complain("warning", f"{path} was written by version {version}, this is {__version__}: results may differ.")
    return options
