"""Page data: the part of a match or a comparison that its page shows, kept as JSON."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bispectral_ot.comparing import Comparison, Pair
from bispectral_ot.costs import Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Pictures
from bispectral_ot.drawing import thumbnail
from bispectral_ot.errors import InputError
from bispectral_ot.files import read_json, to_json
from bispectral_ot.matching import Match
from bispectral_ot.poses import Poses
from bispectral_ot.report.scaling import classical_scaling, scale_to_plane, tree_of_sets
from bispectral_ot.report.tables import JsonObject, found_outliers
from bispectral_ot.sampling import class_by_class, turn_by_turn

Indices = NDArray[np.int64]

PAGE_DATA = "page-data.json"
# Bytes of encoded thumbnails of a match or a comparison, and images that are shown at most.
_SHEET_BYTES = 2_000_000
_MOST_SOURCES, _MOST_CHECKED, _MOST_OUTLIERS, _MOST_ON_MAP = 600, 60, 24, 200
_TARGETS_OF_A_SOURCE = 5
_SMALL, _LARGE = 32, 112  # longer side of thumbnails in pixels
_DIMENSIONS = 12  # of the vectors that the map is laid out by
_SAMPLES_OF_A_SET = 8
# Classes of all pairs together: beyond, those that contribute least are one entry, and distances are left to the CSV.
_MOST_CLASS_PARTS, _MOST_CLASS_DISTANCES = 40_000, 100_000


def load_page_data(path: Path) -> JsonObject:
    """Page data that a run has written; an :class:`InputError` names a damaged file."""
    try:
        page = read_json(path)
        if page.get("kind") not in ("match", "comparison"):
            raise InputError(f"{path} is damaged, or not the data of a report.")
        return page
    except InputError as error:
        raise InputError(
            f"{error} Make the run again for it; results.json, tables and figures are not affected."
        ) from None


def compact_json(content: Any) -> str:
    """JSON in one line."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def match_page(match: Match, facts: JsonObject, *, title: str = "", poses: Poses | None = None) -> JsonObject:
    """Page data of a match that has images; ``facts`` are the content of ``results.json``.

    Entries: ``rows`` and ``columns``, the classes of both sides (one without a name where there are no labels);
    ``counts``, (row, column, images) of the cells of the confusion table that are not empty; ``sources`` and
    ``targets``, the images that are shown, in the order of their thumbnails on the ``sheet``; ``check`` and
    ``outliers``, places among these; ``map``, vectors of a sample whose distances are those of the match.
    """
    a, b = match.source, match.target
    assert a is not None
    assert b is not None
    pictures = Pictures(a), Pictures(b)
    names, codes = _classes(a)
    columns, target_codes = _classes(b, first=names)
    given, probability, second, second_probability = _labels(match, columns)
    moved = match.coupling.source_weights > 0
    cells, counts = np.unique(np.stack([codes[moved], given[moved]], axis=1), axis=0, return_counts=True)
    checked = np.zeros(0, dtype=np.int64)
    if match.target_labels is not None:
        checked = np.argsort(probability, kind="stable")[:_MOST_CHECKED]
    strange = [each.indices[:_MOST_OUTLIERS] for each in found_outliers(match) or ()] or [checked[:0]] * 2
    samples = [class_by_class(side.labels, len(side)) for side in (a, b)]
    on_map = [rows[:_MOST_ON_MAP] for rows in samples]
    rows = _unique(checked, strange[0], on_map[0], _by_cell(codes, given))
    colours = thumbnail(pictures[0][0], _SMALL)
    encoded = colours.nbytes * (0.4 if colours.ndim == 3 else 0.7) * (1 + _TARGETS_OF_A_SOURCE)
    rows = rows[: max(len(checked) + len(strange[0]), min(_MOST_SOURCES, int(_SHEET_BYTES / encoded)), 1)]
    indices, weights = match.top_matches(_TARGETS_OF_A_SOURCE)
    kept = weights[rows] > 0
    shown = _unique(samples[1][: len(columns)][:_MOST_SOURCES], strange[1], on_map[1], indices[rows][kept])
    slot, place = ({int(i): number for number, i in enumerate(each)} for each in (rows, shown))
    small = [thumbnail(side[i], _SMALL) for side, each in zip(pictures, (rows, shown), strict=True) for i in each]
    fine = max(pictures[0][int(rows[0])].shape[:2]) > _SMALL
    crc = zlib.crc32(np.ascontiguousarray(a.images[samples[0][:99]]).data)
    return _plain(
        {
            "kind": "match",
            "title": title,
            "checksum": zlib.crc32(np.ascontiguousarray(b.images[samples[1][:99]]).data, crc),
            "facts": facts,
            "rows": names,
            "columns": columns,
            "labelled": [a.labels is not None, b.labels is not None],
            "counts": np.column_stack([cells, counts]),
            "sources": {
                "index": a.positions[rows],
                "label": codes[rows],
                "file": [a.files[i] for i in rows] if a.files else [],
                "given": given[rows],
                "probability": _rounded(probability[rows]),
                "runner_up": second[rows],
                "runner_up_probability": _rounded(second_probability[rows]),
                "matches": [[place[int(j)] for j in indices[i, some]] for i, some in zip(rows, kept, strict=True)],
                "weights": [_rounded(weights[i, some]) for i, some in zip(rows, kept, strict=True)],
                "poses": _poses(poses, rows),
            },
            "targets": {
                "index": b.positions[shown],
                "label": target_codes[shown],
                "file": [b.files[j] for j in shown] if b.files else [],
            },
            "check": [slot[int(i)] for i in checked],
            "outliers": [[each[int(i)] for i in some] for each, some in zip((slot, place), strange, strict=True)],
            "map": _map(match, on_map, slot, place),
            "history": [_rounded(step) for step in match.coupling.history],
            "sheet": _sheet(small),
            "large": _sheet([thumbnail(pictures[0][int(i)], _LARGE) for i in checked])
            if fine and len(checked)
            else None,
        }
    )


