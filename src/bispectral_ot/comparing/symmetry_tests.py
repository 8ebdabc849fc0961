"""Tests of what changed between two sets of images: intensity, sharpness, mirrors, turns, position, size, classes.

The null hypothesis of a test: both sets are samples of one population, but the images of one of them were changed in
the way that the test allows for, each by a change of its own, and resampled once more where that needs interpolation.
Mirrors and quarter turns move pixels without interpolation: random ones of both sides make the permutation test exact.
Brightness and contrast, position and size are brought to a standard for each image. Turned images are compared by
smooth rotation invariants of the inscribed disk, where the fill of the corners is not seen.

One more interpolation is seen in enough images, however smooth the features are. So a test with interpolation is made
several times: as the images are, and with either side resampled once more, by each of the usual interpolations. If one
side was resampled by one of these, both sides are alike in that version and its p-value is valid. The largest p-value
of all versions is therefore valid whichever interpolation it was, for any number of images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.comparing import resampling
from bispectral_ot.comparing.null_distribution import statistic
from bispectral_ot.comparing.resampling import Images, Rows
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import check_flat
from bispectral_ot.datasets.transforms import count_shared, has_background
from bispectral_ot.errors import InputError
from bispectral_ot.store import content_hash, dataset_hash

# Widths of the Gaussian kernels in medians of the squared distance, and random Fourier features of each.
_WIDTHS, _FREQUENCIES = (0.25, 1.0, 4.0), 256
_MEDIAN_IMAGES = 400
_FEWEST = 20
# Fraction of images with content on a background that position and size are standardised for.
_CLEAR = 0.9
# P-value beyond which no further version of a test is made.
_ENOUGH = 0.2
DEFAULT_PERMUTATIONS = 199
PROPORTIONS, CLASSES = "class proportions", "classes"


@dataclass(frozen=True)
class Allowed:
    """Changes that a test allows for.

    Attributes
    ----------
    intensity : brightness and contrast of each image
    sharpness : one more interpolation
    mirror, quarter : mirror images and quarter turns
    turn : rotation by any angle
    shift, zoom : position and size of the content
    """

    intensity: bool = False
    sharpness: bool = False
    mirror: bool = False
    quarter: bool = False
    turn: bool = False
    shift: bool = False
    zoom: bool = False

    def __le__(self, other: Allowed) -> bool:
        """Whether all of it is allowed by the other."""
        return all(
            theirs or not mine for mine, theirs in zip(asdict(self).values(), asdict(other).values(), strict=True)
        )


# In the order of the table; "scale" is size and position, as content that grows about the centre of the image moves.
CHANGES: dict[str, Allowed] = {
    "nothing": Allowed(),
    "intensity": Allowed(intensity=True),
    "sharpness": Allowed(sharpness=True),
    "mirrors": Allowed(mirror=True),
    "quarter turns": Allowed(quarter=True),
    "rotation": Allowed(sharpness=True, quarter=True, turn=True),
    "translation": Allowed(sharpness=True, shift=True),
    "scale": Allowed(sharpness=True, shift=True, zoom=True),
    "all of these": Allowed(True, True, True, True, True, True, True),
}


@dataclass(frozen=True)
class SymmetryTests:
    """What changed between two sets.

    Attributes
    ----------
    source, target : names of the sets
    p_values : of the tests up to each change; ``"class proportions"`` compares samples with equal proportions of
        classes, ``"classes"`` the proportions themselves, where both sets have labels
    adjusted : the same, corrected for the number of tests (Holm), but for ``"class proportions"``, which never tells a
        difference and only explains one
    level : significance level
    left_out : changes that could not be tested, and why
    """

    source: str
    target: str
    p_values: dict[str, float]
    adjusted: dict[str, float]
    level: float
    left_out: dict[str, str]

    @property
    def verdict(self) -> Verdict:
        """Smallest set of changes that explains the difference."""
        return decide(self.p_values, self.adjusted, self.level)

    @property
    def sentence(self) -> str:
        """The verdict in words, with the p-values that it rests on."""
        return self.verdict.sentence(self.source, self.target, self.p_values, self.adjusted)

    def summary(self) -> dict[str, Any]:
        """Fields, verdict and sentence in JSON's own types."""
        verdict = self.verdict
        return asdict(self) | {"verdict": verdict.kind, "changes": [*verdict.changes], "sentence": self.sentence}

    def table(self) -> list[dict[str, Any]]:
        """A row for each test: the change that is allowed for, p-value, adjusted p-value, and the result in a word."""
        return [
            {"allowing_for": name, "p_value": p, "adjusted": self.adjusted[name], "result": self._result(name)}
            for name, p in self.p_values.items()
        ]

    def _result(self, name: str) -> str:
        if self.adjusted[name] <= self.level:
            return "difference"
        return "undecided" if self.p_values[name] <= self.level else "none found"


