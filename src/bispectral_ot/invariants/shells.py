"""3-D point clouds and meshes up to rotation: densities on concentric spheres, and their SO(3) invariants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_integer
from bispectral_ot.datasets.shapes import sample_surface
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.invariants.base import BatchTransformer, columns_table
from bispectral_ot.invariants.harmonics import real_harmonics
from bispectral_ot.invariants.sphere_triples import TripleInvariants, sphere_triples
from bispectral_ot.progress import Progress, silent

OUTERMOST = 2.0  # radius of the last shell's outer edge, relative to the root mean square radius


class ShellBispectrum(BatchTransformer):
    """Power spectra and bispectra of the shells of a 3-D shape: invariant to moving, turning and scaling it.

    A shape is centred at its centroid and, by default, divided by its root mean square radius. Its points are shared
    out to ``n_shells`` concentric spheres (linearly between the two nearest), which gives densities on the sphere with
    harmonic coefficients ``a[s, l, m] = sqrt(4 pi) / n_points sum_p w_s(|p|) Y_lm(p / |p|)``: no grid is involved, so
    the invariance is exact. The columns are ``sum_m a[s, l, m] a[s', l, m]`` for all pairs of shells, and the
    bispectrum ``sum_m W a[s1, l1, m1] a[s2, l2, m2] a[s3, l3, m3]`` of all triples of shells at most ``reach``
    apart; see :class:`~bispectral_ot.invariants.sphere.SphereBispectrum`. The shells cannot turn by themselves.

    ``fit`` and ``transform`` take an array (n, n_points, 3), a list of clouds (n_points_i, 3) of any sizes, or a list
    of meshes (vertices, faces), from which ``n_samples`` points are drawn evenly by area.

    Parameters
    ----------
    n_shells : int
        Spheres, at radii evenly spaced up to twice the root mean square radius.
    lmax : int
        Highest degree of the spherical harmonics.
    reach : int
        How far apart the shells of a triple may be: 0 takes triples within one shell only, 1 also across neighbours.
    scale : bool
        Divide each shape by its size; otherwise by that of the shapes seen in ``fit``.
    n_samples : int
        Points drawn from a mesh.
    seed : int
        For these points; the same for every mesh.

    Notes
    -----
    ``index_map_`` has the fields order (2 or 3), l1, l2, l3 and the shells s1, s2, s3 (-1 for the third at order 2).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.spatial.transform import Rotation
    >>> from bispectral_ot.invariants import ShellBispectrum
    >>> random = np.random.default_rng(0)
    >>> clouds = [random.normal(size=(n, 3)) for n in (100, 150)]
    >>> shells = ShellBispectrum().fit(clouds)
    >>> moved = [3 * Rotation.random(rng=random).apply(cloud) + 5 for cloud in clouds]
    >>> np.allclose(shells.transform(moved), shells.transform(clouds), atol=1e-5)
    True
    """

    symmetries = ("so3-shapes",)

    def __init__(
        self,
        *,
        n_shells: int = 6,
        lmax: int = 6,
        reach: int = 1,
        scale: bool = True,
        n_samples: int = 2048,
        seed: int = 0,
    ) -> None:
        self.n_shells = n_shells
        self.lmax = lmax
        self.reach = reach
        self.scale = scale
        self.n_samples = n_samples
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the common size of the shapes (used with ``scale=False``).

        Parameters
        ----------
        X : array of shape (n, n_points, 3), or list of clouds or meshes
            Shapes.
        y
            Ignored.
        """
        check_integer("n_shells", self.n_shells, minimum=1)
        check_integer("lmax", self.lmax, minimum=0)
        check_integer("reach", self.reach, minimum=0)
        check_integer("n_samples", self.n_samples, minimum=1)
        clouds = self._read_clouds(X)
        sizes = [np.sqrt(np.mean(np.square(cloud - cloud.mean(axis=0)).sum(axis=1))) for cloud in clouds]
        self.size_ = float(np.mean(sizes)) or 1.0
        return super().fit(np.zeros((1, self.n_shells * (self.lmax + 1) ** 2)))  # only their number matters here

    def transform(
        self, X: Any, *, out: NDArray[np.float32] | None = None, progress: Progress = silent
    ) -> NDArray[np.float32]:
        """Compute the features of shapes, as described above: (n, n_features_out_) float32.

        ``progress`` hears of two stages: "shells", which takes most of the time, and "features".
        """
        return super().transform(self.shell_coefficients(X, progress=progress), out=out, progress=progress)

    def fill(self, X: Any, out: NDArray[np.float32], *, progress: Progress = silent) -> int:
        """Write the features of shapes to ``out``, and return how many of them vanish."""
        return super().fill(self.shell_coefficients(X, progress=progress), out, progress=progress)

    def shell_coefficients(self, X: Any, *, progress: Progress = silent) -> NDArray[np.float64]:
        """Real harmonic coefficients of the shells, shape (n, n_shells * (lmax + 1) ** 2)."""
        check_is_fitted(self)
        clouds = self._read_clouds(X)
        parts = Threads().map(
            _coefficients_of_clouds,
            row_blocks(len(clouds), block_rows=16),
            rows=(clouds,),
            shared=(self,),
            stage="shells",
            progress=progress,
        )
        return np.concatenate(list(parts)).reshape(len(clouds), -1)

    def _coefficients_of(self, cloud: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        centred = cloud - cloud.mean(axis=0)
        radii = np.linalg.norm(centred, axis=1)
        size = np.sqrt(np.mean(radii**2)) if self.scale else self.size_
        if not size > 1e-12 * (1 + np.abs(cloud).max()):
            raise InputError(f"shape {number} (counting from 0) has all its points in one place; leave it out.")
        # position between the shells' middles; beyond the first and last one, all goes to these
        position = np.clip(radii / size * self.n_shells / OUTERMOST - 0.5, 0, self.n_shells - 1)
        inner = np.minimum(position.astype(np.int64), max(0, self.n_shells - 2))
        shares = np.zeros((self.n_shells, len(cloud)))
        points = np.arange(len(cloud))
        shares[inner, points] = 1 - (position - inner)
        shares[np.minimum(inner + 1, self.n_shells - 1), points] += position - inner
        sums: NDArray[np.float64] = shares @ real_harmonics(centred, self.lmax)
        sums *= np.sqrt(4 * np.pi) / len(cloud)
        return sums

    def _read_clouds(self, X: Any) -> Sequence[NDArray[np.float64]]:
        if isinstance(X, np.ndarray) and X.ndim != 3:
            raise InputError(f"expected shapes as an array (n, n_points, 3) or a list of them; got {X.shape}.")
        if len(X) == 0:
            raise InputError("there are no shapes; give at least one.")
        return [self._read_cloud(shape, number) for number, shape in enumerate(X)]

    def _read_cloud(self, shape: Any, number: int) -> NDArray[np.float64]:
        if isinstance(shape, tuple) and len(shape) == 2:
            rng = np.random.default_rng(self.seed)
            try:
                return sample_surface(*shape, self.n_samples, rng=rng)
            except InputError as error:
                raise InputError(f"mesh {number} (counting from 0): {error}") from None
        cloud = np.asarray(shape, dtype=np.float64)
        if cloud.ndim != 2 or cloud.shape[1] != 3 or len(cloud) == 0:
            raise InputError(
                f"shape {number} (counting from 0) has shape {cloud.shape}; expected points (n_points, 3), "
                "or a mesh as a tuple (vertices, faces)."
            )
        if not np.isfinite(cloud).all():
            raise InputError(f"shape {number} (counting from 0) has NaN or infinity in it; repair it or leave it out.")
        return cloud

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        return (n_columns,)

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        triples = sphere_triples(self.lmax, self.n_shells, reach=self.reach)
        self.invariants_ = TripleInvariants(triples, self.lmax)
        self._first, self._second = np.triu_indices(self.n_shells)
        degree = np.arange(self.lmax + 1)[:, None]
        none = np.array(-1)
        pairs = columns_table(
            order=np.array(2), l1=degree, l2=degree, l3=none, s1=self._first, s2=self._second, s3=none
        )
        names = zip(("l1", "l2", "l3", "s1", "s2", "s3"), (*triples.degrees.T, *triples.signals.T), strict=True)
        index_map = np.concatenate([pairs, columns_table(order=np.array(3), **dict(names))])
        twice = np.tile(np.where(self._first == self._second, 1, 2), self.lmax + 1)
        return index_map, np.concatenate([twice, triples.multiplicities()]).astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 8 * (3 * self.n_features_in_ + 3 * self.n_features_out_)

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        coefficients = rows.reshape(len(rows), self.n_shells, -1)
        products = coefficients[:, self._first] * coefficients[:, self._second]
        starts = np.arange(self.lmax + 1) ** 2
        powers = np.add.reduceat(products, starts, axis=2).transpose(0, 2, 1)
        n_pairs = powers[0].size
        out[:, :n_pairs] = powers.reshape(len(rows), -1)
        out[:, n_pairs:] = self.invariants_.evaluate(coefficients)
        return 0


def _coefficients_of_clouds(
    block: Block, clouds: Sequence[NDArray[np.float64]], shells: ShellBispectrum
) -> NDArray[np.float64]:
    return np.stack([shells._coefficients_of(cloud, block.start + place) for place, cloud in enumerate(clouds)])
