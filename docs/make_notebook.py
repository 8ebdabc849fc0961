"""Write ``docs/notebook.ipynb`` and run it, so that it opens with its results: ``python docs/make_notebook.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat as _nbformat
from nbclient import NotebookClient

nbformat: Any = _nbformat  # without types of its own

NOTEBOOK = Path(__file__).with_name("notebook.ipynb")
_MARKDOWN, _CODE = "markdown", "code"
CELLS = (
    (
        _MARKDOWN,
        """# bispectral-ot in a notebook

Match two sets of images up to rotation, look at the result, and measure distances between sets. Everything runs offline
in seconds, on the digits of scikit-learn.""",
    ),
    (
        _CODE,
        """import bispectral_ot as bot

digits = bot.load("digits")  # or a folder, a file, a data frame, a torch dataset: docs/files.md
digits""",
    ),
    (
        _MARKDOWN,
        """Split the digits into two halves, rotate the images of one half by random angles, and match it with the
other. A notebook shows the main figures of a match, some sources with their best targets, and the confusion matrix.""",
    ),
    (
        _CODE,
        """source, target = bot.split_halves(digits, per_class=30, seed=0)
source = bot.rotate_randomly(source, seed=0)
match = bot.match(source, target, symmetry="rotation", progress=bot.ProgressBar())
match""",
    ),
    (
        _CODE,
        """kept = bot.class_preservation(match)
print(f"{kept.accuracy:.0%} of the rotated digits were matched with their own class")""",
    ),
    (_MARKDOWN, "`plot` returns matplotlib axes."),
    (
        _CODE,
        """%matplotlib inline
axes = match.plot(n=4)
axes.set_title("rotated digits and their best matches");""",
    ),
    (_CODE, """match.plot("classes");"""),
    (
        _MARKDOWN,
        """Labels are transferred from the targets to the sources. `to_check` lists the labels to check by hand. The
transport plan is never stored, but its rows can be computed.""",
    ),
    (
        _CODE,
        """print(match.labels()[["label", "probability"]].head())
print("expected accuracy", match.expected_accuracy())
print(len(match.to_check(0.99)), "of", len(source), "labels to check to have 99 % correct")
match.coupling""",
    ),
    (
        _MARKDOWN,
        """**How far apart are sets?** The distance is 0 between a set and itself. `reference` is the distance expected
between two samples of one population. Other digits are far away; rotated ones are not.""",
    ),
    (
        _CODE,
        """low, high = digits.select(digits.labels < 5), digits.select(digits.labels >= 5)
first, second = bot.split_halves(low, per_class=40, seed=0)
comparison = bot.compare(
    {"0 to 4": first, "0 to 4, rotated": bot.rotate_randomly(second, seed=1), "5 to 9": high.select(slice(0, 200))},
    symmetry="rotation",
)
comparison""",
    ),
    (_CODE, "comparison.plot();"),
)


def notebook() -> Any:
    """The cells, without results."""
    made = nbformat.v4.new_notebook()
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, (kind, text) in enumerate(CELLS):
        cell = nbformat.v4.new_markdown_cell(text) if kind == _MARKDOWN else nbformat.v4.new_code_cell(text)
        cell["id"] = f"cell-{number}"
        made.cells.append(cell)
    return made


if __name__ == "__main__":
    content = notebook()
    NotebookClient(content, timeout=300).execute()
    for cell in content.cells:
        cell.metadata.pop("execution", None)  # times differ in every run
        if "outputs" in cell:  # as do progress bars
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(content, NOTEBOOK)
