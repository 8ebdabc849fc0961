"""What ``bispectral-ot match`` writes and prints."""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from studies.synthetic_shapes import synthetic_shapes

# What labels.csv says for and against the label of a source.
DETAILS = ["runner_up", "runner_up_probability", "nearest_label", "nearest_distance", "outlier_score"]


@pytest.fixture(scope="module")
def run(program, sets, tmp_path_factory):
    """A finished run of two labelled sets."""
    out = tmp_path_factory.mktemp("runs") / "first"
    outcome = program(
        "match", sets / "a.npz", sets / "b.npz", "--rotate-source", "--n-matches", "3", "--out", out, figures=True
    )
    assert outcome.code == 0, outcome.stderr
    return out, outcome


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_has_all_its_files_and_nothing_else(run):
    out, _ = run
    assert sorted(path.name for path in out.iterdir()) == [
        "confusion.csv",
        "figures",
        "labels.csv",
        "matches.csv",
        "model.npz",
        "outliers.csv",
        "page-data.json",
        "results.json",
        "run.json",
    ]
    pictures = sorted(path.name for path in (out / "figures").iterdir())
    assert pictures == ["confusion.png", "matches.png"]
    for name in pictures:
        with Image.open(out / "figures" / name) as picture:
            assert np.asarray(picture.convert("L")).std() > 5
    assert [path.name for path in out.parent.iterdir()] == ["first"]


def test_results_say_what_was_measured_and_how(run):
    out, _ = run
    results = json.loads((out / "results.json").read_text("utf-8"))
    assert results["converged"] is True
    assert results["marginal_error"] <= results["tol"] == 1e-4
    assert (results["n"], results["m"]) == (12, 12)
    assert results["settings"]["features"] == "bispectrum"
    assert results["settings"]["metric"] == "sqeuclidean"
    assert results["settings"]["rotate_source"] is True
    assert {"load", "features", "cost", "transport", "tables", "figures", "page"} <= set(results["seconds"])
    assert 0 <= results["accuracy"] <= 1
    assert set(results["recall"]) == {"zéro", "eins, zwei", '"deux"'}
    record = json.loads((out / "run.json").read_text("utf-8"))
    assert record["config"]["n_matches"] == 3
    assert {"wall_seconds", "peak_memory_bytes", "libraries", "machine", "date"} <= set(record)


