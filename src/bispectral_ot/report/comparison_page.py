"""What a run keeps of a comparison for its page: figures of every pair, a tree, a map, and images that explain them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_entries
from bispectral_ot.comparing import Comparison, Contrast, Pair
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.files import to_json
from bispectral_ot.report.comparison_figures import as_lengths, tree_of_sets
from bispectral_ot.report.embedding import scale_to_plane
from bispectral_ot.report.kept import load_kept, save_kept
from bispectral_ot.report.sampling import class_by_class
from bispectral_ot.report.thumbnails import thumbnails

FILE = "comparison-data.npz"
# Bytes of uncompressed thumbnails; many pairs, large images and colour mean fewer images of each pair.
_PICTURE_BYTES = 2_500_000
_SAMPLES_OF_A_SET = 8
# Numbers of all pairs together: beyond, classes that contribute least are one entry, and distances are left to the CSV.
_MOST_CLASS_PARTS = 40_000
_MOST_CLASS_DISTANCES = 100_000

_NUMBER = (int, float)
# What a page needs.
_ENTRIES = {
    **dict.fromkeys(("names", "sizes", "classes", "order", "tree", "pairs", "samples", "contrasts"), list),
    "map": (dict, type(None)),
    "images": dict.fromkeys(("set", "index", "label", "file"), list),
    "facts": {"scale": _NUMBER, **dict.fromkeys(("settings", "seconds"), dict)},
}
_PAIR = {
    **dict.fromkeys(("source", "target", "contributors"), int),
    **dict.fromkeys(("distance", "error"), _NUMBER),
    **dict.fromkeys(("reference", "ratio", "p_value", "low", "high"), (*_NUMBER, type(None))),
    "converged": bool,
    "sentence": str,
    **dict.fromkeys(("classes", "top"), list),
    "class_distances": (list, type(None)),
}

Key = tuple[int, int]  # a set, and the position of an image in it


@dataclass(frozen=True)
class ComparisonData:
    """A comparison as its page shows it.

    Attributes
    ----------
    content : everything but pictures, in JSON's own types. Sets are named by their place in ``names``, classes by
        their place in the ``classes`` of their set, and images by their place in ``images``: first one of every set,
        then further ``samples``, then those that contribute most to the pairs, in the order of their ranks
    pictures : (k, h, w[, 3]) thumbnails of those images
    """

    content: dict[str, Any]
    pictures: NDArray[np.uint8]

    def save(self, folder: Path) -> None:
        """Write ``comparison-data.npz``, whole or not at all."""
        save_kept(folder / FILE, self.content, pictures=self.pictures)

    @classmethod
    def load(cls, path: Path) -> ComparisonData:
        """Read what :meth:`save` has written."""

        def build(content: dict[str, Any], pictures: NDArray[np.uint8]) -> ComparisonData:
            data = cls(content, pictures)
            data._check()
            return data

        return load_kept(path, build, "pictures")

    def _check(self) -> None:
        """Raise an error where a page could not be made of it."""
        check_entries(self.content, _ENTRIES)
        count, images = len(self.content["names"]), self.content["images"]
        for pair in self.content["pairs"]:
            check_entries(pair, _PAIR)
            if not 0 <= pair["source"] < pair["target"] < count:
                raise ValueError(f"a pair is of the sets {pair['source']} and {pair['target']}, of {count}")
        lengths = {"pairs": count * (count - 1) // 2, "tree": count - 1}
        lengths |= dict.fromkeys(("sizes", "classes", "order", "samples"), count)
        for name, length in lengths.items():
            if len(self.content[name]) != length:
                raise ValueError(f"{name!r} has {len(self.content[name])} entries for {count} sets")
        found = {len(values) for name, values in images.items() if values or name != "file"}
        if found != {len(self.pictures)} or self.pictures.dtype != np.uint8 or self.pictures.ndim not in (3, 4):
            raise ValueError(f"pictures have shape {self.pictures.shape}, for {sorted(found)} entries")
        if max(_slots(self.content)) >= len(self.pictures):
            raise ValueError("an image has no picture")

    def reduced(self, share: float) -> ComparisonData:
        """The same comparison with the first ``share`` of the images, and at least one of every set."""
        kept = max(len(self.content["names"]), int(share * len(self.pictures)))

        def few(top: list[list[Any]]) -> list[list[Any]]:
            return [entry for entry in top if max(entry[0], entry[2]) < kept]

        content = self.content | {
            "images": {name: values[:kept] for name, values in self.content["images"].items()},
            "samples": [[slot for slot in slots if slot < kept] for slots in self.content["samples"]],
            "pairs": [pair | {"top": [few(top) for top in pair["top"]]} for pair in self.content["pairs"]],
        }
        return ComparisonData(content, self.pictures[:kept])


def collect_comparison(
    comparison: Comparison, datasets: Sequence[Dataset], *, contrasts: Sequence[Contrast] = (), seed: int = 0
) -> ComparisonData:
    """Gather what the page shows of a comparison; ``seed`` is that of the sample of each set."""
    slots, samples = _sample_slots(datasets, seed=seed)
    one = thumbnails([Pictures(datasets[0].select([0]))[0]]).nbytes
    tops = _contributors(comparison, slots, room=_PICTURE_BYTES // one)
    classes = [_class_codes(labels) for labels in comparison.labels]
    most = max(1, _MOST_CLASS_PARTS // (2 * len(comparison.pairs)))
    between = _class_distances(comparison)
    pairs = []
    for pair, top, distances in zip(comparison.pairs, tops, between, strict=True):
        sides = [comparison.names.index(name) for name in (pair.source, pair.target)]
        parts = pair.source_contributions, pair.target_contributions
        low, high = pair.interval or (None, None)
        pairs.append(
            {
                "source": sides[0],
                "target": sides[1],
                **_rounded(distance=pair.distance, reference=pair.reference, ratio=pair.ratio, low=low, high=high),
                "error": float(f"{pair.error:.2g}"),
                "p_value": pair.p_value,
                "converged": pair.converged,
                "sentence": pair_sentence(pair, level=comparison.settings.get("level", 0.05)),
                "classes": [_class_parts(classes[side], each, most) for side, each in zip(sides, parts, strict=True)],
                "class_distances": distances,
                "top": top,
                "contributors": len(pair.source_top.indices) + len(pair.target_top.indices),
            }
        )
    tree = tree_of_sets(comparison)
    pictures = [Pictures(dataset) for dataset in datasets]
    content = {
        "names": comparison.names,
        "sizes": comparison.sizes,
        "classes": [names for names, _ in classes],
        "order": _leaves(tree),
        "tree": [[int(one), int(other), float(f"{height:.5g}")] for one, other, height, _ in tree],
        "map": _map(comparison) if len(datasets) > 2 else None,
        "samples": samples,
        "images": _images(slots, datasets, classes),
        "pairs": pairs,
        "contrasts": [{**vars(found), "smallest": found.smallest, "sentence": found.sentence} for found in contrasts],
        "facts": {
            "scale": comparison.scale,
            "shape": datasets[0].images.shape[1:],
            "kind": datasets[0].kind,
            "class_distances_left_out": comparison.class_distances is not None and between[0] is None,
            "settings": comparison.settings,
            "seconds": comparison.seconds,
        },
    }
    small = thumbnails(pictures[place][index] for place, index in slots)
    return ComparisonData(json.loads(to_json(content)), small)


def pair_sentence(pair: Pair, *, level: float) -> str:
    """What the figures of a pair say, in one sentence.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> first, second = bot.split_halves(bot.load("digits"), per_class=20)
    >>> pair_sentence(bot.compare([first, second.images]).pairs[0], level=0.05).split(". ")[1]
    'No test was asked for.'
    """
    found = f"{pair.ratio:.3g}" if abs(pair.ratio) < 100 else f"{pair.ratio:,.0f}"
    times = f"{found} times what two samples of one population would be at"
    if not np.isfinite(pair.ratio):
        times = "What two samples of one population would be at is not known for sets as small as these"
    if pair.p_value is None:
        return f"{times}. No test was asked for."
    verdict = f"a difference is found at the {level:.3g} level" if pair.p_value <= level else "no difference is found"
    return f"{times}; p = {pair.p_value:.3g}: {verdict}."


def _sample_slots(datasets: Sequence[Dataset], *, seed: int) -> tuple[dict[Key, int], list[list[int]]]:
    """Slots of a few images of every set, one of each first, and the slots by set."""
    orders = [_in_class_order(dataset, class_by_class(dataset, seed=seed)[:_SAMPLES_OF_A_SET]) for dataset in datasets]
    slots: dict[Key, int] = {}
    samples: list[list[int]] = [[] for _ in datasets]
    for rank in range(_SAMPLES_OF_A_SET):
        for place, order in enumerate(orders):
            if rank < len(order):
                samples[place].append(slots.setdefault((place, int(order[rank])), len(slots)))
    return slots, samples


def _in_class_order(dataset: Dataset, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sets with the same classes begin with the same class, and are compared at a glance."""
    return chosen if dataset.labels is None else chosen[np.argsort(dataset.labels[chosen], kind="stable")]


