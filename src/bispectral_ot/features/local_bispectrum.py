"""Local bispectra: rotation invariants of the neighbourhood of every pixel, pooled over the image."""

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.datasets.warp import radii
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import kernels
from bispectral_ot.features.polar import N_EDGE_FIELDS, Index, area_means
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, scaled_channels, unit_weights

HISTOGRAM, MAGNITUDE, PAIR, TRIPLE = 0, 1, 2, 3  # kinds of columns
INTENSITIES = ("keep", "ignore")
_MAX_ORDER, _LOWEST_ORDER = 4, -2  # of derivatives; the lowest is that of edges with spin
_N_BINS = 16  # of the histogram of each channel
_MAX_SIDE = 128  # longer images are reduced to it
_SAMPLE, _HISTOGRAM_SAMPLE = 4096, 256  # images that scales and bins are learned from
_RIM = 0.1  # of the radius: content fades out there, since pixels beyond do not turn with the rest
_ROUNDING = 1e-6  # of the largest content: less is rounding, of which square roots would make edges
_SMALLEST_GRID = 4  # pixels a side: less has no neighbourhoods
# The edge fields m^(1/2) e^{iqp}: a turn multiplies them by e^{iq angle}. Their planes: one real, two complex.
_PLANES = {0: (0, -1), 2: (1, 2), 4: (3, 4)}


