"""Runs as objects."""

from __future__ import annotations

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.errors import RunExistsError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    source, target = bot.split_halves(bot.load("digits"), per_class=6)
    match = bot.match(source, target)
    folder = match.save(tmp_path_factory.mktemp("runs") / "run", figures=False)
    return match, source, bot.open_run(folder)


def test_a_saved_match_is_what_the_program_writes(saved):
    match, _, run = saved
    names = {path.name for path in run.folder.iterdir()}
    assert {"results.json", "run.json", "matches.csv", "labels.csv", "model.npz", "report.html"} <= names
    assert run.results["distance"] == pytest.approx(match.distance)
    with pytest.raises(RunExistsError, match="--overwrite"):
        match.save(run.folder)
    match.save(run.folder, overwrite=True, figures=False)


def test_tables_come_back(saved):
    match, _, run = saved
    labels = run.labels()
    details = match.label_details()
    assert labels["label"] == [int(label) for label in details.labels]
    np.testing.assert_allclose(labels["probability"], details.probabilities, rtol=1e-4)
    assert list(labels.to_frame().columns) == list(labels.columns)
    assert labels._repr_html_().count("<tr>") == 11
    assert len(run.table("matches")) >= len(labels)
    with pytest.raises(bot.InputError, match=r"no table 'poses'; its tables are .*labels"):
        run.table("poses")
    with pytest.raises(bot.InputError, match="unknown column 'share'"):
        labels["share"]


@pytest.mark.xfail(reason="a loaded model fits its features again: other digits on several threads", strict=False)
def test_a_run_predicts_from_datasets_arrays_and_paths(saved, tmp_path):
    match, source, run = saved
    expected = match.predict(source)
    np.save(tmp_path / "images.npy", source.images)
    for images in (source, source.images, tmp_path / "images.npy"):
        found = run.predict(images)
        assert (found.labels == expected.labels).all()
    run.report().unlink()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(bot.InputError, match="is not a run: cannot read"):
        bot.open_run(tmp_path)
    for damaged in ("[", "[" * 100_000, "[1]"):
        (tmp_path / "results.json").write_text("{}")
        (tmp_path / "run.json").write_text(damaged)
        with pytest.raises(bot.InputError, match="is damaged"):
            bot.open_run(tmp_path)