@dataclass(frozen=True)
class Verdict:
    """Decision of a set of tests.

    Attributes
    ----------
    kind : ``"same"``, ``"explained"``, ``"changed"`` or ``"undecided"``
    changes : those that explain the difference; alternatives where the data do not decide between them
    reason : of an undecided verdict: ``"correction"``, ``"several"`` or ``"conflict"``
    """

    kind: str
    changes: tuple[str, ...] = ()
    reason: str = ""

    def sentence(self, source: str, target: str, p_values: dict[str, float], adjusted: dict[str, float]) -> str:
        """The decision in words."""
        tests = [name for name in adjusted if name != PROPORTIONS]
        strongest = min(tests, key=lambda name: (adjusted[name], p_values[name]))
        words = {name: f"{name} (p = {p:.3g})" for name, p in p_values.items()}
        found = (
            f"{source} and {target} differ: allowing for {words[strongest]}, {adjusted[strongest]:.3g} after correction"
        )
        if strongest == CLASSES:
            found = f"{source} and {target} have other proportions of classes (p = {p_values[CLASSES]:.3g})"
        alternatives = " or ".join(words[name] for name in self.changes)
        return _SENTENCES[self.kind, self.reason].format(
            both=f"{source} and {target}", found=found, strongest=words[strongest], changes=alternatives
        )


_SENTENCES = {
    ("same", ""): "No difference between {both} is found; the smallest p-value is that of {strongest}.",
    ("explained", ""): "{found}. The smallest change that explains it: {changes}.",
    ("changed", ""): "{found}. No change that was tested explains it: the content is different.",
    (
        "undecided",
        "correction",
    ): "Undecided for {both}: {strongest} is significant by itself, but not after correction for "
    "the number of tests. More images would decide.",
    ("undecided", "several"): "{found}. Undecided what explains it: {changes}.",
    (
        "undecided",
        "conflict",
    ): "{found}. Undecided what explains it: no change is both compatible with all tests and clear "
    "of doubt. More images would decide.",
}


def decide(p_values: dict[str, float], adjusted: dict[str, float], level: float) -> Verdict:
    """Verdict of tests.

    A difference needs an adjusted p-value of at most ``level``. A change explains it if neither its own p-value nor
    that of any test that allows for more is at most ``level``, corrected or not: sets that agree up to a change agree
    up to all that include it. Class proportions explain it if these differ, and samples with equal ones do not.
    """
    differing = {name for name, p in adjusted.items() if p <= level and name != PROPORTIONS}
    if not differing:
        doubtful = any(p <= level for name, p in p_values.items() if name != PROPORTIONS)
        return Verdict("undecided", reason="correction") if doubtful else Verdict("same")

    if CLASSES in differing and p_values[PROPORTIONS] > level:
        return Verdict("explained", (PROPORTIONS,))

    def including(name: str) -> list[str]:
        return [other for other in p_values if other in CHANGES and CHANGES[name] <= CHANGES[other]]

    tested = [name for name in p_values if name in CHANGES and name != "nothing"]
    fits = [name for name in tested if all(p_values[other] > level for other in including(name))]
    smallest = [name for name in fits if not any(other != name and CHANGES[other] <= CHANGES[name] for other in fits)]
    if "nothing" not in differing:
        # a difference that the plain test does not see: what explains it cannot be told from what hides it
        return Verdict("undecided", reason="conflict") if fits else Verdict("changed")
    if len(smallest) == 1:
        return Verdict("explained", tuple(smallest))
    if smallest:
        return Verdict("undecided", tuple(smallest), "several")
    if all(any(other in differing for other in including(name)) for name in tested):
        return Verdict("changed")
    return Verdict("undecided", reason="conflict")