def _contributors(comparison: Comparison, slots: dict[Key, int], *, room: int) -> list[list[list[list[Any]]]]:
    """For both sides of each pair: slots of images that contribute most, contributions, slots of counterparts.

    The first of every pair come first, then the second of every pair, as long as ``slots`` has at most ``room``
    images; pairs with the largest ratio go before others.
    """
    tops: list[list[list[list[Any]]]] = [[[], []] for _ in comparison.pairs]
    order = sorted(range(len(tops)), key=lambda number: -np.nan_to_num(comparison.pairs[number].ratio))
    for rank in range(max(len(pair.source_top.indices) for pair in comparison.pairs)):
        for number in order:
            pair = comparison.pairs[number]
            places = [comparison.names.index(name) for name in (pair.source, pair.target)]
            for side, top in enumerate((pair.source_top, pair.target_top)):
                if rank >= len(top.indices):
                    continue
                keys = (places[side], int(top.indices[rank])), (places[1 - side], int(top.counterparts[rank]))
                if len(slots) + sum(key not in slots for key in keys) > room:
                    return tops
                image, counterpart = (slots.setdefault(key, len(slots)) for key in keys)
                tops[number][side].append([image, float(f"{top.contributions[rank]:.4g}"), counterpart])
    return tops


def _class_codes(labels: NDArray[Any] | None) -> tuple[list[str], NDArray[np.int64] | None]:
    """Names of the classes of a set, and the class of each image; nothing without labels."""
    if labels is None:
        return [], None
    names, codes = np.unique(labels, return_inverse=True)
    return [str(name) for name in names], codes.astype(np.int64)


