"""Encoders pooled over a finite group of motions of the image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.datasets.warp import border_levels, rotation_maps, warp
from bispectral_ot.errors import InputError
from bispectral_ot.features.encoders import Encoder, as_encoder
from bispectral_ot.groups import CyclicGroup, DihedralGroup, FiniteGroup, ProductGroup
from bispectral_ot.groups.bispectrum import GroupBispectrum
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Columns, Rows, columns_table, unit_weights

POOLS = ("mean", "max", "bispectrum")


class Orbit(BatchTransformer):
    """Rows of an encoder over a finite group of motions of the image, pooled: invariant under the group.

    ``f(g) = encoder(g^-1 image)`` is a signal on the group for every column, which moving the image translates. Its
    mean, its maximum, or its group bispectrum (selective, to the power 1/3) does not change. One image costs as many
    encodings as the group has elements.

    Parameters
    ----------
    encoder
        An :class:`Encoder`, or anything that it accepts.
    group : str
        ``"C4"`` and ``"D4"`` (with mirrors): quarter turns, exactly. ``"C8"``, ``"C16"``, ``"D8"``, ...: turns of the
        largest disk inside the image by warping, on its background, exact for quarter turns. ``"shifts4"``: cyclic
        shifts by quarters of the sides.
    pool : {"mean", "max", "bispectrum"}
        How the signal becomes invariant; only the bispectrum keeps the signal up to translation.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Orbit
    >>> images = np.random.default_rng(0).random((3, 8, 8))
    >>> orbit = Orbit(lambda batch: batch[:, 0, :, 0]).fit(images)  # the upper edge
    >>> turned = np.rot90(images, axes=(1, 2))
    >>> bool(np.allclose(orbit.transform(images), orbit.transform(turned), atol=1e-5))
    True
    """

    raw = True
    default_metric = "sqeuclidean"
    _learned = ("encoder_", "scale_")
    encoder_: Encoder
    scale_: float

    def __init__(self, encoder: Any, group: str = "C4", pool: str = "mean") -> None:
        self.encoder = encoder
        self.group = group
        self.pool = pool

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Orbit({as_encoder(self.encoder)!r}, {self.group}, {self.pool})"

    @property
    def symmetry(self) -> str | None:
        """Symmetry of the group."""
        names = {"C": "rotation", "D": "rotation-reflection", "s": "translation"}
        return names.get(str(self.group)[:1])

    def _fit(self, rows: NDArray[Any]) -> None:
        check_choice("pool", self.pool, POOLS)
        _group_of(self.group)
        height, width = self.image_shape_[:2]
        encoder = as_encoder(self.encoder)
        if height != width and self.group[0] != "s" and encoder.size is None:
            raise InputError(
                f"quarter turns need square images, but these are {height} x {width}; give the encoder a size."
            )
        images = rows.reshape(len(rows), *self.image_shape_)
        self.encoder_ = clone(encoder, safe=False).fit(images)
        some = self.encoder_.encode(images[:1])
        self.scale_ = float(np.sqrt(np.mean(np.square(some, dtype=np.float64)))) or 1.0
        super()._fit(rows)

    def _prepare(self) -> Columns:
        self.group_ = _group_of(self.group)
        columns = self.encoder_.n_features_out_
        if self.pool == "bispectrum":
            self.bispectrum_ = GroupBispectrum(self.group_, coefficients="selective", normalize=False)
            self.bispectrum_.fit(np.ones((1, self.group_.order)))
            columns *= self.bispectrum_.n_features_out_
        return unit_weights(columns_table(column=np.arange(columns)))

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "encoder": None}

    def set_state(self, shape: Any, learned: dict[str, Any]) -> Self:
        """Take up the state."""
        self.encoder = learned["encoder_"]
        return super().set_state(shape, learned)

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // max(1, as_encoder(self.encoder).batch // 4)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        signals = self.signals(rows.reshape(len(rows), *self.image_shape_))
        if self.pool == "mean":
            signals.mean(axis=1, out=out)
        elif self.pool == "max":
            signals.max(axis=1, out=out)
        else:
            flat = signals.transpose(0, 2, 1).reshape(-1, signals.shape[1]) / np.float32(self.scale_)
            found = np.empty((len(flat), self.bispectrum_.n_features_out_), dtype=np.float32)
            self.bispectrum_._fill(flat, found)
            # degree 1 again; the constant keeps roots of rounding small
            found *= (np.square(found) + np.float32(1e-9)) ** np.float32(-1 / 3)
            out[:] = found.reshape(len(rows), -1) * np.float32(self.scale_)
        return 0

    def signals(self, images: NDArray[Any]) -> Rows:
        """Rows (n, elements, columns) of the encoder for the images moved by the inverse of each element."""
        found = [self.encoder_.encode(moved) for moved in _moved(images, self.group)]
        return np.stack(found, axis=1)[:, self.group_.inverse]


def _group_of(name: str) -> FiniteGroup:
    """Group for a name such as C8, D4 or shifts4."""
    if not isinstance(name, str) or not re.fullmatch(r"[CD]\d+|shifts\d+", name):
        raise InputError(f"group must be a name such as C4, C8, D4 or shifts4, got {name!r}.")
    n = check_integer("order of the group", int(re.sub(r"\D", "", name)), minimum=1)
    if name[0] == "s":
        return ProductGroup(n, n)
    return CyclicGroup(n) if name[0] == "C" else DihedralGroup(n)


def _moved(images: NDArray[Any], name: str) -> Iterator[NDArray[Any]]:
    """Images moved by each element of a group, in their order."""
    n, (height, width) = int(re.sub(r"\D", "", name)), images.shape[1:3]
    if name[0] == "s":
        for element in range(n * n):
            down, across = divmod(element, n)
            yield np.roll(images, (down * height // n, across * width // n), axis=(1, 2))
        return
    base = images if n in (1, 2, 4) else _on_disk(images)
    for picture in (base, base[:, :, ::-1])[: 1 + (name[0] == "D")]:
        turned = {0: picture}
        for step in range(n):
            quarters, rest = divmod(4 * step, n)  # quarters, and the rest in 1 / (4 n) of a turn
            if rest not in turned:
                maps = rotation_maps(np.full(len(picture), 90 * rest / n), height, width)
                fill = border_levels(picture.reshape(*picture.shape[:3], -1))
                turned[rest] = warp(picture, maps, fill=fill).reshape(picture.shape)
            yield np.rot90(turned[rest], quarters, axes=(1, 2))


def _on_disk(images: NDArray[Any]) -> Rows:
    """Images whose corners, outside the largest disk, have the level of the border."""
    height, width = images.shape[1:3]
    y, x = np.ogrid[:height, :width]
    inside = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2) <= min(height, width) / 2
    planes = images.reshape(*images.shape[:3], -1).astype(np.float32)
    levels = np.asarray(border_levels(planes), dtype=np.float32).reshape(len(images), 1, 1, -1)
    return np.where(inside[:, :, None], planes, levels).reshape(images.shape)