def adjusted_p_values(p_values: dict[str, float]) -> dict[str, float]:
    """P-values of all tests, corrected for the number of those that tell a difference."""
    corrected = holm({name: p for name, p in p_values.items() if name != PROPORTIONS})
    return {name: corrected.get(name, p) for name, p in p_values.items()}


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """P-values adjusted for their number by the method of Holm.

    Examples
    --------
    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    order = sorted(p_values, key=lambda name: p_values[name])
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


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
    source, target
        Sets of images of one size, of 20 images at least; no image may be in both.
    permutations
        Number of permutations of each test.
    level
        Significance level of all tests together.
    test_images
        Maximum number of images of each set, drawn at random.
    seed
        Random seed.

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
    _check_sets(sets)
    random = np.random.default_rng(int(content_hash("symmetry tests", seed, *map(dataset_hash, sets)), 16))
    sets = [each.select(np.sort(random.permutation(len(each))[:test_images])) for each in sets]
    images = _standard_images(sets)
    left_out = _left_out(images)
    tasks: dict[str, Any] = {name: each for name, each in CHANGES.items() if name not in left_out}
    labels = _common_labels(sets)
    if labels:
        tasks |= {PROPORTIONS: None, CLASSES: None}
    tests = len(tasks) - (PROPORTIONS in tasks)
    fewest = int(np.ceil(tests / level - 1e-9)) - 1
    if permutations < fewest:
        raise InputError(
            f"{permutations} permutations are too few for {tests} tests at a level of {level:g}: the smallest "
            f"p-value, 1 / {permutations + 1}, is not significant after correction; ask for {fewest} at least."
        )
    p_values = {}
    for number, (name, allowed) in enumerate(tasks.items()):
        runtime.progress("symmetry tests", number, len(tasks))
        if allowed is not None:
            p_values[name] = change_test(images, allowed, permutations, random)
        elif name == PROPORTIONS:
            p_values[name] = _equal_proportions_test(images, labels, permutations, random)
        else:
            p_values[name] = _class_test(labels, permutations, random)
    runtime.progress("symmetry tests", len(tasks), len(tasks))
    return SymmetryTests(source.name, target.name, p_values, adjusted_p_values(p_values), level, left_out)


def change_test(images: Sequence[Images], allowed: Allowed, permutations: int, random: np.random.Generator) -> float:
    """P-value of a permutation test between two sets of images (n, height, width, channels), up to a change.

    The largest p-value of all versions: as the images are, and with one side resampled once more. Further versions are
    left out where it is beyond 0.2 already, which is as valid at any smaller level.
    """
    signs = relabellings((len(images[0]), len(images[1])), permutations, random)
    seed, largest = int(random.integers(2**63)), 0.0
    for rows in _versions(images, allowed, random):
        largest = max(largest, permutation_p_value(np.concatenate(rows), signs, seed))
        if largest > _ENOUGH:
            break
    return largest


def _versions(images: Sequence[Images], allowed: Allowed, random: np.random.Generator) -> Iterator[tuple[Rows, Rows]]:
    """Features of both sides: as they are, and with either side resampled once more by each interpolation."""
    source, target = (rows_allowing_for(each, allowed, random) for each in images)
    yield source, target
    if not allowed.sharpness:
        return
    for zoom, name in product((False, True) if allowed.zoom else (False,), resampling.INTERPOLATIONS):
        yield rows_allowing_for(images[0], allowed, random, again=name, zoom=zoom), target
        yield source, rows_allowing_for(images[1], allowed, random, again=name, zoom=zoom)


def rows_allowing_for(
    images: Images, allowed: Allowed, random: np.random.Generator, *, again: str | None = None, zoom: bool = False
) -> Rows:
    """Features of images that do not see the changes that are allowed; mean and deviation of each image come last.

    ``again`` is an interpolation by which images are resampled once more, at random motions that are allowed, and
    ``zoom`` is whether these change the size.
    """
    images = _moved(images, allowed, random)
    if again is not None:
        maps = resampling.random_maps(images, random, turn=allowed.turn, zoom=zoom)
        images = resampling.resampled(images, maps, again)
    if allowed.shift:
        images = resampling.resampled(images, resampling.content_maps(images, zoom=allowed.zoom), "bilinear")
    if allowed.intensity:  # last, as resampling changes the contrast
        mean, std = resampling.intensity_rows(images, within_disk=allowed.turn).T[:, :, None, None, None]
        images = (images - mean) / np.maximum(std, 1e-6)
    if allowed.turn:
        rows = resampling.turn_invariant_rows(images)
    elif allowed.shift:
        rows = resampling.smooth_rows(images)
    else:
        rows = resampling.coarse_rows(images) if allowed.sharpness else resampling.pixel_rows(images)
    return np.concatenate([rows, resampling.intensity_rows(images, within_disk=allowed.turn)], axis=1)


def _moved(images: Images, allowed: Allowed, random: np.random.Generator) -> Images:
    """Images after random mirrors and quarter turns, where these are allowed."""
    if allowed.mirror:
        chosen = random.random(len(images)) < 0.5
        images = np.where(chosen[:, None, None, None], images[:, :, ::-1], images)
    if allowed.quarter and not allowed.turn:
        turns = random.integers(4, size=len(images))
        images = images.copy()
        for turn in range(1, 4):
            images[turns == turn] = np.rot90(images[turns == turn], turn, axes=(1, 2))
    return images


def relabellings(sizes: tuple[int, int], permutations: int, random: np.random.Generator) -> Rows:
    """Weights (permutations + 1, N) of all images: one side less the other, as observed and relabelled."""
    weights = np.repeat(np.array([1 / sizes[0], -1 / sizes[1]], dtype=np.float32), sizes)
    return np.stack([weights, *(random.permutation(weights) for _ in range(permutations))])


def permutation_p_value(rows: Rows, signs: Rows, seed: int) -> float:
    """P-value of the largest of several MMDs, each relative to its spread over the relabellings.

    Kernels are Gaussian, of all columns but the last two and of these, by random Fourier features: time and memory are
    linear in the number of images.
    """
    rows = (rows - rows.mean(axis=0)).astype(np.float32)
    found = []
    for columns, frequencies in fourier_frequencies(rows, np.random.default_rng(seed)):
        angles = rows[:, columns] @ frequencies
        means = np.concatenate([signs @ np.cos(angles), signs @ np.sin(angles)], axis=1)
        found.append(np.square(means, dtype=np.float64).sum(axis=1))
    values = statistic(found)
    # relabellings that are the same up to equal images count as reached
    return float((values >= values[0] - 1e-9).sum() / len(values))


def fourier_frequencies(rows: Rows, random: np.random.Generator) -> list[tuple[slice, Rows]]:
    """Columns and random frequencies (columns, frequencies) of each Gaussian kernel; 0 where all rows are equal."""
    some = rows[random.permutation(len(rows))[:_MEDIAN_IMAGES]]
    found = []
    for columns in (slice(-2), slice(-2, None)):
        part = some[:, columns] - some[:, columns].mean(axis=0)
        squares = np.square(part).sum(axis=1)
        distances = squares[:, None] + squares - 2 * part @ part.T
        median = float(np.median(distances[~np.eye(len(part), dtype=bool)]))
        for width in _WIDTHS:
            scale = np.sqrt(2 / (width * median)) if median > 1e-12 else 0.0
            units = random.normal(scale=scale, size=(part.shape[1], _FREQUENCIES))
            found.append((columns, units.astype(np.float32)))
    return found


def _equal_proportions_test(
    images: Sequence[Images], labels: Sequence[NDArray[np.int64]], permutations: int, random: np.random.Generator
) -> float:
    """P-value of the plain test between samples with equally many images of each class, relabelled within classes."""
    chosen: list[list[NDArray[np.int64]]] = [[], []]
    for label in np.intersect1d(labels[0], labels[1]):
        members = [random.permutation(np.flatnonzero(each == label)) for each in labels]
        count = min(map(len, members))
        for side in (0, 1):
            chosen[side].append(members[side][:count])
    parts = [np.concatenate([np.empty(0, dtype=np.int64), *each]) for each in chosen]
    if len(parts[0]) < _FEWEST:
        return 1.0
    size = len(parts[0])
    swaps = (
        random.random((permutations + 1, size)) < 0.5
    )  # exchanges the two images at a position, which are of one class
    swaps[0] = False
    one = np.where(swaps, -1 / size, 1 / size).astype(np.float32)
    rows = [rows_allowing_for(each[part], Allowed(), random) for each, part in zip(images, parts, strict=True)]
    signs = np.concatenate([one, -one], axis=1)
    return permutation_p_value(np.concatenate(rows), signs, int(random.integers(2**63)))


def _class_test(labels: Sequence[NDArray[np.int64]], permutations: int, random: np.random.Generator) -> float:
    """P-value of a permutation test of equal class proportions, by the chi-squared statistic."""
    both = np.concatenate(labels)
    is_class = (both[:, None] == np.unique(both)).astype(np.float64)
    signs = relabellings((len(labels[0]), len(labels[1])), permutations, random)
    values = np.square(signs @ is_class) @ (1 / is_class.sum(axis=0))
    return float((values >= values[0] * (1 - 1e-9)).sum() / len(values))


def _common_labels(sets: Sequence[Dataset]) -> list[NDArray[np.int64]]:
    """Labels of both sets as numbers of common class names; empty where a set has none, or no name is common."""
    if any(each.labels is None for each in sets) or not {*sets[0].classes} & {*sets[1].classes}:
        return []
    names = sorted({*sets[0].classes, *sets[1].classes})
    places = [np.array([names.index(name) for name in each.classes]) for each in sets]
    return [place[each.labels] for place, each in zip(places, sets, strict=True)]


def _standard_images(sets: Sequence[Dataset]) -> list[Images]:
    """Images (n, height, width, channels), with mean 0 and standard deviation 1 over both sets together."""
    images = [np.asarray(each.images, dtype=np.float32).reshape(*each.images.shape[:3], -1) for each in sets]
    count = sum(each.size for each in images)
    mean = sum(float(each.sum(dtype=np.float64)) for each in images) / count
    square = sum(float(np.square(each - mean).sum(dtype=np.float64)) for each in images) / count
    return [(each - np.float32(mean)) / np.float32(np.sqrt(square) or 1.0) for each in images]


def _left_out(images: Sequence[Images]) -> dict[str, str]:
    """Changes that these images do not allow to test, and why; decided on both sets together."""
    height, width = images[0].shape[1:3]
    found = {}
    if height != width:
        found["quarter turns"] = "images are not square"
    clear = np.concatenate([has_background(each) for each in images]).mean()
    if clear < _CLEAR:
        reason = f"only {clear:.0%} of the images show content on a plain background"
        found |= dict.fromkeys(("translation", "scale", "all of these"), reason)
    return found


def _check_sets(sets: Sequence[Dataset]) -> None:
    for each in sets:
        check_flat(each, "symmetry tests")
        if len(each) < _FEWEST:
            raise InputError(
                f"{each.name!r} has {len(each)} images; symmetry tests need {_FEWEST} of each set at least."
            )
    sizes = [(*each.images.shape[1:], 1)[:3] for each in sets]
    if sizes[0] != sizes[1]:
        raise InputError(f"symmetry tests need images of one size, but these are {sizes[0]} and {sizes[1]}.")
    shared = count_shared(*sets)
    if shared:
        raise InputError(
            f"{shared} images of {sets[0].name!r} are also in {sets[1].name!r}; a test needs independent samples: "
            "leave them out of one of the sets."
        )
