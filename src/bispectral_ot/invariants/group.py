"""Bispectrum and power spectrum of signals on any finite group, and on the spaces that it moves."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_choice
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.errors import InputError
from bispectral_ot.groups import FiniteGroup
from bispectral_ot.groups.finite import SIDES
from bispectral_ot.invariants.base import BatchTransformer, columns_table
from bispectral_ot.invariants.group_blocks import BlockSet, full_pairs, make_blocks, selective_pairs
from bispectral_ot.invariants.group_columns import Columns, find_columns
from bispectral_ot.invariants.group_inversion import invert_selective
from bispectral_ot.invariants.group_spaces import lift_indices
from bispectral_ot.invariants.magnitudes import take_out_sizes, write_scaled


class _GroupTransformer(BatchTransformer):
    """Signals on a group or a space it moves, as signals on the group; complex numbers as real columns."""

    _accepts_images = False
    _degree: int  # of the columns in the signal

    group: FiniteGroup
    side: str
    space: ArrayLike | None
    normalize: bool
    lift_: NDArray[np.int64]
    columns_: Columns
    _fourier_matrix: NDArray[np.complex128]

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        return (n_columns,)

    def _prepare_group(self) -> None:
        if not isinstance(self.group, FiniteGroup):
            raise InputError(f"group must be a FiniteGroup, for example DihedralGroup(4); got {self.group!r}.")
        self.lift_ = self._lift()
        n_points = int(self.lift_.max()) + 1
        if self.n_features_in_ != n_points:
            raise InputError(
                f"signals have {self.n_features_in_} values, but there are {n_points} points; give one value each."
            )
        self._fourier_matrix = np.zeros((n_points, self.group.order), dtype=np.complex128)
        np.add.at(self._fourier_matrix, self.lift_, self.group.fourier_matrix)

    def _lift(self) -> NDArray[np.int64]:
        """Where a signal is read for each element, so that its translations become ``f(g) -> f(g t)``."""
        is_left = check_choice("side", self.side, SIDES) == "left"
        if self.space is not None:
            if not is_left:
                raise InputError("a group moves the points of a space from the left; leave out side, or space.")
            return lift_indices(self.group, self.space)
        return self.group.inverse if is_left else np.arange(self.group.order)

    def _probes(self) -> NDArray[np.complex128]:
        """Fourier coefficients of a few random signals."""
        return np.random.default_rng(0).standard_normal((3, self.n_features_in_)) @ self._fourier_matrix

    @abstractmethod
    def _values(self, coefficients: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Columns from flat Fourier coefficients (n, order)."""

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        coefficients = rows.astype(np.float64) @ self._fourier_matrix
        sizes = take_out_sizes(coefficients)
        return write_scaled(
            self._values(coefficients),
            out,
            weights=self.feature_weights_,
            sizes=sizes,
            degree=self._degree,
            normalize=self.normalize,
        )

    def fourier(self, X: ArrayLike) -> list[NDArray[np.complex128]]:
        """Fourier coefficients ``F_rho``, as the class defines them: (n, d, d) per irrep."""
        check_is_fitted(self)
        rows, _ = self._read(X, reset=False)
        return self.group.fourier(rows[:, self.lift_].astype(np.float64))

    def inverse_fourier(self, coefficients: list[NDArray[np.complex128]]) -> NDArray[np.float64]:
        """Signals (n, n_points) with the given Fourier coefficients: the inverse of :meth:`fourier`."""
        check_is_fitted(self)
        lifted = self.group.inverse_fourier(coefficients).real
        return lifted[:, np.unique(self.lift_, return_index=True)[1]]


