"""Fill the tables and figures of the pages from the files under docs/results/: none of them is typed by hand.

A page says where something goes and what it is; ``python docs/fill_pages.py`` replaces what stands between ::

    <!-- fill: include reproduction/table1.md -->
    ...
    <!-- end -->

(in the middle of a line, too). ``--from runs`` first copies what is kept of the folders that the studies wrote;
benchmarks are written there with ``python -m benchmarks NAME --out docs/results/benchmarks``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
sys.path.insert(0, str(DOCS.parent))  # benchmarks and studies are not installed

from benchmarks.tables import Table, provenance_sentence  # noqa: E402
from studies.markdown import markdown_table  # noqa: E402
from studies.paper import DATASET_TITLES, METRIC_TITLES, paper_accuracy  # noqa: E402

Cell = dict[str, Any]
# A selection of figures; the studies draw all of them in minutes.
KEPT = {
    "reproduction": ("results.json", "*.md", "figures/confusion-mnist-rotated-*-l1.png"),
    "letters": ("results.json", "table1.md"),
    "coupled": ("results.json",),
    "ablation-kmnist": ("radius.json", "radius.md"),
    "ablation": ("*.json", "*.md"),
    "geometry": ("run.json", "figures/*.png"),
    "distances": ("results.json", "run.json", "figures/*-l1.png"),
    "symmetries": ("results.json", "table.md"),
    "compare": ("*.json", "*.md"),
    "rivals": ("results.json", "*.md"),
    "encoders": ("results.json", "*.md"),
    "compare-two": ("*.json", "*.md"),
    "labels": ("results.json", "run.json", "*.md"),
    "poses": (
        *("results.json", "run.json", "table.md", "certainty.md", "voters.md", "images.md"),
        *("figures/upright-fashion-mnist.png", "figures/upright-silhouettes.png"),
        "figures/ambiguous-mnist.png",
    ),
}
OFFICIAL = ("mnist", "kmnist", "fashion-mnist")
_PLACE = re.compile(r"(<!-- fill: ([^\n]*?) -->)(\n?).*?(<!-- end -->)", re.DOTALL)


def fill(page: str) -> str:
    """The page with every ``<!-- fill: function argument -->`` filled anew."""

    def filled(place: re.Match[str]) -> str:
        begin, words, newline, end = place.groups()
        function, *arguments = words.split()
        text = FUNCTIONS[function](*arguments).strip()
        around = 2 * newline  # on lines of its own, or within one
        return f"{begin}{around}{text}{around}{end}"

    return _PLACE.sub(filled, page)


def include(path: str) -> str:
    """A file of the results as it is."""
    return (RESULTS / path).read_text(encoding="utf-8")


def seconds(run: str) -> str:
    """The time that a run took."""
    return f"{json.loads(include(f'{run}/run.json'))['wall_seconds']:.0f} s"


def benchmark(name: str) -> str:
    """The tables of a benchmark, and where they come from."""
    record = read_benchmark(name)
    return "\n".join([*(Table(**each).markdown() for each in record["tables"]), provenance_sentence(record)])


def table(name: str, number: str) -> str:
    """One table of a benchmark without its title and note."""
    record = read_benchmark(name)
    lines = Table(**record["tables"][int(number) - 1]).markdown().splitlines()
    return "\n".join([*(line for line in lines if line.startswith("|")), "", measured(record)])


def solvers() -> str:
    """Seconds of each solver for each problem, or why it did not reach the error."""
    record = read_benchmark("solvers")
    problems = {table["title"].removeprefix("Solvers, "): table["rows"] for table in record["tables"][:4]}
    methods = dict.fromkeys(row["method"] for rows in problems.values() for row in rows)
    found = {name: {row["method"]: _solver_time(row) for row in rows} for name, rows in problems.items()}
    rows = [[name, *(found[problem].get(name, "") for problem in problems)] for name in methods]
    return markdown_table(["seconds", *problems], rows) + "\n" + measured(record)


def _solver_time(row: Cell) -> str:
    return f"{row['seconds']:.2f}" if row["result"] == "reached" else row["result"].split(" at ")[0]


def distance_times() -> str:
    """Seconds of all distances of one problem, for each metric and library."""
    record = read_benchmark("costs")
    rows = record["tables"][0]["rows"]
    metrics = dict.fromkeys(row["metric"] for row in rows)
    times = {(row["method"], row["metric"]): f"{row['seconds']:.2f}" for row in rows}
    methods = dict.fromkeys(row["method"] for row in rows)
    table = [[method, *(times[method, metric] for metric in metrics)] for method in methods]
    return markdown_table(["seconds", *metrics], table) + "\n" + measured(record)


def recipe() -> str:
    """Seconds of each stage, ours and those of the paper's recipe."""
    record = read_benchmark("end-to-end")
    rows = record["tables"][0]["rows"]
    sizes = dict.fromkeys(row["n"] for row in rows)
    stages = [row["stage"] for row in rows if row["n"] == min(sizes)][:5]
    both = ("bispectral-ot", "recipe")
    found = {(row["n"], row["stage"]): [f"{row[who]:.3g}" for who in both] for row in rows if row["stage"] in stages}
    titles = [f"{n:,} images: {who}" for n in sizes for who in both]
    table = [[stage, *(cell for n in sizes for cell in found[n, stage])] for stage in stages]
    return markdown_table(["seconds", *titles], table) + "\n" + measured(record)


