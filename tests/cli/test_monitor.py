"""The command ``monitor``: a model, batches, a log that grows, exit code 4."""

import numpy as np
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.comparing import Monitor


def test_the_command_makes_a_monitor_and_alarms(program, tmp_path, monkeypatch):
    digits = bot.load("digits").images[np.random.default_rng(0).permutation(1797)]
    np.save(tmp_path / "good.npy", digits[:600])
    np.save(tmp_path / "new.npy", digits[600:640])
    np.save(tmp_path / "turned.npy", np.rot90(digits[640:680], axes=(1, 2)))
    model = tmp_path / "monitor.npz"
    assert program("monitor", tmp_path / "good.npy", "--model", model, "--run-length", 30).code == 0
    assert program("monitor", model, f"{tmp_path}/./new.npy").code == 0
    outcome = program("monitor", model, tmp_path / "new.npy", tmp_path / "turned.npy")
    assert outcome.code == 4
    assert "ALARM" in outcome.stdout
    assert (tmp_path / "monitor.csv").read_text().count(f",{tmp_path}/new.npy,40,") == 2
    assert (tmp_path / "monitor.html").read_text().count("<circle") == 3
    assert "no monitor at" in program("monitor", tmp_path / "none.npz", tmp_path / "new.npy").complaint
    assert "give --model" in program("monitor", tmp_path / "good.npy").complaint
    outcome = program("monitor", model, tmp_path / "new.npy", "--run-length", 20)
    assert "a monitor keeps its options" in outcome.complaint
    results = iter([Monitor.load(model).update(digits[600:640])])  # a second one is not come to
    monkeypatch.setattr("bispectral_ot.cli.main.received", [130])
    monkeypatch.setattr(Monitor, "update", lambda *_, **__: next(results))
    outcome = program("monitor", model, tmp_path / "new.npy", tmp_path / "turned.npy")
    assert outcome.code == 130
    assert f"interrupted; the results of 1 of 2 batches are kept in {tmp_path / 'monitor.csv'}." in outcome.complaint


def test_filled_corners_are_no_change_of_turned_photographs(program, tmp_path):
    random = np.random.default_rng(0)
    for name, count in (("good", 120), ("turned", 30)):
        (tmp_path / name).mkdir()
        for i in range(count):
            noise = Image.fromarray(random.integers(60, 200, (8, 8, 3), dtype=np.uint8)).resize((32, 32))
            turned = noise.rotate(random.uniform(20, 70), Image.BICUBIC, expand=True) if name == "turned" else noise
            turned.save(tmp_path / name / f"{i}.png")
    model = tmp_path / "good.npz"
    words = "--model", model, "--run-length", 30, "--allowing-for", "rotation"
    assert program("monitor", tmp_path / "good", *words).code == 0
    with pytest.warns(bot.DataWarning, match="frame 'picture' was chosen"):
        assert not Monitor.load(model).update(tmp_path / "turned").alarm
    outcome = program("monitor", model, tmp_path / "turned")
    assert (outcome.code, "frame 'picture' was chosen" in outcome.stderr) == (0, True), outcome.stdout
    assert program("monitor", model, tmp_path / "turned", "--frame", "canvas").code == 4
