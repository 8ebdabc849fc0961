from __future__ import annotations

import numpy as np

from benchmarks.end_to_end import growth_exponent
from benchmarks.literal import literal_features
from benchmarks.tables import Table
from bispectral_ot.features import RingBispectrum


def test_markdown_has_aligned_columns_and_readable_numbers():
    rows = [
        {"method": "ours", "n": 30_000, "seconds": 0.01234, "error": 2.5e-7, "ratio": 1.0},
        {"method": "theirs", "n": 30_000, "seconds": 1234.5, "error": None, "ratio": 1234.5},
    ]
    table = Table("Title", "A note.", ["method", "n", "seconds", "error", "ratio"], rows, ["x (not installed)"])
    assert table.markdown().splitlines() == [
        "**Title**",
        "",
        "A note.",
        "",
        "| method | n | seconds | error | ratio |",
        "|---|---:|---:|---:|---:|",
        "| ours | 30,000 | 0.0123 | 2.5e-07 | 1.00x |",
        "| theirs | 30,000 | 1,234 | – | 1,234x |",
        "",
        "Skipped: x (not installed).",
    ]


def test_growth_exponent_ignores_times_of_pure_overhead():
    points = [(1000, 0.05), (2000, 0.4), (4000, 1.6), (8000, 6.4)]
    assert np.isclose(growth_exponent(points), 2.0)
    assert growth_exponent(points[:2]) is None


def test_literal_features_are_the_unfolded_ones():
    images = np.random.default_rng(0).normal(size=(3, 12, 10)).astype(np.float32)
    assert np.allclose(
        literal_features(images), RingBispectrum(sampling="nearest", folded=False).fit_transform(images), atol=1e-6
    )
