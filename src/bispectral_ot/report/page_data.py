"""Page data: the part of a match or a comparison that its page shows, kept as JSON."""

import base64
import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from bispectral_ot.comparing import Comparison, Pair, SymmetryTests
from bispectral_ot.comparing.comparison import COLUMNS
from bispectral_ot.costs import Metric
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Pictures
from bispectral_ot.drawing import thumbnail
from bispectral_ot.errors import InputError
from bispectral_ot.files import plain, read_json
from bispectral_ot.matching import Match
from bispectral_ot.poses import Poses
from bispectral_ot.report.tables import JsonObject, found_outliers
from bispectral_ot.sampling import class_by_class, turn_by_turn

Indices = NDArray[np.int64]

PAGE_DATA = "page-data.json"
# Bytes of encoded thumbnails of a match or a comparison, and images that are shown at most.
_SHEET_BYTES = 2_000_000
_MOST_SOURCES, _MOST_CHECKED, _MOST_OUTLIERS, _MOST_ON_MAP = 600, 60, 24, 200
_TARGETS_OF_A_SOURCE = 5
_SMALL, _LARGE = 32, 112  # longer side of thumbnails in pixels


def load_page_data(path: Path) -> JsonObject:
    """Page data that a run has written; an :class:`InputError` names a damaged file."""
    page = read_json(path)
    if page.get("kind") not in ("match", "comparison"):
        raise InputError(f"{path} is damaged, or not the data of a report.")
    return page


