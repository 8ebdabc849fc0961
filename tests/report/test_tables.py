from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot import Dataset
from bispectral_ot.report.tables import ClassTable, Side, class_table, confusion_rows, label_rows, match_rows, results


def test_counts_accuracy_and_recall_of_a_known_plan(known_match):
    """a -> a, a -> b, b -> b, b -> a: half of each class is kept."""
    match, source, target = known_match([0, 2, 3, 1], ["a", "a", "b", "b"], ["a", "a", "b", "b"])
    table = class_table(match, source, target)
    assert table.rows == table.columns == ("a", "b")
    assert table.counts.tolist() == [[1, 1], [1, 1]]
    assert table.accuracy == 0.5
    assert table.recall == {"a": 0.5, "b": 0.5}
    assert table.shares.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert confusion_rows(table) == (["source class", "a", "b"], [["a", 1, 1], ["b", 1, 1]])


def test_common_classes_lie_on_the_diagonal_whatever_their_order(known_match):
    match, source, target = known_match([1, 2, 0], ["x", "y", "z"], ["w", "x", "y"])
    table = class_table(match, source, target)
    assert table.rows == ("x", "y", "z")
    assert table.columns == ("x", "y", "w")
    assert table.counts.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert table.accuracy == pytest.approx(2 / 3)
    assert table.recall == {"x": 1.0, "y": 1.0}
    assert table.own.tolist() == [[True, False, False], [False, True, False], [False, False, False]]


def test_classes_without_images_have_no_row(known_match):
    match, source, target = known_match([0, 1], ["a", "b"], ["a", "b"])
    wider = Dataset(source.images, np.array([0, 2]), name="wider", classes=("a", "never", "b"))
    assert class_table(match, wider, target).rows == ("a", "b")


def test_numbers_are_in_the_order_of_the_set_not_of_their_letters(known_match):
    match, _, _ = known_match([0, 1, 2], ["2", "10", "1"], ["2", "10", "1"])
    numbered = Dataset(np.zeros((3, 2, 2)), np.array([1, 2, 0]), name="n", classes=("1", "2", "10"))
    assert class_table(match, numbered, numbered).rows == ("1", "2", "10")


def test_no_class_in_common_has_no_accuracy(known_match):
    match, source, target = known_match([1, 0], ["cat", "dog"], ["Hund", "Katze"])
    table = class_table(match, source, target)
    assert table.accuracy is None
    assert table.recall == {}
    assert table.counts.tolist() == [[0, 1], [1, 0]]


def test_no_table_unless_both_sides_have_labels(known_match):
    match, source, target = known_match([1, 0], None, ["a", "b"])
    assert class_table(match, source, target) is None


def test_rows_use_the_positions_and_files_of_the_whole_set(known_match):
    match, source, target = known_match([1, 0], None, ["a", "b"])
    named = Dataset(source.images, name="left", files=("x/1.png", "x/2.png"))
    left, right = Side(named, np.array([7, 9])), Side(target, np.array([3, 4]))
    header, rows = match_rows(match, left, right, k=1)
    assert header == ["source", "source_file", "rank", "target", "share", "distance"]
    best = [["7", "x/1.png", "1", "4", "1", "0"], ["9", "x/2.png", "1", "3", "1", "0"]]
    assert [list(map(str, row)) for row in rows] == best
    header, rows = label_rows(match, left, right)
    details = ["runner_up", "runner_up_share", "nearest_label", "nearest_distance"]
    assert header == ["source", "file", "label", "share", *details]
    given = [["7", "x/1.png", "b", "1", "", "0", "b", "0"], ["9", "x/2.png", "a", "1", "", "0", "a", "0"]]
    assert [list(map(str, row)) for row in rows] == given


def test_targets_that_get_nothing_are_no_matches(known_match):
    match, source, target = known_match([2, 1, 0], None, None)
    _, rows = match_rows(match, Side.whole(source), Side.whole(target), k=3)
    assert [row[:3] for row in rows] == [[0, 1, 2], [1, 1, 1], [2, 1, 0]]


def test_a_class_without_mass_has_no_shares():
    table = ClassTable(("a", "b"), ("a", "b"), np.array([[2, 0], [0, 0]]), 1.0, {"a": 1.0})
    assert table.shares.tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_labels_go_to_the_side_that_has_none(known_match):
    match, source, target = known_match([1, 0], ["a", "b"], None)
    header, rows = label_rows(match, Side.whole(source), Side.whole(target))
    assert header == ["target", "label", "share"]
    assert [row[1] for row in rows] == ["b", "a"]
    match, source, target = known_match([1, 0], None, None)
    assert label_rows(match, Side.whole(source), Side.whole(target)) is None


def test_results_hold_what_happened(known_match):
    match, source, target = known_match([0, 2, 1], ["a", "b", "b"], ["a", "b", "b"])
    found = results(match, Side.whole(source), Side.whole(target), class_table(match, source, target))
    assert (found["n"], found["m"], found["distance"], found["converged"]) == (3, 3, 0.0, True)
    assert found["accuracy"] == 1.0
    assert found["confusion"] == {"a": {"a": 1}, "b": {"b": 2}}
    assert found["source"] == {"name": "left", "images": 3, "shape": (6, 6), "classes": ("a", "b")}
