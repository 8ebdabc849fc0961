"""Help texts that fit a terminal of 80 columns: flags without a type, long choices below the description."""

from __future__ import annotations

import inspect
from typing import Any, get_args

_LONGEST = 16  # letters of choices that stand next to the name of an option


def tidy(command: Any) -> None:
    """Tidy the texts of a command, and of the commands below it."""
    # typer keeps the line breaks of a docstring and breaks lines again at the width of the terminal
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for option in command.params:
        if getattr(option, "is_bool_flag", False):
            option.metavar = ""  # else <bool>, as if a value were expected
        elif option.metavar is None and option.type_descriptor.is_ranged:
            option.metavar = "N"  # typer adds the range
        choices = [choice for choice in get_args(option.type_descriptor.annotation) if isinstance(choice, str)]
        if option.metavar is None and len("|".join(choices)) > _LONGEST:
            option.metavar = "NAME"
            option.help = f"{option.help or ''} One of {', '.join(choices)}.".strip()
    for each in getattr(command, "commands", {}).values():
        tidy(each)
