"""Tables of a match whose plan is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.transform import Rotation

import bispectral_ot as bot
from bispectral_ot import Dataset
from bispectral_ot.matching import ClassTable, class_table
from bispectral_ot.report import tables


def test_counts_accuracy_and_recall_of_a_known_plan(known_match):
    """a -> a, a -> b, b -> b, b -> a: half of each class is kept."""
    table = class_table(known_match([0, 2, 3, 1], ["a", "a", "b", "b"], ["a", "a", "b", "b"]))
    assert table.counts.tolist() == [[1, 1], [1, 1]]
    assert (table.accuracy, table.recall) == (0.5, {"a": 0.5, "b": 0.5})
    assert tables.confusion_table(table).to_numpy().tolist() == [["a", 1, 1], ["b", 1, 1]]


def test_common_classes_lie_on_the_diagonal_whatever_their_order(known_match):
    table = class_table(known_match([1, 2, 0], ["x", "y", "z"], ["w", "x", "y"]))
    assert (table.rows, table.columns) == (("x", "y", "z"), ("x", "y", "w"))
    assert table.counts.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert (table.accuracy, table.recall) == (pytest.approx(2 / 3), {"x": 1.0, "y": 1.0})
    match = known_match([0, 1, 2], ["2", "10", "1"], ["2", "10", "1"])
    numbered = Dataset(np.zeros((3, 2, 2)), np.array([2, 3, 0]), name="n", classes=("1", "never", "2", "10"))
    assert class_table(replace(match, source=numbered, target=numbered)).rows == ("1", "2", "10")


def test_without_common_classes_or_labels_there_is_no_accuracy(known_match):
    table = class_table(known_match([1, 0], ["cat", "dog"], ["Hund", "Katze"]))
    assert (table.accuracy, table.recall, table.counts.tolist()) == (None, {}, [[0, 1], [1, 0]])
    assert class_table(known_match([1, 0], None, ["a", "b"])) is None
    empty = ClassTable(("a", "b"), ("a", "b"), np.array([[2, 0], [0, 0]]), 1.0, {"a": 1.0})
    assert empty.fractions.tolist() == [[1.0, 0.0], [0.0, 0.0]]  # a class without mass


def test_rows_have_the_positions_and_files_of_the_whole_set_and_read_back(known_match, tmp_path):
    match = known_match([1, 0], None, ["007", "NA"])  # names that a reader could take for a number or a gap
    left = Dataset(match.source.images, name="left", files=("x/1.png", "x/2.png"), positions=np.array([7, 9]))
    right = replace(match.target, files=("t3.png", "t4.png"), positions=np.array([3, 4]))
    match = replace(match, source=left, target=right)
    best = tables.match_table(match, k=1)
    assert list(best) == ["source", "file", "rank", "target", "target_file", "weight", "distance"]
    assert best.to_numpy().tolist() == [[7, "x/1.png", 1, 4, "t4.png", 1, 0], [9, "x/2.png", 1, 3, "t3.png", 1, 0]]
    labels = tables.label_table(match)
    details = ["runner_up", "runner_up_probability", "nearest_label", "nearest_distance"]
    assert list(labels) == ["source", "file", "label", "probability", *details]
    assert labels.to_numpy()[0].tolist() == [7, "x/1.png", "NA", 1, "", 0, "NA", 0]
    tables.write_tables(tmp_path, {"matches": best, "labels": labels})
    for name, table in (("matches", best), ("labels", labels)):
        read = tables.read_table(tmp_path / f"{name}.csv")
        pd.testing.assert_frame_equal(read, table, check_dtype=False, check_column_type=False)


def test_targets_that_get_nothing_are_no_matches_and_labels_go_to_the_side_that_has_none(known_match):
    best = tables.match_table(known_match([2, 1, 0], None, None), k=3)
    assert best[["source", "rank", "target"]].to_numpy().tolist() == [[0, 1, 2], [1, 1, 1], [2, 1, 0]]
    labels = tables.label_table(known_match([1, 0], ["a", "b"], None))
    assert list(labels) == ["target", "label", "probability"]
    assert labels.label.tolist() == ["b", "a"]
    assert tables.label_table(known_match([1, 0], None, None)) is None


def test_results_count_what_the_tables_list():
    source, target = bot.split_halves(bot.load("digits"), per_class=30)
    source, target = source.select(source.labels > 2), target.select(target.labels < 7)
    match = bot.match(source, target)
    facts = tables.match_results(match, class_table(match))
    assert set(facts["proportions"]) == set("0123456")
    assert facts["proportions"]["3"]["true"] == pytest.approx(1 / 7)
    assert sum(each["source"] for each in facts["proportions"].values()) == pytest.approx(1)
    listed = tables.outlier_table(match)
    assert list(listed) == ["side", "position", "file", "outlier_score"]
    counts = listed.side.value_counts()
    assert facts["outliers"] == {"sources": counts["source"], "targets": counts["target"], "level": 0.05}
    sources, targets = tables.found_outliers(match)
    assert (source.labels[sources.indices] > 6).mean() > 0.7
    assert (target.labels[targets.indices] < 3).mean() > 0.7
    assert set(source.positions[sources.indices]) == set(listed.position[listed.side == "source"])


@pytest.mark.parametrize(
    ("symmetry", "columns"), [("rotation-reflection", ["angle", "mirrored"]), ("translation", ["down", "right"])]
)
def test_poses_have_a_table(symmetry, columns):
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    poses = bot.match(source, target, symmetry=symmetry).poses()
    table, runner_up = tables.pose_table(poses, source), [f"runner_up_{name}" for name in columns]
    assert list(table) == ["source", *columns, "fit", "score", "uncertainty", "ambiguous", *runner_up]
    summary = tables.pose_summary(poses)
    assert summary["certain"] + summary["ambiguous"] + summary["without"] == summary["sources"] == len(table) == 80
    assert summary["unit"] == ("pixels" if symmetry == "translation" else "degrees")


def test_poses_of_shapes_are_quaternions():
    points = np.random.default_rng(0).normal(size=(12, 40, 3)) * (3, 2, 1)
    turned = np.stack([Rotation.random(random_state=i).apply(cloud) for i, cloud in enumerate(points)])
    sides = Dataset(turned, kind="clouds"), Dataset(points, kind="clouds")
    poses = bot.match(*sides, symmetry="so3-shapes").poses()
    assert list(tables.pose_table(poses, sides[0]))[1:5] == ["x", "y", "z", "w"]