def _plain(page: JsonObject) -> JsonObject:
    """Page data in the types of JSON, with null for numbers that are not finite."""
    return dict(json.loads(to_json(page)))


def _classes(dataset: Dataset, first: Sequence[str] = ()) -> tuple[list[str], Indices]:
    """Names of the classes that have images, those of ``first`` first, and the place of each image among them."""
    if dataset.labels is None:
        return [""], np.zeros(len(dataset), dtype=np.int64)
    present = [name for name, count in zip(dataset.classes, dataset.class_counts, strict=True) if count]
    names = list(dict.fromkeys([*(name for name in first if name in set(present)), *present]))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place.get(name, -1) for name in dataset.classes])[dataset.labels]


def _labels(match: Match, names: list[str]) -> tuple[Indices, NDArray[np.float64], Indices, NDArray[np.float64]]:
    """Class that each source is given and the runner-up, with their probabilities; class 0 without labels."""
    if match.target_labels is None:
        weights = match.top_matches(1)[1][:, 0]
        return np.zeros(len(weights), np.int64), weights, np.zeros(len(weights), np.int64), np.zeros(len(weights))
    table, place = match.labels(), {name: i for i, name in enumerate(names)}
    first, second = (np.array([place[str(name)] for name in labels]) for labels in (table.label, table.runner_up))
    return first, table.probability.to_numpy(), second, table.runner_up_probability.to_numpy()


def _by_cell(rows: Indices, columns: Indices) -> Indices:
    """All positions in a random order that begins with one of every cell, the fullest first: rare errors come early."""
    order = np.random.default_rng(0).permutation(len(rows))
    cells = (rows * (columns.max() + 1) + columns)[order]
    _, cell, counts = np.unique(cells, return_inverse=True, return_counts=True)
    return order[turn_by_turn(cell.ravel(), -counts[cell.ravel()])]


def _unique(*orders: Indices) -> Indices:
    """Positions of all orders one after the other, each once."""
    everything = np.concatenate(orders)
    _, first = np.unique(everything, return_index=True)
    return everything[np.sort(first)]