def test_the_tables_agree_with_each_other(run, halves):
    out, _ = run
    matches, labels = read_csv(out / "matches.csv"), read_csv(out / "labels.csv")
    assert list(matches[0]) == ["source", "rank", "target", "weight", "distance"]
    assert [(row["source"], row["rank"]) for row in matches] == [
        (str(i), str(rank)) for i in range(12) for rank in (1, 2, 3)
    ]
    shares = np.array([float(row["weight"]) for row in matches]).reshape(12, 3)
    assert (np.diff(shares, axis=1) <= 0).all()
    assert (shares.sum(axis=1) <= 1 + 1e-4).all()
    assert list(labels[0]) == ["source", "label", "probability", *DETAILS, "true_label"]
    for i, row in enumerate(labels):
        best = [each for each in matches if each["source"] == str(i)]
        assert float(row["nearest_distance"]) <= min(float(each["distance"]) for each in best) * 1.00001
        assert float(row["runner_up_probability"]) <= float(row["probability"])
    truth = [("zéro", "eins, zwei", '"deux"')[label] for label in halves[0].labels]
    assert [row["true_label"] for row in labels] == truth
    results = json.loads((out / "results.json").read_text("utf-8"))
    hits = [row["label"] == row["true_label"] for row in labels]
    assert results["accuracy"] == pytest.approx(np.mean(hits))
    with open(out / "confusion.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["source class", "zéro", "eins, zwei", '"deux"']
    counts = np.array([[int(cell) for cell in row[1:]] for row in rows])
    assert counts.sum() == 12
    assert np.trace(counts) == sum(hits)


def test_the_printed_table_is_short_and_names_the_folder(run):
    out, outcome = run
    assert outcome.stderr == ""
    text = "".join(line.strip() for line in outcome.stdout.splitlines())
    for word in ("distance", "marginal error", "mapped to their class", "bispectrum"):
        assert word in text
    assert out.name in text
    assert len(outcome.stdout.splitlines()) <= 16


def test_the_same_words_give_the_same_files_on_any_number_of_cores(program, sets, tmp_path, monkeypatch):
    words = ("match", sets / "a.npz", sets / "b.npz", "--rotate-source", "--limit", "9", "--seed", "4", "-q")
    for threads in ("1", "3"):
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", threads)
        assert program(*words, "--out", tmp_path / threads, figures=True).code == 0
    names = [f"{name}.csv" for name in ("matches", "labels", "confusion")]
    names += ["figures/matches.png", "figures/confusion.png"]
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes(), name
    results = [json.loads((tmp_path / threads / "results.json").read_text("utf-8")) for threads in ("1", "3")]
    for entry in ("distance", "marginal_error", "iterations", "accuracy", "confusion", "settings"):
        assert results[0][entry] == results[1][entry], entry


def test_json_is_alone_on_standard_output(program, sets, tmp_path):
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--json", "--out", tmp_path / "run")
    assert outcome.code == 0
    written = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert outcome.json == {"run": str(tmp_path / "run"), **written}


def test_quiet_says_nothing(program, sets, tmp_path):
    outcome = program("match", sets / "a.npz", sets / "plain.npz", "--quiet", "--out", tmp_path / "run")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "", "")


def test_without_labels_on_one_side_the_other_side_gives_them(program, sets, tmp_path):
    """labels.csv names the side that gets labels in its first column."""
    assert program("match", sets / "plain.npz", sets / "a.npz", "-q", "--out", tmp_path / "source").code == 0
    assert program("match", sets / "a.npz", sets / "plain.npz", "-q", "--out", tmp_path / "target").code == 0
    for side in ("source", "target"):
        rows = read_csv(tmp_path / side / "labels.csv")
        assert list(rows[0]) == [side, "label", "probability", *(DETAILS if side == "source" else [])]
        assert len(rows) == 12
        assert not (tmp_path / side / "confusion.csv").exists()


def test_without_any_labels_there_are_matches_and_a_distance(program, sets, tmp_path):
    outcome = program("match", sets / "plain.npz", sets / "plain.npz", "--out", tmp_path / "run")
    assert outcome.code == 0
    assert not (tmp_path / "run" / "labels.csv").exists()
    best = [row["target"] for row in read_csv(tmp_path / "run" / "matches.csv") if row["rank"] == "1"]
    assert best == [str(i) for i in range(12)]


def test_a_limit_keeps_the_numbers_of_the_whole_set(program, sets, halves, tmp_path):
    """Positions in the tables are those of the set as it was loaded, not of the images drawn from it."""
    words = ("match", sets / "a.npz", sets / "a.npz", "--limit", "5", "--seed", "3", "--n-matches", "1", "-q")
    assert program(*words, "--solver", "exact", "--out", tmp_path / "run").code == 0
    rows = read_csv(tmp_path / "run" / "matches.csv")
    sources, targets = ([int(row[side]) for row in rows] for side in ("source", "target"))
    assert sources == sorted(set(sources))
    assert len(sources) == 5
    assert max(sources + targets) > 4
    assert set(sources) != set(targets)
    labels = {int(row["source"]): row["true_label"] for row in read_csv(tmp_path / "run" / "labels.csv")}
    names = ("zéro", "eins, zwei", '"deux"')
    assert labels == {i: names[halves[0].labels[i]] for i in sources}


