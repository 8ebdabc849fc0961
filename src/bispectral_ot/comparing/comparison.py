"""The result of a comparison: a distance for each pair of sets, how far it can be trusted, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import drawing
from bispectral_ot.comparing.classes import ClassDistances
from bispectral_ot.comparing.null_distribution import SamplingBias
from bispectral_ot.comparing.symmetry_tests import SymmetryTests
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_csv
from bispectral_ot.options import CompareOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]
_MOST_ROWS = 45  # pairs of ten sets
COLUMNS = ("source", "target", "distance", "error", "reference", "ratio", "p_value", "low", "high")


class Contributors(NamedTuple):
    """The images of one side that contribute most to a distance.

    Attributes
    ----------
    indices : (k,) their positions in the set, largest contribution first
    contributions : (k,)
    counterparts : (k,) the image of the other set that gets most of each one's mass
    """

    indices: NDArray[np.int64]
    contributions: Vector
    counterparts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets compared.

    All figures are relative to the scale of the comparison.

    Attributes
    ----------
    source, target : names of the sets
    distance : the debiased divergence; may be negative by less than ``error``
    error : bound on how far it is from the exact divergence of these images
    reference : what two samples of these sizes would be at if they were of one population, on average
    source_contributions, target_contributions : (n,) and (m,) what each image adds; they sum to ``distance``
    source_top, target_top : those that contribute most, with their best counterparts
    p_value : of the permutation test; None without one
    interval : of the bootstrap, (low, high); None without one
    converged : whether the solver met its tolerance
    """

    source: str
    target: str
    distance: float
    error: float
    reference: float
    source_contributions: Vector = field(repr=False)
    target_contributions: Vector = field(repr=False)
    source_top: Contributors = field(repr=False)
    target_top: Contributors = field(repr=False)
    p_value: float | None = None
    interval: tuple[float, float] | None = None
    converged: bool = True

    @property
    def ratio(self) -> float:
        """The distance in multiples of its reference."""
        return self.distance / self.reference if self.reference > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Distances between any number of sets, in one unit: the largest cost within a set, but for the uppermost 1 %.

    Attributes
    ----------
    names : of the N sets
    sizes : how many images each has
    pairs : the N (N - 1) / 2 pairs, in the order of the names
    biases : sampling bias of each set, for samples of any size
    scale : the unit, in the units of the metric
    labels : names of the class of each image, for each set; None where a set has none
    class_distances : between the classes of all sets, where labels were taken into account, relative to the scale
    symmetry_tests : what changed in each pair, where that was asked for
    options : of the call
    settings : the options with defaults resolved, and facts about features and storage
    seconds : spent in each stage

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> digits = bot.load("digits")
    >>> first, second = bot.split_halves(digits, per_class=20)
    >>> upside_down = first.images[:, ::-1, ::-1]
    >>> comparison = bot.compare({"first": first, "second": second, "upside down": upside_down})
    >>> comparison.distances.shape
    (3, 3)
    >>> bool(abs(comparison.pair("first", "upside down").distance) < 0.01)
    True
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    pairs: tuple[Pair, ...] = field(repr=False)
    biases: tuple[SamplingBias, ...] = field(repr=False)
    scale: float
    labels: tuple[NDArray[Any] | None, ...] = field(repr=False)
    class_distances: ClassDistances | None = field(default=None, repr=False)
    symmetry_tests: tuple[SymmetryTests, ...] = field(default=(), repr=False)
    options: CompareOptions = field(default_factory=CompareOptions, repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    seconds: dict[str, float] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        rows = [["", "", "distance", "+-", "one population", "p"]]
        for pair in self.pairs:
            rows.append([pair.source, pair.target, *_figures(pair)])
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [[pair.source, pair.target, *_figures(pair)] for pair in self.pairs]
        facts = {"sets": len(self.names), "unit": f"{self.scale:.4g} ({self.settings.get('metric', 'cost')})"}
        header = ["", "", "distance", "±", "one population", "p"]
        return drawing.html_panel("Comparison", facts, drawing.html_table(header, rows[:_MOST_ROWS]))

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the distances as a heat map on matplotlib axes, which are returned.

        Parameters
        ----------
        ax
            Axes to draw on; those of a new figure by default.

        Examples
        --------
        >>> import bispectral_ot as bot
        >>> first, second = bot.split_halves(bot.load("digits"), per_class=10)
        >>> bot.compare([first, second.images]).plot().images[0].get_array().shape
        (2, 2)
        """
        title = "Distances, relative to the largest cost within a set"
        return drawing.draw_matrix(ax, self.distances, self.names, self.names, form=".2g", title=title)

    @property
    def distances(self) -> Vector:
        """(N, N) debiased divergences: symmetric, exactly 0 on the diagonal, never clamped."""
        return self._matrix([pair.distance for pair in self.pairs])

    @property
    def errors(self) -> Vector:
        """(N, N) bounds on how far each distance is from the exact one."""
        return self._matrix([pair.error for pair in self.pairs])

    @property
    def references(self) -> Vector:
        """(N, N) what sampling alone gives; on the diagonal, for two samples of the size of the set."""
        own = [2 * bias.part(size) for bias, size in zip(self.biases, self.sizes, strict=True)]
        return self._matrix([pair.reference for pair in self.pairs], diagonal=np.array(own))

    @property
    def corrected(self) -> Vector:
        """(N, N) distances less what sampling alone gives; an estimate that may be negative.

        For sets of one population it is 0 on average, whatever their sizes.
        """
        return self.distances - self._matrix([pair.reference for pair in self.pairs])

    @property
    def p_values(self) -> Vector:
        """(N, N) of the permutation tests; NaN without them, 1 on the diagonal."""
        values = [np.nan if pair.p_value is None else pair.p_value for pair in self.pairs]
        return self._matrix(values, diagonal=np.ones(len(self.names)))

    @property
    def intervals(self) -> Vector:
        """(N, N, 2) of the bootstrap; NaN without it."""
        ends = [(np.nan, np.nan) if pair.interval is None else pair.interval for pair in self.pairs]
        return np.stack([self._matrix([end[side] for end in ends]) for side in (0, 1)], axis=2)

    @property
    def converged(self) -> bool:
        """Whether all solves met their tolerance."""
        return all(pair.converged for pair in self.pairs)

    def pair(self, source: str, target: str) -> Pair:
        """The pair of these names, in either order."""
        for pair in self.pairs:
            if {pair.source, pair.target} == {source, target}:
                return pair
        raise InputError(f"there is no pair {source!r} and {target!r}; the sets are {', '.join(self.names)}.")

    def class_contributions(self, source: str, target: str) -> dict[str, dict[str, float]]:
        """What each class of either set adds to the distance of a pair, by set and class; they sum to it."""
        pair = self.pair(source, target)
        found = {}
        for name, parts in ((pair.source, pair.source_contributions), (pair.target, pair.target_contributions)):
            labels = self.labels[self.names.index(name)]
            if labels is None:
                raise InputError(f"{name!r} has no labels; make it a Dataset(images, labels).")
            found[name] = {str(label): float(parts[labels == label].sum()) for label in np.unique(labels)}
        return found

    def table(self) -> list[dict[str, Any]]:
        """A row for each pair: the names and the figures of :data:`COLUMNS`; None where there is none."""
        rows = []
        for pair in self.pairs:
            low, high = pair.interval or (None, None)
            figures = (pair.distance, pair.error, pair.reference, pair.ratio, pair.p_value, low, high)
            rows.append(dict(zip(COLUMNS, (pair.source, pair.target, *figures), strict=True)))
        return rows

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise InputError("to_frame needs pandas (pip install pandas); table() gives the same rows.") from None
        return pandas.DataFrame(self.table(), columns=list(COLUMNS))

    def to_csv(self, path: str | Path) -> None:
        """Write the table as a CSV file."""
        write_csv(path, COLUMNS, [["" if cell is None else cell for cell in row.values()] for row in self.table()])

    def _matrix(self, values: list[float], diagonal: Vector | None = None) -> Vector:
        """A symmetric matrix (N, N) from a value for each pair."""
        count = len(self.names)
        matrix = np.zeros((count, count))
        upper = np.triu_indices(count, 1)
        matrix[upper] = values
        matrix += matrix.T
        if diagonal is not None:
            np.fill_diagonal(matrix, diagonal)
        return matrix


def _figures(pair: Pair) -> list[str]:
    p = "" if pair.p_value is None else f"{pair.p_value:.3g}"
    return [f"{pair.distance:.4g}", f"{pair.error:.0e}", f"{pair.reference:.4g}", p]
