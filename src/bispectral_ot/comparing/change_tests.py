"""Tests of what changed between two sets of images: intensity, sharpness, mirrors, turns, position, size, classes.

The null hypothesis of a test: both sets are samples of one population, but the images of one of them were changed in
the way that the test allows for, each by a change of its own, and resampled once more where that needs interpolation.
Random mirrors and quarter turns of both sides make the permutation test exact. Brightness and contrast, position and
size are brought to a standard for each image. Turned images are compared by rotation invariants of the inscribed disk.

With enough images, an interpolation is detected, however smooth the features are. Each test is therefore repeated:
with the images as they are, and with either side resampled once more by each of the usual interpolations (or blurred as
much as the other, or made as bright, with clipping). In the version that repeats the change both sides are alike, so
the largest p-value is valid.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.comparing import resampling
from bispectral_ot.comparing.divergence import Random, p_value
from bispectral_ot.comparing.resampling import Images, Limits, Maps, Rows
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import check_flat
from bispectral_ot.datasets.transforms import count_copies, has_background
from bispectral_ot.engines.engine import Block, Threads, row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.store import content_hash, dataset_hash

Labels = NDArray[np.int64]
_WIDTHS = (0.25, 1.0, 4.0)  # of Gaussian kernels, in medians of the squared distance
_FREQUENCIES = 256  # random Fourier features of each kernel
FEWEST = 20  # images of a set
_CLEAR = 0.9  # fraction of images with content on a background from which position and size are standardized
DEFAULT_PERMUTATIONS = 199
PROPORTIONS, CLASSES, _DISTANCE = "class proportions", "classes", "distance"
_FIRST = "nothing", CLASSES, _DISTANCE  # tests of whether there is any difference

# What each test allows for, in the order of the table: brightness and contrast of each image, sharpness (one more
# interpolation, or a blur), mirrors, quarter turns, turns by any angle, position and size of the content.
CHANGES: dict[str, frozenset[str]] = {
    "nothing": frozenset(),
    "intensity": frozenset({"intensity"}),
    "sharpness": frozenset({"sharpness"}),
    "mirrors": frozenset({"mirror"}),
    "quarter turns": frozenset({"quarter"}),
    "rotation": frozenset({"sharpness", "quarter", "turn"}),
    "translation": frozenset({"sharpness", "shift"}),
    "scale": frozenset({"sharpness", "shift", "zoom"}),
    "all of these": frozenset({"intensity", "sharpness", "mirror", "quarter", "turn", "shift", "zoom"}),
}
_SENTENCES = {
    "same": "No difference between {both} is found by the test of all features ({plain}){smallest}.",
    "explained": "{found}. The smallest change that explains it: {changes}.",
    "explained classes": "{found}. Allowing for {changes}, no other difference is found.",
    "changed": "{found}. No change that was tested explains it: the content is different{untested}.",
    "changed classes": "{found}. Images of the same classes differ as well (p = {within:.3g}).",
    "undecided classes": "{found}. Undecided whether images of the same classes differ: there are too few of them.",
    "undecided distance": "{found}. Undecided what changed: the test of all features finds no difference ({plain}).",
    "undecided several": "{found}. Undecided which change explains it: {changes}.",
    "undecided conflict": "Undecided whether {both} differ: the test of all features finds no difference ({plain}), "
    "but {strongest} is significant even after correction for {tests} tests.",
}


@dataclass(frozen=True)
class Verdict:
    """Decision of a set of tests.

    ``kind`` is ``"same"``, ``"explained"`` (by ``changes``), ``"changed"`` or ``"undecided"``; ``reason``: proportions
    of ``"classes"`` differ, only the ``"distance"`` is significant, ``"several"`` changes, or tests in ``"conflict"``.
    """

    kind: str
    changes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class SymmetryTests:
    """Tests of what changed between two sets.

    Attributes
    ----------
    p_values : of the tests up to each change; ``"class proportions"`` compares samples with equal proportions of
        classes, ``"classes"`` the proportions themselves, where both sets have labels
    left_out : changes that could not be tested, and why
    distance : p-value of the distance between the sets, where that was tested
    """

    source: str
    target: str
    p_values: dict[str, float]
    level: float
    left_out: dict[str, str]
    distance: float | None = None

    @property
    def adjusted(self) -> dict[str, float]:
        """P-values of closed testing, each for one of two questions.

        Is there a difference? The tests that allow for nothing, of the classes and of the distance, corrected by Holm's
        method. Which change explains it? Sets that agree up to a change agree up to all that include it: a change is
        tested by its own p-value and by theirs (Simes), and is only rejected if all changes that it includes are.
        """
        p_values = self.p_values
        first = {name: p for name, p in self._tests.items() if name in _FIRST}
        order = sorted(first, key=lambda name: first[name])
        steps = [min(1.0, (len(order) - rank) * first[name]) for rank, name in enumerate(order)]
        found = p_values | dict(zip(order, np.maximum.accumulate(steps).tolist(), strict=True))
        tested = [name for name in p_values if CHANGES.get(name)]
        local = {"nothing": min(found[name] for name in first)}
        for name in tested:
            larger = np.sort([p_values[other] for other in tested if CHANGES[name] < CHANGES[other]])
            local[name] = min([p_values[name], *(len(larger) * larger / np.arange(1, len(larger) + 1)).tolist()])
        return found | {
            name: max(p for other, p in local.items() if CHANGES[other] <= CHANGES[name]) for name in tested
        }

    @property
    def verdict(self) -> Verdict:
        """Smallest changes that explain the difference, those that no test rejects."""
        p_values, level, adjusted = self.p_values, self.level, self.adjusted
        differing = {name for name in _FIRST if adjusted.get(name, 1.0) <= level}
        if CLASSES in differing:
            if p_values.get(PROPORTIONS, 0) > level:
                return Verdict("explained", (PROPORTIONS,), CLASSES)
            return Verdict("changed" if PROPORTIONS in p_values else "undecided", reason=CLASSES)
        if differing:
            fits = [name for name in p_values if CHANGES.get(name) and adjusted[name] > level]
            smallest = [name for name in fits if not any(CHANGES[other] < CHANGES[name] for other in fits)]
            if smallest and "nothing" not in differing:
                return Verdict("undecided", reason=_DISTANCE)
            if len(smallest) < 2:
                return Verdict("explained" if smallest else "changed", tuple(smallest))
            return Verdict("undecided", tuple(sorted(smallest, key=lambda name: -adjusted[name])), "several")
        doubt = len(self._tests) * min(self._tests.values()) <= level
        return Verdict("undecided", reason="conflict") if doubt else Verdict("same")

    @property
    def _tests(self) -> dict[str, float]:
        """P-values of all tests of a difference."""
        found = {name: p for name, p in self.p_values.items() if name != PROPORTIONS}
        return found if self.distance is None else found | {_DISTANCE: self.distance}

    @property
    def sentence(self) -> str:
        """Verdict in words, with the p-values that it is based on."""
        verdict, adjusted, tests = self.verdict, self.adjusted, self._tests
        both, left_out = f"{self.source} and {self.target}", ", ".join(key for key in CHANGES if key in self.left_out)
        strongest = min(tests, key=lambda name: tests[name])
        what = {CLASSES: "of class proportions", _DISTANCE: "of the distance"}.get(strongest, f"up to {strongest}")
        lowest = f"the test {what} (p = {tests[strongest]:.3g})"
        smallest = "" if strongest == "nothing" else f"; the smallest of {len(tests)} p-values is that of {lowest}"
        if smallest and tests[strongest] <= self.level:
            smallest += ", not significant after correction for their number"

        def figure(name: str) -> str:
            p, corrected = self.p_values[name], adjusted[name]
            return f"p = {p:.3g}, {corrected:.3g} after correction" if p <= self.level < corrected else f"p = {p:.3g}"

        found = f"{both} differ by the test of all features ({figure('nothing')})"
        if verdict.reason == CLASSES:
            found = f"{both} have different class proportions ({figure(CLASSES)})"
        elif adjusted["nothing"] > self.level:
            found = f"{both} differ by their distance (p = {tests.get(_DISTANCE, 1):.3g})"
        sentence = _SENTENCES[f"{verdict.kind} {verdict.reason}".strip()].format(
            **{"both": both, "found": found, "plain": figure("nothing"), "tests": len(tests)},
            **{"within": self.p_values.get(PROPORTIONS), "strongest": lowest, "smallest": smallest},
            changes=" or ".join(f"{name} ({figure(name)})" for name in verdict.changes),
            untested=f", or changed in a way that could not be tested ({left_out})" if left_out else "",
        )
        return sentence.replace("all of these", "all tested changes together")

    def summary(self) -> dict[str, Any]:
        """Fields, corrected p-values, verdict and sentence as JSON types."""
        verdict = {"verdict": self.verdict.kind, "changes": [*self.verdict.changes]}
        return asdict(self) | {"adjusted": self.adjusted} | verdict | {"sentence": self.sentence}


def symmetry_tests(
    source: Dataset,
    target: Dataset,
    permutations: int = DEFAULT_PERMUTATIONS,
    level: float = 0.05,
    test_images: int = 2000,
    seed: int = 0,
) -> SymmetryTests:
    """Test which changes explain the difference between two sets of images.

    Parameters
    ----------
    source, target : Sets of at least 20 images of one size; no image may be in both.
    permutations, level : Number of permutations of each test, and significance level of all tests together.
    test_images, seed : Maximum number of images of each set, drawn at random, and random seed.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> from bispectral_ot.comparing import symmetry_tests
    >>> first, second = bot.split_halves(bot.load("digits"), per_class=15)
    >>> mirrored = bot.Dataset(second.images[:, :, ::-1])
    >>> symmetry_tests(first, mirrored).verdict.changes
    ('mirrors',)
    """
    sets = [source, target]
    check_sets(sets)
    random = np.random.default_rng(int(content_hash("symmetry tests", seed, *map(dataset_hash, sets)), 16))
    sets = [each.select(np.sort(random.permutation(len(each))[:test_images])) for each in sets]
    images = [resampling.reduced(each.images) for each in sets]
    limits = min(each.min() for each in images), max(each.max() for each in images)
    images = [resampling.scaled(each, limits) for each in images]
    left_out = {} if images[0].shape[1] == images[0].shape[2] else {"quarter turns": "images are not square"}
    clear = np.concatenate([has_background(each) for each in images]).mean()
    if clear < _CLEAR:
        reason = f"only {clear:.0%} of the images show content on a plain background"
        left_out |= dict.fromkeys(("translation", "scale"), reason)
    labels: list[Labels] = []  # as numbers of common class names; empty where a set has none, or no name is common
    if all(each.labels is not None for each in sets) and {*source.classes} & {*target.classes}:
        classes = sorted({*source.classes, *target.classes})
        places = [np.array([classes.index(name) for name in each.classes]) for each in sets]
        labels = [place[each.labels] for place, each in zip(places, sets, strict=True)]
        if np.minimum(*(np.bincount(each, minlength=len(classes)) for each in labels)).sum() < FEWEST:
            left_out[PROPORTIONS] = f"fewer than {FEWEST} images of each set are of the same classes"
    names = [name for name in (*CHANGES, *([PROPORTIONS, CLASSES] if labels else [])) if name not in left_out]
    tests = len(names) - (PROPORTIONS in names)
    fewest = int(np.ceil(tests / level - 1e-9)) - 1
    if permutations < fewest:
        problem = f"{permutations} permutations are too few for {tests} tests at a level of {level:g}"
        reason = f"the smallest p-value, 1 / {permutations + 1}, is not significant after correction"
        raise InputError(f"{problem}: {reason}; use at least {fewest}.")
    p_values = {}
    for number, name in enumerate(names):
        runtime.progress("symmetry tests", number, len(names))
        if name == PROPORTIONS:
            p_values[name] = _equal_proportions_test(images, labels, permutations, random)
        elif name == CLASSES:
            p_values[name] = _class_test(labels, permutations, random)
        else:
            allowed = CHANGES[name] - ({"shift", "zoom"} if clear < _CLEAR else set())
            p_values[name] = change_test(images, allowed, permutations, random)
    runtime.progress("symmetry tests", len(names), len(names))
    return SymmetryTests(source.name, target.name, p_values, level, left_out)


def change_test(images: Sequence[Images], allowed: frozenset[str], permutations: int, random: Random) -> float:
    """Largest p-value of all versions of a permutation test up to a change, or the first that is beyond 0.2."""
    signs = relabellings((len(images[0]), len(images[1])), permutations, random)
    seed = int(random.integers(2**63))
    largest = 0.0
    for views in _versions(images, allowed, random):
        largest = max(largest, permutation_p_value(views, signs, seed))
        if largest > 0.2:
            break
    return largest


def _versions(
    images: Sequence[Images], allowed: frozenset[str], random: Random
) -> Iterator[tuple[list[Rows], list[Rows]]]:
    """Features of both sides: as they are, with either side made as bright as the other, or resampled once more."""
    source, target = (features_allowing_for(each, allowed, random) for each in images)
    if allowed <= {"mirror", "quarter"}:  # exact tests: what varies with the brightness hides less of the rest
        more = (features_allowing_for(each, allowed | {"intensity"}, random) for each in images)
        source, target = source + next(more), target + next(more)
    yield source, target
    if "intensity" in allowed:
        for side in (0, 1):
            matched = resampling.matched_intensity(images[side], images[1 - side])
            found = features_allowing_for(matched, allowed, random)
            yield (source, found) if side else (found, target)
    if "sharpness" in allowed:
        blurs = resampling.matching_blurs(images)
        one, other = (features_allowing_for(images[i], allowed, random, again=blurs[i]) for i in (0, 1))
        yield one, other
        for zoom, name in product((False, True) if "zoom" in allowed else (False,), resampling.INTERPOLATIONS):
            yield features_allowing_for(images[0], allowed, random, again=name, zoom=zoom), target
            yield source, features_allowing_for(images[1], allowed, random, again=name, zoom=zoom)


def features_allowing_for(
    images: Images, allowed: frozenset[str], random: Random, *, again: str | float | None = None, zoom: bool = False
) -> list[Rows]:
    """Groups of features that do not see the changes allowed; ``again`` is an interpolation or the width of a blur."""
    limits = float(images.min()), float(images.max())
    turn = "turn" in allowed
    if "mirror" in allowed:
        chosen = random.random(len(images)) < 0.5
        images = np.where(chosen[:, None, None, None], images[:, :, ::-1], images)
    if "quarter" in allowed and not turn:
        turns = random.integers(4, size=len(images))
        images = np.stack([np.rot90(image, quarters) for image, quarters in zip(images, turns, strict=True)])
    moved = isinstance(again, str)
    maps = resampling.random_maps(images, random, turn=turn, zoom=zoom) if moved else np.empty((len(images), 0))
    blocks = row_blocks(len(images), block_rows=2**20 // images[0].size)  # 4 MB of pixels at once in a thread
    work = Threads().map(_block_features, blocks, rows=(images, maps), shared=(allowed, again, limits))
    return [np.concatenate(parts) for parts in zip(*work, strict=True)]


def _block_features(
    _block: Block, images: Images, maps: Maps, allowed: frozenset[str], again: str | float | None, limits: Limits
) -> list[Rows]:
    turn = "turn" in allowed
    if turn and "shift" in allowed:  # which would move corners that an editor filled into the disk
        images = np.where(resampling.disk(images)[:, :, None], images, resampling.rim_levels(images))
    if isinstance(again, float):
        images = resampling.blurred(images, again)
    elif again is not None:
        images = resampling.resampled(images, maps, again, limits)
    if "shift" in allowed:
        maps = resampling.content_maps(images, zoom="zoom" in allowed)
        images = resampling.resampled(images, maps, "bilinear", limits)
    if "intensity" in allowed:  # last, as resampling changes the contrast
        mean, std = resampling.intensity_rows(images, within_disk=turn).T[:, :, None, None, None]
        images = (images - mean) / np.maximum(std, 1e-6)
    groups = [resampling.turn_invariant_rows(images), resampling.texture_rows(images, turn=turn)]
    if "intensity" not in allowed:
        groups.append(resampling.intensity_rows(images, within_disk=turn))
    elif not isinstance(again, float):  # which moves large differences and small ones apart
        groups.append(resampling.texture_rows(images, turn=turn, peaks=True))
    if not turn:  # blocks: 16 a side if pixels may be interpolated, else 32 at most
        fewest, most = (2, 16) if "sharpness" in allowed else (1, 32)
        groups += resampling.block_rows(images, max(fewest, -(-max(images.shape[1:3]) // most)))
    if not allowed & {"intensity", "sharpness"}:
        groups.append(resampling.histogram_rows(images))
    return groups


def relabellings(sizes: tuple[int, int], permutations: int, random: Random) -> Rows:
    """Weights (permutations + 1, N) of all images: one side less the other, as observed and relabelled."""
    weights = np.repeat(np.array([1 / sizes[0], -1 / sizes[1]], dtype=np.float32), sizes)
    return np.stack([weights, *(random.permutation(weights) for _ in range(permutations))])


def permutation_p_value(views: tuple[list[Rows], list[Rows]], signs: Rows, seed: int) -> float:
    """P-value of the largest of several MMDs, one for each group of features and width of a Gaussian kernel."""
    groups = [np.concatenate(both) for both in zip(*views, strict=True)]
    embedded = fourier_embedding(groups, fourier_frequencies(groups, np.random.default_rng(seed)))
    squares = np.square(np.tensordot(signs, embedded, axes=1), dtype=np.float64).sum(axis=2)
    return p_value([*squares.round(9).T])  # float32 rounds differently in each relabelling


def fourier_frequencies(groups: Sequence[Rows], random: Random) -> Rows:
    """Random frequencies (columns of all groups, widths * frequencies) of Gaussian kernels; 0 where rows are equal."""
    found = []
    some = random.permutation(len(groups[0]))[:400]
    for rows in groups:
        drawn = rows[some] - rows[some].mean(axis=0, dtype=np.float64)
        products = drawn @ drawn.T
        squares = products.diagonal() + products.diagonal()[:, None] - 2 * products
        apart = squares[squares > 1e-9]  # most images may be equal, such as blank ones
        scales = np.sqrt(2 / (np.array(_WIDTHS) * np.median(apart))) if len(apart) else np.zeros(len(_WIDTHS))
        normal = random.standard_normal((rows.shape[1], len(_WIDTHS), _FREQUENCIES), dtype=np.float32)
        found.append(normal * scales[:, None].astype(np.float32))
    return np.concatenate(found).reshape(-1, len(_WIDTHS) * _FREQUENCIES)


def fourier_embedding(groups: Sequence[Rows], frequencies: Rows) -> Rows:
    """Random Fourier features (n, kernels, 2 * frequencies) of each group and width."""
    parts = np.split(frequencies, np.cumsum([rows.shape[1] for rows in groups[:-1]]))
    angles = [(rows @ each).reshape(len(rows), len(_WIDTHS), -1) for rows, each in zip(groups, parts, strict=True)]
    return np.concatenate([np.concatenate([np.cos(each), np.sin(each)], axis=2) for each in angles], axis=1)


def _equal_proportions_test(
    images: Sequence[Images], labels: Sequence[Labels], permutations: int, random: Random
) -> float:
    """P-value of the plain test between samples with equally many images of each class, relabelled within classes."""
    parts: list[list[Labels]] = [[], []]
    for label in np.intersect1d(labels[0], labels[1]):
        members = [random.permutation(np.flatnonzero(each == label)) for each in labels]
        for part, each in zip(parts, members, strict=True):
            part.append(each[: min(map(len, members))])
    chosen = [each[np.concatenate(part)] for each, part in zip(images, parts, strict=True)]
    # exchanges the two images at a position, which are of one class
    swaps = random.random((permutations + 1, len(chosen[0]))) < 0.5
    swaps[0] = False
    one = np.where(swaps, -1, 1).astype(np.float32) / len(chosen[0])
    source, target = (features_allowing_for(each, frozenset(), random) for each in chosen)
    return permutation_p_value((source, target), np.concatenate([one, -one], axis=1), int(random.integers(2**63)))


def _class_test(labels: Sequence[Labels], permutations: int, random: Random) -> float:
    """P-value of a permutation test of equal class proportions: the chi-squared statistic, or its largest term."""
    both = np.concatenate(labels)
    is_class = (both[:, None] == np.unique(both)).astype(np.float64)
    signs = relabellings((len(labels[0]), len(labels[1])), permutations, random)
    terms = np.square(signs @ is_class) / is_class.sum(axis=0)
    return p_value([terms.sum(axis=1), terms.max(axis=1)])


def check_sets(sets: Sequence[Dataset]) -> None:
    """Check that symmetry tests can compare two sets."""
    for each in sets:
        check_flat(each, "symmetry tests")
        if len(each) < FEWEST:
            raise InputError(f"{each.name!r} has {len(each)} images; symmetry tests need at least {FEWEST}.")
    sizes = [(*each.images.shape[1:], 1)[:3] for each in sets]
    if sizes[0] != sizes[1]:
        raise InputError(f"symmetry tests need images of one size, but these are {sizes[0]} and {sizes[1]}.")
    if shared := count_copies(*sets) - sum(map(count_copies, sets)):
        problem = f"{shared} images of {sets[0].name!r} are also in {sets[1].name!r}"
        raise InputError(f"{problem}; a test needs independent samples: leave them out of one of the sets.")
