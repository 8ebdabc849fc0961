"""Studies as they are typed."""

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


def test_options_are_the_parameters_of_the_functions() -> None:
    words = ["frames", "--datasets", "a,b", "--changes", "upright; enlarged, black", "--per-class", "3", "--out", "x"]
    given = parser().parse_args(words)
    assert (given.datasets, given.per_class) == (["a", "b"], 3)
    assert given.changes == ["upright", "enlarged, black"]
    given = parser().parse_args(["compare", "--sizes", "10,20", "--regs", "0.1", "--out", "x"])
    assert (given.sizes, given.regs) == ([10, 20], [0.1])


def test_wrong_words_and_wrong_values_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["geometry", "--out", str(tmp_path / "run"), "--per-class", "one"])
    assert main(["geometry", "--out", str(tmp_path / "run"), "--dataset", "digits", "--metric", "l3"]) == 2
    assert "unknown metric 'l3'" in capsys.readouterr().err
