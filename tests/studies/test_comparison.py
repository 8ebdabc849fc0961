"""The study of distances between sets, on few small images."""

import numpy as np

from studies.comparison import mmd_p_value, run_comparison


def test_the_study_writes_its_tables_and_goes_on(tmp_path):
    options = {"datasets": ["digits"], "features": ["pixels"], "images": 40, "sizes": [20], "test_images": 20}
    found = run_comparison(tmp_path / "run", **options, repeats=2)
    expected = {"distances": 3, "sets": 1, "labels": 1, "sizes": 1, "rates": 17}
    assert {part: len(cells) for part, cells in found.items()} == expected
    assert all(0 <= cell[name] <= 1 for cell in found["rates"] for name in ("ours", "mmd", "mmd_median"))
    assert "digits, turned" in (tmp_path / "run" / "sets.md").read_text(encoding="utf-8")
    assert "class removed" in (tmp_path / "run" / "rates.md").read_text(encoding="utf-8")
    again = run_comparison(tmp_path / "run", **options, repeats=2, parts=["rates"])
    assert [cell["seconds"] for cell in again["rates"]] == [cell["seconds"] for cell in found["rates"]]
    other = run_comparison(tmp_path / "run", **options, repeats=2, parts=["rates"], skip=7)  # other images
    assert other["rates"][0]["config"]["checksum"] not in {cell["config"]["checksum"] for cell in found["rates"]}


def test_mmd_sees_a_shift_and_no_more():
    random = np.random.default_rng(0)
    points = np.concatenate([random.normal(size=(30, 2)), 2 + random.normal(size=(30, 2))])
    costs = ((points[:, None] - points) ** 2).sum(axis=2)
    assert mmd_p_value(costs, 30, random) == 1 / 100
    mixed = random.permutation(60)
    assert mmd_p_value(costs[np.ix_(mixed, mixed)], 30, random) > 0.05
