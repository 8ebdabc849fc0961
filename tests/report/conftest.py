"""A match whose plan is known by heart, and a browser."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bispectral_ot import Cost, Dataset, ExactTransport, Match
from bispectral_ot.features import FeatureMap, Pixels


@pytest.fixture
def known_match() -> Callable[..., Match]:
    """Make n sources and n targets where source i goes to target ``goes_to[i]``, with these class names."""

    def make(goes_to: list[int], source_names: list[str] | None, target_names: list[str] | None) -> Match:
        n = len(goes_to)
        cost = np.ones((n, n))
        cost[np.arange(n), goes_to] = 0.0
        random = np.random.default_rng(0)
        labels = [None if names is None else np.array(names) for names in (source_names, target_names)]
        images = random.uniform(size=(2, n, 6, 6))
        return Match(
            ExactTransport().solve(Cost.from_matrix(cost)),
            source=Dataset(images[0], labels[0], name="left"),
            target=Dataset(images[1], labels[1], name="right"),
            settings={"metric": "l1", "features": "pixels", "symmetry": "none", "marginals": "balanced"},
            feature_map=FeatureMap(Pixels().fit(images[0])),
            features=(images[0].reshape(n, -1).astype(np.float32), images[1].reshape(n, -1).astype(np.float32)),
            seconds={"transport": 0.5},
        )

    return make


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from chromium import Browser

    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    assert browser.logs() == ([], [])
    browser.driver.quit()
