"""Size and cost of the features for groups, images under D_4, the sphere and 3-D shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import bispectral_ot as bot
from benchmarks.setting import Setting
from benchmarks.tables import Table
from benchmarks.timing import best_seconds, timed
from bispectral_ot.features import (
    D4Bispectrum,
    GroupBispectrum,
    RingBispectrum,
    ShellBispectrum,
    SphereBispectrum,
)
from bispectral_ot.groups import (
    CyclicGroup,
    DihedralGroup,
    FiniteGroup,
    OctahedralGroup,
    ProductGroup,
    SymmetricGroup,
)
from studies.spherical import project_to_sphere
from studies.synthetic_shapes import synthetic_shapes

Row = dict[str, Any]


def measure(setting: Setting) -> Iterator[Table]:
    """Features, groups from their bare tables, and signals sampled again after a rotation."""
    sizes = setting.sizes
    groups = {name: group for name, group in named_groups().items() if group.order <= sizes.largest_group}
    rows = feature_rows(groups, values=sizes.signal_values, lmaxes=sizes.lmax)
    yield Table("Features", "Best of three runs on all cores.", list(rows[0]), rows)
    rows = group_rows(sizes.largest_group)
    note = "Time to find the irreps of a group from its Cayley table alone."
    yield Table("Groups from their tables", note, list(rows[0]), rows)
    rows = resampling_rows(sizes.lmax)
    note = "Change of features, as a share of their norm, when a digit is put on the sphere at two places."
    yield Table("Spherical digits, resampled", note, list(rows[0]), rows)


def named_groups() -> dict[str, FiniteGroup]:
    """Groups of several kinds."""
    return {
        "Z/40": CyclicGroup(40),
        "Z/8 x Z/8": ProductGroup(8, 8),
        "D_4": DihedralGroup(4),
        "D_20": DihedralGroup(20),
        "O": OctahedralGroup(),
        "S_4": SymmetricGroup(4),
        "S_5": SymmetricGroup(5),
    }


def feature_row(name: str, kind: str, transformer: Any, signals: Any) -> Row:
    """Size and speed of one transformer."""
    fit, _ = timed(lambda: transformer.fit(signals[:2]))
    transformer.transform(signals[:2])  # compiles
    rate = len(signals) / best_seconds(lambda: transformer.transform(signals), repeats=3)
    return {
        "feature": name,
        "signal": kind,
        "columns": transformer.n_features_out_,
        "fit (s)": fit,
        "signals/s": rate,
    }


def feature_rows(groups: dict[str, FiniteGroup], *, values: int, lmaxes: tuple[int, ...]) -> list[Row]:
    """Every feature, on signals of so many values together."""
    rng = np.random.default_rng(0)
    rows = []
    for name, group in groups.items():
        signals = rng.random((values // group.order, group.order))
        for label, transformer in [
            ("bispectrum, selective", GroupBispectrum(group, coefficients="selective")),
            ("bispectrum, full", GroupBispectrum(group)),
        ]:
            rows.append(feature_row(f"{name}: {label}", f"{group.order} values", transformer, signals))
    images = rng.random((values // 28**2, 28, 28), dtype=np.float32)
    rows.append(feature_row("ring bispectrum (for comparison)", "28 x 28 image", RingBispectrum(), images))
    rows.append(feature_row("D_4 image bispectrum", "28 x 28 image", D4Bispectrum(), images))
    colour = rng.random((values // (3 * 32**2), 32, 32, 3), dtype=np.float32)
    rows.append(feature_row("D_4 image bispectrum", "32 x 32 x 3 image", D4Bispectrum(), colour))
    grid = rng.random((values // (32 * 64), 32, 64), dtype=np.float32)
    for lmax in lmaxes:
        sphere = SphereBispectrum(lmax=lmax)
        rows.append(feature_row(f"SO(3) bispectrum, lmax {lmax}", "32 x 64 grid", sphere, grid))
    clouds = synthetic_shapes(max(1, values // 100_000), seed=0).images
    for n_shells, lmax in ((4, 4), (6, 6), (8, 8)):
        shells = ShellBispectrum(n_shells=n_shells, lmax=lmax)
        rows.append(feature_row(f"{n_shells} shells, lmax {lmax}", "1,024 points", shells, clouds))
    return rows


def group_rows(largest: int) -> list[Row]:
    """Seconds for the axioms, the irreps and one Clebsch-Gordan matrix."""
    groups = named_groups() | {
        "D_150": DihedralGroup(150),
        "O x Z/20": ProductGroup(OctahedralGroup(), 20),
        "S_6": SymmetricGroup(6),
    }
    rows = []
    for name, table in ((name, group.table) for name, group in groups.items() if group.order <= largest):
        rows.append({"group": name, **_group_row(table)})
    return rows


def _group_row(table: Any) -> Row:
    axioms, group = timed(lambda: FiniteGroup.from_table(table))
    seconds, irreps = timed(lambda: group.irreps)
    last = len(irreps) - 1
    coupling, _ = timed(lambda: group.clebsch_gordan(last, last))
    return {
        "order": group.order,
        "irreps": len(irreps),
        "largest": int(group.dimensions.max()),
        "axioms (s)": axioms,
        "irreps (s)": seconds,
        "Clebsch-Gordan of the last one (s)": coupling,
    }


def resampling_rows(lmaxes: tuple[int, ...]) -> list[Row]:
    """How much features change when a real image is put on the sphere at two places, and sampled again."""
    digits = bot.load("mnist-5k").images[::25]
    upright, turned = project_to_sphere(digits), project_to_sphere(digits, seed=1)
    rows = []
    for lmax in lmaxes:
        sphere = SphereBispectrum(lmax=lmax).fit(upright)
        before, after = sphere.transform(upright), sphere.transform(turned)
        change = np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)
        rows.append({"lmax": lmax, "median change": float(np.median(change)), "largest": float(change.max())})
    return rows
