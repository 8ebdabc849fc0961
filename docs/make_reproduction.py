"""Write docs/reproduction.md and docs/coupled.md from the files under results/: no table in them is typed by hand.

``python docs/make_reproduction.py`` fills the templates; ``--from runs`` first copies what belongs under results/
from the folders that the studies wrote.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from PIL import Image

from bispectral_ot.studies.paper import DATASET_TITLES, FEATURE_TITLES, METRIC_TITLES, paper_accuracy
from bispectral_ot.studies.tables import markdown_table

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
# A selection of figures; the studies draw all of them in minutes.
KEPT = {
    "reproduction": ("results.json", "*.md", "figures/confusion-*-rotated-*-l1.png"),
    "letters": ("results.json", "*.md", "figures/confusion-*-rotated-*-l1.png"),
    "coupled": ("results.json", "figures/confusion-*-rotated-coupled-bispectrum-*.png"),
    "ablation-kmnist": ("*.json", "*.md"),
    "ablation-letters": ("*.json", "*.md"),
    "ablation": ("*.json", "*.md"),
    "geometry": ("run.json", "figures/*.png"),
    "distances": ("results.json", "run.json", "figures/*-l1.png"),
}
OFFICIAL = ("mnist", "kmnist", "fashion-mnist")


def collect(runs: Path) -> None:
    """Copy the kept files of every run to results/, pictures with 256 colours: a third of the size, and as clear."""
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


def fill(template: str) -> str:
    """Replace ``{{include <file>}}``, ``{{seconds <run>}}`` and ``{{<function>}}`` by what they stand for."""
    cells = read_cells("reproduction")
    functions = {"times": times, "differences": differences, "machine": machine, "rotation": rotation, "floor": floor}

    def replacement(found: re.Match[str]) -> str:
        word, _, rest = found[1].strip().partition(" ")
        if word == "include":
            path = RESULTS / rest.strip()
            return path.read_text(encoding="utf-8").rstrip() if path.is_file() else "*Not run at this size yet.*"
        if word == "seconds":
            record = json.loads((RESULTS / rest.strip() / "run.json").read_text(encoding="utf-8"))
            return f"{record['wall_seconds']:.0f} s"
        return functions[word](cells)

    return re.sub(r"\{\{(.*?)\}\}", replacement, template)


def read_cells(name: str) -> list[dict[str, Any]]:
    """The cells of one study."""
    cells: list[dict[str, Any]] = json.loads((RESULTS / name / "results.json").read_text(encoding="utf-8"))["cells"]
    return cells


def times(cells: list[dict[str, Any]]) -> str:
    """Seconds of every cell."""
    rows = []
    for dataset, setting, features in dict.fromkeys((c["dataset"], c["setting"], c["features"]) for c in cells):
        group = {
            c["metric"]: c for c in cells if (c["dataset"], c["setting"], c["features"]) == (dataset, setting, features)
        }
        seconds = [f"{sum(group[m]['seconds'].values()):.0f}" if m in group else "" for m in METRIC_TITLES]
        peak = max(cell["peak_memory"] for cell in group.values()) / 1e9
        title = f"{DATASET_TITLES.get(dataset, dataset)}, {FEATURE_TITLES.get(features, features)}, {setting}"
        rows.append([title, *seconds, f"{peak:.1f} GB"])
    return markdown_table(["cell", *(f"{title} (s)" for title in METRIC_TITLES.values()), "peak memory"], rows).rstrip()


def differences(cells: list[dict[str, Any]]) -> str:
    """How far the bispectral figures of the official sets are from the paper's."""
    found = []
    for cell in cells:
        name = (cell["dataset"], cell["features"], cell["metric"], cell["setting"])
        paper = paper_accuracy(*name)
        if cell["dataset"] in OFFICIAL and cell["features"] == "ring-bispectrum" and paper is not None:
            found.append((cell["accuracy"] - paper, name))
    if not found:
        return "No bispectral cell of the official sets has been computed."
    difference, (dataset, _, metric, setting) = max(found, key=lambda pair: abs(pair[0]))
    within = sum(abs(value) <= 0.010 for value, _ in found)
    return (
        f"{within} of {len(found)} bispectral figures of the official sets are within 0.010 of the paper's; the "
        f"largest difference is {difference:+.4f} ({DATASET_TITLES[dataset]}, {METRIC_TITLES[metric]}, {setting})."
    )


def rotation(cells: list[dict[str, Any]]) -> str:
    """What matching across rotations costs: turned images by several features beside upright ones by pixels."""
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


def floor(cells: list[dict[str, Any]]) -> str:
    """The same invariants of turned and of upright images, beside upright pixels."""
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


def _accuracy(cell: dict[str, Any]) -> float:
    return float(cell["accuracy"])


def _figure(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else f"{cell['accuracy']:.4f} ({METRIC_TITLES[cell['metric']]})"


def _resources(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    parts = " + ".join(f"{cell['seconds'][stage]:.0f}" for stage in ("features", "cost", "transport"))
    return f"{parts}, {cell['peak_memory'] / 1e9:.1f} GB"


def machine(cells: list[dict[str, Any]]) -> str:
    """What the cells were computed on."""
    facts = cells[0]["versions"]["machine"]
    return f"{facts['processor']}, {facts['cores']} cores, {facts['memory_bytes'] / 1e9:.0f} GB of memory"


def main() -> None:
    """Collect if asked to, and write the page."""
    parser = argparse.ArgumentParser(description="Write the pages that have a template from results/.")
    parser.add_argument("--from", dest="runs", type=Path, help="folder of the runs to copy to results/ first")
    runs = parser.parse_args().runs
    if runs is not None:
        collect(runs)
    for template in sorted(HERE.glob("*.template.md")):
        page = fill(template.read_text(encoding="utf-8"))
        template.with_name(template.name.replace(".template", "")).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
