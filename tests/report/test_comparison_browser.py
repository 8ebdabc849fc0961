"""The page of a comparison in headless Chromium: pressed, walked with keys, sorted, printed, on a phone."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from bispectral_ot import compare
from bispectral_ot.comparing.change_tests import SymmetryTests
from bispectral_ot.files import write_json
from bispectral_ot.report.page import write_report
from bispectral_ot.report.run_folder import write_comparison
from chromium import PHONE, WIDE, Browser, pictures_shown
from report_runs import HOSTILE, blobs

NAMES = ("monday", "tuesday", "wednesday", "lacking")


def make_page(folder: Path, names: tuple[str, ...], *, tested: bool = True) -> Path:
    """Sets of three classes, of which the last lacks two."""
    datasets = [blobs(12, ("a", "b", "c"), seed=place) for place in range(len(names) - 1)]
    datasets.append(blobs(12, ("a",), seed=99))
    sets = dict(zip(names, datasets, strict=True))
    found = compare(sets, features="pixels", labels=tested, permutations=19 if tested else 0)
    p_values = {"nothing": 0.01, "rotation": 0.6}
    tests = tuple(SymmetryTests(one, two, p_values, 0.05, {}) for one, two in combinations(names, 2))
    found = replace(found, symmetry_tests=tests if tested else ())
    write_comparison(folder, found, datasets, figures=False)
    write_json(folder / "run.json", {"config": {"verb": "compare"}})
    return write_report(folder)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_page(tmp_path_factory.mktemp("runs") / "four", NAMES)


def chosen(browser: Browser) -> str:
    (title,) = browser.texts("#pair .pair-view .pair-view > .pair:first-child article:first-child h3")
    return title


def cell(browser: Browser, one: str, other: str) -> object:
    (found,) = browser.all(f'#distances td button[aria-label^="{one} and {other}:"]')
    return found


def test_the_verdict_comes_first_and_a_cell_explains_its_distance(browser: Browser, page: Path) -> None:
    browser.open(page)
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.getBoundingClientRect().left)"
    heads, cells = (browser.run(script, row) for row in (".heat thead tr > *", ".heat tbody tr:first-child > *"))
    assert heads == cells
    assert browser.texts("#overview .answer .number")[0] == "6 of 6"  # as the tests of changes decide
    assert browser.texts("#overview .answer .number")[1].endswith("×")
    assert not browser.all("details[open]")
    assert "lacking" in chosen(browser)  # the largest ratio is shown first
    browser.click(cell(browser, "tuesday", "monday"))
    assert chosen(browser) == "monday and tuesday"
    assert browser.texts("#distances .chosen b") == ["monday and tuesday: "]
    assert len(browser.all('#distances td button[aria-pressed="true"]')) == 2
    assert pictures_shown(browser, "#pair .contributors .picture") == 4 * 8
    browser.click(browser.all("#pair .images .more")[0])
    assert pictures_shown(browser, "#pair .contributors .picture") == 2 * 8 + 2 * 12
    assert len(browser.all("#pair .bars tbody tr")) == 3
    assert browser.logs() == ([], [])


def test_pairs_are_sorted_and_filtered(browser: Browser, page: Path) -> None:
    browser.open(page)
    rows = "#pairs tbody tr"
    assert len(browser.all(rows)) == 6
    for direction in (1, -1):
        browser.click(browser.all('#pairs [data-key="distance"] button')[0])
        distances = [float(text) for text in browser.texts(f"{rows} td[data-key=distance]")]
        assert distances == sorted(distances)[::direction]
    browser.all("#filter")[0].send_keys("LACK")
    assert len(browser.all(rows)) == 3
    browser.click(browser.all("#pairs [data-value=different]")[0])
    assert len(browser.all(rows)) == len(browser.all(f"{rows}.differs")) > 0
    browser.click(browser.all(f"{rows} button")[0])
    assert "lacking" in chosen(browser)
    assert len(browser.all(f"{rows}[aria-current]")) == 1


@pytest.mark.parametrize("count", [2, 5, 30])
def test_any_number_of_sets_whatever_they_are_called(browser: Browser, tmp_path: Path, count: int) -> None:
    names = (*HOSTILE, *(f"set {place}" for place in range(count)))[:count]
    path = make_page(tmp_path, names, tested=count < 30)
    assert path.stat().st_size < 3_000_000
    for size, dark in ((WIDE, False), (PHONE, True)):
        browser.open(path, size, dark=dark)
        assert len(browser.all("#pairs tbody tr")) == (count * (count - 1) // 2 if count > 2 else 0)
        assert browser.texts("#sets h3") == list(names)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        if count == 2:  # which test a p-value is of
            assert browser.texts("#overview .lead")[0].startswith("Two tests: of the distance between features (p = ")
        if count == 5:  # the p column can be read without scrolling
            box = "return document.querySelector('#pairs td[data-key=p_value]').getBoundingClientRect().right"
            assert browser.run(box) <= size[0]
        assert pictures_shown(browser, "#pair .contributors .picture") >= 4
        assert browser.run("return window.hacked") is None
        assert browser.logs() == ([], [])