@pytest.mark.parametrize("options", [(), ("--limit", "4")])
def test_one_set_is_compared_with_itself_in_disjoint_halves(program, sets, halves, tmp_path, options):
    words = ("match", sets / "a.npz", sets / "a.npz", "--split-halves", "--rotate-source", "--n-matches", "9", "--json")
    outcome = program(*words, *options, "--marginals", "balanced", "--out", tmp_path / "run")
    assert (outcome.code, outcome.stderr) == (0, "")
    rows = read_csv(tmp_path / "run" / "matches.csv")
    sources, targets = ({int(row[side]) for row in rows} for side in ("source", "target"))
    assert not sources & targets
    assert len(sources) == outcome.json["n"] == outcome.json["m"] == (4 if options else 6)
    names = ("zéro", "eins, zwei", '"deux"')
    labels = {int(row["source"]): row["true_label"] for row in read_csv(tmp_path / "run" / "labels.csv")}
    assert labels == {i: names[halves[0].labels[i]] for i in sources}
    assert outcome.json["settings"]["split_halves"] is True


def test_halves_are_of_one_set(program, sets, tmp_path):
    outcome = program("match", sets / "a.npz", sets / "b.npz", "--split-halves", "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "--split-halves is for one set on both sides" in outcome.complaint


def test_images_on_both_sides_are_reported(program, sets, halves, tmp_path):
    """They match themselves, also where the source is turned afterwards."""
    words = ("match", sets / "a.npz", sets / "a.npz", "--rotate-source", "--limit", "8", "--json")
    outcome = program(*words, "--marginals", "relaxed", "--out", tmp_path / "run")
    assert "source images are also on the target side" in outcome.complaint
    assert "--split-halves" in outcome.complaint
    assert outcome.json["warnings"] == [outcome.complaint.removeprefix("warning: ")]
    np.savez(tmp_path / "some.npz", images=np.concatenate([halves[0].images[:2], halves[1].images]))
    outcome = program("match", tmp_path / "some.npz", sets / "a.npz", "-q", "--out", tmp_path / "some")
    assert "2 of the 14 source images are also on the target side" in outcome.complaint
    assert "leave them out" in outcome.complaint


def test_other_solvers_and_settings(program, sets, tmp_path):
    base = ("match", sets / "a.npz", sets / "b.npz", "--json")
    exact = program(*base, "--solver", "exact", "--features", "pixels", "--symmetry", "none", "--out", tmp_path / "x")
    green = program(*base, "--solver", "sinkhorn", "--reg", "0.1", "--tol", "1e-3", "--out", tmp_path / "g")
    small = program(*base, "--features", "pixels", "--pca", "4", "--center", "--out", tmp_path / "p")
    assert [exact.code, green.code, small.code] == [0, 0, 0]
    assert exact.json["settings"]["features"] == "pixels"
    assert green.json["tol"] == 1e-3
    assert 0 < small.json["settings"]["kept_variance"] <= 1
    assert [run.json["settings"]["symmetry"] for run in (exact, green, small)] == ["none", "rotation", "none"]


def test_components_that_were_used_are_told(program, sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "--features", "pixels", "--pca", "40")
    assert "24 components keep 100.0% of the variance" in program(*words, "--out", tmp_path / "run").stdout


def test_mirrors_and_best_turns(program, sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "--json", "--symmetry", "rotation-reflection", "--center")
    for name, columns in (("global-bispectrum", 8622), ("best-rotation", 1200)):
        settings = program(*words, "--features", name, "--out", tmp_path / name).json["settings"]
        assert (settings["metric"], settings["columns"], settings["center"]) == ("sqeuclidean", columns, True)
        assert "rotation-reflection" in settings["transformer"]
    refused = program(*words, "--features", "best-rotation", "--metric", "l1", "--out", tmp_path / "l1")
    assert refused.code == 2
    assert "no aligned form" in refused.complaint


def test_not_converged_is_told_written_and_exit_code_one(program, sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "--max-iter", "2", "--out", tmp_path / "run")
    outcome = program(*words)
    assert outcome.code == 1
    assert outcome.complaint.startswith("warning: not converged: marginal error")
    assert "NO" in outcome.stdout
    results = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert results["converged"] is False
    assert results["marginal_error"] > results["tol"]
    assert results["warnings"] == [outcome.complaint.removeprefix("warning: ")]


def test_no_class_in_common_gives_no_accuracy_and_says_so(program, sets, halves, tmp_path):
    np.savez(tmp_path / "c.npz", images=halves[1].images, labels=halves[1].labels + 10)
    words = ("match", sets / "a.npz", tmp_path / "c.npz", "--json", "--solver", "exact")
    outcome = program(*words, "--out", tmp_path / "run")
    assert outcome.code == 0
    assert "no class in common" in outcome.complaint
    assert outcome.json["accuracy"] is None
    assert set(outcome.json["confusion"]) == {"zéro", "eins, zwei", '"deux"'}


def test_classes_that_the_target_lacks_are_named(program, sets, halves, tmp_path):
    kept = halves[1].select(np.asarray(halves[1].labels) < 2)
    classes = np.array(["zéro", "eins, zwei"])
    np.savez(tmp_path / "c.npz", images=kept.images, labels=kept.labels, classes=classes)
    outcome = program("match", sets / "a.npz", tmp_path / "c.npz", "--json", "--out", tmp_path / "run")
    assert '4 source images are of classes that the target does not have ("deux")' in outcome.complaint
    assert outcome.json["accuracy"] <= 8 / 12


def test_folders_with_odd_names_go_through_csv_and_json(program, halves, tmp_path):
    for side, half in zip(("links", "rechts"), halves, strict=True):
        for i, image in enumerate(half.images):
            folder = tmp_path / "größe, [bold]" / side / ("ключ;", '"q", 漢', "$x$")[half.labels[i]]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image * 15).save(folder / f"bild, {i} é.png")
    base = tmp_path / "größe, [bold]"
    outcome = program("match", base / "links", base / "rechts", "--out", base / "lauf")
    assert outcome.code == 0, outcome.stderr
    rows = read_csv(base / "lauf" / "matches.csv")
    assert {Path(row["file"]).parent.name for row in rows} == {"ключ;", '"q", 漢', "$x$"}
    for row in rows:
        assert (base / "links" / row["file"]).is_file()
        assert (base / "rechts" / row["target_file"]).is_file()
    assert {row["label"] for row in read_csv(base / "lauf" / "labels.csv")} <= {"ключ;", '"q", 漢', "$x$"}
    assert "[bold]" in "".join(line.strip() for line in outcome.stdout.splitlines())