def _sheet(pictures: Sequence[NDArray[np.uint8]]) -> JsonObject:
    """Pictures of one size on one image (PNG in grey, JPEG in colour): number i is in row ``i // columns``."""
    height, width = pictures[0].shape[:2]
    columns = max(1, int(np.ceil(np.sqrt(len(pictures) * height / width))))
    pixels = np.zeros((-(-len(pictures) // columns) * height, columns * width, *pictures[0].shape[2:]), np.uint8)
    for i, picture in enumerate(pictures):
        top, left = (i // columns) * height, (i % columns) * width
        pixels[top : top + height, left : left + width] = picture
    file, kind = io.BytesIO(), "jpeg" if pixels.ndim == 3 else "png"
    options: dict[str, int] = {"quality": 88, "subsampling": 0} if kind == "jpeg" else {"compress_level": 5}
    Image.fromarray(pixels).save(file, format=kind, **options)
    image = base64.b64encode(file.getvalue()).decode()
    return {"columns": columns, "width": width, "height": height, "type": f"image/{kind}", "image": image}


def _poses(poses: Poses | None, rows: Indices) -> list[Any] | None:
    """Degrees counter-clockwise, whether mirrored, uncertainty, and whether ambiguous, of each row."""
    if poses is None or poses.angles is None:
        return None
    mirrored = np.zeros(len(poses), dtype=np.bool_) if poses.mirrored is None else poses.mirrored
    columns = np.round(poses.angles, 1), mirrored, np.round(poses.uncertainty, 1), poses.ambiguous
    return list(zip(*(column[rows].tolist() for column in columns), strict=True))


def _map(match: Match, rows: list[Indices], slot: dict[int, int], place: dict[int, int]) -> JsonObject | None:
    """Places and vectors of a sample of both sides; None where the features are not known."""
    if match.feature_map is None or match.features is None:
        return None
    chosen = [i for i in rows[0] if int(i) in slot], [j for j in rows[1] if int(j) in place]
    features = np.concatenate([side[some] for side, some in zip(match.features, chosen, strict=True)])
    metric = cast(Metric, match.coupling.cost.metric)
    distances = match.feature_map.distances_within(features, metric)
    if metric == "sqeuclidean":
        distances = np.sqrt(distances.clip(0))
    vectors = classical_scaling(distances, min(_DIMENSIONS, len(distances)))
    scaled = np.round(vectors / (np.abs(vectors).max() or 1.0) * 999).astype(int)
    return {
        "sources": [slot[int(i)] for i in chosen[0]],
        "targets": [place[int(j)] for j in chosen[1]],
        "vectors": scaled,
    }


def _rounded(values: Any, digits: int = 4) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in np.nan_to_num(np.ravel(values))]


Key = tuple[int, int]  # a set, and the position of an image in it


def comparison_page(comparison: Comparison, datasets: Sequence[Dataset]) -> JsonObject:
    """Page data of a comparison; sets, classes and images are places in ``names``, ``classes`` and ``images``."""
    slots, samples = _sample_slots(datasets)
    encoded = thumbnail(Pictures(datasets[0])[0], _SMALL).nbytes * 0.7
    tops = _contributors(comparison, slots, room=int(_SHEET_BYTES / encoded))
    classes: list[tuple[Any, Any]] = [
        ([], None) if labels is None else np.unique(labels.astype(str), return_inverse=True)
        for labels in comparison.labels
    ]
    between = _class_distances(comparison)
    parts = zip(comparison.pairs, comparison.table(), tops, between, strict=True)
    lengths = np.sqrt(np.maximum(comparison.distances, 0.0))  # distances are squared lengths
    tree, order = tree_of_sets(lengths)
    pictures = [Pictures(dataset) for dataset in datasets]
    plane = None
    if len(datasets) > 2:
        positions, stress = scale_to_plane(lengths)
        positions = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
        # two samples of a set are apart by the reference on average, each by half of it from the middle
        radii = np.sqrt(np.maximum(np.diag(comparison.references), 0)) / 2
        plane = {"positions": np.round(positions, 5), "stress": round(stress, 4), "radii": radii}
    return _plain(
        {
            "kind": "comparison",
            "names": comparison.names,
            "sizes": comparison.sizes,
            "classes": [names for names, _ in classes],
            "order": order,
            "tree": [[int(one), int(other), height] for one, other, height, _ in tree],
            "map": plane,
            "samples": samples,
            "images": {
                "set": [place for place, _ in slots],
                "index": [index for _, index in slots],
                "label": [-1 if (codes := classes[place][1]) is None else int(codes[i]) for place, i in slots],
                "file": [files[i] if (files := datasets[place].files) else "" for place, i in slots],
            },
            "pairs": [_pair(comparison, *each, classes) for each in parts],
            "symmetry_tests": [found.summary() for found in comparison.symmetry_tests],
            "facts": {
                "scale": comparison.scale,
                "shape": datasets[0].images.shape[1:],
                "kind": datasets[0].kind,
                "class_distances_left_out": comparison.class_distances is not None and between[0] is None,
                "settings": comparison.settings,
                "seconds": comparison.seconds,
            },
            "sheet": _sheet([thumbnail(pictures[place][index], _SMALL) for place, index in slots]),
        }
    )


def _pair(
    comparison: Comparison,
    pair: Pair,
    figures: JsonObject,
    top: list[list[list[float]]],
    distances: list[list[float]] | None,
    classes: Sequence[tuple[Any, Any]],
) -> JsonObject:
    """A pair of sets; ``figures`` is its row of the table, ``top`` has (image, contribution, counterpart)."""
    source, target = (comparison.names.index(name) for name in (pair.source, pair.target))
    most = max(1, _MOST_CLASS_PARTS // (2 * len(comparison.pairs)))
    sides = (source, pair.source_contributions), (target, pair.target_contributions)
    return figures | {
        "source": source,
        "target": target,
        "converged": pair.converged,
        "sentence": pair_sentence(pair, level=comparison.settings.get("level", 0.05)),
        "classes": [_class_parts(*classes[side], parts, most) for side, parts in sides],
        "class_distances": distances,
        "top": top,
        "contributors": len(pair.source_top.indices) + len(pair.target_top.indices),
    }


def pair_sentence(pair: Pair, *, level: float) -> str:
    """Verdict on a pair of sets: same or changed, and by how much against what is normal."""
    found = f"{pair.ratio:.3g}" if abs(pair.ratio) < 100 else f"{pair.ratio:,.0f}"
    size = f"{found} times the distance that is normal for two samples of one population"
    if not np.isfinite(pair.ratio):
        size = "the normal distance is unknown for sets as small as these"
    if pair.p_value is None:
        return f"{size[0].upper()}{size[1:]}; not tested."
    verdict = f"Changed at the {level:.3g} level" if pair.p_value <= level else "No change found"
    return f"{verdict} (p = {pair.p_value:.3g}): {size}."


def _sample_slots(datasets: Sequence[Dataset]) -> tuple[dict[Key, int], list[list[int]]]:
    """Slots of a few images of every set, and the slots by set."""
    slots: dict[Key, int] = {}
    samples: list[list[int]] = []
    for place, dataset in enumerate(datasets):
        rows = class_by_class(dataset.labels, len(dataset))[:_SAMPLES_OF_A_SET]
        if dataset.labels is not None:  # sets with the same classes begin with the same class
            rows = rows[np.argsort(dataset.labels[rows], kind="stable")]
        samples.append([slots.setdefault((place, int(row)), len(slots)) for row in rows])
    return slots, samples


def _contributors(comparison: Comparison, slots: dict[Key, int], *, room: int) -> list[list[list[list[float]]]]:
    """Per pair and side: slots of images that contribute most, contributions, counterparts; at most ``room`` slots."""
    most = max(0, room - len(slots)) // (4 * len(comparison.pairs))
    tops: list[list[list[list[float]]]] = []
    for pair in comparison.pairs:
        source, target = (comparison.names.index(name) for name in (pair.source, pair.target))
        tops.append([])
        for own, other, top in ((source, target, pair.source_top), (target, source, pair.target_top)):
            found = []
            for index, part, counterpart in list(zip(*top, strict=True))[:most]:
                image, its = (
                    slots.setdefault(key, len(slots)) for key in ((own, int(index)), (other, int(counterpart)))
                )
                found.append([image, *_rounded(part), its])
            tops[-1].append(found)
    return tops


def _class_parts(
    names: list[str], codes: Indices | None, contributions: NDArray[np.float64], most: int
) -> JsonObject | None:
    """Contributions of the classes of one side, the largest first; beyond ``most`` of them, the sum of the others."""
    if codes is None:
        return None
    parts = np.bincount(codes, weights=contributions, minlength=len(names))
    order = np.argsort(-parts, kind="stable")
    shown = [[int(code), *_rounded(parts[code])] for code in order[:most]]
    return {"parts": shown, "others": len(order[most:]), "rest": float(parts[order[most:]].sum())}


def _class_distances(comparison: Comparison) -> list[list[list[float]] | None]:
    """For each pair the distances of the source's classes (rows) to the target's, in the order of their names."""
    found = comparison.class_distances
    if found is None or len(found.names) ** 2 // 2 > _MOST_CLASS_DISTANCES:
        return [None] * len(comparison.pairs)
    blocks: list[list[list[float]] | None] = []
    for pair in comparison.pairs:
        rows, columns, matrix = found.between(pair.source, pair.target)
        ordered = matrix[np.ix_(np.argsort(rows), np.argsort(columns))]
        blocks.append([_rounded(row, digits=3) for row in ordered])
    return blocks
