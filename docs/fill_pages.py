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

from studies.markdown import markdown_table
from studies.paper import DATASET_TITLES, FEATURE_TITLES, METRIC_TITLES, paper_accuracy

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
sys.path.insert(0, str(DOCS.parent))  # benchmarks are not installed

from benchmarks.tables import Table, provenance_sentence  # noqa: E402

Cell = dict[str, Any]
# A selection of figures; the studies draw all of them in minutes.
KEPT = {
    "reproduction": ("results.json", "*.md", "figures/confusion-*-rotated-*-l1.png"),
    "letters": ("results.json", "*.md", "figures/confusion-*-rotated-*-l1.png"),
    "coupled": ("results.json", "figures/confusion-*-rotated-global-bispectrum-*.png"),
    "ablation-kmnist": ("*.json", "*.md"),
    "ablation-letters": ("*.json", "*.md"),
    "ablation": ("*.json", "*.md"),
    "geometry": ("run.json", "figures/*.png"),
    "distances": ("results.json", "run.json", "figures/*-l1.png"),
    "symmetries": ("results.json", "table.md"),
    "compare": ("*.json", "*.md"),
    "rivals": ("results.json", "*.md"),
    "compare-two": ("*.json", "*.md"),
    "labels": ("results.json", "run.json", "*.md"),
    "poses": (
        *("results.json", "run.json", "*.md"),
        *("figures/upright-fashion-mnist.png", "figures/upright-silhouettes.png"),
        *("figures/ambiguous-mnist.png", "figures/angles-mnist.png"),
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
    record = json.loads(include(f"benchmarks/{name}.json"))
    return "\n".join([*(Table(**table).markdown() for table in record["tables"]), provenance_sentence(record)])


def times() -> str:
    """Seconds of every cell of the reproduction."""
    cells, rows = read_cells("reproduction"), []
    for dataset, setting, features in dict.fromkeys((c["dataset"], c["setting"], c["features"]) for c in cells):
        group = {
            c["metric"]: c for c in cells if (c["dataset"], c["setting"], c["features"]) == (dataset, setting, features)
        }
        seconds = [f"{sum(group[m]['seconds'].values()):.0f}" if m in group else "" for m in METRIC_TITLES]
        peak = max(cell["peak_memory"] for cell in group.values()) / 1e9
        title = f"{DATASET_TITLES.get(dataset, dataset)}, {FEATURE_TITLES.get(features, features)}, {setting}"
        rows.append([title, *seconds, f"{peak:.1f} GB"])
    return markdown_table(["cell", *(f"{title} (s)" for title in METRIC_TITLES.values()), "peak memory"], rows).rstrip()


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
    """What matching across rotations costs: turned images by several features beside upright ones by pixels."""
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
        markdown_table(["accuracy (metric)", *kinds, "pixels, nothing turned"], accuracies)
        + "\n"
        + markdown_table(["features + cost + transport (s), peak memory", *kinds], resources).rstrip()
    )


def floor() -> str:
    """The same invariants of turned and of upright images, beside upright pixels."""
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
    return markdown_table(["", f"{kind}, turned", f"{kind}, nothing turned", "pixels, nothing turned"], rows).rstrip()


def _accuracy(cell: Cell) -> float:
    return float(cell["accuracy"])


def _figure(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell['accuracy']:.4f} ({METRIC_TITLES[cell['metric']]})"


def _resources(cell: Cell | None) -> str:
    if cell is None:
        return ""
    parts = " + ".join(f"{cell['seconds'][stage]:.0f}" for stage in ("features", "cost", "transport"))
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
    for function in (include, seconds, benchmark, times, differences, rotation, floor, machine)
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
