"""What coupled and aligned features cost relative to the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import bispectral_ot as bot
from benchmarks.setting import Setting
from benchmarks.tables import Table
from benchmarks.timing import median_seconds, timed
from bispectral_ot.costs import AlignedDistance
from bispectral_ot.datasets import Dataset
from bispectral_ot.features import FittedFeatures, PolarSpectrum, choose_features

_RING, _COUPLED, _REDUCED, _ALIGNED = (
    "ring bispectrum, L1",
    "global, squared Euclidean",
    "the same, PCA 128",
    "best rotation, squared Euclidean",
)


def measure(setting: Setting) -> Iterator[Table]:
    """Features and costs, medians of rounds of one call each."""
    n, repeats = setting.sizes.coupled, setting.sizes.repeats
    digits = np.asarray(bot.load("mnist-5k").images)
    images = digits[np.arange(2 * n) % len(digits)]  # some twice
    source, target = images[:n], images[n:]
    ring, coupled, spectrum = (kind().fit(source) for kind in (bot.RingBispectrum, bot.GlobalBispectrum, PolarSpectrum))
    kinds = {_RING: ring, _COUPLED: coupled, _ALIGNED: spectrum}
    sides = {name: (kind.transform(source), kind.transform(target)) for name, kind in kinds.items()}
    sets = [Dataset(source), Dataset(target)]
    reduction, space = timed(lambda: FittedFeatures(sets, choose_features("global-bispectrum"), pca=128))
    features = median_seconds({name: partial(kind.transform, images) for name, kind in kinds.items()}, repeats=repeats)
    costs = median_seconds(
        {
            _RING: lambda: bot.Cost(*sides[_RING], "l1", weights=ring.feature_weights_),
            _COUPLED: lambda: bot.Cost(*sides[_COUPLED], "sqeuclidean", weights=coupled.feature_weights_),
            _REDUCED: lambda: space.cost(0, 1),
            _ALIGNED: lambda: bot.Cost.from_distance(AlignedDistance(*sides[_ALIGNED], spectrum.index_map_)),
        },
        repeats=repeats,
    )
    rows = [
        {
            "features": name,
            "columns": len(kinds[name].index_map_) if name in kinds else 128,
            "images/s": len(images) / features[name] if name in kinds else None,
            "cost (s)": seconds,
            "ratio": seconds / costs[_RING],
        }
        for name, seconds in costs.items()
    ]
    note = (
        f"{images.shape[1]} x {images.shape[2]} images, {n:,} x {n:,} pairs, medians of {repeats} in one run. The "
        f"features of both sides and their principal components took {reduction:.1f} s."
    )
    columns = ["features", "columns", "images/s", "cost (s)", "ratio"]
    yield Table("Global bispectrum and best rotation", note, columns, rows)
