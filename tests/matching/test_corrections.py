"""Corrections of labels: read, refused with reasons, and used as labelled targets."""

import numpy as np
import pytest
from typer.testing import CliRunner

import bispectral_ot as bot
from bispectral_ot.cli.main import app
from bispectral_ot.errors import InputError
from bispectral_ot.matching.corrections import read_corrections, with_corrections
from report_runs import blobs

THREE = ("a", "b", "c")


@pytest.fixture
def source():
    whole = blobs(20, (), seed=0)
    return bot.Dataset(whole.images, files=tuple(f"x/{i},.png" for i in range(20))).select(np.arange(10, 20))


def test_rows_are_found_by_file_or_by_position(source, tmp_path):
    path = tmp_path / "corrections.csv"
    path.write_text('\ufeffsource,file,label,previous_label\n12,"x/12,.png",b,a\n13,,c,a\n14,"x/14,.png",,a\n13,,a,a\n')
    assert read_corrections(path, source) == {2: "b", 3: "a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read the corrections"),
        ("", "has the columns none; it needs label"),
        ("source,label\n3,a\n", "line 2: the source 'images' has no image '3'"),
        ("file,label\nx/\x1b1.png,a\n", r"has no image 'x/\\\\x1b1.png'"),
        ("source,label\n12,\n", "has no labels"),
    ],
)
def test_what_is_wrong_is_said(source, tmp_path, text, message):
    path = tmp_path / "corrections.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_corrections(path, source)


def test_corrected_sources_are_labelled_targets(source, tmp_path):
    path = tmp_path / "corrections.csv"
    path.write_text("source,label\n12,b\n17,new\n")
    whole = blobs(30, THREE, seed=1)
    target = bot.Dataset((200 * whole.images).astype(np.uint8), whole.labels, classes=THREE)  # the source has floats
    rest, more = with_corrections(source, target, path)
    assert (rest.positions.tolist(), len(more)) == ([10, 11, 13, 14, 15, 16, 18, 19], 32)
    assert more.classes == (*THREE, "new")
    assert [more.classes[code] for code in more.labels[30:]] == ["b", "new"]
    assert (more.files[29:], more.positions.tolist()) == (("", "x/12,.png", "x/17,.png"), list(range(32)))
    np.testing.assert_array_equal(more.images[30], source.images[2])
    copies = bot.Dataset(np.repeat(source.images[7:8], 4, axis=0))  # like the one that is of a new class
    assert set(bot.match(copies, more, symmetry="none", marginals="relaxed").labels().nearest_label) == {"new"}
    path.write_text("source,label\n" + "".join(f"{i},a\n" for i in range(10, 20)))
    with pytest.raises(InputError, match="there is nothing to match"):
        with_corrections(source, target, path)
    with pytest.raises(InputError, match="has no labels, so corrections have no use"):
        with_corrections(source, blobs(30, (), seed=1), path)


def test_proportions_are_those_of_the_remaining_sources(tmp_path):
    source, target = bot.split_halves(bot.load("digits"), per_class=20, seed=0)
    path, zeros = tmp_path / "corrections.csv", source.positions[source.labels == 0][:8]
    path.write_text("source,label\n" + "".join(f"{zero},0\n" for zero in zeros))
    match = bot.match(source, target, corrections=path)
    proportions = match.class_proportions()
    assert match.classes.model.left_out.max() < len(target)  # the corrected ones are no random sample
    assert proportions.source[0] == pytest.approx(12 / 192, abs=0.01)  # of the targets, 28 / 208 are zeros


def test_the_program_uses_them(tmp_path):
    for name, side in (("source", blobs(20, (), seed=0)), ("target", blobs(30, THREE, seed=1))):
        labels = {} if side.labels is None else {"labels": side.labels}
        np.savez(tmp_path / f"{name}.npz", images=side.images, **labels)  # type: ignore[arg-type]
    missing = CliRunner().invoke(app, ["match", *[str(tmp_path)] * 2, "--corrections", "none.csv", "--out", "x"])
    assert "cannot read the corrections none.csv: No such file" in missing.stderr  # not that the folder has no images
    (tmp_path / "corrections.csv").write_text("source,label\n3,1\n")
    words = ["match", *(str(tmp_path / f"{name}.npz") for name in ("source", "target")), "--symmetry", "none", "-q"]
    words += ["--corrections", str(tmp_path / "corrections.csv"), "--no-figures", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    run = bot.open_run(tmp_path / "run")
    assert (run.results["n"], run.results["m"]) == (19, 31)
    assert run.labels().source.tolist() == [i for i in range(20) if i != 3]
    # the next round: the run is repeated with the corrections of its own page
    doubtful = run.labels().sort_values("probability").source.tolist()[:2]
    (tmp_path / "more.csv").write_text("source,label\n3,1\n" + "".join(f"{i},0\n" for i in doubtful))
    words = ["match", "--config", str(tmp_path / "run"), "--corrections", str(tmp_path / "more.csv"), "--report", "-q"]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "again")]).exit_code == 0
    again = bot.open_run(tmp_path / "again")
    assert (again.results["n"], again.results["m"]) == (17, 33)
    assert not {3, *doubtful} & set(again.labels().source)
    assert bot.open_run(tmp_path / "again").predict(blobs(20, (), seed=0).images).labels.shape == (20,)
