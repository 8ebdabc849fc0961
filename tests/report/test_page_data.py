"""What a run keeps of a match for its report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from report_runs import blobs, gather

from bispectral_ot.report.page_data import PageData
from bispectral_ot.report.tables import class_table

THREE = ("a", "b", "c")


def test_flow_is_that_of_the_class_table() -> None:
    a, b = blobs(30, THREE, seed=0), blobs(24, THREE, seed=1)
    match, page, facts = gather(a, b)
    table = class_table(match, a, b)
    assert table is not None
    np.testing.assert_array_equal(page.content["flow"]["counts"], table.counts)
    assert facts["accuracy"] == table.accuracy
    sources = page.content["sources"]
    top = match.top_matches(5)
    for slot, index in enumerate(sources["index"]):
        best = [page.content["targets"]["index"][j] for j in sources["matches"][slot]]
        assert best == top.indices[index].tolist()
        np.testing.assert_allclose(sources["shares"][slot], top.shares[index], rtol=1e-3, atol=1e-12)


def test_class_lists_that_differ_meet_on_the_diagonal() -> None:
    _, page, _ = gather(blobs(12, ("x", "b", "c"), seed=0), blobs(12, ("c", "b", "y"), seed=1))
    assert page.content["flow"]["rows"] == ["x", "b", "c"]
    assert page.content["flow"]["columns"] == ["b", "c", "y"]


def test_saved_data_reads_back(tmp_path: Path) -> None:
    _, page, facts = gather(blobs(6, THREE, seed=0), blobs(6, THREE, seed=1))
    page.save(tmp_path, facts=facts)
    loaded = PageData.load(tmp_path / "report-data.npz")
    assert loaded.content["flow"] == page.content["flow"]
    np.testing.assert_array_equal(loaded.source_pictures, page.source_pictures)
