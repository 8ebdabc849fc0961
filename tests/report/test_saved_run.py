"""Runs as objects: what is saved comes back."""

import numpy as np
import pytest
from typer.testing import CliRunner

import bispectral_ot as bot
from bispectral_ot.cli.main import app
from bispectral_ot.errors import RunExistsError
from report_runs import blobs


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    source, target = bot.split_halves(bot.load("digits"), per_class=6)
    match = bot.match(source, target)
    folder = match.save(tmp_path_factory.mktemp("runs") / "run", figures=False)
    return match, source, bot.open_run(folder)


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_saved_match_is_what_the_program_writes(saved, tmp_path):
    match, source, run = saved
    for name, side in (("source", source), ("target", match.target)):
        np.savez(tmp_path / f"{name}.npz", images=side.images, labels=side.labels)
    words = ["match", *(str(tmp_path / f"{name}.npz") for name in ("source", "target")), "--report", "--no-figures"]
    assert CliRunner().invoke(app, [*words, "-q", "--out", str(tmp_path / "run")]).exit_code == 0
    assert files(run.folder) == files(tmp_path / "run")
    assert run.results["distance"] == pytest.approx(match.distance)
    with pytest.raises(RunExistsError, match="--overwrite"):
        match.save(run.folder)
    match.save(run.folder, overwrite=True, figures=False)


def test_a_match_by_own_features_is_saved_with_its_page(tmp_path):
    source, target = bot.split_halves(bot.load("digits"), per_class=6)
    match = bot.match(source, target, features=lambda images: images.reshape(len(images), -1)[:, 8:56])
    with pytest.warns(bot.DataWarning, match=r"model\.npz was not written"):
        run = bot.open_run(match.save(tmp_path / "run", figures=False))
    assert {"labels.csv", "page-data.json", "report.html"} <= set(files(run.folder))
    assert run.labels().label.tolist() == match.labels().label.tolist()
    with pytest.raises(bot.InputError, match=r"has no model\.npz"):
        run.predict(source)


def test_tables_come_back(saved):
    match, _, run = saved
    labels, expected = run.labels(), match.labels()
    assert labels.label.tolist() == expected.label.tolist()
    np.testing.assert_allclose(labels.probability, expected.probability, rtol=1e-4)
    listed = run.table("outliers")
    assert set(listed.position[listed.side == "source"]) == set(match.source.positions[match.outliers().indices])
    assert len(run.table("matches")) >= len(labels)
    with pytest.raises(bot.InputError, match=r"no table 'poses'; its tables are .*labels"):
        run.table("poses")


def test_a_run_predicts_from_datasets_arrays_and_paths(saved, tmp_path):
    match, source, run = saved
    expected = match.predict(source)
    np.save(tmp_path / "images.npy", source.images)
    for images in (source, source.images, tmp_path / "images.npy"):
        assert (run.predict(images).labels == expected.labels).mean() > 0.98
    run.report().unlink()
    (tmp_path / "shapes").mkdir()
    np.savetxt(tmp_path / "shapes" / "a.xyz", np.eye(3))
    with pytest.raises(bot.InputError, match=r"'shapes' has clouds.*, but the match has images"):
        run.predict(tmp_path / "shapes")


def test_a_comparison_comes_back(tmp_path):
    for name, seed in (("one", 0), ("two", 1)):
        np.savez(tmp_path / f"{name}.npz", images=blobs(12, (), seed=seed).images)
    words = ["compare", *(f"{name}={tmp_path / name}.npz" for name in ("one", "two")), "--no-figures", "-q"]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")]).exit_code == 0
    run = bot.open_run(tmp_path / "run")
    table = run.table("distances")
    assert table.source.tolist() == ["one"]
    assert table.distance[0] == pytest.approx(run.results["distances"][0][1], rel=1e-4)
    assert run.report().is_file()
    for ask in (run.labels, lambda: run.predict(np.zeros((1, 8, 8)))):
        with pytest.raises(bot.InputError, match=r"has no (table|model\.npz)"):
            ask()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(bot.InputError, match="is not a run: cannot read"):
        bot.open_run(tmp_path)
    for damaged in ("[", "[" * 100_000, "[1]"):
        (tmp_path / "results.json").write_text("{}")
        (tmp_path / "run.json").write_text(damaged)
        with pytest.raises(bot.InputError, match="is damaged"):
            bot.open_run(tmp_path)
