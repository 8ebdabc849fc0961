"""What ``bispectral-ot predict`` writes and prints."""

import numpy as np
import pytest

from bispectral_ot.matching import Predictor
from report_runs import read_csv


@pytest.fixture(scope="module")
def run(program, sets, tmp_path_factory):
    """A match of two labelled sets, the second by its odd images only."""
    out = tmp_path_factory.mktemp("runs") / "first"
    words = ("match", sets / "a.npz", sets / "b.npz", "--limit", "8", "--center", "--resize", "10", "-q")
    assert program(*words, "--out", out).code == 0
    return out


def test_images_that_took_part_get_the_rows_that_they_had(run, program, sets, tmp_path):
    outcome = program("predict", run, sets / "a.npz", "--poses", "--json", "--out", tmp_path / "new")
    assert outcome.code == 0, outcome.stderr
    assert (outcome.json["images"], outcome.json["targets"]) == (12, 8)
    assert 0 <= outcome.json["accuracy"] <= 1
    assert len(read_csv(tmp_path / "new" / "poses.csv")) == 12
    assert (tmp_path / "new" / "outliers.csv").exists()
    told = program("predict", run, sets / "a.npz", "--out", tmp_path / "again").stdout
    assert "too few targets to detect outliers" in told
    assert Predictor.load(run / "model.npz").settings["frame_is_automatic"]  # else filled corners would be kept
    for table in ("labels.csv", "matches.csv"):
        before, now = read_csv(run / table), read_csv(tmp_path / "new" / table)
        assert list(before[0]) == list(now[0])
        took_part = {row["source"] for row in before}
        again = [row for row in now if row["source"] in took_part]
        for name in now[0]:
            columns = [[row[name] for row in rows] for rows in (before, again)]
            if name.endswith(("weight", "probability", "distance", "score")):
                np.testing.assert_allclose(*(np.array(column, dtype=float) for column in columns), atol=1e-4)
            else:
                assert columns[0] == columns[1]


def test_the_encoder_of_a_match_is_named_again(program, sets, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    pixels = 3 * np.load(sets / "a.npz")["images"].shape[1] ** 2
    for seed in (0, 1):
        network = f"torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear({pixels}, 5)).eval()"
        code = f"import torch\ntorch.manual_seed({seed})\nnetwork = {network}\n"
        (tmp_path / f"own_network_{seed}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("match", sets / "a.npz", sets / "b.npz", "--encoder", "own_network_0:network", "-q")
    assert program(*words, "--out", tmp_path / "run").code == 0
    again = ("predict", tmp_path / "run", sets / "a.npz", "--out", tmp_path / "new")
    assert "which is code: give it again" in program(*again).complaint
    outcome = program(*again, "--encoder", "own_network_0:network", "--json")
    assert outcome.code == 0, outcome.stderr
    assert outcome.json["images"] == 12
    monkeypatch.setattr("own_network_0.network", __import__("own_network_1").network)
    outcome = program(*again[:-1], tmp_path / "other", "--encoder", "own_network_0:network")
    assert "weights have changed" in outcome.complaint
    assert "damaged" not in outcome.complaint