# Of the benchmark of variants: name there, and name on the page.
VARIANTS = {
    "global bispectrum": "global bispectrum",
    "global, L1": "the same, L1",
    "global, without edges": "without edges",
    "global, without triples": "without triples",
    "global, up to mirror images": "`rotation-reflection`",
    "best rotation": "best rotation",
    "best rotation, without edges": "best rotation, without edges",
    "ring bispectrum, L1": "ring bispectrum, L1",
    "pixels, L1": "pixels, L1",
    "pixels, nothing rotated": "pixels, nothing rotated",
}


def variants() -> str:
    """Accuracy of the parts of the global bispectrum."""
    record = read_benchmark("coupled-neighbours")
    found = {row["features"]: row for row in record["tables"][0]["rows"]}
    rows = [
        [title, f"{found[name]['columns']:,}", *(f"{found[name][each]:.4f}" for each in ("mnist", "fashion-mnist"))]
        for name, title in VARIANTS.items()
    ]
    return markdown_table(["features", "columns", "MNIST", "Fashion-MNIST"], rows) + "\n" + measured(record)


def pose_methods() -> str:
    """Poses within 15 degrees, for each set and method, and the median error of the first."""
    _, _, *lines = include("poses/table.md").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    named = {tuple(name.split(", ")): values for name, *values in cells}
    sets, methods = (dict.fromkeys(key[place] for key in named) for place in (0, 1))
    first = next(iter(methods))
    rows = [[each, named[each, first][0], *(named[each, method][2] for method in methods)] for each in sets]
    return markdown_table(["within 15°", "median error", *methods], rows).rstrip()


def measured(record: Cell) -> str:
    """Date, machine and command of a benchmark."""
    machine = record["machine"]
    return (
        f"Measured on {record['date'][:10]} on {machine['processor']}, {machine['cores']} cores, by "
        f"`{record['config']['command']}`."
    )


def read_benchmark(name: str) -> Cell:
    """The record of a benchmark."""
    record: Cell = json.loads(include(f"benchmarks/{name}.json"))
    return record


def differences() -> str:
    """How far the bispectral figures of the official sets are from the paper's."""
    found = []
    for cell in read_cells("reproduction"):
        name = (cell["dataset"], cell["features"], cell["metric"], cell["setting"])
        paper = paper_accuracy(*name)
        if cell["dataset"] in OFFICIAL and cell["features"] == "ring-bispectrum" and paper is not None:
            found.append((cell["accuracy"] - paper, name))
    difference, (dataset, _, metric, setting) = max(found, key=lambda pair: abs(pair[0]))
    within = sum(abs(value) <= 0.010 for value, _ in found)
    return (
        f"{within} of {len(found)} bispectral figures of the official sets are within 0.010 of the paper's; the "
        f"largest difference is {difference:+.4f} ({DATASET_TITLES[dataset]}, {METRIC_TITLES[metric]}, {setting})."
    )