class GroupBispectrum(_GroupTransformer):
    """The bispectrum of real signals on a finite group, or on a space that the group moves.

    ``B[r, s] = (F_r (x) F_s) C_rs [ (+)_{t in r (x) s} F_t^H ] C_rs^H`` (appendix C of the paper). By default
    ``F_rho = sum_g f(g) rho(g)^H``: then B does not change under the translations ``f(g) -> f(t^-1 g)``. With
    ``F_rho = sum_g f(g) rho(g)``, as the paper writes it, B does not change under ``f(g) -> f(g t)``. On a commutative
    group both are the same translations. Two signals on the group with invertible ``F_rho`` have the same bispectrum
    only if one is a translation of the other.

    The columns are the entries of the blocks ``(F_r (x) F_s) C_t F_t^H``, one block per t in ``r (x) s``,
    from which the last, unitary, factor of B is left out. Entries that are zero, or equal up to the sign, for
    all real signals are found and dropped, and counted in ``feature_weights_``: weighted L2 and cosine
    distances are those between the complete arrays B of all pairs; for commutative groups L1 distances are,
    too.

    Parameters
    ----------
    group : FiniteGroup
        The group.
    coefficients : {"full", "selective"}
        All pairs (r, s), of the order of ``|G|^2`` numbers; or ``B[0, s]`` and ``B[r, s]`` for all s and the
        few r that it takes to distinguish the elements of the group (one for cyclic, dihedral, octahedral
        groups), of the order of ``|G|`` numbers. The selective set determines a signal with invertible
        ``F_rho`` up to the group's action and can be inverted (after Mataigne et al. 2024; see
        :meth:`invert`).
    side : {"left", "right"}
        Invariance under ``f(g) -> f(t^-1 g)``, or under ``f(g) -> f(g t)`` (the literal formula of appendix C).
    space : array_like of shape (order, n_points), optional
        ``space[g, x]`` is the point to which g moves point x; every point must reach every other. A signal is
        then a row of n_points values, moved by ``f(x) -> f(t^-1 x)`` and read as ``f(g^-1 x_0)`` on the group:
        ``F_rho = sum_g f(g^-1 x_0) rho(g)``. With the group itself as the space, this is ``side="left"``.
        :meth:`~bispectral_ot.groups.FiniteGroup.action_on_cosets` makes one from a subgroup. With fewer points
        than elements it need not be complete: under O a die's bispectrum is that of its mirror image.
    normalize : bool
        Divide each bispectrum by its L2 norm, so that the scale of a signal does not count.

    Notes
    -----
    ``index_map_`` has the fields r, s, t, copy (which of several equal t), i, j (row), k (column), part (0
    real, 1 imaginary) of the first of the entries that a column stands for.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.groups import SymmetricGroup
    >>> from bispectral_ot.invariants import GroupBispectrum
    >>> group = SymmetricGroup(3)
    >>> signals = np.random.default_rng(0).random((2, group.order))
    >>> bispectrum = GroupBispectrum(group).fit(signals)
    >>> moved = group.translate(signals, 4)  # f(x) -> f(t^-1 x)
    >>> np.allclose(bispectrum.transform(moved), bispectrum.transform(signals), atol=1e-6)
    True
    """

    _degree = 3
    blocks_: BlockSet
    _kept_blocks: BlockSet
    _positions: NDArray[np.int64]

    def __init__(
        self,
        group: FiniteGroup,
        *,
        coefficients: str = "full",
        side: str = "left",
        space: ArrayLike | None = None,
        normalize: bool = True,
    ) -> None:
        self.group = group
        self.coefficients = coefficients
        self.side = side
        self.space = space
        self.normalize = normalize

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        self._prepare_group()
        full = check_choice("coefficients", self.coefficients, ("full", "selective")) == "full"
        blocks = make_blocks(self.group, full_pairs(self.group) if full else selective_pairs(self.group))
        columns = find_columns(
            blocks.entries(self._probes()),
            blocks.counts,
            self.group.dimensions[blocks.labels[2]].astype(float),
        )
        self.blocks_, self.columns_ = blocks, columns
        self._kept_blocks, self._positions = blocks.keep_blocks_of(columns.entry)
        names = ("r", "s", "t", "copy", "i", "j", "k")
        fields = dict(zip(names, blocks.labels[:, columns.entry], strict=True))
        return columns_table(**fields, part=columns.part), columns.counts.astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 16 * (2 * self.group.order + 5 * len(self._kept_blocks.counts)) + 16 * self.n_features_out_

    def _values(self, coefficients: NDArray[np.complex128]) -> NDArray[np.float64]:
        entries = self._kept_blocks.entries(coefficients)[:, self._positions]
        values: NDArray[np.float64] = np.where(self.columns_.part, entries.imag, entries.real)
        return values * self.columns_.scale

    def matrices(self, X: ArrayLike) -> dict[tuple[int, int], NDArray[np.complex128]]:
        """All ``B[r, s]`` as the formula says, each (n, d_r d_s, d_r d_s) complex: for reading and tests."""
        coefficients = self.fourier(X)
        result = {}
        for r, first in enumerate(coefficients):
            for s, second in enumerate(coefficients):
                matrix, parts = self.group.clebsch_gordan(r, s)
                size = len(matrix)
                blocks = np.zeros((len(first), size, size), dtype=np.complex128)
                start = 0
                for t in parts:
                    stop = start + self.group.dimensions[t]
                    blocks[:, start:stop, start:stop] = coefficients[t].conj().swapaxes(1, 2)
                    start = stop
                product = np.einsum("nip,njq->nijpq", first, second).reshape(-1, size, size)
                result[r, s] = product @ matrix @ blocks @ matrix.conj().T
        return result

    def invert(self, features: ArrayLike) -> NDArray[np.float64]:
        """Signals with the given selective bispectra, each up to the action of the group.

        With ``normalize=True`` a signal also comes back divided by the cube root of its bispectrum's norm.

        Parameters
        ----------
        features : array of shape (n, columns)
            What ``transform`` gave with ``coefficients="selective"`` for signals on the group itself.

        Returns
        -------
        ndarray of shape (n, order), float64

        Raises
        ------
        InputError
            Where some ``F_rho`` is zero or nearly singular, so that the signal is not determined.
        """
        check_is_fitted(self)
        if self.coefficients != "selective":
            raise InputError("only selective bispectra can be inverted; use coefficients='selective'.")
        if self.n_features_in_ != self.group.order:
            raise InputError(
                f"signals on {self.n_features_in_} points that a group of order {self.group.order} moves "
                "have singular Fourier coefficients, which inversion divides by; give signals on the group."
            )
        values = np.asarray(features, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.n_features_out_ or not np.isfinite(values).all():
            raise InputError(f"expected finite features of shape (n, {self.n_features_out_}), got {values.shape}.")
        with one_blas_thread():
            lifted = invert_selective(
                self.group,
                self.blocks_,
                self.columns_.unfold(values),
                columns=lambda signals: self._values(signals @ self.group.fourier_matrix),
                target=values,
            )
        signals = np.empty_like(lifted)
        signals[:, self.lift_] = lifted
        return signals


class GroupPowerSpectrum(_GroupTransformer):
    """The power spectrum ``F_rho F_rho^H`` of real signals on a finite group, or on a space that it moves.

    ``F_rho`` and the translations that change nothing are those of :class:`GroupBispectrum`; by default it is the
    ``F_rho^H F_rho`` of the paper, whose ``F_rho`` is the adjoint.

    It is much shorter than the bispectrum, but blind to the phases between irreps. Zero and
    repeated entries are dropped; ``feature_weights_`` counts them. ``index_map_`` has the fields r, i, j,
    part.

    Parameters
    ----------
    group, side, space, normalize
        As in :class:`GroupBispectrum`.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.groups import DihedralGroup
    >>> from bispectral_ot.invariants import GroupPowerSpectrum
    >>> corners = DihedralGroup(4).action_on_cosets([4])  # the square's corners, each left in place by a mirror
    >>> values = np.array([[1.0, 2.0, 3.0, 4.0], [4.0, 1.0, 2.0, 3.0]])  # the second is the first, turned
    >>> first, second = GroupPowerSpectrum(DihedralGroup(4), space=corners).fit_transform(values)
    >>> np.allclose(first, second, atol=1e-6)
    True
    """

    _degree = 2

    def __init__(
        self, group: FiniteGroup, *, side: str = "left", space: ArrayLike | None = None, normalize: bool = True
    ) -> None:
        self.group = group
        self.side = side
        self.space = space
        self.normalize = normalize

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        self._prepare_group()
        probes = self._spectra(self._probes())
        self.columns_ = find_columns(probes, np.ones(self.group.order, dtype=np.int64), np.ones(self.group.order))
        labels = np.concatenate(
            [[np.full(d * d, r), *np.indices((d, d)).reshape(2, -1)] for r, d in enumerate(self.group.dimensions)],
            axis=1,
        )
        r, i, j = labels[:, self.columns_.entry]
        return columns_table(r=r, i=i, j=j, part=self.columns_.part), self.columns_.counts.astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 64 * self.group.order + 16 * self.n_features_out_

    def _spectra(self, coefficients: NDArray[np.complex128]) -> NDArray[np.complex128]:
        parts = self.group.split_coefficients(coefficients)
        squares = [(part @ part.conj().swapaxes(1, 2)).reshape(len(part), -1) for part in parts]
        return np.concatenate(squares, axis=1)

    def _values(self, coefficients: NDArray[np.complex128]) -> NDArray[np.float64]:
        entries = self._spectra(coefficients)[:, self.columns_.entry]
        return np.where(self.columns_.part, entries.imag, entries.real)
