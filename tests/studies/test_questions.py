"""Questions of a reader, and the tables that answer them."""

import json
from pathlib import Path

import pytest

from bispectral_ot import runtime
from bispectral_ot.errors import InputError, MemoryBudgetError
from studies.preset import Preset
from studies.questions import run_ablation

SMALL = Preset(per_class=10)


def test_answers_become_tables_and_are_not_computed_twice(tmp_path: Path) -> None:
    answers = run_ablation(tmp_path, "digits", questions=["reg", "solvers"], preset=SMALL)
    regs = {answer.variant.row: answer.cell for answer in answers["reg"]}
    assert regs["0.1"]["targets_per_source"] > regs["0.001"]["targets_per_source"] >= 1
    assert regs["0.1"]["transport_cost"] > regs["0.001"]["transport_cost"]
    *entropic, exact = [answer.cell for answer in answers["solvers"]]
    assert exact["targets_per_source"] == pytest.approx(1.0)
    assert all(exact["transport_cost"] < cell["transport_cost"] for cell in entropic)
    assert exact["accuracy"] == exact["best_match_accuracy"]
    table = (tmp_path / "reg.md").read_text().splitlines()
    assert table[0].startswith("How accuracy depends on the regularization (digits, 100 images a side")
    assert len(table) == 2 + 2 + 7
    assert len(json.loads((tmp_path / "solvers.json").read_text())["cells"]) == 5
    # reg 0.01 and tol 1e-4 are the defaults: one of the four tolerances is known already
    before = len(list((tmp_path / "cells").iterdir()))
    run_ablation(tmp_path, "digits", questions=["reg", "tol"], preset=SMALL)
    assert len(list((tmp_path / "cells").iterdir())) == before + 3


def test_unknown_questions_and_exact_transport_beyond_the_budget_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown questions 'why'"):
        run_ablation(tmp_path, "digits", questions=["why"])
    with pytest.raises(MemoryBudgetError, match=r"working memory of 1\.0 MB"), runtime.running(memory="1MB"):
        run_ablation(tmp_path, "digits", questions=["solvers"], preset=SMALL)
