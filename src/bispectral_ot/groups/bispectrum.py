"""Bispectra of signals on finite groups, and on the circle."""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_choice
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.errors import InputError
from bispectral_ot.groups.finite import CyclicGroup, FiniteGroup, IntArray
from bispectral_ot.transformer import VANISHING, BatchTransformer, columns_table, take_out_sizes, write_scaled

Numbers = NDArray[Any]  # float64, or complex128 if irreps are complex


class Blocks(NamedTuple):
    """Blocks of one size: ``value[i, j, k] = sum_pqu tensor[p, q, u] F_r[i, p] F_s[j, q] conj(F_t[k, u])``."""

    labels: IntArray  # (n_blocks, 4) r, s, t and the number of the copy of t in r (x) s
    tensor: Numbers  # (n_blocks, d_r, d_s, d_t) columns of the Clebsch-Gordan matrix divided by sqrt(d_t)
    counts: IntArray  # ordered pairs that each represents
    first: IntArray  # positions of F_r, F_s, F_t in the flat Fourier coefficients
    second: IntArray
    third: IntArray

    def entries(self, coefficients: Numbers) -> Numbers:
        """Values (n, n_blocks * d_r * d_s * d_t) from Fourier coefficients (n, order)."""
        if not np.iscomplexobj(self.tensor):
            coefficients = np.ascontiguousarray(coefficients.real)
        n_blocks, d1, d2, d3 = self.tensor.shape
        shape = (len(coefficients), n_blocks, d1, d2, d3)
        adjoint = coefficients[:, self.third].conj().swapaxes(-1, -2)
        values = _apply(self.tensor.reshape(n_blocks, d1 * d2, d3), adjoint, d3)
        values = _apply(coefficients[:, self.second][:, :, None], values.reshape(shape), d2)
        values = _apply(coefficients[:, self.first], values.reshape(*shape[:3], d2 * d3), d1)
        return values.reshape(len(coefficients), -1)


def _apply(left: Numbers, right: Numbers, dimension: int) -> Numbers:
    """``left @ right`` over ``dimension``; products with 1 x 1 matrices are faster without matmul."""
    return left * right if dimension == 1 else left @ right


