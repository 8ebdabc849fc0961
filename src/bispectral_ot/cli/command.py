"""Commands from functions whose options are dataclasses: signature, help texts, ``--config`` and errors."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from bispectral_ot._version import __version__
from bispectral_ot.checks import advise, user_path
from bispectral_ot.cli.console import complain
from bispectral_ot.errors import InputError
from bispectral_ot.options import COMPARISON, IMAGES, MEMORY, OUTPUT, SOLVER, TESTS, Option, Options

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_PANELS = ("", COMPARISON, TESTS, SOLVER, IMAGES, MEMORY, OUTPUT)
_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH", bool: None}
OUT_HELP = "Output folder; created only if the run succeeds."
NewRun = Annotated[Path, typer.Option(metavar="RUN", help=OUT_HELP)]


class _Tidy:
    """Help that fits into 80 columns: paragraphs are wrapped to the terminal, flags have no type."""

    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if getattr(each, "is_bool_flag", False) or getattr(each, "is_flag", False):
                each.metavar = ""
            elif isinstance(each, TyperArgument):
                each.display_type_rich = lambda **_: None  # type: ignore[method-assign]
        return parameters


class Command(_Tidy, TyperCommand):
    """A command."""


class Group(_Tidy, TyperGroup):
    """A group of commands."""


def add_command(app: typer.Typer, function: Callable[..., None]) -> None:
    """Add a function as a command; parameters that are :class:`Options` become one option for each of their fields."""
    signature = inspect.signature(function, eval_str=True).parameters
    types = {name: each.annotation for name, each in signature.items() if inspect.isclass(each.annotation)}
    kinds: dict[str, type[Options]] = {name: kind for name, kind in types.items() if issubclass(kind, Options)}
    if not kinds:
        app.command(cls=Command)(function)
        return
    fields = {field.name: field for kind in reversed(kinds.values()) for field in kind.fields() if field.cli}

    @functools.wraps(function)
    def call(config_file: Path | None = None, **values: Any) -> None:
        # shells do not expand the ~ in --out=~/run
        values = {name: user_path(value) if isinstance(value, Path) else value for name, value in values.items()}
        made: dict[str, Any] = {name: values[name] for name in values if name not in fields}
        try:
            for name, kind in kinds.items():
                made[name] = kind(**{each.name: values[each.name] for each in kind.fields() if each.name in values})
        except InputError as error:  # names the option as the command line does
            first, _, rest = str(error).partition(" ")
            raise InputError(f"--{first.replace('_', '-')} {rest}" if first in fields else str(error)) from None
        function(**made)

    parameters = [each.replace(kind=_KEYWORD) for name, each in signature.items() if name not in kinds]
    parameters += map(_parameter, sorted(fields.values(), key=lambda field: _PANELS.index(field.panel)))
    if "out" in signature:
        parameters.append(inspect.Parameter("config_file", _KEYWORD, default=None, annotation=_CONFIG))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__options__ = tuple(kinds.values())  # type: ignore[attr-defined]
    app.command(cls=Command)(call)


def _parameter(field: Option) -> inspect.Parameter:
    """Parameter for an option of typer; choices are passed as text and checked by the options."""
    kind: Any = str if field.choices else next(each for each in field.kinds if each is not type(None))
    metavar, text, joined = _METAVARS[kind], field.help, "|".join(field.choices)
    if field.choices:
        metavar = joined if len(joined) <= 16 else "NAME"  # width of the column beside the option names
        text = text if metavar == joined else f"{text} One of {', '.join(field.choices)}."
    flag = f"--{field.name.replace('_', '-')}"
    made: Any = typer.Option(
        *(field.flag or (f"{flag}/--no-{flag[2:]}" if field.default is True else flag,)),
        help=text,
        metavar=metavar,
        rich_help_panel=field.panel,
        show_default=field.shown or (field.default is not None and kind is not bool),
        autocompletion=(lambda: field.choices) if field.choices else None,
    )
    annotation: Any = Annotated[kind if field.default is not None else kind | None, made]
    return inspect.Parameter(field.name, _KEYWORD, default=field.default, annotation=annotation)


def _take_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make datasets and options of an earlier run the defaults of this one; the command line takes precedence."""
    if path is None or context.resilient_parsing:
        return path
    from bispectral_ot.files import read_json  # which loads NumPy

    file, verb = path / "run.json" if path.is_dir() else path, str(context.info_name)
    record = read_json(file)
    config = record.get("config")
    if not isinstance(config, dict):
        raise InputError(f"{file} has no 'config'; give the run.json of an earlier run.")
    if (found := config.pop("verb", None)) != verb:
        raise InputError(f"{file} is a run of {found!r}, not of {verb!r}; use the command {found}.")
    taken = {name: value for name, value in config.items() if name != "out" and value is not None}
    kinds = getattr(context.command.callback, "__options__", ())
    owners = {field.name: kind for kind in kinds for field in kind.fields()}
    words = {str(each.name) for each in context.command.params} - set(owners)
    try:
        for name, value in taken.items():
            if name in owners:
                owners[name](**{name: value})
            elif name not in words:
                raise InputError(f"unknown option {name!r}; {advise(name, sorted({*owners, *words}))}")
            elif not all(isinstance(each, str) for each in (value if isinstance(value, list) else [value])):
                raise InputError(f"{name} must be text, got {value!r}.")
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if (version := record.get("bispectral_ot")) != __version__:
        complain("warning", f"{file} was written by version {version}, this is {__version__}: results may differ.")
    context.default_map = taken
    return path


_HELP = "Take datasets and options from an earlier run; command-line options take precedence."
_CONFIG = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=_take_config, is_eager=True, metavar="RUN.JSON", help=_HELP, rich_help_panel=OUTPUT
    ),
]
