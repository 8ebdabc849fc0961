"""Bad input gets one clear line and exit code 2, and nothing is left behind."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

BLANK = np.zeros((3, 12, 12), dtype=np.float32)


def save_image(path: Path, size: tuple[int, int] = (12, 12)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    Image.fromarray(noise).save(path)


def nan_pixels(folder: Path) -> str:
    images = BLANK.copy()
    images[1, 5, 5] = np.nan
    np.savez(folder / "bad.npz", images=images)
    return "bad.npz"


def infinite_pixels(folder: Path) -> str:
    np.save(folder / "bad.npy", np.where(np.arange(3)[:, None, None] == 2, np.inf, BLANK))
    return "bad.npy"


def empty_set(folder: Path) -> str:
    np.savez(folder / "bad.npz", images=BLANK[:0])
    return "bad.npz"


def empty_folder(folder: Path) -> str:
    (folder / "bad").mkdir()
    return "bad"


def labels_of_wrong_length(folder: Path) -> str:
    np.savez(folder / "bad.npz", images=BLANK, labels=np.arange(2))
    return "bad.npz"


def colours(folder: Path) -> str:
    np.savez(folder / "bad.npz", images=np.zeros((3, 12, 12, 3)))
    return "bad.npz"


def truncated_archive(folder: Path) -> str:
    np.savez(folder / "whole.npz", images=BLANK)
    (folder / "bad.npz").write_bytes((folder / "whole.npz").read_bytes()[:300])
    return "bad.npz"


def truncated_picture(folder: Path) -> str:
    save_image(folder / "bad" / "a.png")
    save_image(folder / "bad" / "b.png")
    (folder / "bad" / "b.png").write_bytes((folder / "bad" / "a.png").read_bytes()[:60])
    return "bad"


def misspelt_name(folder: Path) -> str:
    return "minst"


def missing_path(folder: Path) -> str:
    return "no/such/folder"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (nan_pixels, "image 1 has 1 pixels that are NaN"),
        (infinite_pixels, "image 2 has 144 pixels"),
        (empty_set, "got (0, 12, 12)"),
        (empty_folder, "has no images"),
        (labels_of_wrong_length, "has shape (2,) but there are 3 images"),
        (colours, "--grey"),
        (truncated_archive, "bad.npz"),
        (truncated_picture, "b.png"),
        (misspelt_name, "did you mean 'mnist'"),
        (missing_path, "there is no file or folder"),
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_unusable_sets(program, sets, tmp_path, monkeypatch, make, words, side):
    monkeypatch.chdir(tmp_path)
    bad, good = make(tmp_path), sets / "b.npz"
    before = set(tmp_path.iterdir())
    pair = (bad, good) if side == "source" else (good, bad)
    outcome = program("match", *pair, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert outcome.stdout == ""
    assert outcome.complaint.startswith("error: ")
    assert words in outcome.complaint
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--metric", "l3"), "choose one of l1, l2, sqeuclidean, cosine"),
        (("--metric", "cosin"), "did you mean 'cosine'?"),
        (("--reg", "0"), "--reg must be a number above 0, got 0.0"),
        (("--reg", "-1"), "--reg must be a number above 0, got -1"),
        (("--reg", "nan"), "--reg must be a number above 0, got nan"),
        (("--tol", "0"), "--tol must be a number above 0"),
        (("--max-iter", "0"), "--max-iter must be an integer of at least 1"),
        (("--solver", "simplex"), "choose one of sinkhorn, exact"),
        (("--solver", "exact", "--reg", "0.1"), "--reg has no effect on the exact solver"),
        (("--symmetry", "rotatoin"), "rotation"),
        (("--features", "sphere-bispectrum", "--rotate-source"), "--rotate-source is for flat images"),
        (("--features", "pixel"), "did you mean 'pixels'"),
        (("--working-memory", "lots"), "cannot read the memory size 'lots'"),
        (("--working-memory", "1kB"), "room to work in (libraries, the solver"),
        (("--resize", "big"), "resize must be"),
        (("--source-split", "valid"), "choose one of train, val, test"),
        (("--source-split", "test"), "test split"),
        (("--pca", "100000"), "pca must be an integer from 1 to"),
    ],
)
def test_unusable_options(program, sets, tmp_path, options, words):
    outcome = program("match", sets / "a.npz", sets / "b.npz", *options, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert words in outcome.complaint
    assert list(tmp_path.iterdir()) == []


def test_options_are_checked_before_anything_is_loaded(program, tmp_path):
    outcome = program("match", "no-such-set", "no-such-set", "--metric", "l3", "--out", tmp_path / "run")
    assert "unknown metric 'l3'" in outcome.complaint


@pytest.mark.parametrize(
    "words", [("match",), ("match", "a"), ("match", "a", "b"), ("nothing",), ("demo", "--seed", "x")]
)
def test_a_wrong_command_line_is_exit_code_two(program, words):
    outcome = program(*words)
    assert outcome.code == 2
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout == ""


def test_one_image_works(program, sets, halves, tmp_path):
    np.savez(tmp_path / "one.npz", images=halves[0].images[:1])
    outcome = program("match", tmp_path / "one.npz", sets / "b.npz", "--json", "--out", tmp_path / "run")
    assert (outcome.code, outcome.json["n"], outcome.json["m"]) == (0, 1, 12)
    outcome = program("match", tmp_path / "one.npz", tmp_path / "one.npz", "--json", "--out", tmp_path / "self")
    assert (outcome.code, outcome.json["distance"]) == (0, 0.0)


def test_constant_images_are_counted_and_told(program, sets, halves, tmp_path):
    images = np.concatenate([halves[0].images[:3], np.full((2, 12, 12), 7, np.uint8)])
    np.savez(tmp_path / "blank.npz", images=images)
    outcome = program("match", tmp_path / "blank.npz", sets / "b.npz", "--json", "--out", tmp_path / "run")
    assert outcome.code == 0
    assert "2 of the 5 images of 'blank' are constant" in outcome.stderr
    assert outcome.json["settings"]["constant_images"] == {"source": 2, "target": 0}
    assert np.isfinite(outcome.json["distance"])


def test_only_constant_images_are_at_no_distance(program, tmp_path):
    np.savez(tmp_path / "all.npz", images=BLANK)
    outcome = program("match", tmp_path / "all.npz", tmp_path / "all.npz", "--json", "--out", tmp_path / "all-run")
    assert (outcome.code, outcome.json["distance"]) == (0, 0.0)


def test_a_run_is_replaced_only_when_asked(program, sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "-q", "--out", tmp_path / "run")
    assert program(*words, "--n-matches", "1").code == 0
    refused = program(*words, "--n-matches", "2")
    assert refused.code == 2
    assert "--overwrite" in refused.complaint
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["n_matches"] == 1
    assert program(*words, "--n-matches", "2", "--overwrite").code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["n_matches"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_overwrite_never_deletes_what_is_not_a_run(program, sets, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "dear.txt").write_text("mine")
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--overwrite", "--out", tmp_path / "photos")
    assert outcome.code == 2
    assert "is not a run" in outcome.complaint
    assert (tmp_path / "photos" / "dear.txt").read_text() == "mine"
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--overwrite", "--out", tmp_path / "photos" / "dear.txt")
    assert (outcome.code, "is a file" in outcome.complaint) == (2, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folder(program, sets, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o000)
    outcome = program("match", tmp_path / "locked", sets / "b.npz", "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "locked" in outcome.complaint


def test_folder_that_the_system_refuses(program, sets, tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    real = Path.iterdir

    def refuse(path: Path):
        if path.name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    outcome = program("match", tmp_path / "locked", sets / "b.npz", "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "locked: Permission denied" in outcome.complaint


@pytest.mark.parametrize("victim", ["matches", "run"])
def test_full_disk_leaves_the_old_run_and_nothing_else(program, sets, tmp_path, monkeypatch, victim):
    """The disk fills up in the middle of one file: half of it is written, then writing fails."""
    words = ("match", sets / "a.npz", sets / "b.npz", "--out", tmp_path / "run", "--overwrite", "-q")
    old = '{"config": {"verb": "match"}, "files": ["run.json"]}'
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(old)
    write_text = Path.write_text

    def fill(path: Path, text: str, **options):
        if f".{victim}-" not in path.name:
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
    assert outcome.code == 2
    assert "--working-memory" in outcome.complaint
    assert list(tmp_path.iterdir()) == []
