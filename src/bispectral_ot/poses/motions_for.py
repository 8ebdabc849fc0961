"""The motions that a symmetry has."""

from __future__ import annotations

from typing import Any

from bispectral_ot.errors import InputError
from bispectral_ot.features.polar_spectrum import PolarSpectrum
from bispectral_ot.groups.shells import ShellBispectrum
from bispectral_ot.groups.sphere import SphereBispectrum
from bispectral_ot.poses.centred import CentredMotions
from bispectral_ot.poses.motions import Motions
from bispectral_ot.poses.planar import PlanarMotions
from bispectral_ot.poses.quarter import QuarterTurns
from bispectral_ot.poses.shifts import Shifts
from bispectral_ot.poses.spatial import SpatialMotions


def find_motions(symmetry: str | None, signals: Any, transformer: Any = None) -> Motions:
    """What poses of these signals are sought among.

    Parameters
    ----------
    symmetry
        That the match has.
    signals
        Of the size that poses are asked for.
    transformer
        That the match was made with: coefficients are its own, where it has some.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((3, 16, 16))
    >>> find_motions("d4", images).grid.shape
    (8, 2)
    """
    if symmetry in ("rotation", "rotation-reflection"):
        own = isinstance(transformer, PolarSpectrum) and transformer.symmetry == symmetry
        return PlanarMotions(transformer if own else PolarSpectrum(symmetry=symmetry).fit(signals[:1]))
    if symmetry in ("rotation-translation", "rotation-reflection-translation"):
        return CentredMotions(PolarSpectrum(symmetry=symmetry.removesuffix("-translation")).fit(signals[:1]))
    if symmetry == "d4":
        return QuarterTurns.of(signals)
    if symmetry == "translation":
        return Shifts.of(signals)
    if symmetry == "so3":
        sphere = transformer if isinstance(transformer, SphereBispectrum) else SphereBispectrum().fit(signals[:1])
        return SpatialMotions(sphere.harmonic_coefficients, sphere.lmax)
    if symmetry == "so3-shapes":
        shells = transformer if isinstance(transformer, ShellBispectrum) else ShellBispectrum().fit(signals)
        return SpatialMotions(shells.shell_coefficients, shells.lmax)
    seen = "no symmetry" if symmetry in (None, "none") else f"the symmetry {symmetry!r}"
    raise InputError(
        f"the features of this match have {seen}, so that there is no turn between its pairs to be found; match with "
        "symmetry='rotation', or name the symmetry that poses should have: poses(symmetry='rotation')."
    )