@dataclass(kw_only=True, repr=False, eq=False)
class LocalBispectrum(BatchTransformer):
    """Rotation invariants of the neighbourhood of every pixel, pooled over the disk; defined in docs/real.md.

    - Channels (colours as their mean and differences): magnitudes and triples at levels 0 to L - 1.
    - Edges, of spin 0, 2 and 4, summed over channels: magnitudes and pairs at levels 1 to L.
    - Histograms of the channels, with 16 bins that ``fit`` makes equally full.

    Level s smooths by about ``2^s`` pixels. Magnitudes of pairs are raised to 1/2, those of the three factors of a
    triple to 1/4, 1/4, 1/2. Means and standard deviations over the disk are invariant to rotation and, up to the
    border, to translation. ``fit`` standardizes all columns.

    Parameters
    ----------
    symmetry : {"rotation-translation", "rotation-reflection-translation", "rotation", "rotation-reflection"}
        Translations are always ignored. With reflections, means of imaginary parts enter as magnitudes.
    intensity : {"ignore", "keep"}
        Whether brightness and contrast count; if not, contents (less the background) get root mean square 1.

    Notes
    -----
    Images whose shorter side exceeds 128 pixels are reduced to it. The background of a channel is its median on the
    largest circle inside the image. ``index_map_`` has the fields kind (0 histogram, 1 magnitude, 2 pair, 3 triple),
    spread (0 mean, 1 deviation), level, field, other (channels, then edges of spin 0, 2, 4), i, j (orders, bin), part.
    """

    symmetries = ("rotation-translation", "rotation-reflection-translation", "rotation", "rotation-reflection")
    default_metric = "sqeuclidean"
    _learned = ("scale_", "bins_", "slopes_", "means_", "deviations_")

    symmetry: str = "rotation-translation"
    intensity: str = "ignore"

    def fit_transform(self, X: Any, y: Any = None) -> Rows:
        """Features of the images that they are fitted to, extracted once for both if there are at most 4,096."""
        rows, shape = self._read(X, reset=True)
        self.image_shape_ = shape or self._shape_of_row(rows.shape[1])
        features = self._fit(rows)
        return features if len(features) == len(rows) else self.transform(X)

    def _fit(self, rows: NDArray[Any]) -> Rows:
        """Learn histogram bins, and mean and deviation of every column, from at most 4,096 images; their features."""
        super()._fit(rows)
        rows = rows if len(rows) <= _SAMPLE else rows[evenly_spaced(len(rows), _SAMPLE)]  # no copy of all
        self.means_, self.deviations_ = (np.full(self.n_features_out_, each, dtype=np.float32) for each in (0, 1))
        peak = max(abs(float(rows.max())), abs(float(rows.min())))
        self.scale_ = 2.0 ** (math.frexp(peak)[1] - 1) if peak > 0 else 1.0
        some = rows[:: -(-len(rows) // _HISTOGRAM_SAMPLE)]
        step = 1 + len(self.disk_) // 2**12  # of the pixels of a large image some are enough
        inside = np.concatenate([self._contents(some[i : i + 1])[0][..., ::step] for i in range(len(some))])
        self.bins_ = np.quantile(inside, np.arange(1, _N_BINS) / _N_BINS, axis=(0, 2)).T.astype(np.float32)
        low, high = np.quantile(inside, [0.01, 0.99], axis=(0, 2))
        self.slopes_ = (_N_BINS / np.maximum(high - low, _ROUNDING)).astype(np.float32)
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # transform will warn
            features = self.transform(rows)
        self.means_ = features.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviations = features.std(axis=0, dtype=np.float64)
        # a column that is the same for all images must not become rounding
        vanishing = deviations <= _ROUNDING * np.maximum(1, np.abs(self.means_))
        self.deviations_ = np.where(vanishing, np.inf, deviations).astype(np.float32)
        features -= self.means_
        features /= self.deviations_
        return features

    def _prepare(self) -> Columns:
        check_choice("symmetry", self.symmetry, self.symmetries)
        check_choice("intensity", self.intensity, INTENSITIES)
        given = self.image_shape_[:2]
        if min(given) < 2 or (min(given) < 4 and max(given) > 16):
            advice = "point clouds need symmetry='so3-shapes' (--symmetry so3-shapes), signals symmetry='translation'"
            raise InputError(f"images of {given[0]} x {given[1]} pixels are too narrow to rotate; {advice}.")
        factor = min(1.0, _MAX_SIDE / min(given))
        size = self.size_ = max(1, round(factor * given[0])), max(1, round(factor * given[1]))
        edges = (np.linspace(0, side, count + 1) for side, count in zip(given, size, strict=True))
        down, across = (np.stack([each[:-1], each[1:]], axis=1) for each in edges)
        self.cells_ = (down, across) if factor < 1 else None
        wanted, grid = max(1, round(math.log2(min(size) / 8))), (*size,)
        self.disks_: list[Index] = []
        while len(self.disks_) <= wanted and (min(grid) >= _SMALLEST_GRID or not self.disks_):
            inside = radii(*grid) <= min(grid) / 2
            start = np.where(inside.any(axis=1), inside.argmax(axis=1), 0)
            self.disks_.append(np.stack([start, start + inside.sum(axis=1)]))
            grid = (grid[0] + 1) // 2, (grid[1] + 1) // 2
        radius = radii(*size) / (min(size) / 2)
        fade = np.clip((1 - radius) / _RIM, 0, 1)
        self.window_ = (fade * fade * (3 - 2 * fade)).astype(np.float32)
        self.circle_ = np.flatnonzero(np.abs(radii(*size) - (min(size) - 1) / 2) <= 1)
        self.disk_ = np.flatnonzero(radius <= 1)
        # orthonormal: the mean of the channels, then the mean of the first k against the next, k = 1, 2, ...
        rows = np.tril(np.ones((self._channels, self._channels)), -1) - np.diag(np.arange(self._channels))
        rows[0] = 1
        self.contrasts_ = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        channels = range(self._channels)
        channel, cut = np.ix_(channels, range(_N_BINS - 1))
        histogram = _columns(kind=HISTOGRAM, level=-1, field=channel, other=-1, i=cut, j=-1)
        # levels of the channels, and levels 1, 2, ... of the edges
        self._n_channel_levels = max(1, len(self.disks_) - 1)
        places = [(CHANNEL_LADDER, level, c) for level in range(self._n_channel_levels) for c in channels]
        places += [(EDGE_LADDER, level, self._channels) for level in range(1, len(self.disks_))]
        return unit_weights(np.concatenate([histogram, *(_ladder_columns(*place) for place in places)]))

    def _scratch_per_row(self) -> int:
        pixels = (self.size_[0] + 4) * (self.size_[1] + 4)
        planes = 4 * pixels * (4 * self._channels + 2 * N_EDGE_FIELDS)
        return 8 * self.n_features_in_ + planes + 4 * self.n_features_out_

    def _contents(self, rows: NDArray[Any]) -> tuple[Rows, Rows]:
        """Grey values in the disk (n, channels, pixels), for histograms, and contents (n, channels, height, width)."""
        n, (height, width) = len(rows), self.image_shape_[:2]
        if self.intensity == "ignore":
            scaled = scaled_channels(rows, 1)
        else:
            exact = np.float32 if rows.dtype.itemsize <= 2 else rows.dtype.type
            scaled = (rows / exact(self.scale_)).astype(np.float32, copy=False)
        if self.cells_ is None:
            given: NDArray[Any] = scaled.reshape(n, height, width, self._channels).transpose(0, 3, 1, 2)
        else:
            given = area_means(scaled.reshape(n, -1), *self.cells_, self._channels)
        planes = np.ascontiguousarray(given, dtype=np.float32)
        if self._channels > 1:
            planes = np.tensordot(self.contrasts_, planes, axes=(1, 1)).transpose(1, 0, 2, 3)
        flat = planes.reshape(n, self._channels, -1)
        contents = flat - np.median(flat[:, :, self.circle_], axis=2, keepdims=True)
        contents *= np.abs(contents) >= _ROUNDING
        inside = (contents if self.intensity == "ignore" else flat).take(self.disk_, axis=2)
        window = self.window_.ravel()
        if self.intensity == "ignore":
            sizes = np.sqrt(np.einsum("ncp,ncp->n", inside, inside) / inside[0].size)[:, None, None]
            sizes[sizes == 0] = 1
            inside /= sizes
            window = window / sizes
        contents *= window
        return inside, contents.reshape(n, self._channels, *self.window_.shape)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        inside, contents = self._contents(rows)
        n, channels = contents.shape[:2]
        shares = np.empty((n, channels, self.bins_.shape[1]), dtype=np.float32)
        kernels.shares_above(inside, self.bins_, self.slopes_, shares)
        blocks = [shares.reshape(n, -1)]
        pyramid = list(_pyramid(contents, self._n_channel_levels))
        for planes, disk in zip(pyramid, self.disks_, strict=False):
            one_each = planes.reshape(n * channels, 1, *planes.shape[2:])
            blocks.append(CHANNEL_LADDER.pooled(one_each, disk).reshape(n, -1))
        if len(self.disks_) > 1:
            edges = np.zeros((n, N_EDGE_FIELDS, *pyramid[0].shape[2:]), dtype=np.float32)
            kernels.local_edges(pyramid[0], np.zeros((6, edges[0, 0].size), dtype=np.float32), edges)
            inner = slice(kernels.MARGIN, -kernels.MARGIN)
            levels = list(_pyramid(edges[:, :, inner, inner], len(self.disks_)))
            for planes, disk in zip(levels[1:], self.disks_[1:], strict=True):
                blocks.append(EDGE_LADDER.pooled(planes, disk))
        features = np.concatenate(blocks, axis=1)
        if "reflection" in self.symmetry:
            odd = (self.index_map_["part"] == 1) & (self.index_map_["spread"] == 0)
            features[:, odd] = np.abs(features[:, odd])
        np.subtract(features, self.means_, out=out)
        out /= self.deviations_
        return int((~contents.any(axis=(1, 2, 3))).sum())


def _pyramid(planes: Rows, n_levels: int) -> Iterator[Rows]:
    """Smoothed planes (n, k, height, width) of each level with a margin, every level half as fine as the one before."""
    n, k, height, width = planes.shape
    margin = kernels.MARGIN
    last = padded = np.pad(planes.reshape(n * k, height, width), ((0, 0), (margin, margin), (margin, margin)))
    for level in range(n_levels):
        if level:
            height, width = (height + 1) // 2, (width + 1) // 2
            padded = np.zeros((n * k, height + 2 * margin, width + 2 * margin), dtype=np.float32)
            kernels.halve(last, padded)
        last = np.zeros_like(padded)
        kernels.smooth(padded, np.zeros_like(padded[0]), last)
        yield last.reshape(n, k, *last.shape[1:])


class Ladder(NamedTuple):
    """Responses of the fields of one level, each derived from another, and their products.

    ``steps`` (n_slots, 4) are slot, source, other, sign, in the order of computation: with sign 0 a slot is the field
    with real plane ``source`` and imaginary plane ``other`` (-1: none); else ``d/dx + i sign d/dy`` of the slot.
    """

    steps: Index
    depths: Index  # number of derivatives that each slot takes
    fields: Index  # of each response; the first slots are the responses
    orders: Index
    pairs: Index  # (n, 2) slots that are multiplied
    triples: Index  # (n, 3)
    uses: Index  # (n_responses, 2): whether z / |z|^(1/2) and z / |z|^(3/4) are needed

    @classmethod
    def of(cls, steps: list[Any], responses: list[tuple[int, int]], pairs: list[Any], triples: list[Any]) -> Self:
        """Ladder of the tables and the (field, order) of each response, with the depths and uses that follow."""
        fields, orders = np.ascontiguousarray(_table(responses, 2).T)
        depths = np.zeros(len(steps), dtype=np.int64)
        for slot, source, _, sign in steps:
            depths[slot] = depths[source] + 1 if sign else 0
        uses = np.zeros((len(fields), 2), dtype=np.int64)
        uses[[slot for pair in pairs for slot in pair] + [last for *_, last in triples], 0] = 1
        uses[[slot for *two, _ in triples for slot in two], 1] = 1
        return cls(_table(steps, 4), depths, fields, orders, _table(pairs, 2), _table(triples, 3), uses)

    def pooled(self, planes: Rows, disk: Index) -> Rows:
        """Means and deviations over the disk of the invariants of planes (n, k, ...): (n, columns of the ladder)."""
        n, _, padded, width = planes.shape
        height, n_responses = padded - 2 * kernels.MARGIN, len(self.fields)
        rows = height + int(self.depths.max())
        if height * width > 2 * kernels.STRIP_PIXELS:
            rows = max(1, kernels.STRIP_PIXELS // width)
        slots = np.zeros((len(self.steps), 2, padded, width), dtype=np.float32)
        scratch = np.empty((3, n_responses, 4, rows * width + 2), dtype=np.float32)
        sums = np.zeros((n, n_responses + 2 * len(self.pairs) + 2 * len(self.triples), 2))
        kernels.pool_ladder(planes, disk, self, slots, scratch, sums)
        means, squares = sums.transpose(2, 0, 1) / (disk[1] - disk[0]).sum()
        return np.concatenate([means, np.sqrt(np.maximum(squares - means**2, 0))], axis=1, dtype=np.float32)


def channel_ladder() -> Ladder:
    """Orders 0 (the Laplacian) to 4 of a real field, with its triples."""
    field = _MAX_ORDER + 1  # the slot of the field itself, which is not pooled
    further = ((order, order - 1, -1, 1) for order in range(2, _MAX_ORDER + 1))
    steps = [(field, 0, -1, 0), (1, field, -1, 1), *further, (0, 1, -1, -1)]
    triples = [(i, j, i + j) for i in range(1, _MAX_ORDER) for j in range(i, _MAX_ORDER + 1 - i)]
    return Ladder.of(steps, [(0, order) for order in range(_MAX_ORDER + 1)], [], triples)


def edge_ladder() -> Ladder:
    """Orders -2 (0 for spin 0) to 4 of the edge fields, with the pairs of different fields."""
    lowest = [_LOWEST_ORDER if spin else 0 for spin in _PLANES]
    responses = [(field, order) for field in range(len(_PLANES)) for order in range(lowest[field], _MAX_ORDER + 1)]
    slots = {key: at for at, key in enumerate(responses)}
    steps: list[tuple[int, ...]] = []
    for field, (spin, planes) in enumerate(_PLANES.items()):
        higher, lower = range(spin + 1, _MAX_ORDER + 1), range(spin - 1, lowest[field] - 1, -1)
        steps.append((slots[field, spin], *planes, 0))
        for order, sign in [*((order, 1) for order in higher), *((order, -1) for order in lower)]:
            steps.append((slots[field, order], slots[field, order - sign], -1, sign))
    pairs = [(slots[a], slots[b]) for a, b in itertools.combinations(responses, 2) if a[1] == b[1]]
    return Ladder.of(steps, responses, pairs, [])


def _table(rows: list[Any], width: int) -> Index:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


CHANNEL_LADDER, EDGE_LADDER = channel_ladder(), edge_ladder()


def _ladder_columns(ladder: Ladder, level: int, first_field: int) -> NDArray[np.void]:
    fields, orders = first_field + ladder.fields, ladder.orders
    magnitudes = _columns(kind=MAGNITUDE, level=level, field=fields, other=-1, i=orders, j=-1)
    a, b = ladder.pairs.T
    pairs = _columns(kind=PAIR, level=level, field=fields[a], other=fields[b], i=orders[a], j=-1)
    i, j, _ = ladder.triples.T
    triples = _columns(kind=TRIPLE, level=level, field=fields[i], other=-1, i=orders[i], j=orders[j])
    products = np.repeat(np.concatenate([pairs, triples]), 2)
    products["part"] = np.arange(len(products)) % 2
    means = np.concatenate([magnitudes, products])
    found = np.concatenate([means, means])
    found["spread"][len(means) :] = 1
    return found


def _columns(**fields: Any) -> NDArray[np.void]:
    names = ("kind", "spread", "level", "field", "other", "i", "j", "part")
    return columns_table(**{name: fields.get(name, 0) for name in names})
