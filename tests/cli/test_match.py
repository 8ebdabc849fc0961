"""What ``bispectral-ot match`` writes and prints."""

import csv
import json
import os
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from bispectral_ot.cli.match_commands import extrapolated
from report_runs import read_csv

NAMES = ("zéro", "eins, zwei", '"deux"')
# What labels.csv says for and against the label of a source.
DETAILS = ["runner_up", "runner_up_probability", "nearest_label", "nearest_distance", "outlier_score"]


@pytest.fixture(scope="module")
def run(program, sets, tmp_path_factory):
    """A finished run of two labelled sets."""
    out = tmp_path_factory.mktemp("runs") / "first"
    words = ("match", sets / "a.npz", sets / "b.npz", "--rotate-source", "--n-matches", "3", "--out", out)
    outcome = program(*words, figures=True)
    assert (outcome.code, outcome.stderr) == (0, "")
    return out, outcome


def read_results(folder):
    return json.loads((folder / "results.json").read_text("utf-8"))


def test_a_run_has_all_its_files_and_prints_a_short_table(run):
    out, outcome = run
    assert sorted(path.name for path in out.iterdir()) == [
        *("confusion.csv", "figures", "labels.csv", "matches.csv", "model.npz", "outliers.csv", "page-data.json"),
        *("results.json", "run.json"),
    ]
    pictures = sorted(path.name for path in (out / "figures").iterdir())
    assert pictures == ["confusion.png", "matches.png"]
    for name in pictures:
        with Image.open(out / "figures" / name) as picture:
            assert np.asarray(picture.convert("L")).std() > 5
    assert [path.name for path in out.parent.iterdir()] == ["first"]
    results = read_results(out)
    assert results["marginal_error"] <= results["tol"] == 1e-4
    assert (results["n"], results["m"], results["converged"]) == (12, 12, True)
    assert {"load", "features", "cost", "transport", "tables", "figures", "page"} <= set(results["seconds"])
    record = json.loads((out / "run.json").read_text("utf-8"))
    assert record["config"]["n_matches"] == 3
    assert {"wall_seconds", "peak_memory_bytes", "libraries", "machine", "date"} <= set(record)
    text = "".join(line.strip() for line in outcome.stdout.splitlines())
    assert all(word in text for word in ("distance", "marginal error", "label of their class", out.name))
    assert len(outcome.stdout.splitlines()) <= 16


