"""Pages of matches in headless Chromium: pressed, corrected, brushed, walked with keys, on a phone, in the dark."""

import csv
import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bispectral_ot import load, rotate_randomly, split_halves
from bispectral_ot.cli.main import app
from bispectral_ot.report.page import write_report
from chromium import PHONE, WIDE, ActionChains, Browser, By, Keys, WebDriverWait, pictures_shown
from report_runs import HOSTILE, blobs, make_run


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "demo"
    done = CliRunner().invoke(app, ["demo", "--per-class", "8", "--report", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out / "report.html"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A match of digits with estimated proportions, seven classes among the sources."""
    source, target = split_halves(load("digits"), per_class=12)
    folder = tmp_path_factory.mktemp("runs")
    run = make_run(folder, source.select(source.labels > 2), target, symmetry="rotation")
    return write_report(run)


def laid_out(browser: Browser, view: str) -> Any:
    """The canvas of a map, when its layout is done."""
    canvas = browser.all(f"{view} .map")[0]
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    WebDriverWait(browser.driver, 60).until(lambda _: browser.all(f"{view} .map[data-laid-out]"))
    return canvas


def test_answers_come_first_and_settings_last(browser: Browser, plain: Path) -> None:
    browser.open(plain)
    sections = [section.get_attribute("id") for section in browser.all("main > section")]
    assert sections == ["overview", "check", "outliers", "classes", "flow", "map", "about"]
    assert not browser.all("details[open]")
    number = browser.texts("#overview .answer .number")[0]
    share = browser.run("return document.querySelector('.gauge').style.getPropertyValue('--share')")
    assert number == f"{100 * float(share):.1f}%"
    browser.click(browser.all("#about summary")[0])
    WebDriverWait(browser.driver, 20).until(lambda _: browser.all("#about .curve svg"))
    assert browser.logs() == ([], [])


def test_bars_and_sentences_show_the_same_numbers(browser: Browser, plain: Path) -> None:
    browser.open(plain)
    shown = browser.run(
        "return [...document.querySelectorAll('.probability')].map((element) => "
        "[element.firstChild.style.getPropertyValue('--share'), element.textContent])"
    )
    assert len(shown) >= 4
    for share, text in shown:
        assert abs(100 * float(share) - float(text.replace("< ", "").removesuffix("%"))) <= 0.51


def test_a_label_is_corrected_by_keys_and_by_name_and_exported(browser: Browser, plain: Path, tmp_path: Path) -> None:
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.open(plain)
    assert browser.all(".export")[0].get_attribute("disabled")
    view = browser.all(".check")[0]
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", view)  # nothing has the focus
    second = browser.texts(".candidate:not(x) .label")[1]
    images = [browser.texts(".large figcaption")[0]]
    ActionChains(browser.driver).send_keys("2").perform()
    assert browser.texts(".answers p b") == ["2 of 60"]
    images.append(browser.texts(".large figcaption")[0])
    menu = browser.all(".answers select")[0]
    menu.find_element(By.CSS_SELECTOR, "option:nth-child(5)").click()  # the fourth class by name
    assert browser.texts(".answers p b") == ["3 of 60"]
    browser.run("arguments[0].focus()", view)
    ActionChains(browser.driver).send_keys(Keys.ARROW_LEFT).perform()
    assert browser.texts(".answers p .good") == ["Your label: 3."]
    browser.click(browser.all(".export")[0])
    path = tmp_path / "corrections.csv"
    WebDriverWait(browser.driver, 20).until(lambda _: path.exists())
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["label"] for row in rows] == [second, "3"]
    assert [f"image {row['source']}" for row in rows] == [caption.split(" ✓")[0].split(" ✗")[0] for caption in images]
    browser.driver.refresh()
    WebDriverWait(browser.driver, 20).until(lambda _: browser.all("html[data-ready]"))
    assert browser.texts(".export") == ["Export corrections.csv (2)"]
    browser.run("localStorage.clear()")
    assert browser.logs() == ([], [])


def test_classes_are_found_sorted_and_pressed(browser: Browser, tmp_path: Path) -> None:
    names = tuple(f"species {i}" for i in range(73))
    run = make_run(tmp_path / "run", blobs(146, (), seed=0), blobs(146, names, seed=1), marginals="balanced")
    for size in (WIDE, PHONE):
        browser.open(write_report(run), size)
        assert "#flow" not in browser.texts("nav a")
        assert len(browser.all("#classes tbody tr")) == 15
        browser.all("#classes input")[0].send_keys("SPECIES 7")
        assert len(browser.all("#classes tbody tr")) == 4  # 7, 70, 71 and 72
        browser.click(browser.all("#classes tbody .link")[0])
        assert browser.texts("#classes .gallery h4")[0].startswith("Label species 7")
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]


def test_a_thousand_classes_open_with_most_errors_first(browser: Browser, tmp_path: Path) -> None:
    names = tuple(f"class {i}" for i in range(1000))
    run = make_run(tmp_path / "run", *(blobs(1000, names, seed=seed) for seed in (0, 1)), marginals="balanced")
    browser.open(write_report(run))
    assert len(browser.all("#flow tbody tr")) == 30
    browser.all("#flow input")[0].send_keys("class 99")
    assert len(browser.all("#flow tbody tr")) == 11
    assert browser.logs() == ([], [])


def test_a_confusion_cell_shows_its_images(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    assert browser.texts(".panel-title") == ["bispectrum", "pixels"]
    panel = "#flow article:nth-child(1)"
    cell = browser.all(f"{panel} td.own button")[0]
    words = cell.get_attribute("aria-label")
    browser.click(cell)
    assert browser.texts(f"{panel} .gallery h4") == ["0 → 0"]
    number = int(words.split(": ")[1].split()[0])
    assert len(browser.all(f"{panel} .match")) == min(number, 6)
    assert pictures_shown(browser, f"{panel} .match .picture") >= 2 * min(number, 6)
    browser.click(browser.all(f"{panel} .gallery [data-value=wrong]")[0])
    assert browser.all(f"{panel} .match") == []
    browser.click(browser.all(f"{panel} .reset")[0])
    shown = [float(text.split("probability ")[1].split("%")[0]) for text in browser.texts(f"{panel} .verdict")]
    assert shown == sorted(shown)
    browser.click(browser.all(f"{panel} .match .open")[0])
    assert browser.driver.switch_to.active_element.get_attribute("class") == "check"


def test_the_map_keeps_classes_together_and_is_brushed(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    view = "#map article:nth-child(1)"
    canvas, brush = laid_out(browser, view), browser.all(f"{view} button.brush")[0]
    if brush.get_attribute("aria-pressed") == "false":
        browser.click(brush)
    width, height = canvas.size["width"], canvas.size["height"]
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    drag = ActionChains(browser.driver).move_to_element_with_offset(canvas, -width // 2 + 6, -height // 2 + 6)
    drag.click_and_hold().move_by_offset(width // 2, height // 2).move_by_offset(width // 2 - 12, height // 2 - 12)
    drag.release().perform()
    everything = "80 source images and 80 target images in the selected area"
    WebDriverWait(browser.driver, 20).until(lambda _: browser.texts(f"{view} .selection h4") == [everything])
    time.sleep(0.5)  # the last movement of the brush is told a moment later
    assert pictures_shown(browser, f"{view} .picks .picture") == 80
    browser.click(browser.all(f"{view} .picks button")[0])
    assert pictures_shown(browser, f"{view} .selection .match .picture") >= 2
    browser.click(browser.all(f"{view} button.clear")[0])
    assert browser.all(f"{view} .picks li") == []
    browser.run("arguments[0].focus()", canvas)
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert pictures_shown(browser, "#card .picture") == 1
    canvas.send_keys(Keys.ENTER)
    assert browser.all(f"{view} .selection h4")
    assert browser.logs() == ([], [])


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_a_phone_and_charts_follow_the_window(browser: Browser, demo: Path, dark: bool) -> None:
    browser.open(demo, PHONE, dark=dark)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, ground.removeprefix("rgb(").rstrip(")").split(","))) < 60) == dark
    laid_out(browser, "#map article:nth-child(1)")
    metrics = {"width": 700, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    fits = (
        "const box = document.querySelector('.map');"
        "return box.querySelector('canvas').offsetWidth === box.clientWidth && box.clientWidth > 400"
    )
    WebDriverWait(browser.driver, 20).until(lambda _: browser.run(fits))


def test_hostile_names_are_words_and_do_not_break(browser: Browser, tmp_path: Path) -> None:
    names = (*HOSTILE, "a\x1b[31m\u202eb", "Staphylococcus-epidermidis-epidermidis")
    browser.open(write_report(make_run(tmp_path / "run", blobs(24, names, seed=0), blobs(24, names, seed=1))), PHONE)
    assert browser.run("return window.hacked") is None
    assert not set("\x1b\u202e") & set(browser.run("return document.querySelector('main').textContent"))
    heights = browser.run("return [...document.querySelectorAll('.targets .label')].map((e) => e.offsetHeight)")
    assert max(heights) < 1.6 * min(heights)
    assert names[-1] in browser.texts("#classes tbody .name")
    script = "return [...document.querySelectorAll('.candidate .label')].map((e) => getComputedStyle(e))"
    assert set(browser.run(f"{script}.map((e) => e.overflowWrap + e.wordBreak)")) == {"normalnormal"}
    assert browser.logs() == ([], [])


@pytest.mark.parametrize(("classes", "channels", "size"), [(0, None, 8), (26, 3, 80)])
def test_other_kinds_of_sets_open(browser: Browser, tmp_path: Path, classes: int, channels: int | None, size: int):
    names = tuple(f"class {i}" for i in range(classes))
    run = make_run(tmp_path / "run", *(blobs(52, names, seed=seed, channels=channels, size=size) for seed in (0, 1)))
    browser.open(write_report(run))
    assert pictures_shown(browser, "#flow .match .picture") >= 2
    if classes:
        assert len(browser.all("#flow tbody tr")) == classes
        assert pictures_shown(browser, ".large .picture.fine") == 1
    assert browser.logs() == ([], [])


def test_sources_are_shown_upright(browser: Browser, tmp_path: Path) -> None:
    source, target = split_halves(load("digits"), per_class=8)
    for name, side in (("turned", rotate_randomly(source)), ("upright", target)):
        np.savez(tmp_path / f"{name}.npz", images=side.images, labels=side.labels)
    words = ["upright", *(str(tmp_path / f"{name}.npz") for name in ("turned", "upright"))]
    done = CliRunner().invoke(app, [*words, "--report", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    browser.open(tmp_path / "run" / "report.html")
    browser.click(browser.all("#flow .reset")[0])
    items = browser.all("#flow .match.posed")
    assert len(items) == 6
    turns = [picture.get_attribute("style") for picture in browser.all("#flow .turned .picture")]
    degrees = [float(turn.split("rotate(")[1].split("deg")[0]) for turn in turns]
    said = [float(item.find_element(By.CSS_SELECTOR, ".upright b").text[:-1]) for item in items]
    assert all(abs(angle + turn) <= 0.5 for angle, turn in zip(said, degrees, strict=True))
    assert browser.logs() == ([], [])