@pytest.mark.parametrize("locale", ["utf-8", "ascii"])
def test_names_that_are_no_utf_8_do_not_lose_the_run(halves, tmp_path, locale):
    """The bytes of a file name need not be text; under an ASCII locale hardly any are."""
    names = [os.fsdecode(name) for name in (b"caf\xe9", "größe".encode(), b"=2+3")]
    for side, half in zip(("left", "right"), halves, strict=True):
        for i, image in enumerate(half.images):
            folder = tmp_path / side / names[half.labels[i]]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image * 15).save(folder / os.fsdecode(b"%d\xff.png" % i))
    environment = dict(os.environ)
    if locale == "ascii":
        environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ["match", tmp_path / "left", tmp_path / "right", "--features", "pixels", "--symmetry", "none", "--report"]
    program = "from bispectral_ot.cli import run; run()"
    command = [sys.executable, "-c", program, *words, "-q", "--out", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    results = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert set(results["recall"]) == {os.fsdecode(b"caf\xe9"), "größe", "=2+3"}
    labels = {row["true_label"] for row in read_csv(tmp_path / "run" / "labels.csv")}
    assert labels == {"caf\\udce9", "größe", "'=2+3"}
    assert (tmp_path / "run" / "report.html").is_file()


def test_shapes_are_matched_up_to_rotation_in_space(program, tmp_path):
    for name, turned in (("a", True), ("b", False)):
        shapes = synthetic_shapes(2, n_points=100, turned=turned, seed=turned)
        np.savez(tmp_path / f"{name}.npz", images=shapes.images, labels=shapes.labels)
    words = ("match", tmp_path / "a.npz", tmp_path / "b.npz", "--symmetry", "so3-shapes", "--out", tmp_path / "run")
    outcome = program(*words, "--rotate-source")
    assert "flat images" in outcome.stderr
    assert program(*words).code == 0


def test_colours_become_grey(program, sets, halves, tmp_path):
    np.savez(tmp_path / "colours.npz", images=np.repeat(halves[0].images[..., None], 3, axis=3))
    grey = program("match", sets / "a.npz", sets / "b.npz", "--json", "--out", tmp_path / "grey").json
    same = program(
        "match", tmp_path / "colours.npz", sets / "b.npz", "--json", "--grey", "--out", tmp_path / "same"
    ).json
    assert same["distance"] == grey["distance"]
    assert (grey["settings"]["grey"], same["settings"]["grey"]) == (False, True)


def test_folders_of_mixed_sizes_and_of_splits(program, tmp_path):
    random = np.random.default_rng(0)
    for split, kind, number in itertools.product(("train", "val"), ("x", "y"), range(4)):
        place = tmp_path / "set" / split / kind
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, random.integers(20, 40, 2), dtype=np.uint8)).save(
            place / f"{number}.png"
        )
    words = ("match", tmp_path / "set", tmp_path / "set", "--source-split", "val", "--limit", "6", "--json")
    outcome = program(*words, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.stderr
    side = max(outcome.json["source"]["shape"])
    assert outcome.json["source"]["shape"] == outcome.json["target"]["shape"] == [side, side]
    assert [outcome.json[side]["images"] for side in ("source", "target")] == [6, 6]
    assert outcome.stderr.count("warning: images have different sizes") == 1
    assert f"are compared at {side} x {side}" in outcome.stderr


def test_a_run_is_repeated_from_its_run_json(program, sets, run, tmp_path):
    out, _ = run
    outcome = program("match", "--config", out / "run.json", "--out", tmp_path / "again", "-q")
    assert (outcome.code, outcome.stderr, outcome.stages) == (0, "", [])
    for name in ("matches.csv", "labels.csv", "confusion.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
    configs = [json.loads((folder / "run.json").read_text())["config"] for folder in (out, tmp_path / "again")]
    changed = {name for name, value in configs[0].items() if configs[1][name] != value}
    assert changed <= {"out", "figures"}
    # options that are given go before; the folder of a run does as well as its file
    outcome = program("match", "--config", out, "--limit", "7", "--out", tmp_path / "few", "--json")
    assert outcome.json["source"]["images"] == 7
    assert outcome.json["settings"]["rotate_source"] is True
    assert not (tmp_path / "few" / "figures").exists()
    assert "figures" not in outcome.json["seconds"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "is not a run.json of this program"),
        ("[" * 100_000, "is not a run.json of this program"),
        ('{"config": {"verb": "compare"}}', "is a run of 'compare', not of 'match'"),
        ('{"config": {"verb": "match", "sourc": "a"}}', "unknown option 'sourc'; did you mean 'source'"),
        ('{"config": {"verb": "match", "seed": {}}}', "seed must be an integer of at least 0, got {}"),
        ('{"config": {"verb": "match", "seed": "x"}}', "seed must be an integer of at least 0, got 'x'"),
        ('{"config": {"verb": "match", "source": 3}}', "source must be text, got 3"),
    ],
)
def test_files_that_are_no_configuration(program, tmp_path, content, words):
    (tmp_path / "run.json").write_text(content)
    outcome = program("match", "--config", tmp_path / "run.json", "--out", tmp_path / "run")
    assert outcome.code == 2
    assert words in outcome.stderr
    missing = program("match", "--config", tmp_path / "none.json", "--out", tmp_path / "run")
    assert "No such file" in missing.complaint


