"""What a run keeps of a match for its report: a sample of images, their matches, a map and the class tables."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_entries
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.files import to_json
from bispectral_ot.matching import Match
from bispectral_ot.poses import Poses
from bispectral_ot.progress import Progress, silent
from bispectral_ot.report.embedding import embed
from bispectral_ot.report.kept import load_kept, save_kept
from bispectral_ot.report.sampled_distances import SampledDistances, sample_distances
from bispectral_ot.report.sampling import Indices, cell_by_cell, class_by_class, interleave
from bispectral_ot.report.tables import Side
from bispectral_ot.report.thumbnails import thumbnails

FILE = "report-data.npz"
# Source images whose matches are kept; with their best targets a page stays far below 10 MB.
_MOST_SOURCES = 1200
_TARGETS_OF_A_SOURCE = 5
# Bytes of uncompressed thumbnails; large ones and colour mean fewer of them.
_PICTURE_BYTES = 6_000_000

_NUMBER = (int, float)
_SIDE = {"name": str, "images": int, "shape": list}
# What a page needs.
_ENTRIES = {
    "title": str,
    "group": str,
    "flow": {"rows": list, "columns": list, "counts": list, "labelled": dict},
    "sources": dict.fromkeys(("index", "label", "file", "mapped", "share", "matches", "shares"), list),
    "targets": dict.fromkeys(("index", "label", "file"), list),
    "map": (dict, type(None)),
    "distances": (dict, type(None)),
    "history": list,
    "facts": {
        "converged": bool,
        **dict.fromkeys(("distance", "marginal_error", "tol", "n", "m"), _NUMBER),
        **dict.fromkeys(("settings", "seconds"), dict),
        **dict.fromkeys(("source", "target"), _SIDE),
    },
}


@dataclass(frozen=True)
class PageData:
    """One match as a report shows it.

    Attributes
    ----------
    content : everything but pictures, in JSON's own types: ``title``, ``group``, ``checksum`` (of both sides),
        ``facts`` (once saved), ``flow``, ``sources``, ``targets``, ``map``, ``distances``, ``history``; images are
        named by their place in ``sources`` or ``targets``, which begin with images of every class
    source_pictures, target_pictures : (s, h, w[, 3]) and (t, h, w[, 3]) thumbnails of those images
    """

    content: dict[str, Any]
    source_pictures: NDArray[np.uint8]
    target_pictures: NDArray[np.uint8]

    def save(self, folder: Path, *, facts: dict[str, Any]) -> None:
        """Write ``report-data.npz``, whole or not at all; ``facts`` are the figures of the match (``results.json``)."""
        pictures = {"source": self.source_pictures, "target": self.target_pictures}
        save_kept(folder / FILE, self.content | {"facts": facts}, **pictures)

    @classmethod
    def load(cls, path: Path) -> PageData:
        """Read what :meth:`save` has written."""

        def build(content: dict[str, Any], *pictures: NDArray[np.uint8]) -> PageData:
            data = cls(content, *pictures)
            data._check()
            return data

        return load_kept(path, build, "source", "target")

    def _check(self) -> None:
        """Raise an error where a page could not be made of it."""
        check_entries(self.content, _ENTRIES)
        for side, pictures in (("sources", self.source_pictures), ("targets", self.target_pictures)):
            lengths = {len(values) for name, values in self.content[side].items() if values or name != "file"}
            if lengths != {len(pictures)} or pictures.dtype != np.uint8 or pictures.ndim not in (3, 4):
                raise ValueError(f"pictures of {side!r} have shape {pictures.shape}, for {sorted(lengths)} entries")
        self.reduced(1.0)

    def reduced(self, share: float) -> PageData:
        """The same match with fewer images: the first ``share`` of the sources, and as much of the map.

        Targets stay if a source that stays, or the map, names them, or if they stand for their class; so no source
        loses any of its matches. Images are named by their new places.
        """

        def part(values: list[Any]) -> list[Any]:
            return values[: max(1, int(share * len(values)))]

        content = self.content
        sources = {name: part(values) for name, values in content["sources"].items()}
        n_sources = len(sources["index"])
        plane, on_map = content["map"], []
        if plane is not None:
            on_map = part(plane["targets"])
        named = {j for best in sources["matches"] for j in best} | {slot for slot, *_ in on_map}
        # a sample of every class comes first
        kept = sorted(named.union(range(min(len(content["flow"]["columns"]), len(self.target_pictures)))))
        place = {j: slot for slot, j in enumerate(kept)}
        sources["matches"] = [[place[j] for j in best] for best in sources["matches"]]
        targets = {name: [values[j] for j in kept] if values else [] for name, values in content["targets"].items()}
        if plane is not None:
            plane = plane | {
                "sources": [point for point in plane["sources"] if point[0] < n_sources],
                "targets": [[place[slot], *position] for slot, *position in on_map],
            }
        return PageData(
            content | {"sources": sources, "targets": targets, "map": plane},
            self.source_pictures[:n_sources],
            self.target_pictures[kept],
        )


def collect(
    match: Match,
    source: Side,
    target: Side,
    *,
    title: str,
    poses: Poses | None = None,
    group: str = "",
    seed: int = 0,
    progress: Progress = silent,
) -> PageData:
    """Gather what the report shows of a match.

    Parameters
    ----------
    match, source, target
        The match, and the two sides that it was made of.
    title
        What distinguishes it from the other matches of the run, such as the name of its features.
    poses
        How each source is put upright, where that was asked for.
    group
        Matches of the same group have the same two sides, and are shown side by side.
    seed
        Of the choice of images and of the map.
    """
    a, b = source.dataset, target.dataset
    row_names, row_codes = _classes(a)
    column_names, column_codes = _classes(b, first=row_names)
    mapped, share = _mapped(match, column_names)
    progress("report data", 1, 4)
    sample = sample_distances(match, a, b, seed=seed)
    progress("report data", 2, 4)
    gallery = cell_by_cell(row_codes, mapped, seed=seed)
    on_map = class_by_class(a, seed=seed) if sample is None else sample.source_rows
    rows = interleave(on_map[: len(row_names)], interleave(gallery, on_map)[: _source_count(a)])
    top = match.top_matches(_TARGETS_OF_A_SOURCE)
    shares, with_mass = top.shares[rows], top.shares[rows] > 0
    columns = _targets_to_show(top.indices[rows][with_mass], class_by_class(b, seed=seed)[: len(column_names)], sample)
    place = {int(j): slot for slot, j in enumerate(columns)}
    counts = np.zeros((len(row_names), len(column_names)), dtype=np.int64)
    moved = match.coupling.source_weights > 0
    np.add.at(counts, (row_codes[moved], mapped[moved]), 1)
    progress("report data", 3, 4)
    labelled = {"source": a.labels is not None, "target": b.labels is not None}
    content = {
        "title": title,
        "group": group,
        "checksum": zlib.crc32(np.ascontiguousarray(b.images).data, zlib.crc32(np.ascontiguousarray(a.images).data)),
        "flow": {"rows": row_names, "columns": column_names, "counts": counts, "labelled": labelled},
        "sources": _elements(source, rows, row_codes)
        | {
            "mapped": mapped[rows],
            "share": _rounded(share[rows]),
            "matches": [[place[int(j)] for j in top.indices[i, kept]] for i, kept in zip(rows, with_mass, strict=True)],
            "shares": [_rounded(line[kept]) for line, kept in zip(shares, with_mass, strict=True)],
        }
        | _poses(poses, rows),
        "targets": _elements(target, columns, column_codes),
        "map": None if sample is None else _map(sample, rows, place, seed=seed),
        "distances": None if sample is None else _distances(sample, row_codes, column_codes),
        "history": [[float(f"{reg:.3g}"), float(f"{error:.4g}")] for reg, error in match.coupling.history],
    }
    shown = [(Pictures(a), rows), (Pictures(b), columns)]
    small = [thumbnails(pictures[i] for i in chosen) for pictures, chosen in shown]
    progress("report data", 4, 4)
    return PageData(json.loads(to_json(content)), *small)


def _poses(poses: Poses | None, rows: Indices) -> dict[str, Any]:
    """For each source: degrees counter-clockwise, whether it is mirrored, uncertainty, whether it is ambiguous."""
    if poses is None or poses.angles is None:
        return {}
    mirrored = np.zeros(len(poses), dtype=np.bool_) if poses.mirrored is None else poses.mirrored
    columns = np.round(poses.angles, 1), mirrored, np.round(poses.uncertainty, 1), poses.ambiguous
    return {"poses": [list(row) for row in zip(*(column[rows].tolist() for column in columns), strict=True)]}


def _source_count(dataset: Dataset) -> int:
    """How many sources can be shown, if each brings all its targets along."""
    one = thumbnails([Pictures(dataset.select([0]))[0]]).nbytes
    return min(_MOST_SOURCES, max(1, _PICTURE_BYTES // (one * (1 + _TARGETS_OF_A_SOURCE))))


def _classes(dataset: Dataset, first: list[str] | None = None) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the classes that have images, and each image's place among them; one nameless class without labels.

    Classes that are also in ``first`` come first and in the same order, so that hits lie on the diagonal.
    """
    if dataset.labels is None:
        return [""], np.zeros(len(dataset), dtype=np.int64)
    present = [name for name, count in zip(dataset.classes, dataset.class_counts, strict=True) if count]
    names = [name for name in first or [] if name in present]
    names += [name for name in present if name not in names]
    place = {name: i for i, name in enumerate(names)}
    codes = np.array([place.get(name, -1) for name in dataset.classes])
    return names, codes[dataset.labels]


