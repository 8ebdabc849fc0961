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

Match two sets of images up to rotation, look at the result, and measure how far sets are apart. Everything here runs
offline, in seconds, on the digits that come with scikit-learn.""",
    ),
    (
        _CODE,
        """import bispectral_ot as bot

digits = bot.load("digits")  # or a folder, a file, a data frame, a torch dataset: docs/files.md
digits""",
    ),
    (
        _MARKDOWN,
        """Take two disjoint halves, and turn every image of the one by a random angle. Then match it with the other. A
match shows its figures, some sources with their best targets, and where each class went.""",
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
print(f"{kept.accuracy:.0%} of the turned digits were matched with their own class")""",
    ),
    (_MARKDOWN, "Drawings come as matplotlib axes, to go on with: titles, sizes, files."),
    (
        _CODE,
        """%matplotlib inline
axes = match.plot(n=4)
axes.set_title("turned digits and their best matches");""",
    ),
    (_CODE, """match.plot("classes");"""),
    (
        _MARKDOWN,
        """The targets give their labels to the sources. `to_check` lists those to check first; the plan itself is
never formed, but can be read.""",
    ),
    (
        _CODE,
        """print(match.labels()[["label", "probability"]].head())
print("expected accuracy", match.expected_accuracy())
print(len(match.to_check(0.99)), "of", len(source), "labels to check so that 99 % are right")
match.coupling""",
    ),
    (
        _MARKDOWN,
        """**How far apart are sets?** 0 for a set and itself, and next to each distance what two samples of one
population would give. Other digits are far away; turned ones are not, as rotation is not seen.""",
    ),
    (
        _CODE,
        """low, high = digits.select(digits.labels < 5), digits.select(digits.labels >= 5)
first, second = bot.split_halves(low, per_class=40, seed=0)
comparison = bot.compare(
    {"0 to 4": first, "0 to 4, turned": bot.rotate_randomly(second, seed=1), "5 to 9": high.select(slice(0, 200))},
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
