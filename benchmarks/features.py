"""Features: batches on all cores against the loop over images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.literal import folded, literal_features
from benchmarks.setting import Setting
from benchmarks.tables import Table
from benchmarks.timing import median_seconds
from bispectral_ot.datasets import normalize
from bispectral_ot.features import RingBispectrum


def measure(setting: Setting) -> Iterator[Table]:
    """Images a second, and the largest difference from the literal features."""
    sizes = setting.sizes
    images = normalize(setting.digits).images[: sizes.features]
    few = images[: sizes.literal]
    ring = RingBispectrum(sampling="nearest").fit(images)
    literal = literal_features(few)
    difference = float(np.abs(ring.transform(few) - folded(ring, literal)).max())
    counts = {"bispectral-ot": len(images), "literal loop": len(few)}
    seconds = median_seconds(
        {"bispectral-ot": lambda: ring.transform(images), "literal loop": lambda: literal_features(few)},
        repeats=sizes.repeats,
    )
    rate = {name: counts[name] / seconds[name] for name in counts}
    columns = {"bispectral-ot": ring.n_features_out_, "literal loop": literal.shape[1]}
    rows = [
        {
            "method": name,
            "columns": columns[name],
            "images": counts[name],
            "seconds": seconds[name],
            "images/s": rate[name],
            "ratio": rate["bispectral-ot"] / rate[name],
        }
        for name in counts
    ]
    note = (
        f"Ring bispectra of {images.shape[1]} x {images.shape[2]} images against a NumPy loop over images and "
        f"rings; ratio: time for one image / ours. Largest difference of a feature: {difference:.1e}."
    )
    yield Table("Features", note, ["method", "columns", "images", "seconds", "images/s", "ratio"], rows)
