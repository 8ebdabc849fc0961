"""Rivals are measured once, on the same halves, and the table has a row for each."""

import numpy as np
from PIL import Image

from studies import encoders
from studies.rivals import rivals_table, run_rivals


def test_every_method_is_measured_once(tmp_path):
    cells = run_rivals(tmp_path, ["digits"], per_class=6, seeds=1, network=False)
    assert len({cell["method"] for cell in cells}) == len(cells) == 6
    assert all(0 <= cell["accuracy"] <= 1 for cell in cells)
    assert run_rivals(tmp_path, ["digits"], per_class=6, seeds=1, network=False) == cells
    assert rivals_table(cells).count("\n") == (tmp_path / "table.md").read_text().count("\n") == 8


def test_an_encoder_is_pooled_and_joined_on_both_canvases(tmp_path, monkeypatch):
    monkeypatch.setattr(encoders, "efficientnet", lambda: lambda batch: batch[:, ::8, ::8].reshape(len(batch), -1))
    random = np.random.default_rng(0)
    for kind, level in (("dark", 60), ("light", 180)):
        (tmp_path / "set" / kind).mkdir(parents=True)
        for k in range(4):
            pixels = random.normal(level, 20, (16, 16)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "set" / kind / f"{k}.png")
    cells = encoders.run_encoders(tmp_path / "out", [str(tmp_path / "set")], per_class=2, side=16)
    assert len(cells) == 2 * len(encoders.network_features(None))
    assert all(set(cell["accuracy"]) == set(encoders.ANSWERS) for cell in cells)
    assert (tmp_path / "out" / "table.md").read_text().count("\n") == len(cells) + 2
