"""What a run says about shares, elements without counterpart and doubtful labels."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.report.html import write_report
from bispectral_ot.report.match_folder import write_match
from bispectral_ot.report.review import Review, unmatched_rows
from bispectral_ot.report.review_figures import doubtful_figure, shares_figure, unmatched_figure
from bispectral_ot.report.tables import Side
from tests.report_runs import page_content


@pytest.fixture(scope="module")
def sides():
    """Sources of the classes 3 to 9, targets of the classes 0 to 6."""
    source, target = bot.split_halves(bot.load("digits"), per_class=30)
    return source.select(source.labels > 2), target.select(target.labels < 7)


@pytest.fixture(scope="module")
def match(sides):
    return bot.match(*sides)


def test_a_review_counts_what_it_lists(match, sides):
    review = Review.of(match)
    facts = review.facts()
    assert set(facts["shares"]) == set("0123456")
    assert facts["shares"]["3"]["true"] == pytest.approx(1 / 7)
    assert facts["shares"]["0"]["true"] == 0
    assert sum(each["source"] for each in facts["shares"].values()) == pytest.approx(1)
    _, rows = unmatched_rows(review, *map(Side.whole, sides))
    listed = [row[0] for row in rows]
    assert facts["unmatched"] == {"sources": listed.count("source"), "targets": listed.count("target"), "share": 0.05}
    assert (sides[0].labels[review.sources.indices] > 6).mean() > 0.7
    assert (sides[1].labels[review.targets.indices] < 3).mean() > 0.7
    assert facts["doubtful"] == len(match.doubtful())


def test_a_balanced_match_is_not_searched_for_what_it_says_is_not_there(sides):
    match = bot.match(*(side.images for side in sides), marginals="balanced")
    assert Review.of(match).facts() == {}


def test_figures_show_bars_and_tiles(match, sides):
    review = Review.of(match)
    axes = shares_figure(review.shares, review.true_shares).axes[0]
    heights = [bar.get_height() for bar in axes.containers[1]]
    np.testing.assert_allclose(heights, 100 * review.shares.source)
    diamonds = next(line for line in axes.lines if line.get_marker() == "D")
    np.testing.assert_allclose(diamonds.get_ydata(), 100 * review.true_shares)
    strip = unmatched_figure([("source", sides[0], review.sources), ("target", sides[1], review.targets)])
    assert len(strip.axes[0].images) == 20
    doubtful = doubtful_figure(match, review.doubtful, *sides)
    assert len(doubtful.axes[0].images) >= 2 * min(16, len(review.doubtful))


def test_a_few_long_names_and_no_true_labels_can_be_drawn(sides):
    target = bot.Dataset(sides[1].images[:40], [f"a class with a long name, number {i % 4}" for i in range(40)])
    match = bot.match(sides[0].images[:9], target)
    review = Review.of(match)
    figure = shares_figure(review.shares, review.true_shares)
    assert not [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert np.isnan(review.facts()["shares"][str(target.classes[0])]["true"])


def test_the_folder_and_the_page_have_them(match, sides, tmp_path):
    whole = tuple(map(Side.whole, sides))
    content = write_match(tmp_path / "run", match, *whole, table=None)
    with open(tmp_path / "run" / "unmatched.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["side", "index", "score"]
    assert len(rows) == content["unmatched"]["sources"] + content["unmatched"]["targets"]
    page = page_content(write_report(tmp_path / "run"))
    assert {figure["name"] for figure in page["figures"]} == {"shares", "unmatched", "doubtful"}
