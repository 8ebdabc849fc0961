"""Tables of a match whose plan is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import bispectral_ot as bot
from bispectral_ot import Dataset
from bispectral_ot.matching import ClassTable, class_table
from bispectral_ot.report.figures import plot_poses
from bispectral_ot.report.tables import (
    Diagnostics,
    confusion_rows,
    label_rows,
    match_rows,
    outlier_rows,
    pose_rows,
    pose_summary,
    results,
)


def test_counts_accuracy_and_recall_of_a_known_plan(known_match):
    """a -> a, a -> b, b -> b, b -> a: half of each class is kept."""
    table = class_table(known_match([0, 2, 3, 1], ["a", "a", "b", "b"], ["a", "a", "b", "b"]))
    assert table.rows == table.columns == ("a", "b")
    assert table.counts.tolist() == [[1, 1], [1, 1]]
    assert (table.accuracy, table.recall) == (0.5, {"a": 0.5, "b": 0.5})
    assert table.fractions.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert confusion_rows(table) == (["source class", "a", "b"], [["a", 1, 1], ["b", 1, 1]])


def test_common_classes_lie_on_the_diagonal_whatever_their_order(known_match):
    table = class_table(known_match([1, 2, 0], ["x", "y", "z"], ["w", "x", "y"]))
    assert (table.rows, table.columns) == (("x", "y", "z"), ("x", "y", "w"))
    assert table.counts.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert table.accuracy == pytest.approx(2 / 3)
    assert table.recall == {"x": 1.0, "y": 1.0}
    assert table.own.tolist() == [[True, False, False], [False, True, False], [False, False, False]]


def test_rows_are_in_the_order_of_the_set_without_empty_classes(known_match):
    match = known_match([0, 1, 2], ["2", "10", "1"], ["2", "10", "1"])
    numbered = Dataset(np.zeros((3, 2, 2)), np.array([2, 3, 0]), name="n", classes=("1", "never", "2", "10"))
    assert class_table(replace(match, source=numbered, target=numbered)).rows == ("1", "2", "10")


def test_without_common_classes_or_labels_there_is_no_accuracy(known_match):
    table = class_table(known_match([1, 0], ["cat", "dog"], ["Hund", "Katze"]))
    assert (table.accuracy, table.recall, table.counts.tolist()) == (None, {}, [[0, 1], [1, 0]])
    assert class_table(known_match([1, 0], None, ["a", "b"])) is None
    empty = ClassTable(("a", "b"), ("a", "b"), np.array([[2, 0], [0, 0]]), 1.0, {"a": 1.0})
    assert empty.fractions.tolist() == [[1.0, 0.0], [0.0, 0.0]]  # a class without mass


def test_rows_have_the_positions_and_files_of_the_whole_set(known_match):
    match = known_match([1, 0], None, ["a", "b"])
    left = Dataset(match.source.images, name="left", files=("x/1.png", "x/2.png"), positions=np.array([7, 9]))
    right = replace(match.target, files=("t3.png", "t4.png"), positions=np.array([3, 4]))
    match = replace(match, source=left, target=right)
    header, rows = match_rows(match, k=1)
    assert header == ["source", "file", "rank", "target", "target_file", "weight", "distance"]
    best = [["7", "x/1.png", "1", "4", "t4.png", "1", "0"], ["9", "x/2.png", "1", "3", "t3.png", "1", "0"]]
    assert [list(map(str, row)) for row in rows] == best
    header, rows = label_rows(match)
    details = ["runner_up", "runner_up_probability", "nearest_label", "nearest_distance"]
    assert header == ["source", "file", "label", "probability", *details]
    given = [["7", "x/1.png", "b", "1", "", "0", "b", "0"], ["9", "x/2.png", "a", "1", "", "0", "a", "0"]]
    assert [list(map(str, row)) for row in rows] == given


def test_targets_that_get_nothing_are_no_matches(known_match):
    _, rows = match_rows(known_match([2, 1, 0], None, None), k=3)
    assert [row[:3] for row in rows] == [[0, 1, 2], [1, 1, 1], [2, 1, 0]]


def test_labels_go_to_the_side_that_has_none(known_match):
    header, rows = label_rows(known_match([1, 0], ["a", "b"], None))
    assert header == ["target", "label", "probability"]
    assert [row[1] for row in rows] == ["b", "a"]
    assert label_rows(known_match([1, 0], None, None)) is None


def test_results_hold_what_happened(known_match):
    match = known_match([0, 2, 1], ["a", "b", "b"], ["a", "b", "b"])
    found = results(match, class_table(match), Diagnostics.of(match))
    assert (found["n"], found["m"], found["distance"], found["converged"]) == (3, 3, 0.0, True)
    assert found["accuracy"] == 1.0
    assert found["confusion"] == {"a": {"a": 1}, "b": {"b": 2}}
    assert found["source"] == {"name": "left", "images": 3, "shape": (6, 6), "classes": ("a", "b")}
    bare = results(replace(match, source=None, target=None), None, Diagnostics.of(match))
    assert bare["source"] == {"name": "features", "images": 3, "shape": [], "classes": None}


def test_diagnostics_count_what_they_list():
    source, target = bot.split_halves(bot.load("digits"), per_class=30)
    source, target = source.select(source.labels > 2), target.select(target.labels < 7)
    match = bot.match(source, target)
    found = Diagnostics.of(match)
    facts = results(match, class_table(match), found)
    assert set(facts["proportions"]) == set("0123456")
    assert facts["proportions"]["3"]["true"] == pytest.approx(1 / 7)
    assert sum(each["source"] for each in facts["proportions"].values()) == pytest.approx(1)
    header, rows = outlier_rows(match, found)
    assert header == ["side", "position", "file", "outlier_score"]
    listed = [row[0] for row in rows]
    assert facts["outliers"] == {"sources": listed.count("source"), "targets": listed.count("target"), "level": 0.05}
    assert (source.labels[found.sources.indices] > 6).mean() > 0.7
    assert (target.labels[found.targets.indices] < 3).mean() > 0.7
    assert set(source.positions[found.sources.indices]) == {row[1] for row in rows if row[0] == "source"}


@pytest.mark.parametrize(
    ("symmetry", "columns"),
    [
        ("rotation", ["angle"]),
        ("rotation-reflection", ["angle", "mirrored"]),
        ("translation", ["down", "right"]),
    ],
)
def test_poses_of_every_symmetry_have_a_table_and_figures(symmetry, columns):
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    poses = bot.match(source, target, symmetry=symmetry).poses()
    header, rows = pose_rows(poses, source)
    runner_up = [f"runner_up_{name}" for name in columns]
    assert header == ["source", *columns, "fit", "score", "uncertainty", "ambiguous", *runner_up]
    assert len(list(rows)) == 80
    summary = pose_summary(poses)
    assert summary["certain"] + summary["ambiguous"] + summary["without"] == summary["sources"] == 80
    assert summary["unit"] == ("pixels" if symmetry == "translation" else "degrees")
    from bispectral_ot.drawing import fitted_axes

    for ambiguous in (False, True):
        plot_poses(poses, source, target, ambiguous=ambiguous, ax=fitted_axes()).figure.draw_without_rendering()


def test_poses_of_shapes_are_quaternions():
    points = np.random.default_rng(0).normal(size=(12, 40, 3)) * (3, 2, 1)
    turned = np.stack([Rotation.random(random_state=i).apply(cloud) for i, cloud in enumerate(points)])
    sides = Dataset(turned, kind="clouds"), Dataset(points, kind="clouds")
    poses = bot.match(*sides, symmetry="so3-shapes").poses()
    header, _ = pose_rows(poses, sides[0])
    assert header[1:5] == ["x", "y", "z", "w"]
