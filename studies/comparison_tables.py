"""Tables of the study of distances between sets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from studies.markdown import markdown_table

Cell = dict[str, Any]


def distance_table(cells: list[Cell]) -> str:
    """Halves, rotated halves and other sets, in multiples of the distance of two halves."""
    rows = []
    for cell in cells:
        names, distances = list(cell["names"]), np.asarray(cell["distances"])
        wholes = names[::3]
        for name in wholes:
            place = names.index(name)
            halves = distances[place, place + 1]
            others = [distances[place, names.index(other)] / halves for other in wholes if other != name]
            reference = np.asarray(cell["references"])[place, place + 1]
            figures = [f"{halves:.5f}", f"{reference:.5f}", f"{distances[place, place + 2] / halves:.2f}"]
            figures += [f"{min(others):.1f}" if others else ""]
            rows.append([name, cell["config"]["features"], f"{cell['config']['reg']:g}", *figures])
    header = ["set", "features", "reg", "two halves", "expected", "turned half / halves", "nearest other set / halves"]
    return markdown_table(header, rows)


def set_table(cells: list[Cell]) -> str:
    """Distances between all sets, and in brackets multiples of the distance expected from sampling alone."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        distances, references = np.asarray(cell["distances"]), np.asarray(cell["references"])
        for i, j in combinations(range(len(cell["names"])), 2):
            entry = f"{distances[i, j]:.4f} ({distances[i, j] / references[i, j]:.1f})"
            rows.setdefault((cell["names"][i], cell["names"][j]), []).append(entry)
    header = ["sets", "", *(cell["config"]["features"] for cell in cells)]
    return markdown_table(header, [[*pair, *entries] for pair, entries in rows.items()])


def label_table(cells: list[Cell]) -> str:
    """Label-aware distances."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for i, j in combinations(range(len(cell["names"])), 2):
            entry = f"{np.asarray(cell['distances'])[i, j]:.4f}"
            rows.setdefault((cell["names"][i], cell["names"][j]), []).append(entry)
    header = ["sets", "", *(cell["config"]["features"] for cell in cells)]
    return markdown_table(header, [[*pair, *entries] for pair, entries in rows.items()])


def size_table(cells: list[Cell]) -> str:
    """Distances of halves of several sizes, and the distances expected from halves and quarters of each."""
    sizes = sorted({cell["config"]["size"] for cell in cells})
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for cell in cells:
        key = cell["config"]["datasets"], cell["config"]["features"]
        rows.setdefault(key, {})[cell["config"]["size"]] = f"{cell['distance']:.5f} ({cell['reference']:.5f})"
    header = ["set", "features", *(f"{size:,} images" for size in sizes)]
    return markdown_table(header, [[*key, *(row.get(size, "") for size in sizes)] for key, row in rows.items()])


def rate_table(cells: list[Cell]) -> str:
    """How often each test rejects: ours, MMD with as many kernels, and MMD with the usual one."""
    columns = list(dict.fromkeys((cell["config"]["datasets"], cell["config"]["features"]) for cell in cells))
    rows: dict[tuple[str, float], dict[tuple[str, str], str]] = {}
    for cell in cells:
        config = cell["config"]
        entry = " / ".join(f"{100 * cell[name]:.3g}" for name in ("ours", "mmd", "mmd_median"))
        row = rows.setdefault((config["change"], config["share"]), {})
        row[config["datasets"], config["features"]] = entry
    header = ["change", "share of images", *(f"{name}, {kind}" for name, kind in columns)]
    body = [[change, f"{share:.0%}", *(row.get(c, "") for c in columns)] for (change, share), row in rows.items()]
    return markdown_table(header, body)


TABLES: dict[str, Callable[[list[Cell]], str]] = {
    "distances": distance_table,
    "sets": set_table,
    "labels": label_table,
    "sizes": size_table,
    "rates": rate_table,
}
