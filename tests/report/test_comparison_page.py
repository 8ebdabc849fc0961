"""What the page of a comparison is made of: figures of pairs, images within a budget, a file that may be damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.comparing import Comparison, Contrast
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.files import write_json
from bispectral_ot.report import comparison_page
from bispectral_ot.report.comparison_folder import write_comparison
from bispectral_ot.report.comparison_page import ComparisonData, collect_comparison, pair_sentence
from bispectral_ot.report.html import write_report
from report_runs import HOSTILE, blobs, page_content

THREE = ("a", "b", "c")
NAMES = ("one", "two", "turned", "few")


@pytest.fixture(scope="module")
def compared() -> tuple[Comparison, list[Dataset]]:
    datasets = [blobs(24, THREE, seed=0), blobs(24, THREE, seed=1), blobs(24, THREE, seed=2), blobs(8, ("a",), seed=3)]
    options: dict[str, Any] = {"features": "pixels", "permutations": 19, "bootstrap": 40, "labels": True}
    return bot.compare(dict(zip(NAMES, datasets, strict=True)), **options), datasets


@pytest.fixture(scope="module")
def collected(compared: tuple[Comparison, list[Dataset]]) -> ComparisonData:
    return collect_comparison(*compared)


def test_figures_are_those_of_the_comparison(compared: Any, collected: ComparisonData) -> None:
    comparison, _ = compared
    content = collected.content
    assert content["names"] == list(NAMES)
    for shown, pair in zip(content["pairs"], comparison.pairs, strict=True):
        assert (NAMES[shown["source"]], NAMES[shown["target"]]) == (pair.source, pair.target)
        expected = (pair.distance, pair.reference, pair.ratio, *pair.interval)
        np.testing.assert_allclose(
            [shown[n] for n in ("distance", "reference", "ratio", "low", "high")], expected, 1e-4
        )
        assert shown["p_value"] == pair.p_value
        _, _, between = comparison.class_distances.between(pair.source, pair.target)
        np.testing.assert_allclose(shown["class_distances"], between, rtol=6e-3)


def test_classes_sum_to_the_distance(compared: Any, collected: ComparisonData) -> None:
    comparison, _ = compared
    for shown, pair in zip(collected.content["pairs"], comparison.pairs, strict=True):
        sides = shown["classes"]
        assert sum(part for side in sides for _, part in side["parts"]) == pytest.approx(pair.distance, rel=1e-2)
        expected = comparison.class_contributions(pair.source, pair.target)[pair.source]
        names = collected.content["classes"][shown["source"]]
        assert {names[code]: part for code, part in sides[0]["parts"]} == pytest.approx(expected, rel=1e-3)


def test_many_classes_become_one_entry(compared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison, datasets = compared
    monkeypatch.setattr(comparison_page, "_MOST_CLASS_PARTS", 2 * len(comparison.pairs) * 2)
    monkeypatch.setattr(comparison_page, "_MOST_CLASS_DISTANCES", 10)
    content = collect_comparison(comparison, datasets).content
    side = content["pairs"][0]["classes"][0]
    assert (len(side["parts"]), side["others"]) == (2, 1)
    assert sum(part for _, part in side["parts"]) + side["rest"] == pytest.approx(
        comparison.pairs[0].source_contributions.sum(), rel=1e-2
    )
    assert content["pairs"][0]["class_distances"] is None
    assert content["facts"]["class_distances_left_out"]


def test_images_are_those_that_contribute_most(compared: Any, collected: ComparisonData) -> None:
    comparison, datasets = compared
    images = collected.content["images"]
    for shown, pair in zip(collected.content["pairs"], comparison.pairs, strict=True):
        for top, found, places in (
            (shown["top"][0], pair.source_top, (shown["source"], shown["target"])),
            (shown["top"][1], pair.target_top, (shown["target"], shown["source"])),
        ):
            slots, _, others = zip(*top, strict=True)
            assert [images["index"][slot] for slot in slots] == found.indices.tolist()
            assert [images["index"][slot] for slot in others] == found.counterparts.tolist()
            assert {images["set"][slot] for slot in slots} == {places[0]}
            assert {images["set"][slot] for slot in others} == {places[1]}
    slot = collected.content["pairs"][0]["top"][0][0][0]
    low, high = datasets[0].images.min(), datasets[0].images.max()
    expected = 255 * (datasets[0].images[images["index"][slot]] - low) / (high - low)
    np.testing.assert_allclose(collected.pictures[slot], expected, atol=0.6)
    assert collected.content["classes"][0][images["label"][slot]] == comparison.labels[0][images["index"][slot]]


def test_a_budget_of_pictures_is_shared_rank_by_rank(compared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison, datasets = compared
    monkeypatch.setattr(comparison_page, "_PICTURE_BYTES", 64 * 50)
    data = collect_comparison(comparison, datasets)
    assert len(data.pictures) <= 50
    lengths = [len(top) for pair in data.content["pairs"] for top in pair["top"]]
    assert 1 <= min(lengths) <= max(lengths) <= min(lengths) + 1
    assert all(len(slots) == 8 for slots in data.content["samples"])
    few = data.reduced(0.01)
    assert len(few.pictures) == 4
    assert few.content["samples"] == [[0], [1], [2], [3]]
    assert [top for pair in few.content["pairs"] for top in pair["top"] if top] == []
    few._check()


def test_order_tree_and_map(collected: ComparisonData) -> None:
    content = collected.content
    assert sorted(content["order"]) == [0, 1, 2, 3]
    assert content["order"].index(3) in (0, 3)  # the set that lacks classes is at an end
    heights = [height for _, _, height in content["tree"]]
    assert heights == sorted(heights)
    assert content["tree"][-1][:2] in ([3, 5], [5, 3])
    positions = np.array(content["map"]["positions"])
    np.testing.assert_allclose(positions.max(axis=0), -positions.min(axis=0), atol=1e-4)
    apart = np.linalg.norm(positions - positions[3], axis=1)[:3]
    assert apart.min() > np.linalg.norm(positions[:3] - positions[0], axis=1).max()


def test_sentences(compared: Any) -> None:
    from dataclasses import replace

    pair = replace(compared[0].pairs[0], distance=0.0103, reference=0.01)
    begin = "1.03 times what two samples of one population would be at"
    assert pair_sentence(replace(pair, p_value=0.42), level=0.05) == f"{begin}; p = 0.42: no difference is found."
    found = pair_sentence(replace(pair, p_value=0.05), level=0.05)
    assert found == f"{begin}; p = 0.05: a difference is found at the 0.05 level."
    assert pair_sentence(replace(pair, p_value=None), level=0.05) == f"{begin}. No test was asked for."
    assert pair_sentence(replace(pair, distance=12.5, p_value=None), level=0.05).startswith("1,250 times")
    assert "not known" in pair_sentence(replace(pair, reference=float("nan")), level=0.05)


def test_sets_without_labels_and_of_other_kinds() -> None:
    random = np.random.default_rng(0)
    plain, labelled = blobs(9, (), seed=0, channels=3), blobs(12, THREE, seed=1, channels=3)
    content = collect_comparison(bot.compare([plain, labelled], features="pixels"), [plain, labelled]).content
    assert content["pairs"][0]["classes"][0] is None
    assert len(content["pairs"][0]["classes"][1]["parts"]) == 3
    assert content["map"] is None
    assert content["pairs"][0]["p_value"] is None
    clouds = [Dataset(random.normal(size=(6, 40, 3)).astype(np.float32), kind="clouds", name=n) for n in "ab"]
    assert collect_comparison(bot.compare(clouds), clouds).pictures.shape[1:] == (32, 32)


def test_the_page_is_made_of_the_run_folder(compared: Any, tmp_path: Path) -> None:
    comparison, datasets = compared
    contrast = Contrast("one", "two", {"none": 0.3, "mirrors": 0.4}, {"none": 1.0, "mirrors": 1.1}, 0.05)
    write_comparison(tmp_path, comparison, datasets, contrasts=[contrast], draw=False)
    write_json(tmp_path / "run.json", {"config": {"verb": "compare"}})
    content = page_content(write_report(tmp_path))
    assert content["title"] == "Comparison of datasets"
    assert content["tables"] == []  # comparison.md is what the page shows itself
    assert content["comparison"]["contrasts"][0]["sentence"] == contrast.sentence
    size = (tmp_path / "report.html").stat().st_size
    smaller = write_report(tmp_path, most_bytes=size - 1000)
    assert smaller.stat().st_size <= size - 1000
    assert len(page_content(smaller)["comparison"]["images"]["set"]) < len(content["comparison"]["images"]["set"])


def test_hostile_names_are_data(tmp_path: Path) -> None:
    datasets = [blobs(8, HOSTILE, seed=place) for place in range(4)]
    write_comparison(
        tmp_path, bot.compare(dict(zip(HOSTILE, datasets, strict=True)), features="pixels"), datasets, draw=False
    )
    path = write_report(tmp_path)
    assert "hacked=1</script>" not in path.read_text("utf-8")
    assert page_content(path)["comparison"]["names"] == list(HOSTILE)


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: [],
        lambda content: content | {"names": ["one"]},
        lambda content: content | {"pairs": content["pairs"][:-1]},
        lambda content: content | {"pairs": [{**content["pairs"][0], "distance": "far"}, *content["pairs"][1:]]},
        lambda content: content | {"pairs": [{**content["pairs"][0], "target": 9}, *content["pairs"][1:]]},
        lambda content: content | {"samples": [[10_000], [], [], []]},
        lambda content: content | {"images": {**content["images"], "label": [0]}},
        lambda content: {name: value for name, value in content.items() if name != "tree"},
    ],
)
def test_damaged_data_is_named(compared: Any, tmp_path: Path, edit: Any) -> None:
    comparison, datasets = compared
    write_comparison(tmp_path, comparison, datasets, draw=False)
    path = tmp_path / "comparison-data.npz"
    with np.load(path) as arrays:
        content, pictures = json.loads(arrays["content"].tobytes()), arrays["pictures"]
    np.savez(path, content=np.frombuffer(json.dumps(edit(content)).encode(), dtype=np.uint8), pictures=pictures)
    with pytest.raises(InputError, match=r"comparison-data\.npz is damaged"):
        ComparisonData.load(path)
    with pytest.warns(DataWarning, match=r"comparison-data\.npz is damaged"):
        assert page_content(write_report(tmp_path))["tables"]  # comparison.md, then