def test_the_tables_agree_with_each_other(run, halves):
    out, _ = run
    matches, labels = read_csv(out / "matches.csv"), read_csv(out / "labels.csv")
    assert list(matches[0]) == ["source", "rank", "target", "weight", "distance"]
    ranks = [(str(i), str(rank)) for i in range(12) for rank in (1, 2, 3)]
    assert [(row["source"], row["rank"]) for row in matches] == ranks
    weights = np.array([float(row["weight"]) for row in matches]).reshape(12, 3)
    assert (np.diff(weights, axis=1) <= 0).all()
    assert (weights.sum(axis=1) <= 1 + 1e-4).all()
    assert list(labels[0]) == ["source", "label", "probability", *DETAILS, "true_label"]
    assert [row["true_label"] for row in labels] == [NAMES[label] for label in halves[0].labels]
    hits = [row["label"] == row["true_label"] for row in labels]
    assert read_results(out)["accuracy"] == pytest.approx(np.mean(hits))
    with open(out / "confusion.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["source class", *NAMES]
    counts = np.array([[int(cell) for cell in row[1:]] for row in rows])
    assert (counts.sum(), np.trace(counts)) == (12, sum(hits))


def test_the_same_words_give_the_same_files_on_any_number_of_cores(program, sets, tmp_path, monkeypatch):
    words = ("match", sets / "a.npz", sets / "b.npz", "--rotate-source", "--limit", "9", "--seed", "4", "-q")
    for threads in ("1", "3"):
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", threads)
        assert program(*words, "--out", tmp_path / threads, figures=True).code == 0
    for name in ("matches.csv", "labels.csv", "confusion.csv", "figures/matches.png", "figures/confusion.png"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes(), name
    results = [read_results(tmp_path / threads) for threads in ("1", "3")]
    for entry in ("distance", "marginal_error", "iterations", "accuracy", "confusion", "settings"):
        assert results[0][entry] == results[1][entry], entry


@pytest.mark.parametrize("options", [("--split-halves", "--limit", "4"), ("--limit", "5")])
def test_tables_keep_the_numbers_of_the_whole_set(program, sets, halves, tmp_path, options):
    """Positions are those of the set as it was loaded, not of the images drawn from it; halves are disjoint."""
    words = ("match", sets / "a.npz", sets / "a.npz", "--rotate-source", "--n-matches", "9", "--seed", "3", "--json")
    outcome = program(*words, *options, "--marginals", "balanced", "--out", tmp_path / "run")
    assert outcome.code == 0
    rows = read_csv(tmp_path / "run" / "matches.csv")
    sources, targets = ({int(row[side]) for row in rows} for side in ("source", "target"))
    assert len(sources) == outcome.json["n"] == outcome.json["m"] == int(options[-1])
    assert max(sources | targets) > 4
    assert not sources & targets if "--split-halves" in options else sources != targets
    labels = {int(row["source"]): row["true_label"] for row in read_csv(tmp_path / "run" / "labels.csv")}
    assert labels == {i: NAMES[halves[0].labels[i]] for i in sources}


def test_images_on_both_sides_are_reported(program, sets, tmp_path, monkeypatch):
    """They match themselves, also where the source is turned afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ("match", sets / "a.npz", sets / "a.npz", "--rotate-source", "--limit", "8", "--json")
    outcome = program(*words, "--marginals", "relaxed", "--out=~/run")
    assert (tmp_path / "run" / "run.json").is_file()  # in the home folder, not in one called ~
    assert "source images are also on the target side" in outcome.complaint
    assert "--split-halves" in outcome.complaint
    assert outcome.json["warnings"] == [outcome.complaint.removeprefix("warning: ")]


def test_not_converged_is_told_written_and_exit_code_one(program, sets, tmp_path):
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--max-iter", "2", "--out", tmp_path / "run")
    assert outcome.code == 1
    assert outcome.complaint.startswith("warning: not converged: marginal error")
    assert "NO" in outcome.stdout
    results = read_results(tmp_path / "run")
    assert results["converged"] is False
    assert results["marginal_error"] > results["tol"]
    assert results["warnings"] == [outcome.complaint.removeprefix("warning: ")]


def test_classes_that_one_side_lacks_are_named(program, sets, halves, tmp_path):
    np.savez(tmp_path / "other.npz", images=halves[1].images, labels=halves[1].labels + 10)
    kept = halves[1].select(np.asarray(halves[1].labels) < 2)
    np.savez(tmp_path / "two.npz", images=kept.images, labels=kept.labels, classes=np.array(NAMES[:2]))
    swapped = program("match", sets / "a.npz", sets / "plain.npz", "--out", tmp_path / "swapped")
    assert "only SOURCE has labels" in swapped.complaint
    outcome = program("match", sets / "a.npz", tmp_path / "other.npz", "--json", "--out", tmp_path / "run")
    assert f"no class in common (source: {', '.join(NAMES)}; target: 10, 11, 12)" in outcome.complaint
    assert (outcome.json["accuracy"], set(outcome.json["confusion"])) == (None, set(NAMES))
    outcome = program("match", sets / "a.npz", tmp_path / "two.npz", "--json", "--out", tmp_path / "lacks")
    assert '4 source images are of classes that the target does not have ("deux")' in outcome.complaint
    assert outcome.json["accuracy"] <= 8 / 12
    assert outcome.json["majority"] == pytest.approx(1 / 3)


def save_folder(folder, half, classes, name):
    for i, image in enumerate(half.images):
        place = folder / classes[half.labels[i]]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image * 15).save(place / name.format(i))


def test_names_cannot_steer_the_terminal(program, halves, tmp_path):
    """File and class names may hold escape sequences: they are printed escaped."""
    paths = tmp_path / "a\x1b[2J", tmp_path / "b\x1b[2J"
    for path, half in zip(paths, halves, strict=True):
        save_folder(path, half, [f"class\x1b[31m{label}" for label in range(3)], "{}\x1b[2J.png")
    outcome = program("match", *paths, "--out", tmp_path / "run\x1b[2J")
    assert outcome.code == 0, outcome.stderr
    assert r"a\x1b[2J: 12 images" in outcome.stdout
    others = [
        program("match", *paths, "--out", tmp_path / "run\x1b[2J"),  # refused
        program("datasets", "show", paths[0]),
        program("match", "no\x1b[2J", paths[0], "--json", "--out", tmp_path / "n"),
    ]
    assert [each.code for each in others] == [2, 0, 2]
    for each in (outcome, *others):
        assert "\x1b" not in each.stdout + each.stderr + "".join(each.stages)


def test_names_that_are_no_utf_8_do_not_lose_the_run(halves, tmp_path):
    """The bytes of a file name need not be text; under an ASCII locale hardly any are."""
    names = [os.fsdecode(name) for name in (b"caf\xe9", "größe".encode(), b"=2+3")]
    for side, half in zip(("left", "right"), halves, strict=True):
        save_folder(tmp_path / side, half, names, "{}" + os.fsdecode(b"\xff.png"))
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ["match", tmp_path / "left", tmp_path / "right", "--features", "pixels", "--symmetry", "none", "--report"]
    program = "from bispectral_ot.cli import run; run()"
    command = [sys.executable, "-c", program, *words, "-q", "--out", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert ((done.returncode, done.stderr), set(read_results(tmp_path / "run")["recall"])) == ((0, b""), set(names))
    labels = {row["true_label"] for row in read_csv(tmp_path / "run" / "labels.csv")}
    assert labels == {"caf\\udce9", "größe", "'=2+3"}
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_run_is_repeated_from_its_run_json(program, sets, run, tmp_path):
    out, _ = run
    outcome = program("match", "--config", out / "run.json", "--out", tmp_path / "again", "-q")
    assert (outcome.code, outcome.stderr, outcome.stages) == (0, "", [])
    for name in ("matches.csv", "labels.csv", "confusion.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
    configs = [json.loads((folder / "run.json").read_text())["config"] for folder in (out, tmp_path / "again")]
    assert {name for name, value in configs[0].items() if configs[1][name] != value} <= {"out", "figures"}
    # options on the command line take precedence; the folder of a run does as well as its file
    outcome = program("match", "--config", out, "--limit", "7", "--out", tmp_path / "few", "--json")
    assert outcome.json["source"]["images"] == 7
    assert outcome.json["settings"]["rotate_source"] is True
    assert "figures" not in outcome.json["seconds"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[" * 100_000, "run.json is damaged"),
        ("{}", "run.json has no 'config'; give the run.json of an earlier run"),
        ('{"config": {"verb": "compare"}}', "is a run of 'compare', not of 'match'"),
        ('{"config": {"verb": "match", "sourc": "a"}}', "unknown option 'sourc'; did you mean 'source'"),
        ('{"config": {"verb": "match", "seed": {}}}', "seed must be an integer of at least 0, got {}"),
        ('{"config": {"verb": "match", "source": 3}}', "source must be text, got 3"),
    ],
)
def test_files_that_are_no_configuration(program, tmp_path, content, words):
    (tmp_path / "run.json").write_text(content)
    outcome = program("match", "--config", tmp_path / "run.json", "--out", tmp_path / "run")
    assert (outcome.code, words in outcome.stderr) == (2, True)


def test_a_dry_run_plans_and_writes_nothing(program, sets, tmp_path, monkeypatch):
    assert "--out" in program("match", sets / "a.npz", sets / "b.npz").stderr  # which only a dry run does not need
    words = ("match", sets / "a.npz", sets / "b.npz", "--pca", "5", "--dry-run")
    monkeypatch.chdir(tmp_path)
    outcome = program(*words)
    assert outcome.code == 0, outcome.stderr
    for word in ("5 columns", "stored as float32", "memory", "time", "nothing was written"):
        assert word in outcome.stdout
    assert not [*tmp_path.iterdir()]
    plan = program(*words, "--json").json
    assert (plan["source"], plan["columns"]) == (12, 5)
    assert min(plan["seconds"], plan["memory_bytes"]) > 0
    monkeypatch.setattr("bispectral_ot.cli.match_commands._LONG_TRIAL", 0.0)  # a slow machine
    assert program(*words).code == 0
    assert program(*words, "--working-memory", "1kB").code == 2


def test_time_is_extrapolated_stage_by_stage():
    """Fixed costs stay, the rest grows with images or with pairs; trials may be the whole job."""
    trials = [((500, 500), {"features": 3, "cost": 1}), ((1500, 1500), {"features": 4, "cost": 9, "figures": 2})]
    assert extrapolated(trials, (1500, 1500)) == 15
    assert extrapolated(trials, (10_000, 10_000)) == 4 + 17_000 / 2000 + 9 + 8 / 2e6 * (1e8 - 2.25e6) + 2
    trials = [((500, 500), {"outliers": 1, "fit": 1}), ((1500, 1500), {"outliers": 2, "fit": 3})]
    assert extrapolated(trials, (30_000, 30_000)) == pytest.approx(2 + 6.692 + 3)  # at most 8,192 and 1,024


DECORATIONS = {
    "bispectral_ot.drawing.save": ("figures/matches.png", "figures/confusion.png"),
    "bispectral_ot.report.run_folder.match_page": ("page-data.json", "report.html"),
    "bispectral_ot.matching.Predictor.save": ("model.npz",),
    "bispectral_ot.report.page.write_report": ("report.html",),
    "bispectral_ot.matching.Match.poses": (),
}


@pytest.mark.parametrize("victim", DECORATIONS)
def test_decorations_that_fail_are_warnings(program, sets, tmp_path, monkeypatch, victim):
    """Results and tables are written first: neither figures nor model nor page can cost the run."""
    monkeypatch.setattr(victim, Mock(side_effect=MemoryError("no room")))
    words = ("match", sets / "a.npz", sets / "b.npz", "--report", "--poses", "--json", "--out", tmp_path / "run")
    outcome = program(*words, figures=True)
    assert outcome.code == 0, outcome.stderr
    told = " ".join(outcome.json["warnings"])
    assert ("poses were not estimated" in told) == victim.endswith("poses")
    for name in DECORATIONS[victim]:
        assert f"{name} was not written" in told
        assert not (tmp_path / "run" / name).exists()
    tables = {"matches.csv", "labels.csv", "confusion.csv", "outliers.csv", "results.json", "run.json"}
    assert tables <= {path.name for path in (tmp_path / "run").iterdir()}
