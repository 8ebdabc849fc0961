"""Monitor: run length without change, alarms that come at once, files."""

import csv

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.comparing import Monitor
from bispectral_ot.comparing.batch_monitor import BatchResult, append_results


@pytest.fixture(scope="module")
def digits():
    return bot.load("digits").images[np.random.default_rng(0).permutation(1797)]


@pytest.fixture(scope="module")
def monitor(digits):
    return Monitor.fit(digits[:900], run_length=20)


@pytest.fixture
def unexplained(monkeypatch):
    monkeypatch.setattr(Monitor, "_explained", lambda self, result, images: result)


def test_the_run_length_without_change_is_what_was_asked_for(digits, unexplained):
    random, alarms = np.random.default_rng(1), 0
    for seed in range(3):  # the population is the set: references and batches are independent draws
        monitor = Monitor.fit(digits[random.choice(1797, 900)], run_length=20, seed=seed)
        alarms += sum(monitor.update(digits[random.choice(1797, 40)]).alarm for _ in range(200))
    # 30 are expected; with 600 batches the rate is known to 18 %, and each reference has an error of its own
    assert 15 <= alarms <= 48


def test_small_changes_add_up_over_batches_until_an_alarm(digits, monitor, unexplained):
    """Twelve of 40 images mirrored: 23 batches on average until one of them alone is above a threshold."""
    random, delays = np.random.default_rng(2), []
    for _ in range(6):
        batches = (digits[900 + random.choice(897, 40, replace=False)] for _ in range(60))
        changed = (np.concatenate([batch[:12, :, ::-1], batch[12:]]) for batch in batches)
        delays.append(next((place for place, batch in enumerate(changed, 1) if monitor.update(batch).alarm), 60))
    assert np.mean(delays) <= 9
    assert not monitor.weights.any()  # evidence starts anew after an alarm


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda x: np.rot90(x, axes=(1, 2)), "quarter turns"),
        (lambda x: np.clip(x * 0.7, 0, 16), "intensity"),
        (lambda x: np.maximum(x, np.pad(np.full((2, 2), 16), ((3, 3), (2, 4)))), "changed"),
    ],
    ids=["rotated camera", "darker", "stain"],
)
def test_changes_of_all_images_are_seen_and_named(digits, monitor, change, verdict):
    found = monitor.update(np.asarray(change(digits[900:980]), dtype=np.float32))
    assert found.alarm
    assert found.verdict == verdict, found.sentence


def test_a_monitor_comes_back_from_its_file(digits, monitor, tmp_path):
    monitor.update(digits[1000:1040])
    monitor.save(tmp_path / "monitor.npz")
    again = Monitor.load(tmp_path / "monitor.npz")
    assert again.thresholds == monitor.thresholds
    assert again.update(digits[1040:1080]) == monitor.update(digits[1040:1080])  # which both remember the first


def test_damaged_files_and_references_of_equal_images_are_refused(monitor, tmp_path):
    path = tmp_path / "monitor.npz"
    with pytest.raises(bot.InputError, match="a reference with variation"):
        Monitor.fit(np.zeros((40, 8, 8)))
    with pytest.raises(bot.InputError, match="no monitor at"):
        Monitor.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(bot.InputError, match="damaged"):
        Monitor.load(path)


@pytest.mark.parametrize(
    ("batch", "message"),
    [(np.ones((9, 8, 8)), "10 to 900"), (np.ones((901, 8, 8)), "10 to 900"), (np.ones((20, 9, 9)), "shape")],
)
def test_bad_batches_are_explained(monitor, batch, message):
    with pytest.raises(bot.InputError, match=message):
        monitor.update(batch)


def test_the_log_grows(tmp_path):
    for count in (500, 1):
        append_results(tmp_path / "log.csv", [BatchResult("=a<b", 20, 1.5, 1.0, "rotation", "turned, all")] * count)
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["batch"] for row in rows] == ["a<b"] * 501
    assert (rows[0]["alarm"], rows[0]["sentence"]) == ("true", "turned, all")
    page = (tmp_path / "log.html").read_text()
    assert (page.count("<circle"), page.count("<td>ALARM</td>"), "width=device-width" in page) == (500, 500, True)
    assert ("Batches: 501, alarms: 501" in page, page.count("<title>a&lt;b</title>")) == (True, 500)
    append_results(tmp_path / "days.csv", [BatchResult("007", 20, 0.5, 1.0)])
    assert "<td>007</td>" in (tmp_path / "days.html").read_text()
    (tmp_path / "edited.csv").write_text("other,columns\n")
    with pytest.warns(bot.DataWarning, match="page of .* was not written"):
        append_results(tmp_path / "edited.csv", [BatchResult("monday", 20, 1.5, 1.0)])
