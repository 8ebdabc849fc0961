"""Files are written whole or not at all, and hold what they should."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot.files import to_json, write_csv, write_json


def test_json_understands_numpy_and_stays_json():
    data = {
        "count": np.int64(3),
        "share": np.float32(0.5),
        "nothing": float("nan"),
        "none": np.inf,
        "flag": np.bool_(True),
        "array": np.arange(3),
        "path": Path("a/b"),
        7: ("é", None),
    }
    assert json.loads(to_json(data)) == {
        "count": 3,
        "share": 0.5,
        "nothing": None,
        "none": None,
        "flag": True,
        "array": [0, 1, 2],
        "path": "a/b",
        "7": ["é", None],
    }


def test_rows_of_numbers_stay_on_one_line_and_float32_has_its_own_digits():
    data = {"x": np.array([[0.1, 2], [np.nan, -3e-20]], dtype=np.float32), "y": [], "z": ["[  1,\n 2]"], "w": [True]}
    text = to_json(data)
    assert "[\n    [0.1, 2.0],\n    [null, -3e-20]\n  ]" in text
    assert json.loads(text) == {"x": [[0.1, 2.0], [None, -3e-20]], "y": [], "z": ["[  1,\n 2]"], "w": [True]}


def test_csv_brings_every_text_back(tmp_path):
    rows = [['a "b", c', "größe 漢"], ["two\nlines", "a=1+1"]]
    write_csv(tmp_path / "a.csv", ["x,y", "z"], rows)
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["x,y", "z"], *rows]


def test_file_names_that_are_no_text_can_be_written(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    write_json(tmp_path / "a.json", {"file": name})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {"file": name}
    write_csv(tmp_path / "a.csv", ["file"], [[name]])
    assert (tmp_path / "a.csv").read_text("utf-8") == "file\ncaf\\udce9.png\n"


@pytest.mark.parametrize("name", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "-2+3", "=2"])
def test_names_are_no_formulas(tmp_path, name):
    write_csv(tmp_path / "a.csv", [name], [[name, "plain"]])
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [[f"'{name}"], [f"'{name}", "plain"]]


def test_numbers_stay_numbers(tmp_path):
    write_csv(tmp_path / "a.csv", ["x"], [[-1], [-0.5], ["-1"], ["+2.5"], ["-3e-05"], [np.float64(-7)]])
    assert (tmp_path / "a.csv").read_text().split() == ["x", "-1", "-0.5", "-1", "+2.5", "-3e-05", "-7.0"]
