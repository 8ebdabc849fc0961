"""What coupled and aligned features cost beside the paper's: a table in docs/coupled.md.

``python benchmarks/coupled_costs.py`` takes 6,000 images of mnist-5k (some twice), 3,000 on each side; medians of five
rounds of one call each, in one run.
"""

from __future__ import annotations

import numpy as np

import bispectral_ot as bot
from bispectral_ot.benchmarks.timing import median_seconds, timed
from bispectral_ot.matching.features import reduce_features

images = np.asarray(bot.load("mnist-5k").images)
images = np.concatenate([images, images[:1000]])
a, b = images[:3000], images[3000:]
ring, coupled, spectrum = (kind().fit(a) for kind in (bot.RingBispectrum, bot.CoupledBispectrum, bot.PolarSpectrum))
KINDS = {"ring bispectrum, L1": ring, "coupled, squared Euclidean": coupled, "aligned, squared Euclidean": spectrum}
sides = {each: (each.transform(a), each.transform(b)) for each in KINDS.values()}
reduction, reduced = timed(lambda: reduce_features(coupled, a, b, coupled.feature_weights_, 128))

features = median_seconds({name: lambda each=each: each.transform(images) for name, each in KINDS.items()}, repeats=5)
costs = median_seconds(
    {
        "ring bispectrum, L1": lambda: bot.Cost(*sides[ring], "l1", weights=ring.feature_weights_),
        "coupled, squared Euclidean": lambda: bot.Cost(
            *sides[coupled], "sqeuclidean", weights=coupled.feature_weights_
        ),
        "the same, PCA 128": lambda: bot.Cost(reduced.xa, reduced.xb, "sqeuclidean"),
        "aligned, squared Euclidean": lambda: bot.AlignedCost(*sides[spectrum], spectrum.index_map_),
    },
    repeats=5,
)
print("| | columns | images a second | cost (s) | of the ring's |", "|---|---:|---:|---:|---:|", sep="\n")
for name, seconds in costs.items():
    each = KINDS.get(name)
    columns, speed = (each.index_map_.size, f"{len(images) / features[name]:,.0f}") if each else (128, "")
    print(f"| {name} | {columns:,} | {speed} | {seconds:.3f} | {seconds / costs['ring bispectrum, L1']:.3f} |")
print(f"\nThe principal components and the projection of both sides took {reduction:.1f} s.")