def compact_json(content: Any) -> str:
    """JSON in one line."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def match_page(match: Match, facts: JsonObject, *, title: str = "", poses: Poses | None = None) -> JsonObject:
    """Page data of a match that has images; ``facts`` are the content of ``results.json``.

    Entries: ``rows`` and ``columns``, the classes of both sides (one without a name if there are no labels);
    ``counts``, (row, column, images) of the cells of the confusion matrix that are not empty; ``sources`` and
    ``targets``, the images that are shown, in the order of their thumbnails on the ``sheet``; ``check`` and
    ``outliers``, places among these; ``map``, vectors of a sample whose distances are those of the match.
    """
    a, b = match.source, match.target
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
    rows = pd.unique(np.concatenate([checked, strange[0], on_map[0], _by_cell(codes, given)]))
    colours = thumbnail(pictures[0][0], _SMALL)
    encoded = colours.nbytes * (0.4 if colours.ndim == 3 else 0.7) * (1 + _TARGETS_OF_A_SOURCE)
    rows = rows[: max(len(checked) + len(strange[0]), min(_MOST_SOURCES, int(_SHEET_BYTES / encoded)), 1)]
    indices, weights = match.top_matches(_TARGETS_OF_A_SOURCE)
    kept = weights[rows] > 0
    of_classes = samples[1][: len(columns)][:_MOST_SOURCES]
    shown = pd.unique(np.concatenate([of_classes, strange[1], on_map[1], indices[rows][kept]]))
    slot, place = ({int(i): number for number, i in enumerate(each)} for each in (rows, shown))
    small = [thumbnail(side[i], _SMALL) for side, each in zip(pictures, (rows, shown), strict=True) for i in each]
    fine = max(pictures[0][int(rows[0])].shape[:2]) > _SMALL
    crc = zlib.crc32(np.ascontiguousarray(a.images[samples[0][:99]]).data)
    large = _sheet([thumbnail(pictures[0][int(i)], _LARGE) for i in checked]) if fine and len(checked) else None

    def listed(side: Dataset, labels: Indices, chosen: Indices) -> JsonObject:
        files = [side.files[i] for i in chosen] if side.files else []
        return {"index": side.positions[chosen], "label": labels[chosen], "file": files}

    page = {
        "kind": "match",
        "title": title,
        "checksum": zlib.crc32(np.ascontiguousarray(b.images[samples[1][:99]]).data, crc),
        "facts": facts,
        "rows": names,
        "columns": columns,
        "labelled": [a.labels is not None, b.labels is not None],
        "counts": np.column_stack([cells, counts]),
        "sources": {
            **listed(a, codes, rows),
            "given": given[rows],
            "probability": _rounded(probability[rows]),
            "runner_up": second[rows],
            "runner_up_probability": _rounded(second_probability[rows]),
            "matches": [[place[int(j)] for j in indices[i, some]] for i, some in zip(rows, kept, strict=True)],
            "weights": [_rounded(weights[i, some]) for i, some in zip(rows, kept, strict=True)],
            "poses": _poses(poses, rows),
        },
        "targets": listed(b, target_codes, shown),
        "check": [slot[int(i)] for i in checked],
        "outliers": [[each[int(i)] for i in some] for each, some in zip((slot, place), strange, strict=True)],
        "map": _map(match, on_map, slot, place),
        "history": [_rounded(step) for step in match.coupling.history],
        "sheet": _sheet(small),
        "large": large,
    }
    return dict(plain(page))


def _classes(dataset: Dataset, first: Sequence[str] = ()) -> tuple[list[str], Indices]:
    """Names of the classes that have images, those of ``first`` first, and the place of each image among them."""
    if dataset.labels is None:
        return [""], np.zeros(len(dataset), dtype=np.int64)
    present = dataset.present_classes
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


def _map(match: Match, rows: list[Indices], slot: dict[int, int], place: dict[int, int]) -> JsonObject:
    """Places and vectors of a sample of both sides."""
    chosen = [i for i in rows[0] if int(i) in slot], [j for j in rows[1] if int(j) in place]
    features = np.concatenate([side[some] for side, some in zip(match.features, chosen, strict=True)])
    metric = cast(Metric, match.coupling.cost.metric)
    distances = match.feature_map.distances_within(features, metric)
    if metric == "sqeuclidean":
        distances = np.sqrt(distances.clip(0))
    vectors = classical_scaling(distances, min(12, len(distances)))  # columns that the map is laid out by
    scaled = np.round(vectors / (np.abs(vectors).max() or 1.0) * 999).astype(int)
    sources, targets = [slot[int(i)] for i in chosen[0]], [place[int(j)] for j in chosen[1]]
    return {"sources": sources, "targets": targets, "vectors": scaled}


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.4g}") for value in np.nan_to_num(np.ravel(values))]


Key = tuple[int, int]  # a set, and the position of an image in it


def comparison_page(comparison: Comparison, datasets: Sequence[Dataset]) -> JsonObject:
    """Page data of a comparison; sets, classes and images are places in ``names``, ``classes`` and ``images``."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    slots: dict[Key, int] = {}
    samples = []
    for number, dataset in enumerate(datasets):
        rows = class_by_class(dataset.labels, len(dataset))[:8]
        if dataset.labels is not None:  # sets with the same classes begin with the same class
            rows = rows[np.argsort(dataset.labels[rows], kind="stable")]
        samples.append([slots.setdefault((number, int(row)), len(slots)) for row in rows])
    encoded = thumbnail(Pictures(datasets[0])[0], _SMALL).nbytes * 0.7
    # each pair has two lists of images with their counterparts
    most = max(0, int(_SHEET_BYTES / encoded) - len(slots)) // (4 * len(comparison.pairs))
    classes: list[tuple[Any, Any]] = []
    for labels in comparison.labels:
        classes.append(([], None) if labels is None else np.unique(labels.astype(str), return_inverse=True))
    tests = comparison.symmetry_tests or (None,) * len(comparison.pairs)
    both = zip(comparison.pairs, tests, strict=True)
    pairs = [_pair(comparison, pair, found, classes, slots, most) for pair, found in both]
    lengths = np.sqrt(np.maximum(comparison.distances, 0.0))  # distances are squared lengths
    tree = linkage(squareform(lengths), "average", optimal_ordering=True)
    pictures = [Pictures(dataset) for dataset in datasets]
    plane = None
    if len(datasets) > 2:
        positions, stress = scale_to_plane(lengths)
        positions = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
        # two samples of a set are apart by the reference on average, each by half of it from the middle
        radii = np.sqrt(np.maximum(np.diag(comparison.references), 0)) / 2
        plane = {"positions": np.round(positions, 5), "stress": round(stress, 4), "radii": radii}
    page = {
        "kind": "comparison",
        "names": comparison.names,
        "sizes": comparison.sizes,
        "classes": [names for names, _ in classes],
        "order": leaves_list(tree),
        "tree": [[int(one), int(other), height] for one, other, height, _ in tree],
        "map": plane,
        "samples": samples,
        "images": {
            "set": [place for place, _ in slots],
            "index": [index for _, index in slots],
            "label": [-1 if (codes := classes[place][1]) is None else int(codes[i]) for place, i in slots],
            "file": [files[i] if (files := datasets[place].files) else "" for place, i in slots],
        },
        "pairs": pairs,
        "symmetry_tests": [found.summary() for found in comparison.symmetry_tests],
        "facts": {
            "scale": comparison.scale,
            "settings": comparison.settings,
            "seconds": comparison.seconds,
            "shape": datasets[0].images.shape[1:],
            "kind": datasets[0].kind,
        },
        "sheet": _sheet([thumbnail(pictures[place][index], _SMALL) for place, index in slots]),
    }
    return dict(plain(page))


