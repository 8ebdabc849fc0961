"""Files are written whole or not at all, and hold what they should."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot.files import to_json, write_csv

CAFE = os.fsdecode(b"caf\xe9.png")  # a name that is no text


def test_json_understands_numpy_and_stays_json():
    numbers = {"count": np.int64(3), "share": np.float32(0.5), "nothing": float("nan"), "flag": np.bool_(True)}
    others = {"array": np.array([[0.1, 1], [2, np.inf]], dtype=np.float32), "path": Path("a/b"), "file": CAFE}
    text = to_json(numbers | others | {7: ("é\x9b\u202e", None)})
    assert "[\n    [0.1, 1.0],\n    [2.0, null]\n  ]" in text  # rows on one line, digits of float32
    expected = {"count": 3, "share": 0.5, "nothing": None, "flag": True, "array": [[0.1, 1], [2, None]], "path": "a/b"}
    assert json.loads(text) == expected | {"7": ["é\x9b\u202e", None], "file": CAFE}
    assert '"é\\u009b\\u202e"' in text  # a terminal obeys neither


def test_csv_brings_every_text_back(tmp_path):
    rows = [['a "b", c', "größe 漢"], ["two\nlines", "a=1+1"]]
    write_csv(tmp_path / "a.csv", ["x,y", "z"], rows)
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["x,y", "z"], *rows]
    write_csv(tmp_path / "a.csv", ["file"], [[CAFE], [-1], ["-1"], ["+2.5"], ["-3e-05"], [np.float64(-7)]])
    expected = ["file", "caf\\udce9.png", "-1", "-1", "+2.5", "-3e-05", "-7.0"]
    assert (tmp_path / "a.csv").read_text("utf-8").split() == expected


@pytest.mark.parametrize("name", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "-2+3", "=2"])
def test_names_are_no_formulas(tmp_path, name):
    write_csv(tmp_path / "a.csv", [name], [[name, "plain"]])
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [[f"'{name}"], [f"'{name}", "plain"]]
