from __future__ import annotations

import itertools
import os
import warnings
import xml.etree.ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from bispectral_ot import Cost, Dataset, Match, Sinkhorn
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.report import figures
from bispectral_ot.report.overview import overview_figure
from bispectral_ot.report.study_figures import (
    Panel,
    angle_distance_figure,
    class_distance_figure,
    embedding_figure,
)
from bispectral_ot.report.style import FAINT, RIGHT, WRONG, save
from bispectral_ot.report.tables import class_table


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def frames(figure: Figure) -> list[str]:
    return [to_hex(patch.get_edgecolor()) for patch in figure.axes[0].patches]


def drawn(figure: Figure, tmp_path) -> np.ndarray:
    """The saved picture as grey values; drawing must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(figure, tmp_path / "figures" / "a.png")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["a.png", "a.svg"]
    with Image.open(tmp_path / "figures" / "a.png") as picture:
        return np.asarray(picture.convert("L"))


def test_confusion_names_classes_and_writes_percents(known_match, tmp_path):
    match, source, target = known_match([0, 2, 1, 3], ["$a$", "$a$", "b", "b"], ["$a$", "$a$", "b", "b"])
    figure = figures.confusion_figure(class_table(match, source, target), source, target)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$a$", "b"]
    assert texts(figure) == ["50", "50", "50", "50"]
    assert "50.0%" in axes.get_title(loc="left")
    assert len(axes.images) == 2 + 4  # hits, errors, and a sample for each row and column
    assert drawn(figure, tmp_path).std() > 10


def test_confusion_colours_hits_and_errors_apart(known_match):
    match, source, target = known_match([0, 2, 1], ["a", "b", "c"], ["a", "b", "c"])
    hits, errors, *_ = figures.confusion_figure(class_table(match, source, target), source, target).axes[0].images
    assert (~hits.get_array().mask).tolist() == np.eye(3, dtype=bool).tolist()
    assert (~errors.get_array().mask).tolist() == (~np.eye(3, dtype=bool)).tolist()
    assert hits.get_cmap().name != errors.get_cmap().name


def test_confusion_of_very_many_classes_stays_a_picture(known_match, tmp_path):
    names = [f"class {i}" for i in range(120)]
    match, source, target = known_match(list(range(120)), names, names, shape=(2, 2))
    figure = figures.confusion_figure(class_table(match, source, target), source, target)
    assert max(figure.get_size_inches()) < 20
    assert texts(figure) == []
    assert len(figure.axes[0].get_yticklabels()) <= 60


def test_only_targets_that_matter_are_drawn(known_match):
    match, source, target = known_match([0, 2, 1], None, None)
    assert len(frames(figures.matches_figure(match, source, target, k=3))) == 3 * 2  # exact: one target gets all
    near = Match(Sinkhorn(reg=0.1).solve(Cost.from_matrix(1.0 - np.eye(3))))
    assert near.top_matches(3).shares.min() > 1e-6
    assert len(frames(figures.matches_figure(near, source, target, k=3))) == 3 * 2
    even = Match(Sinkhorn().solve(Cost.from_matrix(np.ones((3, 300)))))
    figure = figures.matches_figure(even, source, Dataset(np.zeros((300, 6, 6))), k=5)
    assert len(frames(figure)) == 3 * 6
    assert texts(figure).count("<1%") == 3 * 5


def test_frames_say_which_matches_are_right(known_match, tmp_path):
    match, source, target = known_match([0, 2, 1], ["a", "b", "c"], ["a", "b", "c"])
    figure = figures.matches_figure(match, source, target, k=1)
    assert frames(figure) == [FAINT, RIGHT, FAINT, WRONG, FAINT, WRONG]
    assert {"✓ a  100%", "✗ c  100%", "✗ b  100%"} <= set(texts(figure))
    assert drawn(figure, tmp_path).std() > 10


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize(
    "name", ["Staphylococcus {}", "HELICOBACTER {}", "womwomwomwomwom {}", "日本語の名前はとても長い{}"]
)
def test_long_names_stay_different_and_do_not_overlap(known_match, tmp_path, name):
    names = [name.format(i) for i in range(10, 16)]
    match, source, target = known_match([0, 1, 2, 4, 5, 3], names, names)
    even = Sinkhorn(reg=5.0).solve(Cost.from_matrix(1.0 - np.eye(6)))  # everything goes everywhere
    match = replace(match, coupling=even)
    figure = figures.matches_figure(match, source, target, k=5)
    drawn(figure, tmp_path)  # maybe no font of this machine has the letters: no warning
    captions = [text for text in figure.axes[0].texts if "\n" in text.get_text()]
    assert len({text.get_text().split("\n")[0][2:] for text in captions}) == 6
    boxes = sorted((text.get_window_extent() for text in captions), key=lambda box: (-round(box.y0), box.x0))
    for left, right in itertools.pairwise(boxes):
        assert left.x1 < right.x0 or left.y0 > right.y1
    ticks = figures.confusion_figure(class_table(match, source, target), source, target).axes[0].get_yticklabels()
    assert len({tick.get_text() for tick in ticks}) == 6


@pytest.mark.parametrize("names", [(None, ["a", "b"]), (["x", "y"], ["a", "b"]), (None, None)])
def test_nothing_is_called_wrong_where_classes_cannot_be_compared(known_match, names):
    match, source, target = known_match([1, 0], *names)
    figure = figures.matches_figure(match, source, target, k=1)
    assert set(frames(figure)) == {FAINT}
    assert not any("✗" in text for text in texts(figure))


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4, 3), (6, 6, 2), (1, 1)])
def test_all_kinds_of_images_are_drawn_in_their_proportions(known_match, tmp_path, shape):
    match, source, target = known_match([1, 0], ["a", "b"], ["a", "b"], shape=shape)
    figure = figures.matches_figure(match, source, target, k=2)
    left, right, bottom, top = figure.axes[0].images[0].get_extent()
    assert (right - left) / (bottom - top) == pytest.approx(shape[1] / shape[0])
    assert drawn(figure, tmp_path).std() > 5


def test_convergence_shows_every_pass_and_the_tolerance(tmp_path):
    cost = Cost.from_matrix(np.random.default_rng(0).uniform(size=(8, 9)))
    coupling = Sinkhorn(reg=0.004).solve(cost)
    figure = figures.convergence_figure(coupling)
    curve, tolerance, *_ = figure.axes[0].lines
    assert curve.get_ydata().tolist() == [error for _, error in coupling.history]
    assert set(tolerance.get_ydata()) == {coupling.tol}
    assert {f"reg {reg:.3g}" for reg, _ in coupling.history} <= set(texts(figure))
    assert figure.axes[0].get_title(loc="left").startswith("Converged")
    assert drawn(figure, tmp_path).std() > 5


def test_examples_come_from_all_classes_and_are_reproducible():
    dataset = Dataset(np.zeros((100, 2, 2)), np.repeat(np.arange(5), 20))
    chosen = figures.pick_examples(dataset, 12, seed=3)
    assert chosen == figures.pick_examples(dataset, 12, seed=3)
    assert chosen != figures.pick_examples(dataset, 12, seed=4)
    assert len(set(chosen)) == 12
    assert sorted(np.bincount(dataset.labels[chosen])) == [2, 2, 2, 3, 3]
    plain = Dataset(np.zeros((3, 2, 2)))
    assert figures.pick_examples(plain, 12, seed=0) == [0, 1, 2]


def test_overview_has_a_row_of_tiles_for_each_kind_of_features(known_match, tmp_path):
    names = [str(i) for i in range(10)]
    good, source, target = known_match(list(range(10)), names, names)
    bad, _, _ = known_match([*range(1, 10), 0], names, names)
    outcomes = {name: (m, class_table(m, source, target)) for name, m in (("pixels", bad), ("better", good))}
    figure = overview_figure(outcomes, source, target)
    assert frames(figure) == [FAINT] * 10 + [WRONG] * 10 + [RIGHT] * 10
    shown = texts(figure)
    assert "0% keep their class" in shown
    assert "100% keep their class" in shown
    assert len(figure.axes) == 3
    assert drawn(figure, tmp_path).std() > 20


def test_overview_examples_are_as_often_right_as_the_whole(known_match):
    names = [str(i % 10) for i in range(40)]
    goes_to = [i if i % 4 == 0 else (i + 1) % 40 for i in range(40)]
    goes_to = np.argsort(np.argsort(goes_to, kind="stable"), kind="stable").tolist()
    match, source, target = known_match(goes_to, names, names)
    hits = figures.same_class(match, match.top_matches(1).indices)
    figure = overview_figure({"only": (match, class_table(match, source, target))}, source, target)
    shown = frames(figure)[10:]
    assert abs(shown.count(RIGHT) / 10 - hits.mean()) <= 0.1


def test_the_style_leaves_no_trace(known_match):
    before = dict(matplotlib.rcParams)
    match, source, target = known_match([0, 1], ["a", "b"], ["a", "b"])
    figures.matches_figure(match, source, target)
    assert dict(matplotlib.rcParams) == before


def test_a_cloud_of_points_is_drawn_as_seen_from_aside():
    needle = np.zeros((50, 3), dtype=np.float32)
    needle[:, 2] = np.linspace(-1, 1, 50)  # stands upright
    shown = Pictures(Dataset(needle[None], kind="clouds"))[0]
    assert shown.shape == (48, 48)
    assert shown.max() == 1.0
    rows, columns = np.nonzero(shown)
    assert len(set(columns)) <= 2  # a dot wide
    assert len(set(rows)) > 30
    assert Pictures(Dataset(np.full((1, 50, 3), 7.0), kind="clouds"))[0].max() == 1.0  # all points in one place
    assert Pictures(Dataset(needle[None]))[0].shape == (50, 3)  # an image, unless it says that it is a cloud


@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9"), "a\0b", "two\nlines", "\ud800"])
def test_names_that_no_font_has_are_drawn_escaped(known_match, tmp_path, name):
    match, source, target = known_match([0, 1], [name, "b"], [name, "b"])
    for number, figure in enumerate(
        [
            figures.matches_figure(match, source, target),
            figures.confusion_figure(class_table(match, source, target), source, target),
            figures.contact_sheet([source.images, target.images], [name, "b"]),
            embedding_figure([Panel("x", np.zeros((2, 2)))], source.images, np.array([0, 1]), (name, "b")),
            class_distance_figure(np.eye(2), (name, "b"), title="x"),
            angle_distance_figure(np.zeros((2, 2, 2)), (name, "b"), np.arange(2.0), title="x"),
        ]
    ):
        save(figure, tmp_path / f"{number}.png")
        xml.etree.ElementTree.parse(tmp_path / f"{number}.svg")
