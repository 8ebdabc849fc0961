"""What coupled and aligned features cost beside the paper's: the table in docs/coupled.md.

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
sides = {each: (each.transform(a), each.transform(b)) for each in (ring, coupled, spectrum)}
reduction, reduced = timed(lambda: reduce_features(coupled, a, b, coupled.feature_weights_, 128))

features = median_seconds({type(each).__name__: lambda each=each: each.transform(images) for each in sides}, repeats=5)
costs = median_seconds(
    {
        "ring, L1": lambda: bot.Cost(*sides[ring], "l1", weights=ring.feature_weights_),
        "coupled": lambda: bot.Cost(*sides[coupled], "sqeuclidean", weights=coupled.feature_weights_),
        "coupled, PCA 128": lambda: bot.Cost(reduced.xa, reduced.xb, "sqeuclidean"),
        "aligned": lambda: bot.AlignedCost(*sides[spectrum], spectrum.index_map_),
    },
    repeats=5,
)
for name, seconds in features.items():
    print(f"{name}: {len(images) / seconds:,.0f} images/s")
for name, seconds in costs.items():
    print(f"{name}: {seconds:.3f} s, {seconds / costs['ring, L1']:.3f} of ring L1")
print(f"principal components and projection: {reduction:.1f} s")
