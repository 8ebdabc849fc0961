"""Pages made from the package itself: the public names, and the commands from their help texts."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import typer

from bispectral_ot.cli.main import app

# Section titles of the packages; their public names stand in __init__.pyi.
ROOMS = {
    "matching": "Match two sets",
    "comparing": "Compare sets",
    "datasets": "Read and prepare images",
    "features": "Invariant features",
    "report": "Runs",
    "costs": "Distances between features",
    "transport": "Solve the transport problem",
    "runtime": "Progress",
    "errors": "Errors and warnings",
}
# Public, but not at the top of the package: results, and features for other symmetries.
FURTHER = {
    "matching": (
        "matching.TopMatches",
        "matching.ClassProportions",
        "matching.ExpectedAccuracy",
        "matching.Shift",
        "matching.Prediction",
        "matching.Outliers",
        "matching.Predictor",
        "poses.Poses",
    ),
    "comparing": (
        *("comparing.Pair", "comparing.symmetry_tests", "comparing.SymmetryTests", "comparing.Verdict"),
        *("comparing.Monitor", "comparing.BatchResult"),
    ),
    "datasets": ("datasets.available", "datasets.rotate"),
    "features": (
        "features.BatchTransformer",
        "features.CombinedBispectrum",
        "features.LocalBispectrum",
        "features.D4Bispectrum",
        "features.ImageBispectrum",
        "features.ImageGroup",
        "features.GroupBispectrum",
        "features.PolarSpectrum",
        "features.SphereBispectrum",
        "features.ShellBispectrum",
        "features.Pixels",
        "features.Encoder",
        "features.Orbit",
        "features.Join",
        "groups.FiniteGroup",
        "groups.CyclicGroup",
        "groups.ProductGroup",
        "groups.DihedralGroup",
        "groups.OctahedralGroup",
        "groups.SymmetricGroup",
    ),
    "costs": ("costs.AlignedDistance", "costs.Distance"),
    "transport": ("transport.Coupling",),
}
PROGRAM = "bispectral-ot"


def public_names(stub: Path) -> dict[str, list[str]]:
    """Public names of each package, as ``__init__.pyi`` lists them."""
    text = stub.read_text(encoding="utf-8")
    statements = re.findall(r"from \.(\w+) import \((.*?)\)", text, re.DOTALL)
    return {room: re.findall(r"(\w+) as \1", names) for room, names in statements}


def write_reference(stub: Path, page: Path) -> None:
    """Summary of the public names by package; Sphinx makes a page of each."""
    listed = public_names(stub)
    missing = set(listed) - set(ROOMS) - {"_version"}
    if missing:
        raise ValueError(f"ROOMS in {Path(__file__).name} has no title for {sorted(missing)}")
    lines = [
        "# Reference",
        "",
        "The first table of each section lists names of the package: `import bispectral_ot as bot; bot.match()`.",
        "The second table lists results, and names to import from the module shown. All examples are tested.",
        "",
    ]
    for room, title in ROOMS.items():
        top = [f"bispectral_ot.{name}" for name in listed[room]]
        lines += [f"## {title}", "", *_summary(top)]
        if room in FURTHER:
            lines += [*_summary([f"bispectral_ot.{name}" for name in FURTHER[room]])]
    _write(page, lines)
    for stale in (page.parent / "api").glob("*.rst"):
        if f"   ~{stale.stem}" not in lines:
            stale.unlink()


def _summary(names: list[str]) -> list[str]:
    for name in names:
        _find(name)
    return [
        "```{eval-rst}",
        ".. autosummary::",
        "   :toctree: api",
        "   :nosignatures:",
        "",
        *(f"   ~{n}" for n in names),
        "```",
        "",
    ]


def _find(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def write_commands(page: Path) -> None:
    """Section for each command: its help text, and a table of its options."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# All commands and options",
        "",
        f"These are the texts of `{PROGRAM} COMMAND --help`. What all commands have in common is described in",
        "[command line](../program.md).",
        "",
    ]
    for name, command in group.commands.items():
        lines += _command(f"{PROGRAM} {name}", command)
    _write(page, lines)


def _command(path: str, command: Any, level: int = 2) -> list[str]:
    lines = ["#" * level + f" `{path}`", "", *_help(command.help or "", path)]
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            lines += _command(f"{path} {name}", each, level + 1)
        return lines
    shown = [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    arguments = [_name(each) for each in shown if each.param_type_name == "argument"]
    usage = " ".join([path, *arguments, "[OPTIONS]"] if shown else [path])
    lines += ["```sh", usage, "```", ""]
    rows = [_option(each) for each in shown]
    return [*lines, "| option | description |", "|---|---|", *rows, ""] if rows else lines


def _name(each: Any) -> str:
    if each.param_type_name == "argument":
        return str(each.metavar or each.name.upper())
    return " ".join([*each.opts, *each.secondary_opts])


def _help(text: str, path: str) -> list[str]:
    """Paragraphs; those that begin with "Example:" become one block of commands, without the bare command."""
    paragraphs = [" ".join(part.replace("\b", "").split()) for part in inspect.cleandoc(text).split("\n\n")]
    examples = [part.removeprefix("Example: ") for part in paragraphs if part.startswith("Example: ")]
    examples = [example for example in examples if example != path]
    lines = [line for part in paragraphs if not part.startswith("Example: ") for line in (_text(part), "")]
    return [*lines, "```sh", *examples, "```", ""] if examples else lines


def _option(each: Any) -> str:
    parts = [_text(" ".join((each.help or "").split()))]
    choices = [choice for choice in get_args(each.type_descriptor.annotation) if isinstance(choice, str)]
    if choices and each.metavar is None:  # long lists of choices are in the text
        parts.append("One of " + ", ".join(f"`{choice}`" for choice in choices) + ".")
    if isinstance(each.show_default, str):
        parts.append(f"Default: {_text(each.show_default)}.")
    elif each.default not in (None, False, True, (), []) and not callable(each.default):
        parts.append(f"Default: `{each.default}`.")
    if each.required:
        parts.append("Required.")
    return f"| `{_name(each)}`{{.option}} | {' '.join(part for part in parts if part)} |"


def _text(text: str) -> str:
    return re.sub(r"(?<!`)(--[\w-]+)(?![\w`-])", r"`\1`", text.replace("|", r"\|").replace("<", "&lt;"))


def _write(page: Path, lines: list[str]) -> None:
    """Write the page if it changed."""
    text = "\n".join(lines).rstrip() + "\n"
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
