"""Bispectrum of signals on any finite group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_choice
from bispectral_ot.engines import one_blas_thread
from bispectral_ot.errors import InputError
from bispectral_ot.groups.blocks import BlockSet, Columns, find_columns, full_pairs, make_blocks, selective_pairs
from bispectral_ot.groups.finite import FiniteGroup
from bispectral_ot.groups.inversion import invert_selective
from bispectral_ot.transformer import BatchTransformer, columns_table, take_out_sizes, write_scaled


class GroupBispectrum(BatchTransformer):
    """Bispectrum of real signals on a finite group.

    ``B[r, s] = (F_r (x) F_s) C_rs [ (+)_{t in r (x) s} F_t^H ] C_rs^H`` (appendix C of the paper) with
    ``F_rho = sum_g f(g) rho(g)^H``: B does not change under the translations ``f(g) -> f(t^-1 g)``. Two signals with
    invertible ``F_rho`` have the same bispectrum only if one is a translation of the other. (The paper writes
    ``F_rho = sum_g f(g) rho(g)``, whose B does not change under ``f(g) -> f(g t)``; it is that of ``f(g^-1)``.)

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
    >>> from bispectral_ot.features import GroupBispectrum
    >>> group = SymmetricGroup(3)
    >>> signals = np.random.default_rng(0).random((2, group.order))
    >>> bispectrum = GroupBispectrum(group).fit(signals)
    >>> moved = group.translate(signals, 4)  # f(x) -> f(t^-1 x)
    >>> np.allclose(bispectrum.transform(moved), bispectrum.transform(signals), atol=1e-6)
    True
    """

    _accepts_images = False
    _degree = 3  # of the columns in the signal
    blocks_: BlockSet
    columns_: Columns
    _kept_blocks: BlockSet
    _positions: NDArray[np.int64]
    _fourier_matrix: NDArray[np.complex128]

    def __init__(self, group: FiniteGroup, *, coefficients: str = "full", normalize: bool = True) -> None:
        self.group = group
        self.coefficients = coefficients
        self.normalize = normalize

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        if not isinstance(self.group, FiniteGroup):
            raise InputError(f"group must be a FiniteGroup, for example DihedralGroup(4); got {self.group!r}.")
        if self.n_features_in_ != self.group.order:
            raise InputError(
                f"signals have {self.n_features_in_} values, but the group has {self.group.order} elements; "
                "give one value each."
            )
        self._fourier_matrix = self.group.fourier_matrix[self.group.inverse]
        return self._make_columns(
            np.random.default_rng(0).standard_normal((3, self.group.order)) @ self._fourier_matrix
        )

    def _make_columns(self, probes: NDArray[np.complex128]) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        """Index map and weights, from Fourier coefficients of a few random signals."""
        full = check_choice("coefficients", self.coefficients, ("full", "selective")) == "full"
        with one_blas_thread():
            blocks = make_blocks(self.group, full_pairs(self.group) if full else selective_pairs(self.group))
        factors = self.group.dimensions[blocks.labels[2]].astype(float)
        columns = find_columns(blocks.entries(probes), blocks.counts, factors)
        self.blocks_, self.columns_ = blocks, columns
        self._kept_blocks, self._positions = blocks.keep_blocks_of(columns.entry)
        names = ("r", "s", "t", "copy", "i", "j", "k")
        fields = dict(zip(names, blocks.labels[:, columns.entry], strict=True))
        return columns_table(**fields, part=columns.part), columns.counts.astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 16 * (2 * self.group.order + 5 * len(self._kept_blocks.counts)) + 16 * self.n_features_out_

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        coefficients = rows.astype(np.float64) @ self._fourier_matrix
        sizes, weights = take_out_sizes(coefficients), self.feature_weights_
        values = self._values(coefficients)
        return write_scaled(values, out, weights, sizes, degree=self._degree, normalize=self.normalize)

    def _values(self, coefficients: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Columns from flat Fourier coefficients (n, order)."""
        entries = self._kept_blocks.entries(coefficients)[:, self._positions]
        values: NDArray[np.float64] = np.where(self.columns_.part, entries.imag, entries.real)
        return values * self.columns_.scale

    def fourier(self, X: ArrayLike) -> list[NDArray[np.complex128]]:
        """Fourier coefficients ``F_rho``, as the class defines them: (n, d, d) per irrep."""
        check_is_fitted(self)
        rows, _ = self._read(X, reset=False)
        return self.group.split_coefficients(rows.astype(np.float64) @ self._fourier_matrix)

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
            Output of ``transform`` with ``coefficients="selective"``.

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
        return lifted[:, self.group.inverse]
