"""What a run keeps of a match for its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.report.page_data import PageData, collect
from bispectral_ot.report.tables import Side, class_table
from report_runs import blobs, gather

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


def test_targets_that_get_nothing_are_not_kept() -> None:
    a, b = blobs(12, THREE, seed=0), blobs(12, THREE, seed=1)
    weights = np.r_[np.zeros(3), np.full(9, 1 / 9)]
    _, page, _ = gather(a, b, solver=bot.ExactTransport(), source_weights=weights, target_weights=np.full(12, 1 / 12))
    sources = page.content["sources"]
    matches = dict(zip(sources["index"], sources["matches"], strict=True))
    assert matches[0] == matches[1] == matches[2] == []
    assert all(0 < len(matches[i]) < 5 for i in range(3, 12))
    assert all(share > 0 for shares in sources["shares"] for share in shares)
    assert np.sum(page.content["flow"]["counts"]) == 9


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


def test_large_costs_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = blobs(30, THREE, seed=0), blobs(24, THREE, seed=1)
    match, page, _ = gather(a, b, storage="recompute")
    monkeypatch.setattr(match.coupling.cost, "read", None)
    again = collect(match, Side.whole(a), Side.whole(b), title="pixels")
    assert again.content == page.content


@pytest.mark.parametrize("with_map", [True, False])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.001])
def test_fewer_images_keep_their_matches(share: float, with_map: bool) -> None:
    a, b = blobs(90, THREE, seed=0), blobs(120, THREE, seed=1)
    match, page, _ = gather(a, b)
    if not with_map:
        page = collect(replace(match, feature_map=None), Side.whole(a), Side.whole(b), title="pixels")
        assert page.content["map"] is page.content["distances"] is None
    fewer = page.reduced(share)
    sources, targets = fewer.content["sources"], fewer.content["targets"]
    top = match.top_matches(5)
    assert len(sources["index"]) == max(1, int(share * 90)) == len(fewer.source_pictures)
    for index, matches, shares in zip(sources["index"], sources["matches"], sources["shares"], strict=True):
        assert [targets["index"][j] for j in matches] == top.indices[index].tolist()
        np.testing.assert_allclose(shares, top.shares[index], rtol=1e-3, atol=1e-12)
    assert set(targets["label"]) == {0, 1, 2}
    assert len(targets["index"]) < len(page.content["targets"]["index"])
    whole = {index: slot for slot, index in enumerate(page.content["targets"]["index"])}
    np.testing.assert_array_equal(fewer.target_pictures, page.target_pictures[[whole[i] for i in targets["index"]]])


def test_fewer_images_lie_where_they_were_on_the_map() -> None:
    _, page, _ = gather(blobs(60, THREE, seed=0), blobs(80, THREE, seed=1))

    def places(content: dict[str, Any], side: str) -> dict[int, list[float]]:
        return {content[side]["index"][slot]: position for slot, *position in content["map"][side]}

    fewer = page.reduced(0.3)
    for side in ("sources", "targets"):
        before, after = places(page.content, side), places(fewer.content, side)
        assert 0 < len(after) < len(before)
        assert after.items() <= before.items()


def test_all_of_the_images_are_the_page_itself() -> None:
    _, page, _ = gather(blobs(20, THREE, seed=0), blobs(30, THREE, seed=1))
    whole = page.reduced(1.0)
    assert whole.content == page.content
    np.testing.assert_array_equal(whole.target_pictures, page.target_pictures)