def test_a_dry_run_plans_and_writes_nothing(program, sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "--pca", "5", "--out", tmp_path / "run", "--dry-run")
    outcome = program(*words)
    assert outcome.code == 0, outcome.stderr
    for word in ("5 columns", "stored as float32", "memory", "time", "nothing was written"):
        assert word in outcome.stdout
    assert not (tmp_path / "run").exists()
    plan = program(*words, "--json").json
    assert plan["memory_bytes"] > 0
    assert (plan["source"], plan["columns"]) == (12, 5)
    assert plan["seconds"] > 0
    refused = program(*words, "--working-memory", "1kB")
    assert refused.code == 2


def test_a_line_for_each_stage_off_a_terminal(program, sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "--limit", "9", "--out", tmp_path / "run")
    stages = [stage.partition(" (")[0] for stage in program(*words).stages]
    assert {"prepare", "features", "cost", "transport", "summary"} <= set(stages)
    assert len(set(stages)) == len(stages)
    assert program(*words, "--overwrite", "-q").stages == []


def test_the_accuracy_stands_next_to_that_of_the_largest_class(program, tmp_path):
    images = np.random.default_rng(0).normal(size=(12, 8, 8))
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", images=images, labels=["x"] * 9 + ["y"] * 3)
    words = ("match", tmp_path / "a.npz", tmp_path / "b.npz", "--out", tmp_path / "run")
    outcome = program(*words)
    assert "(75.0% if all were given the largest class)" in " ".join(outcome.stdout.split())
    assert json.loads((tmp_path / "run" / "results.json").read_text())["majority"] == 0.75


