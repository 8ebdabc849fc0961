from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.files import write_json
from bispectral_ot.memory import peak_memory, recent_peak
from studies import Preset, run_ablation, run_class_preservation, run_symmetries

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
    a, b = bot.split_halves(bot.normalize(bot.load("digits")), seed=0, per_class=5)
    a = bot.rotate_randomly(a, seed=0, fill=0.0)
    plain = bot.Dataset(b.images)  # without labels: neither a learned metric nor calibrated probabilities
    options: dict[str, Any] = {"features": bot.RingBispectrum(sampling="nearest"), "normalize": False}
    match = bot.match(a, plain, **options, marginals="balanced")
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

    with runtime.running(progress=progress):
        cells = run(tmp_path, report=lambda cell: computed.append(cell["metric"]))
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


def test_the_run_is_recorded(tmp_path: Path) -> None:
    run(tmp_path, metrics=["l1"])
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["config"]["verb"] == "study class-preservation"
    assert record["config"]["metrics"] == ["l1"]
    assert record["config"]["per_class"] == 5
    assert record["wall_seconds"] > 0
    with pytest.raises(RunExistsError, match="seed = 0, not 3"):
        run(tmp_path, metrics=["l1"], preset=Preset(per_class=5, seed=3))
    assert json.loads((tmp_path / "run.json").read_text()) == record  # what was refused has done nothing


def test_the_folder_of_another_run_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"config": {"verb": "match"}})
    write_json(tmp_path / "results.json", {"distance": 1})
    for overwrite in (False, True):
        with pytest.raises(RunExistsError, match="a run of 'match', not of 'study class-preservation'"):
            run(tmp_path, overwrite=overwrite)
    with pytest.raises(RunExistsError, match="not of 'study ablation'"):
        run_ablation(tmp_path, dataset="digits", questions=["tol"], preset=SMALL)
    with pytest.raises(RunExistsError, match="not of 'study symmetries'"):
        run_symmetries(tmp_path, dataset="digits", per_class=2)
    assert json.loads((tmp_path / "results.json").read_text()) == {"distance": 1}


def test_a_folder_from_before_runs_were_recorded_goes_on(tmp_path: Path) -> None:
    run(tmp_path, metrics=["l1"])
    (tmp_path / "run.json").unlink()
    computed: list[str] = []
    run(tmp_path, report=lambda cell: computed.append(cell["metric"]))
    assert computed == ["cosine"]
    (tmp_path / "run.json").unlink()
    with pytest.raises(RunExistsError, match=r"not a run of 'study ablation'.*it contains figures, results.json"):
        run_ablation(tmp_path, dataset="digits", questions=["tol"], preset=SMALL)


def test_a_cell_tells_its_own_peak_memory(tmp_path: Path) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system cannot reset the peak")
    before = b"x" * (recent_peak() + 2 * 10**8)  # a peak beyond everything that this process did
    del before
    (cell,) = run(tmp_path, metrics=["l1"])
    assert cell["peak_memory"] < peak_memory() - 10**8
    assert json.loads((tmp_path / "run.json").read_text())["peak_memory_bytes"] >= peak_memory() - 10**8


def test_classes_keep_the_order_of_the_dataset(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 6)  # "10" and "11" come before "2" in the alphabet
    images = (labels[:, None, None] * 15 + generator.integers(0, 80, (72, 6, 6))).astype(np.uint8)
    np.savez(tmp_path / "twelve.npz", images=images, labels=labels)
    options: dict[str, Any] = {"features": ["pixels"], "metrics": ["l2"], "settings": ["baseline"]}
    (cell,) = run_class_preservation([str(tmp_path / "twelve.npz")], tmp_path / "out", **options)
    assert cell["classes"] == [str(label) for label in range(12)]
    a, b = Preset().halves(bot.load(tmp_path / "twelve.npz"), "baseline")
    plain = bot.Dataset(b.images)
    match = bot.match(a, plain, features="pixels", metric="l2", normalize=False, marginals="balanced")
    expected = bot.class_preservation(match, a.labels, b.labels)
    assert 0 < expected.accuracy < 1
    assert cell["confusion"] == expected.confusion.tolist()
    assert cell["recall"] == pytest.approx(expected.recall)


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


def test_a_small_budget_changes_nothing_but_memory(tmp_path: Path) -> None:
    (plain,) = run(tmp_path / "plain", metrics=["l1"])
    (mapped,) = run(tmp_path / "mapped", metrics=["l1"], working_memory="65MiB")
    assert mapped["confusion"] == plain["confusion"]


def test_coupled_features_whole_reduced_and_aligned(tmp_path: Path) -> None:
    metrics = ["sqeuclidean"]
    whole, aligned = sorted(
        run(tmp_path, features=["global-bispectrum", "best-rotation"], metrics=metrics),
        key=lambda cell: cell["features"],
        reverse=True,
    )
    assert (whole["features"], aligned["features"]) == ("global-bispectrum", "best-rotation")
    assert whole["config"]["parameters"]["power"] == bot.GlobalBispectrum().power
    cells = run(tmp_path, features=["global-bispectrum"], metrics=metrics, preset=Preset(per_class=5, pca=20))
    reduced = next(cell for cell in cells if cell["features"] == "global-bispectrum, PCA 20")
    a, b = Preset(per_class=5).halves(bot.load("digits"), "rotated")
    for cell, options in (
        (whole, {"features": "global-bispectrum"}),
        (reduced, {"features": "global-bispectrum", "pca": 20}),
        (aligned, {"features": "best-rotation"}),
    ):
        match = bot.match(a, bot.Dataset(b.images), normalize=False, **options, marginals="balanced")
        assert cell["transport_cost"] == pytest.approx(match.distance, rel=1e-4)
        assert cell["columns"] == match.settings["columns"]
        assert cell["kept_variance"] == pytest.approx(match.settings.get("kept_variance"))
    with pytest.raises(InputError, match="no aligned form"):
        run(tmp_path, features=["best-rotation"], metrics=["l1"])
    with pytest.raises(InputError, match="cannot be turned to fit"):
        run(tmp_path, features=["best-rotation"], metrics=metrics, preset=Preset(per_class=5, pca=20))