def _mapped(match: Match, names: list[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The class that each source is mapped to, and the share of its mass that agrees.

    Without labels: the one nameless class, and the share of the best match.
    """
    if match.target_labels is None:
        shares = match.top_matches(1).shares[:, 0]
        return np.zeros(len(shares), dtype=np.int64), shares
    classes, shares = match.class_mass(to="source")
    place = np.array([names.index(str(name)) for name in classes])
    best = shares.argmax(axis=1)
    return place[best], shares[np.arange(len(best)), best]


def _targets_to_show(matched: NDArray[np.int64], samples: Indices, sample: SampledDistances | None) -> Indices:
    """Each once: a sample of every class, the targets on the map, and the matches of every source."""
    on_map = samples[:0] if sample is None else sample.target_rows
    everything = np.concatenate([samples, on_map, matched])
    _, first = np.unique(everything, return_index=True)
    return everything[np.sort(first)]


def _elements(side: Side, chosen: Indices, codes: NDArray[np.int64]) -> dict[str, Any]:
    files = side.dataset.files
    return {
        "index": side.positions[chosen],
        "label": codes[chosen],
        "file": [files[i] for i in chosen] if files else [],
    }


def _map(sample: SampledDistances, rows: Indices, place: dict[int, int], *, seed: int) -> dict[str, Any]:
    """Points as (slot, x, y); the sources that were not kept are left out."""
    plane = embed(sample, seed=seed)
    slots = {int(i): slot for slot, i in enumerate(rows)}
    split = len(sample.source_rows)

    def points(chosen: Indices, positions: NDArray[np.float64], slot_of: dict[int, int]) -> list[list[float]]:
        pairs = zip(chosen.tolist(), positions.round(4).tolist(), strict=True)
        return [[slot_of[i], *position] for i, position in pairs if i in slot_of]

    return {
        "method": plane.method,
        "sources": points(sample.source_rows, plane.positions[:split], slots),
        "targets": points(sample.target_rows, plane.positions[split:], place),
    }


def _distances(sample: SampledDistances, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> dict[str, Any]:
    """Mean distances between classes, and how many images of each side they are taken from."""
    return {
        "means": [_rounded(line) for line in sample.class_means(rows, columns)],
        "sources": len(sample.source_rows),
        "targets": len(sample.target_rows),
    }


def _rounded(values: NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