def test_decorations_that_fail_are_warnings(program, sets, tmp_path, monkeypatch):
    """Results and tables are written first: neither figures nor model nor page can cost the run."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("bispectral_ot.drawing.save", fail)
    monkeypatch.setattr("bispectral_ot.report.run_folder.match_page", fail)
    monkeypatch.setattr("bispectral_ot.matching.Predictor.save", fail)
    words = ("match", sets / "a.npz", sets / "b.npz", "--report", "--json", "--out", tmp_path / "run")
    outcome = program(*words, figures=True)
    assert outcome.code == 0, outcome.stderr
    told = " ".join(outcome.json["warnings"])
    for name in ("figures/matches.png", "figures/confusion.png", "page-data.json", "model.npz", "report.html"):
        assert f"{name} was not written" in told
        assert not (tmp_path / "run" / name).exists()
    assert {"matches.csv", "labels.csv", "results.json", "run.json"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }


def test_names_cannot_steer_the_terminal(program, halves, tmp_path):
    """File and class names may hold escape sequences: they are printed escaped."""
    for side, half in zip(("a", "b"), halves, strict=True):
        for number, (image, label) in enumerate(zip(half.images, half.labels, strict=True)):
            folder = tmp_path / f"{side}\x1b[2J" / f"class\x1b[31m{label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image * 15).save(folder / f"{number}\x1b[2J.png")
    paths = tmp_path / "a\x1b[2J", tmp_path / "b\x1b[2J"
    outcome = program("match", *paths, "--out", tmp_path / "run\x1b[2J")
    assert outcome.code == 0, outcome.stderr
    assert r"a\x1b[2J: 12 images" in outcome.stdout
    refused = program("match", *paths, "--out", tmp_path / "run\x1b[2J")
    shown = program("datasets", "show", paths[0])
    printed = outcome.stdout + outcome.stderr + refused.stderr + shown.stdout + shown.stderr
    assert "\x1b" not in printed + "".join(outcome.stages)
    assert "\x1b" not in program("match", *paths, "--json", "--out", tmp_path / "j").stdout
