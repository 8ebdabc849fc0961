from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from studies.cell_bars import time_left
from studies.commands import app

RUNNER = CliRunner()


def test_class_preservation_from_the_command_line(tmp_path: Path) -> None:
    words = ["class-preservation", "--datasets", "digits", "--features", "ring-power", "--metrics", "l1"]
    words += ["--settings", "rotated", "--per-class", "5", "--clean", "--out", str(tmp_path / "run")]
    done = RUNNER.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "digits rotated ring-power l1: 0." in done.output
    assert "Table 1." in done.output
    (cell,) = json.loads((tmp_path / "run" / "results.json").read_text())["cells"]
    assert cell["config"]["fill"] == "background"
    assert cell["config"]["parameters"]["sampling"] == "bilinear"
    again = RUNNER.invoke(app, words)
    assert again.exit_code == 0
    assert " s\n" not in again.output  # nothing was computed

    (path,) = (tmp_path / "run" / "cells").iterdir()
    path.write_text(path.read_text().replace('"converged": true', '"converged": false'))
    missed = RUNNER.invoke(app, words)
    assert missed.exit_code == 1
    assert "missed its tolerance" in missed.output


def test_geometry_distances_and_ablation_from_the_command_line(tmp_path: Path) -> None:
    common = ["--dataset", "digits", "--out"]
    turned = ["--step", "180", "--features", "ring-power", "--per-class", "1"]
    for words, file in (
        (["geometry", *common, str(tmp_path / "geometry"), *turned], "figures/geometry-1.png"),
        (["distances", *common, str(tmp_path / "distances"), *turned, "--metrics", "l1"], "results.json"),
        (["ablation", *common, str(tmp_path / "ablation"), "--questions", "tol", "--per-class", "3"], "tol.md"),
    ):
        done = RUNNER.invoke(app, words)
        assert done.exit_code == 0, done.output
        assert (tmp_path / words[0] / file).is_file()
        record = json.loads((tmp_path / words[0] / "run.json").read_text())
        assert record["config"]["verb"] == f"study {words[0]}"
    assert "digits rotated ring-bispectrum l1: " in done.output
    for value in ("0.005", "1e-06"):
        assert f" (tol: {value}) in " in done.output


def test_too_few_images_of_a_class_are_told(tmp_path: Path) -> None:
    words = ["class-preservation", "--datasets", "digits", "--features", "pixels", "--metrics", "l1"]
    words += ["--settings", "baseline", "--out", str(tmp_path / "run"), "--per-class"]
    for per_class, told in (("88", 1), ("87", 0)):
        done = RUNNER.invoke(app, [*words, per_class, "--overwrite"])
        assert done.exit_code == 0
        assert done.stderr.count("'digits' has 174 of class '8', 87 for each half") == told


def test_words_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["geometry", "--out", str(tmp_path / "run"), "--per-class", "one"])
    assert done.exit_code == 2
    assert "such as 1,10" in done.stderr


def test_time_left_counts_the_cells_of_this_session_only() -> None:
    began = [(0.0, 40), (600.0, 41), (1200.0, 42)]
    assert time_left(began[:1], 40, 48) == "40 of 48"
    assert time_left(began, 42, 48) == "42 of 48, about 1 h 00 min left"


def test_shares_wants_rates_that_are_shares(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["shares", "--rates", "0.9,1.5", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "between 0 and 1, got '1.5'" in done.stderr
