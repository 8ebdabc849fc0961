"""Bad input gets one clear line and exit code 2, and nothing is left behind."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

BLANK = np.zeros((3, 12, 12), dtype=np.float32)
ARRAYS = {
    "image 1 has 1 pixels that are NaN": {"images": np.where(np.arange(432).reshape(3, 12, 12) == 200, np.nan, BLANK)},
    "got (0, 12, 12)": {"images": BLANK[:0]},
    "has shape (2,) for 3 images": {"images": BLANK, "labels": np.arange(2)},
    "--grey": {"images": np.zeros((3, 12, 12, 3))},
}


@pytest.mark.parametrize("words", [*ARRAYS, "bad.npz", "b.png", "has no images", "did you mean 'mnist'", "no file or"])
def test_unusable_sets(program, sets, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    bad = {"did you mean 'mnist'": "minst", "no file or": "no/such/folder", "b.png": "bad", "has no images": "bad"}
    bad = bad.get(words, "bad.npz")
    if bad == "bad":
        (tmp_path / "bad").mkdir()
    if words == "b.png":
        noise = np.random.default_rng(0).integers(0, 256, (12, 12), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "bad" / "a.png")
        (tmp_path / "bad" / "b.png").write_bytes((tmp_path / "bad" / "a.png").read_bytes()[:60])
    elif bad == "bad.npz":
        np.savez(tmp_path / "bad.npz", **ARRAYS.get(words, {"images": BLANK}))
        if words == "bad.npz":  # cut off
            (tmp_path / "bad.npz").write_bytes((tmp_path / "bad.npz").read_bytes()[:300])
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
        (("--metric", "l3"), "choose one of l1, l2, sqeuclidean, cosine"),
        (("--reg", "0"), "--reg must be a number above 0, got 0.0"),
        (("--solver", "exact", "--reg", "0.1"), "--reg has no effect on the exact solver"),
        (("--features", "sphere-bispectrum", "--rotate-source"), "--rotate-source is for flat images"),
        (("--features", "best-rotation", "--metric", "l1"), "metric at the best rotation"),
        (("--working-memory", "1kB"), "does not fit into a working memory of 1.0 kB"),
        (("--source-split", "valid"), "choose one of train, val, test"),
        (("--source-split", "test"), "test split"),
        (("--pca", "100000"), "pca must be an integer from 1 to"),
        (("--split-halves",), "--split-halves is for one set on both sides"),
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
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("bispectral_ot.matching.match", hungry)
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--out", tmp_path / "run")
    assert (outcome.code, "--working-memory" in outcome.complaint) == (2, True)
    assert list(tmp_path.iterdir()) == []