def rotation() -> str:
    """Accuracy of rotated images by several features beside that of upright ones by pixels."""
    cells = read_cells("reproduction")
    found = [cell for cell in cells + read_cells("coupled") if cell["setting"] == "rotated"]
    upright = [cell for cell in cells if (cell["setting"], cell["features"]) == ("baseline", "pixels")]
    kinds = [kind for kind in dict.fromkeys(cell["features"] for cell in found) if kind != "pixels"]
    accuracies, resources = [], []
    for dataset in dict.fromkeys(cell["dataset"] for cell in found):
        own = [cell for cell in found if cell["dataset"] == dataset]
        best = [max((c for c in own if c["features"] == kind), key=_accuracy, default=None) for kind in kinds]
        pixels = max((c for c in upright if c["dataset"] == dataset), key=_accuracy, default=None)
        title = DATASET_TITLES.get(dataset, dataset)
        accuracies.append([title, *map(_figure, best), _figure(pixels)])
        resources.append([title, *map(_resources, best)])
    return (
        markdown_table(["accuracy (metric)", *kinds, "pixels, nothing rotated"], accuracies)
        + "\n"
        + markdown_table(["features + cost + transport (s), peak memory", *kinds], resources).rstrip()
    )


def floor() -> str:
    """Accuracy of rotated and of upright images by the same invariants, beside that of upright pixels."""
    cells = read_cells("reproduction")
    coupled = [cell for cell in read_cells("coupled") if "PCA" in cell["features"]]
    rows = []
    for dataset in dict.fromkeys(cell["dataset"] for cell in coupled):
        both = [
            next((c for c in coupled if (c["dataset"], c["setting"]) == (dataset, setting)), None)
            for setting in ("rotated", "baseline")
        ]
        upright = (c for c in cells if (c["dataset"], c["setting"], c["features"]) == (dataset, "baseline", "pixels"))
        pixels = max(upright, key=_accuracy, default=None)
        rows.append([DATASET_TITLES.get(dataset, dataset), *map(_figure, (*both, pixels))])
    kind = coupled[0]["features"]
    titles = [f"{kind}, rotated", f"{kind}, nothing rotated", "pixels, nothing rotated"]
    return markdown_table(["", *titles], rows).rstrip()


def _accuracy(cell: Cell) -> float:
    return float(cell["accuracy"])


def _figure(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell['accuracy']:.4f} ({METRIC_TITLES[cell['metric']]})"


def _resources(cell: Cell | None) -> str:
    if cell is None:
        return ""
    seconds = cell["seconds"]
    spent = (seconds["features"] + seconds.get("fit", 0), seconds["cost"], seconds["transport"])
    parts = " + ".join(f"{each:.0f}" for each in spent)
    return f"{parts}, {cell['peak_memory'] / 1e9:.1f} GB"


def machine() -> str:
    """What the cells were computed on."""
    facts = read_cells("reproduction")[0]["versions"]["machine"]
    return f"{facts['processor']}, {facts['cores']} cores, {facts['memory_bytes'] / 1e9:.0f} GB of memory"


def read_cells(name: str) -> list[Cell]:
    """The cells of one study."""
    cells: list[Cell] = json.loads(include(f"{name}/results.json"))["cells"]
    return cells


FUNCTIONS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        *(include, seconds, benchmark, differences, rotation, floor, machine),
        *(table, solvers, distance_times, recipe, variants, pose_methods),
    )
}


def collect(runs: Path) -> None:
    """Copy the kept files of every run to docs/results/; pictures with 256 colours: a third of the size, as clear."""
    for name, patterns in KEPT.items():
        for path in sorted(found for pattern in patterns for found in (runs / name).glob(pattern)):
            target = RESULTS / name / path.relative_to(runs / name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".png":
                # of Pillow's methods the one that keeps every colour near, those of few pixels (texts) too
                picture = (
                    Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                )
                picture.save(target, optimize=True)
            else:
                shutil.copyfile(path, target)


def main() -> None:
    """Collect if asked to, and fill the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="runs", type=Path, help="folder of the runs to copy to docs/results/ first")
    runs = parser.parse_args().runs
    if runs is not None:
        collect(runs)
    for page in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))):
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
