"""Results of a comparison: a distance for each pair of sets, its error and reference, and contributions of images."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from bispectral_ot import drawing
from bispectral_ot.comparing.change_tests import SymmetryTests
from bispectral_ot.comparing.divergence import SamplingBias, Vector
from bispectral_ot.drawing import Axes
from bispectral_ot.errors import InputError

COLUMNS = ("source", "target", "distance", "error", "reference", "ratio", "p_value", "low", "high")


class Contributors(NamedTuple):
    """Images of one side that contribute most, and those of the other side that get their mass."""

    indices: NDArray[np.int64]
    contributions: Vector
    counterparts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets compared; all figures are relative to the scale of the comparison.

    Attributes
    ----------
    distance : debiased divergence; may be negative by less than ``error``
    error : bound on the difference from the exact divergence of these images
    reference : average distance of two samples of these sizes of one population
    source_contributions, target_contributions : (n,) and (m,) contribution of each image; the sum is ``distance``
    source_counterparts, target_counterparts : (k,) best counterparts of the images that contribute most
    p_value, low, high : of the permutation test, and interval of the bootstrap; None without these
    """

    source: str
    target: str
    distance: float
    error: float
    reference: float
    source_contributions: Vector = field(repr=False)
    target_contributions: Vector = field(repr=False)
    source_counterparts: NDArray[np.int64] = field(repr=False)
    target_counterparts: NDArray[np.int64] = field(repr=False)
    p_value: float | None = None
    low: float | None = None
    high: float | None = None
    converged: bool = True

    def swapped(self) -> Self:
        """Same pair with source and target exchanged."""
        names = [name for name in self.__dataclass_fields__ if name.startswith("source")]
        pairs = [(name, name.replace("source", "target")) for name in names]
        return replace(self, **{one: getattr(self, other) for pair in pairs for one, other in (pair, pair[::-1])})

    @property
    def ratio(self) -> float:
        """Distance in multiples of its reference."""
        return self.distance / self.reference if self.reference > 0 else float("nan")

    @property
    def source_top(self) -> Contributors:
        """Sources that contribute most, with their best counterparts."""
        at = largest(self.source_contributions)
        return Contributors(at, self.source_contributions[at], self.source_counterparts)

    @property
    def target_top(self) -> Contributors:
        """Targets that contribute most, with their best counterparts."""
        return self.swapped().source_top


def largest(contributions: Vector) -> NDArray[np.int64]:
    """Positions of the 16 largest contributions of one side."""
    return np.argsort(-contributions, kind="stable")[:16]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Distances between any number of sets, in units of the 99 % quantile of the costs within a set.

    Attributes
    ----------
    names, sizes : of the N sets
    pairs : the N (N - 1) / 2 pairs, in the order of the names
    biases : sampling bias of each set, for samples of any size
    scale : the unit, in the units of the metric
    labels : names of the class of each image, for each set; None where a set has none
    symmetry_tests : tests of what changed in each pair, if requested
    settings : options with defaults resolved, and facts about features and storage
    seconds : spent in each stage
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    pairs: tuple[Pair, ...] = field(repr=False)
    biases: tuple[SamplingBias, ...] = field(repr=False)
    scale: float
    labels: tuple[NDArray[Any] | None, ...] = field(repr=False)
    symmetry_tests: tuple[SymmetryTests, ...] = field(default=(), repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    seconds: dict[str, float] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return str(self.to_frame().to_string(index=False, float_format="%.4g"))

    def _repr_html_(self) -> str:
        facts = {"sets": len(self.names), "unit": f"{self.scale:.4g} ({self.settings.get('metric', 'cost')})"}
        table = self.to_frame().head(45).to_html(index=False, float_format="%.4g")  # pairs of ten sets
        return drawing.html_panel("Comparison", facts, table)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Heat map of the distances on matplotlib axes, by default those of a new figure."""
        title = "Distances between sets"
        return drawing.draw_matrix(ax, self.distances, self.names, self.names, form=".2g", title=title)

    @property
    def distances(self) -> Vector:
        """Matrix (N, N) of debiased divergences, symmetric, exactly 0 on the diagonal, and not clipped at 0."""
        return self._matrix("distance")

    @property
    def errors(self) -> Vector:
        """Bounds (N, N) on the errors of the distances."""
        return self._matrix("error")

    @property
    def references(self) -> Vector:
        """Average distances (N, N) between samples of one population; on the diagonal, two of the size of the set."""
        own = [2 * bias.part(size) for bias, size in zip(self.biases, self.sizes, strict=True)]
        return self._matrix("reference") + np.diag(own)

    @property
    def p_values(self) -> Vector:
        """p-values (N, N) of the permutation tests; NaN without them, 1 on the diagonal."""
        return self._matrix("p_value") + np.eye(len(self.names))

    @property
    def converged(self) -> bool:
        """Whether all solves met their tolerance."""
        return all(pair.converged for pair in self.pairs)

    def pair(self, source: str, target: str) -> Pair:
        """Pair of two sets, given by their names in either order."""
        for pair in self.pairs:
            if {pair.source, pair.target} == {source, target}:
                return pair
        raise InputError(f"there is no pair {source!r} and {target!r}; the sets are {', '.join(self.names)}.")

    def class_contributions(self, source: str, target: str) -> dict[str, dict[str, float]]:
        """Contributions of the classes to the distance of a pair, by set and class; their sum is the distance."""
        pair = self.pair(source, target)
        found = {}
        for name, parts in ((pair.source, pair.source_contributions), (pair.target, pair.target_contributions)):
            labels = self.labels[self.names.index(name)]
            if labels is None:
                raise InputError(f"{name!r} has no labels; make it a Dataset(images, labels).")
            found[name] = {str(label): float(parts[labels == label].sum()) for label in np.unique(labels)}
        return found

    def table(self) -> list[dict[str, Any]]:
        """List with one row per pair: names and the figures of :data:`COLUMNS`; None where there is none."""
        return [{name: getattr(pair, name) for name in COLUMNS} for pair in self.pairs]

    def to_frame(self) -> DataFrame:
        """Table as a pandas DataFrame."""
        return DataFrame(self.table(), columns=list(COLUMNS))

    def _matrix(self, name: str) -> Vector:
        """Symmetric matrix (N, N) of a figure of all pairs; NaN for None."""
        matrix = np.zeros((len(self.names), len(self.names)))
        matrix[np.triu_indices(len(matrix), 1)] = np.array([getattr(pair, name) for pair in self.pairs], dtype=float)
        return matrix + matrix.T
