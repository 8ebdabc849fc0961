"""Command line of the studies: ``python -m studies NAME``; options are the parameters of the study's function."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from bispectral_ot import runtime
from bispectral_ot.cli.console import progress_bars, shown_warnings
from bispectral_ot.engines.cluster import connected
from bispectral_ot.errors import InputError
from studies.preset import Preset

STUDIES = {
    "class-preservation": "class_preservation:run_class_preservation",
    "ablation": "questions:run_ablation",
    "geometry": "geometry:run_geometry",
    "distances": "geometry:run_distances",
    "symmetries": "symmetries:run_symmetries",
    "symmetry-levels": "symmetry_levels:run_symmetry_levels",
    "verdicts": "changes:run_verdicts",
    "edited-files": "edited_files:run_edited_files",
    "monitor": "changes:run_monitor",
    "poses": "poses:run_poses",
    "labels": "labels:run_labels",
    "compare": "comparison:run_comparison",
    "frames": "frames:run_frames",
    "rivals": "rivals:run_rivals",
    "encoders": "encoders:run_encoders",
}
Study = Callable[..., Any]


def main(words: Sequence[str] | None = None) -> int:
    """Run a study; returns 2 for an invalid option, 1 if a solve has not converged, else 0."""
    given = parser().parse_args(words)
    function, start = load_study(given.study), time.time()
    try:
        with (
            shown_warnings(),
            connected(given.scheduler) as engine,
            progress_bars(quiet=given.quiet),
            runtime.running(memory=given.working_memory, engine=engine),
        ):
            found = function(**values(function, given))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not given.quiet:
        tables = [path for path in sorted(given.out.glob("*.md")) if path.stat().st_mtime >= start - 1]
        print("\n".join(path.read_text(encoding="utf-8") for path in tables) + f"results in {given.out}")
    cells = found if isinstance(found, list) else []
    return int(not all(cell.get("converged", True) for cell in cells))


def parser() -> argparse.ArgumentParser:
    """Parser of all studies."""
    top = argparse.ArgumentParser("python -m studies", description="Experiments of the paper, and further ones.")
    commands = top.add_subparsers(dest="study", required=True, metavar="NAME")
    for name in STUDIES:
        function = load_study(name)
        text = inspect.getdoc(function) or ""
        command = commands.add_parser(
            name, help=text.splitlines()[0].replace("%", "%%"), description=text.partition("\nParameters\n")[0]
        )
        helps = _PRESET_TEXTS | parameter_texts(text)
        for key, kind, default in parameters(function):
            _add_option(command, key, kind, default, helps.get(key, ""))
        command.add_argument("--scheduler", help="Dask cluster: tcp://host:port, or local:N processes.")
        command.add_argument("--working-memory", help="Budget for features and distances, such as 12GB.")
        command.add_argument("--quiet", "-q", action="store_true", help="Print warnings and errors only.")
    return top


def load_study(name: str) -> Study:
    """Function of a study."""
    module, _, function = STUDIES[name].partition(":")
    found: Study = getattr(import_module(f"studies.{module}"), function)
    return found


def parameters(function: Study) -> list[tuple[str, Any, Any]]:
    """Name, type and default of each parameter; of a preset its fields, and ``clean``."""
    hints, found = get_type_hints(function), []
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Preset):
            kinds = get_type_hints(Preset)
            found += [(name, kind, getattr(parameter.default, name)) for name, kind in kinds.items()]
            found.append(("clean", bool, False))
        else:
            found.append((name, hints[name], parameter.default))
    return found


def parameter_texts(text: str) -> dict[str, str]:
    """Descriptions of the parameters in a NumPy docstring."""
    section = re.split(r"\n(?:Parameters|Attributes)\n-+\n", text)[-1]
    section = re.split(r"\n(?:Returns|Raises|Examples)\n-+\n", section)[0]
    entries = re.findall(r"^(\w[\w, ]*?)(?: : (.*))?$((?:\n[ ]+.*)*)", section, re.MULTILINE)
    return {
        name: " ".join(f"{first} {rest}".split()).replace("%", "%%")
        for names, first, rest in entries
        for name in names.split(", ")
    }


_PRESET_TEXTS = parameter_texts(inspect.getdoc(Preset) or "") | {
    "clean": "Unlike the paper: background in the corners of rotated images, bilinear rings.",
    "features": "Feature extractors, by name.",
    "overwrite": "Replace an earlier run in the output folder.",
    "root": "Folder of the official IDX files; nothing is downloaded.",
}


def _add_option(command: argparse.ArgumentParser, name: str, kind: Any, default: Any, text: str) -> None:
    plain = next((each for each in get_args(kind) if each in (int, float, str, bool)), kind)
    needed = default is inspect.Parameter.empty
    default = None if needed else default
    flag, options = f"--{name.replace('_', '-')}", {"dest": name, "default": default, "help": text}
    if kind is bool:
        command.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif name == "out":
        command.add_argument(flag, type=Path, required=True, metavar="RUN", help="Folder for the results.")
    elif _is_sequence(kind):
        command.add_argument(flag, type=lambda word: _listed(word, plain, default), required=needed, **options)
    else:
        known = plain if plain in (int, float) else str
        command.add_argument(flag, type=known, required=needed, **options)


def _is_sequence(kind: Any) -> bool:
    return any(getattr(each, "__origin__", None) in (Sequence, list, tuple) for each in (kind, *get_args(kind)))


def _listed(text: str, kind: Any, default: Any) -> list[Any]:
    """Values separated by commas, or by semicolons if names contain commas."""
    comma = ";" if any("," in str(each) for each in default or ()) else ","
    kind = kind if kind in (int, float) else str
    return [kind(word.strip()) for word in text.split(comma) if word.strip()]


def values(function: Study, given: argparse.Namespace) -> dict[str, Any]:
    """Arguments of the function, from the options."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Preset):
            preset = Preset(**{field.name: getattr(given, field.name) for field in fields(Preset)})
            found[name] = preset.cleaned() if given.clean else preset
        else:
            found[name] = getattr(given, name)
    return found


if __name__ == "__main__":
    sys.exit(main())
