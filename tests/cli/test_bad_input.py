"""Bad input gets one clear line and exit code 2, and nothing is left behind."""

import errno
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("bad.npz", "image 1 has 1 pixels that are NaN"),
        ("cut.npz", "cut.npz"),
        ("empty", "has no images"),
        ("minst", "did you mean 'mnist'"),
        ("no/such/folder", "no file or"),
    ],
)
def test_unusable_sets(program, sets, tmp_path, monkeypatch, bad, words):
    monkeypatch.chdir(tmp_path)
    np.savez("bad.npz", images=np.where(np.arange(432).reshape(3, 12, 12) == 200, np.nan, 0))
    Path("cut.npz").write_bytes(Path("bad.npz").read_bytes()[:300])
    Path("empty").mkdir()
    before = set(tmp_path.iterdir())
    for pair in ((bad, sets / "b.npz"), (sets / "b.npz", bad)):
        outcome = program("match", *pair, "--out", tmp_path / "run")
        assert (outcome.code, outcome.stdout) == (2, "")
        assert outcome.complaint.startswith("error: ")
        assert words in outcome.complaint
        assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--reg", "0"), "--reg must be a number above 0, got 0.0"),
        (("--features", "sphere-bispectrum", "--rotate-source"), "--rotate-source is for flat images"),
        (("--features", "best-rotation", "--metric", "l1"), "metric at the best rotation"),
        (("--working-memory", "1kB"), "does not fit into a working memory of 1.0 kB"),
        (("--source-split", "test"), "test split"),
        (("--split-halves",), "--split-halves needs one set as SOURCE and TARGET"),
    ],
)
def test_unusable_options(program, sets, tmp_path, options, words):
    outcome = program("match", sets / "a.npz", sets / "b.npz", *options, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert words in outcome.complaint
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_the_old_run_and_nothing_else(program, sets, tmp_path, monkeypatch):
    """The disk fills up in the middle of one file: half of it is written, then writing fails."""
    words = ("match", sets / "a.npz", sets / "b.npz", "--out", tmp_path / "run", "--overwrite", "-q")
    old = '{"config": {"verb": "match"}, "files": ["run.json"]}'
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(old)
    write_text = Path.write_text

    def fill(path: Path, text: str, **options):
        if ".matches-" not in path.name:
            return write_text(path, text, **options)
        write_text(path, text[: len(text) // 2])
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", fill)
    outcome = program(*words)
    assert outcome.code == 2
    assert "is full, and no output was written" in outcome.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]
    assert (tmp_path / "run" / "run.json").read_text() == old


def test_out_of_memory_is_told(program, sets, tmp_path, monkeypatch):
    monkeypatch.setattr("bispectral_ot.matching.match", Mock(side_effect=MemoryError))
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--out", tmp_path / "run")
    assert ((outcome.code, "--working-memory" in outcome.complaint), list(tmp_path.iterdir())) == ((2, True), [])