def _pair(
    comparison: Comparison,
    pair: Pair,
    tests: SymmetryTests | None,
    classes: Sequence[tuple[Any, Any]],
    slots: dict[Key, int],
    most: int,
) -> JsonObject:
    """Pair of sets with (slot, contribution, slot of the counterpart) of ``most`` images per side, added to slots."""
    source, target = (comparison.names.index(name) for name in (pair.source, pair.target))
    level = comparison.settings.get("level", 0.05)
    verdict = None if pair.p_value is None else "changed" if pair.p_value <= level else "same"
    by_class: list[list[list[float]] | None] = []
    for side, contributions in ((source, pair.source_contributions), (target, pair.target_contributions)):
        names, codes = classes[side]
        parts = np.zeros(0) if codes is None else np.bincount(codes, contributions, minlength=len(names))
        order = np.argsort(-parts, kind="stable")
        by_class.append(None if codes is None else [[int(code), *_rounded(parts[code])] for code in order])

    def slot(place: int, index: int) -> int:
        return slots.setdefault((place, int(index)), len(slots))

    tops = []
    for own, other, top in ((source, target, pair.source_top), (target, source, pair.target_top)):
        some = list(zip(*top, strict=True))[:most]
        tops.append([[slot(own, i), *_rounded(part), slot(other, j)] for i, part, j in some])
    return {name: getattr(pair, name) for name in COLUMNS} | {
        "source": source,
        "target": target,
        "converged": pair.converged,
        "verdict": verdict if tests is None else tests.verdict.kind,
        "sentence": pair_sentence(pair, level=level, decided=tests is not None),
        "classes": by_class,
        "top": tops,
        "contributors": len(pair.source_top.indices) + len(pair.target_top.indices),
    }


def pair_sentence(pair: Pair, *, level: float, decided: bool = False) -> str:
    """Distance of a pair relative to its reference, and a verdict unless the tests of changes give one."""
    found = f"{pair.ratio:.3g}" if abs(pair.ratio) < 100 else f"{pair.ratio:,.0f}"
    size = f"{found} times the distance expected between two samples of one population"
    if not np.isfinite(pair.ratio):
        size = "the reference is unknown for sets this small"
    if pair.p_value is None or decided:
        test = "not tested" if pair.p_value is None else f"p = {pair.p_value:.3g} by the test of the distance"
        return f"{size[0].upper()}{size[1:]}; {test}."
    verdict = f"Changed at the {level:.3g} level" if pair.p_value <= level else "No change found"
    return f"{verdict} (p = {pair.p_value:.3g} by the test of the distance): {size}."


def scale_to_plane(distances: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Positions (n, 2) by multidimensional scaling (SMACOF from the classical solution), and its stress-1."""
    from sklearn.manifold import smacof

    if not distances.any():
        return np.zeros((len(distances), 2)), 0.0
    start = classical_scaling(distances, 2)
    positions, stress = smacof(distances, init=start, n_init=1, max_iter=200, eps=1e-5, normalized_stress=False)
    return positions, float(np.sqrt(stress / (0.5 * np.square(distances).sum())))


def classical_scaling(distances: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
    """Positions (n, d) by classical multidimensional scaling: principal components of ``-1/2 J D^2 J``."""
    from scipy.linalg import eigh

    squares = -0.5 * np.square(distances)
    squares = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    count = len(distances)
    values, vectors = eigh(squares, subset_by_index=[max(0, count - dimensions), count - 1])
    found: NDArray[np.float64] = np.zeros((count, dimensions))
    found[:, : len(values)] = (vectors * np.sqrt(values.clip(0)))[:, ::-1]
    found *= np.where(found.sum(axis=0) < 0, -1.0, 1.0)  # signs of eigenvectors are arbitrary
    return found
