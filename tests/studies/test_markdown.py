from __future__ import annotations

from typing import Any

import pytest

from studies.markdown import accuracy_table
from studies.paper import paper_accuracy


def cell(**changes: Any) -> dict[str, Any]:
    config = {"seed": 0, "per_class": None, "reg": 0.01, "tol": 1e-4}
    config |= {"normalized": True, "fill": "zero", "parameters": {}}
    whole = {
        "dataset": "mnist",
        "features": "ring-bispectrum",
        "metric": "l1",
        "setting": "rotated",
        "n_source": 29_997,
        "n_target": 29_997,
        "accuracy": 0.8406,
        "converged": True,
        "config": config,
    }
    return whole | changes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (("mnist", "ring-bispectrum", "l1", "rotated"), 0.8405),
        (("mnist", "pixels", "cosine", "rotated"), 0.3239),
        (("kmnist", "ring-bispectrum", "sqeuclidean", "baseline"), 0.7597),
        (("fashion-mnist", "pixels", "l2", "baseline"), 0.8748),
        (("fashion-mnist", "ring-bispectrum", "l2", "rotated"), 0.7662),
        (("emnist-letters", "ring-bispectrum", "cosine", "baseline"), 0.6054),
        (("emnist-letters-assembled", "ring-bispectrum", "l1", "baseline"), None),
        (("mnist", "ring-power", "l1", "rotated"), None),
    ],
)
def test_the_papers_figures(name: tuple[str, str, str, str], expected: float | None) -> None:
    assert paper_accuracy(*name) == expected


def test_the_table_has_the_papers_layout() -> None:
    cells = [
        cell(metric="cosine", accuracy=0.8),
        cell(),
        cell(features="pixels", accuracy=0.33),
        cell(dataset="fashion-mnist", accuracy=0.76, n_source=30_000, n_target=30_000),
        cell(setting="baseline", accuracy=0.9),
    ]
    lines = [line for line in accuracy_table(cells, "rotated").splitlines() if line.startswith("|")]
    assert lines == [
        "| dataset, features | source x target | L1 | cos |",
        "| --- | ---: | ---: | ---: |",
        "| MNIST, pixels | 29,997 x 29,997 | 0.3300 (0.3297, +0.0003) |  |",
        "| MNIST, bispectrum | 29,997 x 29,997 | 0.8406 (0.8405, +0.0001) | 0.8000 (0.8155, -0.0155) |",
        "| Fashion-MNIST, bispectrum | 30,000 x 30,000 | 0.7600 (0.7617, -0.0017) |  |",
    ]


def test_a_missed_tolerance_and_mixed_settings_are_seen() -> None:
    other = cell(metric="l2", converged=False)
    other["config"] = other["config"] | {"seed": 7}
    table = accuracy_table([cell(), other], "rotated")
    assert "0.8406*" in table
    assert "missed its tolerance" in table
    assert "seed 0 and 7" in table
