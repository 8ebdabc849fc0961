"""The report in a real browser: headless Chromium opens the file, presses, brushes, and fetches nothing."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bispectral_ot import load, rotate_randomly, split_halves
from bispectral_ot.cli.main import app
from bispectral_ot.report.html import write_report
from chromium import PHONE, ActionChains, Browser, By, Keys, WebDriverWait, pictures_shown
from report_runs import HOSTILE, blobs, make_run


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "demo"
    done = CliRunner().invoke(app, ["demo", "--per-class", "8", "--report", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out / "report.html"


def test_a_confusion_cell_shows_its_images(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    assert [title.text for title in browser.all(".headline h3")] == ["combined-bispectrum", "pixels"]
    panel = "#flow article:nth-child(1)"
    cell = browser.all(f"{panel} td.own button")[0]
    words = cell.get_attribute("aria-label")
    browser.click(cell)
    assert browser.all(f"{panel} .gallery h4")[0].text == "0 → 0"
    number = int(words.split(": ")[1].split()[0])
    assert len(browser.all(f"{panel} .match")) == min(number, 6)
    assert pictures_shown(browser, f"{panel} .match .picture") >= 2 * min(number, 6)
    browser.click(browser.all(f"{panel} .gallery [data-value=wrong]")[0])
    assert browser.all(f"{panel} .match") == []
    assert browser.logs() == ([], [])


def test_images_are_filtered_and_sorted(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    panel = "#flow article:nth-child(1)"
    browser.click(browser.all(f"{panel} .reset")[0])
    browser.click(browser.all(f"{panel} .gallery [data-value=wrong]")[0])
    browser.click(browser.all(f"{panel} .gallery [data-value=unsure]")[0])
    shown = [verdict.text for verdict in browser.all(f"{panel} .verdict")]
    assert shown
    assert all(text.startswith("✗ mapped to") for text in shown)
    shares = [float(text.split(" with ")[1].split(" %")[0]) for text in shown]
    assert shares == sorted(shares)


def test_the_map_is_brushed(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    view = "#map article:nth-child(1)"
    brush = browser.all(f"{view} button.brush")[0]
    if brush.get_attribute("aria-pressed") == "false":
        browser.click(brush)
    canvas = browser.all(f"{view} .map")[0]
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    width, height = canvas.size["width"], canvas.size["height"]
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
    browser.click(browser.all(f"{view} [data-value=pictures]")[0])
    assert browser.logs() == ([], [])


def test_a_point_of_the_map_is_hovered_and_walked_to(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    canvas = browser.all("#map article:nth-child(1) .map")[0]
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'}); arguments[0].focus()", canvas)
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert pictures_shown(browser, "#card .picture") == 1
    canvas.send_keys(Keys.ENTER)
    assert browser.all("#map article:nth-child(1) .selection h4")


def test_a_class_of_the_map_stands_out(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    view = "#map article:nth-child(1)"
    browser.click(browser.all(f"{view} [data-value=pictures]")[0])
    canvas = browser.all(f"{view} .map")[0]

    def dark_pixels() -> int:
        time.sleep(0.3)  # the map is drawn a moment later
        picture = Image.open(io.BytesIO(canvas.screenshot_as_png)).convert("L")
        return sum(picture.histogram()[:60])

    everything = dark_pixels()
    browser.click(browser.all(f"{view} .legend button")[0])
    assert dark_pixels() < everything / 2
    assert browser.texts(f"{view} .selection h4") == ["8 source images and 8 target images of class 0"]


def test_cells_are_reached_with_keys(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    table = "#flow article:nth-child(2) table"  # pixels, with errors in every row
    assert len(browser.all(f'{table} button[tabindex="0"]')) == 1
    cell = browser.all(f"{table} td.own button")[0]
    browser.run("arguments[0].focus()", cell)
    cell.send_keys(Keys.ARROW_RIGHT)
    focused = browser.driver.switch_to.active_element
    assert focused.get_attribute("data-row") == "0"
    assert focused.get_attribute("data-column") != "0"
    focused.send_keys(Keys.ENTER)
    title = browser.all("#flow article:nth-child(2) .gallery h4")[0].text
    assert title == f"0 → {focused.get_attribute('data-column')}"


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_a_phone(browser: Browser, demo: Path, dark: bool) -> None:
    browser.open(demo, PHONE, dark=dark)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, ground.removeprefix("rgb(").rstrip(")").split(","))) < 60) == dark


def test_distances_of_ten_classes_fit_on_a_phone(browser: Browser, demo: Path) -> None:
    browser.open(demo, PHONE)
    assert max(map(len, browser.texts("#distances td"))) <= 4
    script = (
        "return [...document.querySelectorAll('#distances .scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    )
    assert max(browser.run(script)) <= 0


def test_hostile_names_are_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blobs(16, HOSTILE, seed=0), blobs(16, HOSTILE, seed=1))
    browser.open(write_report(run))
    browser.click(browser.all("#flow .reset")[0])
    assert browser.run("return window.hacked") is None
    names = browser.run("return [...document.querySelectorAll('#flow thead th:not(.corner)')].map((th) => th.title)")
    assert names == list(HOSTILE)
    assert browser.logs() == ([], [])


def test_pictures_above_names_of_any_length_stand_in_line(browser: Browser, tmp_path: Path) -> None:
    names = ("a", "bar", "long bar", "Staphylococcus aureus 12", "Staphylococcus aureus 13")
    run = make_run(tmp_path / "run", blobs(20, names, seed=0), blobs(20, names, seed=1))
    browser.open(write_report(run))
    place = "return [...document.querySelectorAll(arguments[0])].map((part) => part.getBoundingClientRect().%s)"
    tops = browser.run(place % "bottom", "#flow thead .picture")
    assert len(tops) == 5
    assert len(set(tops)) == 1
    assert min(browser.run(place % "top", "#flow thead .name")) >= tops[0]
    for part in ("#flow thead .name", "#flow tbody .name"):
        assert len(set(browser.texts(part))) == 5


@pytest.mark.parametrize(("classes", "channels"), [(0, None), (26, 3), (100, None)])
def test_other_kinds_of_sets_open(browser: Browser, tmp_path: Path, classes: int, channels: int | None) -> None:
    names = tuple(f"class {i}" for i in range(classes))
    n = max(20, 2 * classes)
    a, b = (blobs(n, names, seed=seed, channels=channels) for seed in (0, 1))
    run = make_run(tmp_path / "run", a, b)
    browser.open(write_report(run))
    assert len(browser.all("#flow tbody tr")) == classes
    assert pictures_shown(browser, "#flow .match .picture") >= 2
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
    assert pictures_shown(browser, "#flow .turned .picture") == 6
    turns = [picture.get_attribute("style") for picture in browser.all("#flow .turned .picture")]
    assert all("rotate(" in turn for turn in turns)
    degrees = [float(turn.split("rotate(")[1].split("deg")[0]) for turn in turns]
    said = [float(item.find_element(By.CSS_SELECTOR, ".upright b").text[:-1]) for item in items]
    assert all(abs(angle + turn) <= 0.5 for angle, turn in zip(said, degrees, strict=True))
    shown = {figure.get_attribute("alt") for figure in browser.all("#figures img")}
    assert {"poses", "poses-angles"} <= shown
    assert browser.logs() == ([], [])


def test_a_study_without_matches_opens(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "table1.md").write_text("# Title\n\n| a | b |\n|---|---|\n| x | 2 |\n")
    browser.open(write_report(tmp_path))
    assert [cell.text for cell in browser.all("#tables tbody tr *")] == ["x", "2"]
