"""Features: batches on all cores against the loop over images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.literal import literal_features
from benchmarks.setting import Setting
from benchmarks.tables import Table
from benchmarks.timing import median_seconds
from bispectral_ot.datasets import normalize
from bispectral_ot.features import RingBispectrum


def measure(setting: Setting) -> Iterator[Table]:
    """Images a second, folded and unfolded, and the largest difference from the literal features."""
    sizes = setting.sizes
    images = normalize(setting.digits).images[: sizes.features]
    few = images[: sizes.literal]
    folded = RingBispectrum(sampling="nearest").fit(images)
    unfolded = RingBispectrum(sampling="nearest", folded=False).fit(images)
    difference = float(np.abs(unfolded.transform(few) - literal_features(few)).max())
    folded.transform(few)  # compiled code is loaded
    counts = {
        "folded": len(images),
        "unfolded": min(len(images), 5 * len(few)),
        "literal loop": len(few),
    }
    seconds = median_seconds(
        {
            "folded": lambda: folded.transform(images),
            "unfolded": lambda: unfolded.transform(images[: counts["unfolded"]]),
            "literal loop": lambda: literal_features(few),
        },
        repeats=sizes.repeats,
    )
    rate = {name: counts[name] / seconds[name] for name in counts}
    columns = {"folded": folded.n_features_out_, "unfolded": unfolded.n_features_out_}
    rows = [
        {
            "method": name if name == "literal loop" else f"bispectral-ot, {name}",
            "columns": columns.get(name, unfolded.n_features_out_),
            "images": counts[name],
            "seconds": seconds[name],
            "images/s": rate[name],
            "ratio": rate["folded"] / rate[name],
        }
        for name in counts
    ]
    note = (
        f"Ring bispectra of {images.shape[1]} x {images.shape[2]} images against a NumPy loop over images and "
        f"rings; ratio: time for one image / ours (folded). Largest difference of a feature: {difference:.1e}."
    )
    yield Table("Features", note, ["method", "columns", "images", "seconds", "images/s", "ratio"], rows)
