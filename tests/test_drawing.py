"""Figures on axes, and HTML for notebooks in which nothing from outside is markup."""

import os
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot import drawing

HOSTILE = (
    *("<script>alert(1)</script>", "' onmouseover='x", '"><img src=x onerror=alert(1)>'),
    *("&lt;b&gt;", "$\\frac{1", "a\x00\n\u202eb"),
)


class Checker(HTMLParser):
    """Balanced tags, of the kinds that are written on purpose, with nothing that runs."""

    allowed = ("div", "span", "strong", "table", "thead", "tbody", "tr", "th", "td", "img", "svg", "polyline")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images = 0
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        assert tag in self.allowed, tag
        for name, value in attributes:
            assert not name.startswith("on")
            assert name != "src" or value.startswith("data:image/png;base64,")
        self.images += tag == "img"
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in self.allowed, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def sides():
    """Digits whose six classes have names that no page likes."""
    digits = bot.load("digits")
    digits = digits.select(digits.labels < 6)
    named = bot.Dataset(digits.images, digits.labels, name=HOSTILE[0], classes=HOSTILE)
    return bot.split_halves(named, per_class=6)


@pytest.fixture(scope="module")
def match(sides):
    return bot.match(*sides)


def test_a_match_in_a_notebook(match):
    page = Checker(match._repr_html_())
    assert page.images == 1
    assert "Match 36 x 36" in page.words
    assert f"{match.distance:.6g}" in page.words
    assert "\u202e" not in match._repr_html_()
    assert len(match._repr_html_()) < 60_000


def test_datasets_of_any_kind_in_a_notebook(sides):
    assert "8x8" in Checker(sides[0]._repr_html_()).words
    random = np.random.default_rng(0)
    clouds = bot.Dataset(random.normal(size=(2, 30, 3)), kind="clouds")
    large = bot.Dataset(random.integers(0, 255, (9, 400, 300, 3), dtype=np.uint8))
    for dataset in (clouds, large, bot.Dataset(np.zeros((1, 9, 9, 5)))):
        assert Checker(dataset._repr_html_()).images == 1
        assert len(dataset._repr_html_()) < 100_000


def test_classes_of_sets_without_labels_cannot_be_drawn(match):
    unlabelled = replace(match, source=replace(match.source, labels=None, classes=()))
    with pytest.raises(bot.InputError, match="both sides need labels"):
        unlabelled.plot("classes")


def test_a_comparison(sides):
    comparison = bot.compare(dict(zip(HOSTILE[:2], sides, strict=True)))
    assert f"{comparison.pairs[0].distance:.4g}" in Checker(comparison._repr_html_()).words
    axes = comparison.plot()
    np.testing.assert_array_equal(axes.images[0].get_array(), comparison.distances)
    axes.figure.canvas.draw()
    plt.close(axes.figure)


def test_every_kind_of_plot_is_drawn_on_the_axes_given(match):
    for kind in ("pairs", "classes"):
        figure, given = plt.subplots()
        assert match.plot(kind, n=3, k=2, ax=given) is given
        figure.canvas.draw()  # names that look like formulas are drawn as they are
        plt.close(figure)
    shares = sum(image.get_array().filled(0).sum(axis=1) for image in match.plot("classes").images[:2])
    np.testing.assert_allclose(shares, 1)
    plt.close("all")
    with pytest.raises(bot.InputError, match="unknown kind of plot 'pair'; did you mean 'pairs'"):
        match.plot("pair")


@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9"), "a\0b", "two\nlines", "\ud800", "日本語の名前"])
def test_names_that_no_font_has_are_drawn_escaped(tmp_path, name):
    with warnings.catch_warnings(action="error"):
        axes = drawing.draw_matrix(drawing.fitted_axes(), np.eye(2), [name, "b"], [name, "b"], form="%", title="")
        drawing.save(axes.figure, tmp_path / "a.png")
    assert np.asarray(Image.open(tmp_path / "a.png").convert("L")).std() > 5