def full_pairs(group: FiniteGroup) -> IntArray:
    """One pair of irreps per orbit under swapping and conjugation: rows (r, s, size of the orbit)."""
    n, bar = len(group.irreps), group.conjugate_irrep
    r, s = np.indices((n, n)).reshape(2, -1)
    codes = np.stack([r * n + s, s * n + r, bar[r] * n + bar[s], bar[s] * n + bar[r]])
    kept, counts = np.unique(codes.min(axis=0), return_counts=True)
    return np.stack([kept // n, kept % n, counts], axis=1)


def make_blocks(group: FiniteGroup, pairs: IntArray) -> list[Blocks]:
    """Blocks of the given pairs of irreps (rows r, s, count), grouped by size."""
    dimensions = group.dimensions
    starts = np.concatenate([[0], np.cumsum(dimensions**2)])
    multiplicities = {r: group.multiplicities(r, slice(None)) for r in np.unique(pairs[:, 0]).tolist()}
    sizes: dict[tuple[int, ...], list[tuple[tuple[int, ...], Numbers, int]]] = defaultdict(list)
    for r, s, count in pairs.tolist():
        column, is_scalar = 0, dimensions[r] * dimensions[s] == 1
        matrix = np.ones((1, 1)) if is_scalar else group.clebsch_gordan(r, s)[0]
        for t in np.flatnonzero(multiplicities[r][s]).tolist():
            shape = tuple(dimensions[[r, s, t]].tolist())
            for copy in range(multiplicities[r][s, t]):
                tensor = matrix[:, column : column + shape[2]].reshape(shape) / np.sqrt(shape[2])
                sizes[shape].append(((r, s, t, copy), tensor, count))
                column += shape[2]
    is_real = not any(irrep.imag.any() for irrep in group.irreps)
    groups = []
    for shape, listed in sorted(sizes.items()):
        labels, tensors, counts = (np.array(field) for field in zip(*listed, strict=True))
        first, second, third = (
            starts[irrep][:, None, None] + np.arange(d * d).reshape(d, d)
            for irrep, d in zip(labels.T[:3], shape, strict=True)
        )
        tensors = np.ascontiguousarray(tensors.real) if is_real else tensors.astype(np.complex128)
        groups.append(Blocks(labels, tensors, counts, first, second, third))
    return groups


class Columns(NamedTuple):
    """Distinct real columns of a set of complex entries."""

    entry: IntArray
    part: IntArray  # 0 real, 1 imaginary
    counts: IntArray  # unfolded numbers that each represents
    scale: NDArray[np.float64]  # factor


def find_columns(probes: Numbers, counts: IntArray, factors: NDArray[np.float64]) -> Columns:
    """Distinct columns, from the values ``probes`` (n_probes, n_entries) of the entries for a few random signals.

    Entries are polynomials of the signal: two that agree on random signals agree on all of them. ``counts`` has the
    number of unfolded entries that each represents, ``factors`` their squared factor in the unfolded array.
    """
    n_entries, parts = len(counts), np.concatenate([probes.real, probes.imag], axis=1)
    tolerance = 1e-10 * np.abs(parts).max(initial=0)  # of equal entries
    sign = np.sign(parts[0]) * (np.abs(parts).max(axis=0) > tolerance)
    nonzero = np.flatnonzero(sign)
    positive = parts[:, nonzero] * sign[nonzero]
    order = np.argsort(positive[0], kind="stable")
    is_new = np.abs(np.diff(positive[:, order], axis=1, prepend=-np.inf)).max(axis=0) > tolerance
    label = np.empty(len(nonzero), dtype=np.int64)
    label[order] = np.cumsum(is_new) - 1

    # number the columns in the order of their first entry
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    column, shown = np.argsort(np.argsort(first))[label], nonzero[np.sort(first)]
    total = np.bincount(column, np.tile(counts, 2)[nonzero])
    squares = np.bincount(column, np.tile(counts * factors, 2)[nonzero])
    part, entry = np.divmod(shown, n_entries)
    return Columns(entry, part, np.rint(total).astype(np.int64), np.sqrt(squares / total))


class GroupBispectrum(BatchTransformer):
    """Bispectrum of real signals on a finite group.

    ``B[r, s] = (F_r (x) F_s) C_rs [ (+)_{t in r (x) s} F_t^H ] C_rs^H`` (appendix C of the paper) with
    ``F_rho = sum_g f(g) rho(g)^H`` is invariant to the translations ``f(g) -> f(t^-1 g)``. Two signals with invertible
    ``F_rho`` have the same bispectrum only if one is a translation of the other.

    The columns are the entries of ``(F_r (x) F_s) C_t F_t^H`` for t in ``r (x) s``. Entries that are zero, or equal up
    to the sign, for all real signals are dropped and counted in ``feature_weights_``: weighted L2 and cosine distances
    (for commutative groups also L1) are those between the complete arrays B.

    Parameters
    ----------
    group : The group; signals have one value per element.
    coefficients : {"full", "selective"}
        All pairs (r, s), of the order of ``|G|^2`` numbers; or ``B[0, s]`` and ``B[r, s]`` for all s and the few r that
        distinguish the elements of the group, of the order of ``|G|`` numbers, which determine a signal with
        invertible ``F_rho`` up to the group (after Mataigne et al. 2024).
    normalize : Divide each bispectrum by its L2 norm, which removes the scale of the signal.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.groups import SymmetricGroup
    >>> from bispectral_ot.features import GroupBispectrum
    >>> group = SymmetricGroup(3)
    >>> signals = np.random.default_rng(0).random((2, group.order))
    >>> bispectrum = GroupBispectrum(group).fit(signals)
    >>> moved = group.translate(signals, 4)  # f(x) -> f(t^-1 x)
    >>> np.allclose(bispectrum.transform(moved), bispectrum.transform(signals), atol=1e-6)
    True
    """

    _accepts_images = False
    columns_: Columns
    _kept_blocks: list[Blocks]
    _positions: IntArray
    _fourier_matrix: NDArray[np.complex128]

    def __init__(self, group: FiniteGroup, *, coefficients: str = "full", normalize: bool = True) -> None:
        self.group, self.coefficients, self.normalize = group, coefficients, normalize

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        if not isinstance(self.group, FiniteGroup):
            raise InputError(f"group must be a FiniteGroup, for example DihedralGroup(4); got {self.group!r}.")
        if self.n_features_in_ != self.group.order:
            sizes = f"{self.n_features_in_} values, but the group has {self.group.order} elements"
            raise InputError(f"signals have {sizes}; give one value each.")
        return self._tabulate(self.group)

    def _tabulate(self, group: FiniteGroup) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        """Blocks and distinct columns; index map and weights."""
        selective = check_choice("coefficients", self.coefficients, ("full", "selective")) == "selective"
        self._fourier_matrix = group.fourier_matrix[group.inverse]
        with one_blas_thread():
            groups = make_blocks(group, self._selective_pairs() if selective else full_pairs(group))
        # of each entry, the number of its block, r, s, t, copy, i, j, k (7, n_entries), and its pairs of irreps
        sizes = [np.full(len(blocks.counts), blocks.tensor[0].size) for blocks in groups]
        block_of = np.repeat(np.arange(sum(map(len, sizes))), np.concatenate(sizes))
        outer = np.concatenate([blocks.labels for blocks in groups])[block_of].T
        inner = [np.tile(np.indices(blocks.tensor.shape[1:]).reshape(3, -1), len(blocks.counts)) for blocks in groups]
        labels = np.concatenate([outer, np.concatenate(inner, axis=1)])
        counts = np.concatenate([blocks.counts for blocks in groups])[block_of]
        coefficients = np.random.default_rng(0).standard_normal((3, group.order)) @ self._fourier_matrix
        probes = np.concatenate([blocks.entries(coefficients) for blocks in groups], axis=1)
        self.columns_ = columns = find_columns(probes, counts, group.dimensions[labels[2]].astype(float))
        # blocks that hold some of the columns, and the positions of these among their entries
        kept = np.zeros(block_of[-1] + 1, dtype=bool)
        kept[block_of[columns.entry]] = True
        parts = zip(groups, np.split(kept, np.cumsum([len(blocks.counts) for blocks in groups])[:-1]), strict=True)
        self._kept_blocks = [Blocks(*(field[part] for field in each)) for each, part in parts if part.any()]
        self._positions = (np.cumsum(kept[block_of]) - 1)[columns.entry]
        fields = dict(zip(("r", "s", "t", "copy", "i", "j", "k"), labels[:, columns.entry], strict=True))
        return columns_table(**fields, part=columns.part), columns.counts.astype(np.float32)

    def _selective_pairs(self) -> IntArray:
        """Pairs (0, s) and (r, s) for all s and for a few r that together distinguish all elements: rows (r, s, 1)."""
        kernels = np.abs(self.group.characters - self.group.dimensions[:, None]) < 1e-6
        common, chosen = np.ones(self.group.order, dtype=bool), [0]
        while common.sum() > 1:  # once, if there is a faithful irrep
            left = (kernels & common).sum(axis=1)
            chosen.append(int(np.lexsort((self.group.dimensions, left))[0]))
            common &= kernels[chosen[-1]]
        numbers = range(len(kernels))
        return np.array([(r, s, 1) for r in chosen for s in numbers if s >= r or s not in chosen])

    def _scratch_per_row(self) -> int:
        n_entries = sum(blocks.tensor.size for blocks in self._kept_blocks)
        return 16 * (2 * self.n_features_in_ + 5 * n_entries + self.n_features_out_)

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        coefficients = rows.astype(np.float64) @ self._fourier_matrix
        sizes = take_out_sizes(coefficients)
        entries = np.concatenate([blocks.entries(coefficients) for blocks in self._kept_blocks], axis=1)
        entries = entries[:, self._positions]
        values = np.where(self.columns_.part, entries.imag, entries.real) * self.columns_.scale
        return write_scaled(values, out, self.feature_weights_, sizes, normalize=self.normalize)


class CyclicBispectrum(GroupBispectrum):
    """Bispectrum of real signals of length n, invariant to cyclic shifts.

    ``B[i, j] = F_i F_j conj(F_{(i + j) mod n})`` with F the DFT of the signal. Rows of the input are signals.

    Parameters
    ----------
    coefficients : {"full", "selective"}
        All n x n coefficients, one per symmetry orbit, with multiplicities in ``feature_weights_``; or the about n / 2
        of them ``B[0, 0]``, ``B[0, 1]`` and ``B[1, k]`` that determine a signal without vanishing Fourier coefficients
        up to a shift and can be inverted (Mataigne et al. 2024).
    normalize : Divide each bispectrum by its L2 norm, which removes the scale of the signal.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import CyclicBispectrum
    >>> signals = np.array([[1.0, 4.0, 2.0, 5.0, 3.0]])
    >>> selective = CyclicBispectrum(coefficients="selective", normalize=False).fit(signals)
    >>> selective.invert(selective.transform(signals)).round(3)  # up to a shift
    array([[5., 3., 1., 4., 2.]])
    """

    def __init__(self, *, coefficients: str = "full", normalize: bool = True) -> None:
        self.coefficients, self.normalize = coefficients, normalize

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        table, weights = self._tabulate(CyclicGroup(self.n_features_in_))
        return columns_table(i=table["r"], j=table["s"], part=table["part"]), weights

    def _selective_pairs(self) -> IntArray:
        n = self.n_features_in_
        return np.array([(0, 0, 1), (0, 1, 1), *((1, k, 1) for k in range(1, (n + 1) // 2))][: max(1, n)])

    def invert(self, features: "ArrayLike") -> NDArray[np.float64]:
        """Signals (n, length) with the given selective bispectra (n, columns), each up to a shift.

        With ``normalize=True`` a signal is also divided by the cube root of the norm of its bispectrum. An InputError
        names a Fourier coefficient that is zero: the signal is then not determined.
        """
        check_is_fitted(self)
        if self.coefficients != "selective":
            raise InputError("only selective bispectra can be inverted; use coefficients='selective'.")
        values = np.asarray(features, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.n_features_out_ or not np.isfinite(values).all():
            raise InputError(f"expected finite features of shape (n, {self.n_features_out_}), got {values.shape}.")
        n, table = self.n_features_in_, self.index_map_
        pairs = np.zeros((len(values), 1 + n // 2 + n % 2), dtype=np.complex128)  # B[0, 0], B[0, 1] and B[1, k]
        for part, unit in enumerate((1, 1j)):
            chosen = table["part"] == part
            pairs[:, (table["i"] + table["j"])[chosen]] += unit * values[:, chosen]
        # F_0 = cbrt B[0, 0], |F_1|^2 = B[0, 1] / F_0 and F_{k+1} = conj(B[1, k] / (F_1 F_k))
        spectra = np.cbrt(pairs[:, :1].real).astype(np.complex128)
        if n > 1:
            with np.errstate(divide="ignore", invalid="ignore"):  # checked below
                spectra = np.append(spectra, np.sqrt(pairs[:, 1:2] / spectra), axis=1)
                for pair in pairs.T[2:]:
                    spectra = np.append(spectra, np.conj(pair / (spectra[:, 1] * spectra[:, -1]))[:, None], axis=1)
        magnitude = np.where(np.isfinite(spectra), np.abs(spectra), 0)
        vanishing = magnitude <= VANISHING * magnitude.max(axis=1, keepdims=True)
        if n > 1 and vanishing[:, : n if n > 2 else 1].any():
            signal, frequency = np.argwhere(vanishing)[0]
            which = f"signal {signal} (counting from 0) has no Fourier coefficient at frequency {frequency}"
            raise InputError(f"{which}, so its selective bispectrum does not determine it; use coefficients='full'.")
        # F_1 was taken as positive, so F_k came out times exp(-i k phase). The last one, F_m, must be the conjugate of
        # F_{n-m}: this gives n * phase, hence the signal up to a whole shift.
        last = spectra.shape[1] - 1
        phase = -np.angle(spectra[:, last] * spectra[:, (n - last) % n]) / n
        spectra *= np.exp(1j * phase[:, None] * np.arange(last + 1))
        return scipy.fft.irfft(spectra[:, : n // 2 + 1], n=n)
