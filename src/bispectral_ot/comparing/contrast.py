"""Changed, or merely turned? The same test by pixels and up to each symmetry, with both sides moved at random first.

A turned image has been interpolated, and a strong test sees that. So before two sets are compared up to a group, every
image of both is moved by a random element of it: two sets whose images differ by such moves only are then samples of
one population, and a permutation test between them is exact.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bispectral_ot.checks import check_choice
from bispectral_ot.comparing.compare import AnySet, compare, named_sets
from bispectral_ot.datasets import Dataset, rotate_randomly
from bispectral_ot.datasets.dataset import check_flat
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent

Move = Callable[[Dataset, np.random.Generator], Dataset]


def _flip(dataset: Dataset, random: np.random.Generator) -> Dataset:
    chosen = random.random(len(dataset)) < 0.5
    images = dataset.images.copy()
    images[chosen] = images[chosen, :, ::-1]
    return replace(dataset, images=images)


def _quarter_turn(dataset: Dataset, random: np.random.Generator) -> Dataset:
    turns = random.integers(4, size=len(dataset))
    images = dataset.images.copy()
    for turn in range(1, 4):
        images[turns == turn] = np.rot90(images[turns == turn], turn, axes=(1, 2))
    return replace(dataset, images=images)


def _shift(dataset: Dataset, random: np.random.Generator) -> Dataset:
    height, width = dataset.images.shape[1:3]
    steps = random.integers([height, width], size=(len(dataset), 2))
    rows = (np.arange(height) - steps[:, :1]) % height
    columns = (np.arange(width) - steps[:, 1:]) % width
    each = np.arange(len(dataset))[:, None, None]
    return replace(dataset, images=dataset.images[each, rows[:, :, None], columns[:, None, :]])


def _turn(dataset: Dataset, random: np.random.Generator) -> Dataset:
    return rotate_randomly(dataset, seed=int(random.integers(2**31)))


@dataclass(frozen=True)
class _Symmetry:
    """A group that images may have been moved by: its moves, and features that are blind to them.

    ``within`` names the groups that contain it. Pixels are not blind: with them, both sides being moved at random is
    what makes the comparison one up to the group.
    """

    moves: tuple[Move, ...]
    features: str
    invariance: str
    square: bool = False
    within: tuple[str, ...] = ()


_ROUND = ("d4", "rotation", "rotation-reflection")
# In the order of their size: the first under which two sets agree is the smallest.
SYMMETRIES: dict[str, _Symmetry] = {
    "none": _Symmetry((), "pixels", "none", within=("mirrors", "quarter turns", "translation", *_ROUND)),
    "mirrors": _Symmetry((_flip,), "pixels", "none", within=("d4", "rotation-reflection")),
    "quarter turns": _Symmetry((_quarter_turn,), "pixels", "none", square=True, within=_ROUND),
    "d4": _Symmetry((_flip, _quarter_turn), "d4-bispectrum", "d4", square=True, within=("rotation-reflection",)),
    "translation": _Symmetry((_shift,), "translation-bispectrum", "translation"),
    "rotation": _Symmetry((_turn,), "coupled-bispectrum", "rotation", within=("rotation-reflection",)),
    "rotation-reflection": _Symmetry((_flip, _turn), "coupled-bispectrum", "rotation-reflection"),
}


@dataclass(frozen=True)
class Contrast:
    """Whether two sets are different, and up to which symmetries they are not.

    Attributes
    ----------
    source, target : names of the sets
    p_values : of a permutation test up to each symmetry, from the smallest group to the largest
    ratios : the distance in multiples of what sampling alone gives, likewise
    level : below which a p-value counts as a difference
    """

    source: str
    target: str
    p_values: dict[str, float]
    ratios: dict[str, float]
    level: float

    @property
    def smallest(self) -> str | None:
        """The smallest group under which no difference is found; None where one is found under all.

        Sets that agree up to a group agree up to all that contain it: a clear difference up to one of these (at the
        level divided by the number of tests) counts, too.
        """
        clear = {name for name, p in self.p_values.items() if p <= self.level / len(self.p_values)}
        found = (name for name, p in self.p_values.items() if p > self.level and not clear & {*SYMMETRIES[name].within})
        return next(found, None)

    @property
    def sentence(self) -> str:
        """What follows."""
        both = f"{self.source} and {self.target}"
        by_pixels = f"by pixels p = {self.p_values['none']:.3g}"
        if self.smallest == "none":
            return f"No difference between {both} is found ({by_pixels})."
        if self.smallest is None:
            return f"{both} differ ({by_pixels}), whatever symmetry is allowed for: the content has changed."
        p = self.p_values[self.smallest]
        return (
            f"{both} differ as they are ({by_pixels}), but no difference is found up to {self.smallest} (p = {p:.3g}): "
            "the images were moved, and no change of content is seen."
        )


def contrast(
    source: AnySet,
    target: AnySet,
    *,
    symmetries: Sequence[str] | None = None,
    randomize: bool = True,
    permutations: int = 199,
    level: float = 0.05,
    seed: int = 0,
    done: MutableMapping[str, Any] | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Contrast:
    """Test two sets of images as they are, and up to each symmetry that they allow.

    Parameters
    ----------
    source, target
        Sets of flat images, as for :func:`~bispectral_ot.compare`.
    symmetries
        Names in ``SYMMETRIES``; all that the images allow by default. ``"none"`` is always among them.
    randomize
        Move all images of both sides at random by each group first, which makes the null hypothesis exact.
    permutations, level, seed
        Of the tests, as for :func:`~bispectral_ot.compare`. Each symmetry is a test of its own at this level.
    done
        What an earlier call with the same sets and options has computed; what is missing is added.
    options
        Further options of :func:`~bispectral_ot.compare`, such as ``pca`` or ``test_images``.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> first, second = bot.split_halves(bot.load("digits"), per_class=15)
    >>> mirrored = second.images[:, :, ::-1]
    >>> contrast(first, mirrored, symmetries=["mirrors"], permutations=39).smallest
    'mirrors'
    """
    sets = named_sets({"source": source, "target": target})[1]
    for dataset in sets:
        check_flat(dataset, "a contrast of symmetries")
    square = len({*sets[0].images.shape[1:3]}) == 1
    allowed = [name for name, each in SYMMETRIES.items() if square or not each.square]
    asked = allowed if symmetries is None else [check_choice("symmetry", name, SYMMETRIES) for name in symmetries]
    refused = [name for name in asked if name not in allowed]
    if refused:
        raise InputError(f"{refused[0]} needs square images, but these are {sets[0].images.shape[1:3]}.")
    titles = [dataset.name for dataset in sets]
    if titles[0] == titles[1]:
        titles = ["source", "target"]
    done = {} if done is None else done
    tested = [name for name in allowed if name in {"none", *asked}]
    for number, name in enumerate(tested):
        progress("symmetries", number, len(tested))
        key = name.replace(" ", "-")
        if key not in done:
            chosen = SYMMETRIES[name]
            random = np.random.default_rng([seed, number])
            moved = [_moved(dataset, chosen.moves if randomize else (), random) for dataset in sets]
            found = compare(
                {"source": moved[0], "target": moved[1]},
                features=chosen.features,
                symmetry=chosen.invariance,
                permutations=permutations,
                level=level,
                seed=seed,
                progress=progress,
                **options,
            ).pairs[0]
            done[key] = {"p_value": found.p_value, "ratio": found.ratio}
    progress("symmetries", len(tested), len(tested))
    p_values, ratios = (
        {name: float(done[name.replace(" ", "-")][figure]) for name in tested} for figure in ("p_value", "ratio")
    )
    return Contrast(titles[0], titles[1], p_values, ratios, level)


def _moved(dataset: Dataset, moves: Sequence[Move], random: np.random.Generator) -> Dataset:
    for move in moves:
        dataset = move(dataset, random)
    return dataset
