"""Studies as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies.__main__ import main, parser


def test_class_preservation_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["class-preservation", "--datasets", "digits", "--features", "ring-power", "--metrics", "l1"]
    words += ["--settings", "rotated", "--per-class", "5", "--clean", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert "Table 1." in capsys.readouterr().out
    (cell,) = json.loads((tmp_path / "run" / "results.json").read_text())["cells"]
    assert cell["config"]["fill"] == "background"
    assert cell["config"]["parameters"]["sampling"] == "bilinear"
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_geometry_distances_and_ablation_from_the_command_line(tmp_path: Path) -> None:
    common = ["--dataset", "digits", "--out"]
    turned = ["--step", "180", "--features", "ring-power", "--per-class", "1"]
    for words, file in (
        (["geometry", *common, str(tmp_path / "geometry"), *turned], "figures/geometry-1.png"),
        (["distances", *common, str(tmp_path / "distances"), *turned, "--metrics", "l1"], "results.json"),
        (["ablation", *common, str(tmp_path / "ablation"), "--questions", "tol", "--per-class", "3"], "tol.md"),
    ):
        assert main(words) == 0
        assert (tmp_path / words[0] / file).is_file()
        record = json.loads((tmp_path / words[0] / "run.json").read_text())
        assert record["config"]["verb"] == f"study {words[0]}"


def test_options_are_the_parameters_of_the_functions() -> None:
    given = parser().parse_args(
        ["frames", "a", "b", "--changes", "upright; enlarged, black", "--per-class", "3", "--out", "x"]
    )
    assert (given.folders, given.per_class) == (["a", "b"], 3)
    assert given.changes == ["upright", "enlarged, black"]
    given = parser().parse_args(["compare", "--sizes", "10,20", "--regs", "0.1", "--out", "x"])
    assert (given.sizes, given.regs) == ([10, 20], [0.1])


def test_wrong_words_and_wrong_values_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["geometry", "--out", str(tmp_path / "run"), "--per-class", "one"])
    assert main(["geometry", "--out", str(tmp_path / "run"), "--dataset", "digits", "--metric", "l3"]) == 2
    assert "unknown metric 'l3'" in capsys.readouterr().err
