"""What notebooks show: compact, complete HTML, in which nothing from outside is markup; and drawings on axes."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot import display

HOSTILE = (
    "<script>alert(1)</script>",
    "' onmouseover='x",
    '"><img src=x onerror=alert(1)>',
    "&lt;b&gt;",
    "$\\frac{1",
    "a\x00\n\u202eb",
)
VOID = {"img", "br"}


class Checker(HTMLParser):
    """Balanced tags, of the kinds that are written on purpose, with nothing that runs."""

    allowed = frozenset(
        [
            "div",
            "span",
            "strong",
            "small",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "img",
            "br",
            "svg",
            "polyline",
            "progress",
        ]
    )

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images = 0
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        assert tag in self.allowed, tag
        for name, value in attributes:
            assert not name.startswith("on")
            assert name != "src" or value.startswith("data:image/png;base64,")
        self.images += tag == "img"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        assert tag in self.allowed, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def sides() -> tuple[bot.Dataset, bot.Dataset]:
    """Digits whose six classes have names that no page likes."""
    digits = bot.load("digits")
    digits = digits.select(digits.labels < 6)
    named = bot.Dataset(digits.images, digits.labels, name=HOSTILE[0], classes=HOSTILE)
    return bot.split_halves(named, per_class=6)


@pytest.fixture(scope="module")
def match(sides) -> bot.Match:
    return bot.match(*sides)


def test_a_match(match):
    page = Checker(match._repr_html_())
    assert page.images == 4 * (1 + 3)
    assert "Match 36 x 36" in page.words
    assert f"{match.distance:.6g}" in page.words
    for name in HOSTILE[:4]:
        assert name[:9] in page.words  # as words, shortened
    assert len(match._repr_html_()) < 60_000


def test_a_dataset_of_any_kind(sides):
    page = Checker(sides[0]._repr_html_())
    assert page.images == 8
    assert "8x8" in page.words
    clouds = bot.Dataset(np.random.default_rng(0).normal(size=(2, 30, 3)), kind="clouds")
    assert Checker(clouds._repr_html_()).images == 2
    large = bot.Dataset(np.random.default_rng(0).integers(0, 255, (9, 400, 300, 3), dtype=np.uint8))
    assert Checker(large._repr_html_()).images == 8
    assert len(large._repr_html_()) < 100_000
    other = bot.Dataset(np.zeros((1, 9, 9, 5)))
    assert Checker(other._repr_html_()).images == 1


def test_a_coupling(match):
    text = match.coupling._repr_html_()
    assert "36 x 36" in Checker(text).words
    assert "<polyline" in text


def test_a_match_of_features_has_no_pictures(match):
    bare = bot.Match(match.coupling)
    assert Checker(bare._repr_html_()).images == 0
    with pytest.raises(bot.InputError, match="both sides need labels"):
        bare.plot()
    with pytest.raises(bot.InputError, match="no images to draw"):
        bare.plot("pairs")


def test_a_comparison(sides):
    comparison = bot.compare(dict(zip(HOSTILE[:2], sides, strict=True)))
    page = Checker(comparison._repr_html_())
    assert f"{comparison.pairs[0].distance:.4g}" in page.words
    axes = comparison.plot()
    np.testing.assert_array_equal(axes.images[0].get_array(), comparison.distances)
    axes.figure.canvas.draw()
    plt.close(axes.figure)


def test_plots_of_a_match(match):
    axes = match.plot(n=3, k=2)
    assert len(axes.images) == 3 * 3
    axes.figure.canvas.draw()
    rows = match.plot("classes").images[0].get_array()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    figure, given = plt.subplots()
    assert match.plot("classes", ax=given) is given
    figure.canvas.draw()  # names that look like formulas are drawn as they are
    plt.close("all")
    with pytest.raises(bot.InputError, match="unknown kind of plot 'pair'; did you mean 'pairs'"):
        match.plot("pair")


def test_a_curve_of_odd_values():
    assert display.curve([1.0]) == ""
    assert "nan" not in display.curve([0.0, 1e-3, 1.0])
    assert "nan" not in display.curve([1.0, 1.0])


def test_progress_on_a_terminal(capsys):
    bar = bot.ProgressBar()
    for done in range(5):
        bar("<features>", done, 4)
    assert capsys.readouterr().err.endswith("\r<features>: 100%\n")


def test_progress_in_a_notebook(monkeypatch):
    ipython = pytest.importorskip("IPython")
    pages: list[str] = []

    class Handle:
        def update(self, shown: Any) -> None:
            pages.append(shown.data)

    def show(shown: Any, *, display_id: bool) -> Handle:
        pages.append(shown.data)
        return Handle()

    class Shell:
        kernel = object()

    monkeypatch.setattr(ipython, "get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", show)
    assert "IPython" in sys.modules
    bar = bot.ProgressBar()
    bar("<b>read", 1, 2)
    bar("<b>read", 2, 2)
    bar("solve", 7, 0)
    assert len(pages) >= 2
    assert "2 of 2" in Checker(pages[-1].replace("'", '"')).words