def _class_parts(
    classes: tuple[list[str], NDArray[np.int64] | None], contributions: NDArray[np.float64], most: int
) -> dict[str, Any] | None:
    """What classes of one side contribute, the largest first; beyond ``most`` of them, the sum of the others."""
    names, codes = classes
    if codes is None:
        return None
    parts = np.bincount(codes, weights=contributions, minlength=len(names))
    order = np.argsort(-parts, kind="stable")
    kept, left = order[:most], order[most:]
    return {
        "parts": [[int(code), float(f"{parts[code]:.4g}")] for code in kept],
        "others": len(left),
        "rest": float(f"{parts[left].sum():.4g}"),
    }


def _class_distances(comparison: Comparison) -> list[list[list[float]] | None]:
    """For each pair the distances of the source's classes (rows) to the target's, in the order of their names."""
    found = comparison.class_distances
    if found is None or len(found.names) ** 2 // 2 > _MOST_CLASS_DISTANCES:
        return [None] * len(comparison.pairs)
    blocks: list[list[list[float]] | None] = []
    for pair in comparison.pairs:
        rows, columns, matrix = found.between(pair.source, pair.target)
        ordered = matrix[np.ix_(np.argsort(rows), np.argsort(columns))]
        blocks.append([[float(f"{value:.3g}") for value in row] for row in ordered])
    return blocks


def _leaves(tree: NDArray[np.float64]) -> list[int]:
    from scipy.cluster.hierarchy import leaves_list

    return [int(leaf) for leaf in leaves_list(tree)]


def _map(comparison: Comparison) -> dict[str, Any]:
    """Positions in the units of lengths, how well they keep them, and how far sampling alone would move each set."""
    positions, stress = scale_to_plane(as_lengths(comparison))
    positions = positions - (positions.max(axis=0) + positions.min(axis=0)) / 2
    # two samples of a set are apart by this on average, each by half of it from the middle
    radii = np.sqrt(np.maximum(np.diag(comparison.references), 0)) / 2
    return {"positions": np.round(positions, 5), "stress": round(stress, 4), "radii": np.round(radii, 5)}


def _images(
    slots: dict[Key, int], datasets: Sequence[Dataset], classes: Sequence[tuple[list[str], NDArray[np.int64] | None]]
) -> dict[str, list[Any]]:
    labels = [classes[place][1] for place, _ in slots]
    named = any(dataset.files for dataset in datasets)
    return {
        "set": [place for place, _ in slots],
        "index": [index for _, index in slots],
        "label": [-1 if codes is None else int(codes[i]) for codes, (_, i) in zip(labels, slots, strict=True)],
        "file": [files[i] if (files := datasets[place].files) else "" for place, i in slots] if named else [],
    }


def _rounded(**figures: float | None) -> dict[str, float | None]:
    return {
        name: float(f"{value:.5g}") if value is not None and np.isfinite(value) else None
        for name, value in figures.items()
    }


def _slots(content: dict[str, Any]) -> list[int]:
    """Every image that is named somewhere."""
    tops = [entry for pair in content["pairs"] for top in pair["top"] for entry in top]
    return [*(slot for slots in content["samples"] for slot in slots), *(e[0] for e in tops), *(e[2] for e in tops)]
