from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.studies import Preset, run_class_preservation

SMALL = Preset(per_class=5)


def run(out: Path, **options: Any) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {
        "features": ["ring-bispectrum"],
        "metrics": ["l1", "cosine"],
        "settings": ["rotated"],
        "preset": SMALL,
    }
    return run_class_preservation(["digits"], out, **(defaults | options))


def test_a_cell_has_everything_that_was_promised(tmp_path: Path) -> None:
    run(tmp_path, features=["pixels", "ring-bispectrum"], metrics=["l2"], settings=["rotated", "baseline"])
    cells = json.loads((tmp_path / "results.json").read_text())["cells"]
    assert len(cells) == 4
    for cell in cells:
        assert (cell["n_source"], cell["n_target"]) == (50, 50)
        assert cell["converged"] is True
        assert cell["marginal_error"] <= 1e-4
        confusion = np.array(cell["confusion"])
        assert confusion.shape == (10, 10)
        assert confusion.sum(axis=1).tolist() == [5] * 10
        assert cell["accuracy"] == pytest.approx(np.trace(confusion) / 50)
        assert cell["recall"] == pytest.approx(np.diag(confusion) / 5)
        assert set(cell["seconds"]) == {"features", "cost", "transport", "summary"}
        assert cell["peak_memory"] > 0
        assert cell["iterations"] > 0
        assert cell["config"]["reg"] == 0.01
        assert "libraries" in cell["versions"]
        name = f"confusion-digits-{cell['setting']}-{cell['features']}-{cell['metric']}.png"
        assert (tmp_path / "figures" / name).is_file()
    assert len(list((tmp_path / "cells").iterdir())) == 4


def test_a_cell_is_what_the_parts_give(tmp_path: Path) -> None:
    (cell,) = run(tmp_path, metrics=["l1"])
    a, b = bot.split_halves(bot.normalise(bot.load("digits")), seed=0, per_class=5)
    a = bot.rotate_randomly(a, seed=0, fill=0.0)
    match = bot.match(a, b, features="ring-bispectrum", normalise=False)
    expected = bot.class_preservation(match, a.labels, b.labels)
    assert cell["accuracy"] == expected.accuracy
    assert cell["confusion"] == expected.confusion.tolist()
    assert cell["transport_cost"] == pytest.approx(match.distance, rel=1e-6)


def test_unit_vectors_make_squared_distance_and_cosine_agree(tmp_path: Path) -> None:
    squared, cosine = sorted(run(tmp_path, metrics=["sqeuclidean", "cosine"]), key=lambda cell: -len(cell["metric"]))
    assert squared["confusion"] == cosine["confusion"]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def interrupt(cell: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, report=interrupt)
    (first,) = (tmp_path / "cells").iterdir()
    saved = first.read_bytes()
    assert len(json.loads((tmp_path / "results.json").read_text())["cells"]) == 1
    computed: list[str] = []
    counts: list[tuple[int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "cells":
            counts.append((done, total))

    cells = run(tmp_path, report=lambda cell: computed.append(cell["metric"]), progress=progress)
    assert len(cells) == 2
    assert computed == ["cosine"]
    assert counts == [(1, 2), (2, 2)]
    assert first.read_bytes() == saved
    assert len(list((tmp_path / "figures").glob("*.png"))) == 2
    assert not list(tmp_path.rglob(".*"))


def test_another_call_adds_cells(tmp_path: Path) -> None:
    run(tmp_path, metrics=["l1"])
    cells = run(tmp_path, metrics=["l2"], settings=["baseline"])
    assert {(cell["metric"], cell["setting"]) for cell in cells} == {("l1", "rotated"), ("l2", "baseline")}
    assert (tmp_path / "table1.md").is_file()
    assert (tmp_path / "table2.md").is_file()


def test_other_choices_are_refused_unless_they_may_overwrite(tmp_path: Path) -> None:
    run(tmp_path, metrics=["l1"])
    other = Preset(per_class=5, seed=3, n_angles=16)
    with pytest.raises(RunExistsError, match=r"seed = 0, not 3.*--overwrite"):
        run(tmp_path, metrics=["l1"], preset=other)
    (cell,) = run(tmp_path, metrics=["l1"], preset=other, overwrite=True)
    assert cell["config"]["seed"] == 3
    assert cell["config"]["parameters"]["n_angles"] == 16


def test_parameters_that_features_do_not_have_do_not_matter(tmp_path: Path) -> None:
    run(tmp_path, features=["pixels"], metrics=["l1"])
    computed: list[Any] = []
    run(
        tmp_path,
        features=["pixels"],
        metrics=["l1"],
        preset=Preset(per_class=5, n_angles=16),
        report=computed.append,
    )
    assert not computed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["rings"]}, "unknown features 'rings'"),
        ({"features": []}, "no features given"),
        ({"metrics": ["l3"]}, "unknown metrics 'l3'"),
        ({"metrics": ["l1", "l1"]}, "twice"),
        ({"settings": ["turned"]}, "unknown settings 'turned'"),
    ],
)
def test_wrong_names_are_refused_before_any_work(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_labels_are_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((4, 8, 8), dtype=np.uint8))
    with pytest.raises(InputError, match="has no labels"):
        run_class_preservation(
            [str(tmp_path / "images.npy")],
            tmp_path / "out",
            features=["pixels"],
            metrics=["l1"],
            settings=["rotated"],
        )


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    run(tmp_path, metrics=["l1"])
    (path,) = (tmp_path / "cells").iterdir()
    path.write_text("{")
    with pytest.raises(InputError, match="not a cell"):
        run(tmp_path, metrics=["l1"])


def test_a_small_budget_changes_nothing_but_memory(tmp_path: Path) -> None:
    (plain,) = run(tmp_path / "plain", metrics=["l1"])
    (mapped,) = run(tmp_path / "mapped", metrics=["l1"], working_memory="65MiB")
    assert mapped["confusion"] == plain["confusion"]


def test_coupled_features_whole_reduced_and_aligned(tmp_path: Path) -> None:
    metrics = ["sqeuclidean"]
    whole, aligned = sorted(
        run(tmp_path, features=["coupled-bispectrum", "aligned"], metrics=metrics),
        key=lambda cell: cell["features"],
        reverse=True,
    )
    assert (whole["features"], aligned["features"]) == ("coupled-bispectrum", "aligned")
    assert whole["config"]["parameters"]["power"] == bot.CoupledBispectrum().power
    cells = run(tmp_path, features=["coupled-bispectrum"], metrics=metrics, preset=Preset(per_class=5, pca=20))
    reduced = next(cell for cell in cells if cell["features"] == "coupled-bispectrum, PCA 20")
    a, b = Preset(per_class=5).halves(bot.load("digits"), "rotated")
    for cell, options in (
        (whole, {"features": "coupled-bispectrum"}),
        (reduced, {"features": "coupled-bispectrum", "pca": 20}),
        (aligned, {"features": "aligned"}),
    ):
        match = bot.match(a, b, normalise=False, **options)
        assert cell["transport_cost"] == pytest.approx(match.distance, rel=1e-4)
    with pytest.raises(InputError, match="no aligned form"):
        run(tmp_path, features=["aligned"], metrics=["l1"])
    with pytest.raises(InputError, match="cannot be turned to fit"):
        run(tmp_path, features=["aligned"], metrics=metrics, preset=Preset(per_class=5, pca=20))
