"""Small matches and their run folders, for the tests of the report."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import bispectral_ot as bot
from bispectral_ot.datasets import Dataset
from bispectral_ot.files import write_json, write_text
from bispectral_ot.matching import Match, class_table
from bispectral_ot.report.page_data import PAGE_DATA, compact_json, match_page
from bispectral_ot.report.tables import match_results

HOSTILE = (
    *("</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>"),
    *("\u2028'\"&{{data}}", "日本 ж é"),
)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a table that a run has written."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def blobs(n: int, classes: tuple[str, ...], *, seed: int, channels: int | None = None, size: int = 8) -> Dataset:
    """Images that are each one bright spot, its place and size given by the class."""
    random, labels = np.random.default_rng(seed), np.arange(n) % max(1, len(classes))
    y, x = np.mgrid[:size, :size]
    angle = 2 * np.pi * labels / max(1, len(classes))
    centre = (size - 1) / 2 + size / 4 * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    squares = (y - centre[:, 0, None, None]) ** 2 + (x - centre[:, 1, None, None]) ** 2
    images = np.exp(-squares / 4) + 0.1 * random.random((n, size, size))
    if channels:
        images = images[..., None] * random.random(channels)
    return Dataset(images.astype(np.float32), labels=labels if classes else None, name=f"blobs-{seed}", classes=classes)


def gather(a: Dataset, b: Dataset, title: str = "pixels", **options: Any) -> tuple[Match, dict[str, Any]]:
    """A match, and its page data."""
    match = bot.match(a, b, **{"symmetry": "none", **options})
    return match, match_page(match, match_results(match, class_table(match)), title=title)


def make_run(folder: Path, a: Dataset, b: Dataset, *titles: str, **options: Any) -> Path:
    """A run folder with a match for each title."""
    for title in titles or ("pixels",):
        write_text(folder / title / PAGE_DATA, compact_json(gather(a, b, title, **options)[1]))
    write_json(folder / "run.json", {"config": {"verb": "match"}})
    return folder


def page_content(path: Path) -> dict[str, Any]:
    """The data that the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content
