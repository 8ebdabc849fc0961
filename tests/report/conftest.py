"""A match whose plan is known by heart, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bispectral_ot import Cost, Dataset, ExactTransport, Match


@pytest.fixture
def known_match() -> Callable[..., tuple[Match, Dataset, Dataset]]:
    """Make n sources and n targets where source i goes to target ``goes_to[i]``, with these class names."""

    def make(
        goes_to: list[int],
        source_names: list[str] | None,
        target_names: list[str] | None,
        *,
        shape: tuple[int, ...] = (6, 6),
    ) -> tuple[Match, Dataset, Dataset]:
        n = len(goes_to)
        cost = np.ones((n, n))
        cost[np.arange(n), goes_to] = 0.0
        random = np.random.default_rng(0)
        source, target = (
            Dataset(random.uniform(size=(n, *shape)), None if names is None else np.array(names), name=name)
            for name, names in (("left", source_names), ("right", target_names))
        )
        match = Match(
            ExactTransport().solve(Cost.from_matrix(cost)),
            source_labels=None if source_names is None else np.array(source_names),
            target_labels=None if target_names is None else np.array(target_names),
            settings={"metric": "l1", "features": "pixels"},
            seconds={"transport": 0.5},
        )
        return match, source, target

    return make


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from chromium import Browser

    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    assert browser.logs() == ([], [])
    browser.driver.quit()
