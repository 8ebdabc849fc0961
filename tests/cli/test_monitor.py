"""The command ``monitor``: a model, batches, a log that grows, exit code 4."""

import numpy as np

import bispectral_ot as bot
from bispectral_ot.comparing import Monitor


def test_the_command_makes_a_monitor_and_alarms(program, tmp_path, monkeypatch):
    digits = bot.load("digits").images[np.random.default_rng(0).permutation(1797)]
    np.save(tmp_path / "good.npy", digits[:600])
    np.save(tmp_path / "new.npy", digits[600:640])
    np.save(tmp_path / "turned.npy", np.rot90(digits[640:680], axes=(1, 2)))
    model = tmp_path / "monitor.npz"
    assert program("monitor", tmp_path / "good.npy", "--model", model, "--run-length", 30).code == 0
    assert program("monitor", model, tmp_path / "new.npy").code == 0
    outcome = program("monitor", model, tmp_path / "new.npy", tmp_path / "turned.npy")
    assert outcome.code == 4
    assert "ALARM" in outcome.stdout
    assert len((tmp_path / "monitor.csv").read_text().splitlines()) == 4
    assert (tmp_path / "monitor.html").read_text().count("<circle") == 3
    assert "no monitor at" in program("monitor", tmp_path / "none.npz", tmp_path / "new.npy").complaint
    assert "give --model" in program("monitor", tmp_path / "good.npy").complaint

    results = iter([Monitor.load(model).update(digits[600:640])])  # a second one is not come to
    monkeypatch.setattr("bispectral_ot.cli.main.received", [130])
    monkeypatch.setattr(Monitor, "update", lambda *_, **__: next(results))
    outcome = program("monitor", model, tmp_path / "new.npy", tmp_path / "turned.npy")
    assert outcome.code == 130
    assert f"interrupted; the results of 1 of 2 batches are kept in {tmp_path / 'monitor.csv'}." in outcome.complaint
