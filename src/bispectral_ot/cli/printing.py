"""Results in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bispectral_ot.cli.console import print_facts

_MARGINALS = {
    "balanced": "balanced: target marginal fixed",
    "relaxed": "relaxed: target marginal unconstrained",
    "estimated": "estimated class proportions",
}


def print_match(found: Mapping[str, Any], out: Path) -> None:
    """Print the results of a match."""
    settings, seconds = found["settings"], found["seconds"]
    facts = {name: _describe(found[name]) for name in ("source", "target")}
    facts["distance"] = f"{found['distance']:.6g} ({settings['metric']}, {settings['features']})"
    if set(settings["frame"]) != {"canvas"}:
        facts["frame"] = f"source {settings['frame'][0]}, target {settings['frame'][1]}"
    facts["converged"] = (
        f"{'yes' if found['converged'] else 'NO'}, marginal error {found['marginal_error']:.1e} "
        f"(tolerance {found['tol']:g})"
    )
    facts["marginals"] = _marginals(found)
    if found.get("accuracy") is not None:
        facts["accuracy"] = (
            f"{found['accuracy']:.1%} of the source images are mapped to their class "
            f"({found['majority']:.1%} if all were given the largest class)"
        )
        weak = [(recall, name) for name, recall in found["recall"].items() if recall < 1]
        if weak:
            facts["weakest"] = ", ".join(f"{name} {recall:.0%}" for recall, name in sorted(weak)[:3])
    if found.get("outliers"):
        counts = found["outliers"]
        facts["outliers"] = (
            f"{counts['sources']:,} sources and {counts['targets']:,} targets (expected without any: "
            f"{counts['level']:.0%}): see outliers.csv"
        )
    if found.get("expected_accuracy") is not None:
        low, high = found["expected_accuracy_low"], found["expected_accuracy_high"]
        facts["expected"] = (
            f"{found['expected_accuracy']:.1%} of the labels are right (90 % interval {low:.1%} to {high:.1%}); "
            f"check the first {found['to_check']:,} of labels.csv by probability to have 95 % right"
        )
        facts["shift"] = found["shift"]["words"]
    if settings.get("kept_variance") is not None:
        facts["pca"] = f"{settings['columns']} components keep {settings['kept_variance']:.1%} of the variance"
    if found.get("poses"):
        facts["poses"] = _poses(found["poses"])
    if found.get("upright"):
        facts["upright"] = ", ".join(f"{count:,} in {name}" for name, count in found["upright"].items())
    stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items() if spent >= 0.05)
    facts["seconds"] = f"{sum(seconds.values()):.1f} ({stages})"
    facts["run folder"] = str(out)
    if (out / "report.html").exists():
        facts["report"] = str(out / "report.html")
    print_facts(facts, {"accuracy": "bold", "converged": "" if found["converged"] else "bold red"})


def _marginals(found: Mapping[str, Any]) -> str:
    words = _MARGINALS[found["marginals"]]
    if found.get("proportions"):
        differences = [(each["source"] - each["target"], name, each) for name, each in found["proportions"].items()]
        largest = [item for item in sorted(differences, key=lambda item: -abs(item[0]))[:3] if abs(item[0]) >= 0.01]
        named = [f"{name} {each['source']:.0%} (target {each['target']:.0%})" for _, name, each in largest]
        words += f": {', '.join([*named, '...'] if named else ['as in the target'])}"
    moved = found["mass"]
    return words if moved > 0.9995 else f"{words}; {moved:.1%} of the source mass is transported"


def _poses(poses: Mapping[str, Any]) -> str:
    width = poses["median_uncertainty"]
    precision = "" if width is None else f" to {width:.1f} {poses['unit']} (median of the 90 % intervals)"
    rest = f"{poses['ambiguous']:,} ambiguous" + (f", {poses['without']:,} without one" if poses["without"] else "")
    return f"{poses['certain']:,} certain{precision}, {rest}"


def _describe(side: Mapping[str, Any]) -> str:
    size = " x ".join(map(str, side["shape"]))
    classes = f"{len(side['classes'])} classes" if side["classes"] else "no labels"
    images = "image" if side["images"] == 1 else "images"
    return f"{side['name']}: {side['images']:,} {images} of {size}, {classes}"
