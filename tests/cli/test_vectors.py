"""Embeddings in files: matched, compared and predicted in place of images."""

import numpy as np
import pandas as pd
import pytest

from bispectral_ot.report.page_data import load_page_data

N, COLUMNS = 12, 5


@pytest.fixture(scope="module")
def rows():
    """Vectors of three classes far from each other, in the order of the labels of ``sets``."""
    random = np.random.default_rng(0)
    return {name: random.normal(size=(N, COLUMNS)).astype(np.float32) for name in "ab"}


@pytest.fixture(scope="module")
def files(rows, sets, tmp_path_factory):
    """a.npy, b.npy: their first column is the label of the image in a.npz, b.npz."""
    folder = tmp_path_factory.mktemp("vectors")
    for name, values in rows.items():
        values[:, 0] += 50 * np.load(sets / f"{name}.npz")["labels"]
        np.save(folder / f"{name}.npy", values)
    return folder


def test_vectors_replace_images_which_stay_for_the_page(program, sets, files, tmp_path):
    features = f"{files / 'a.npy'},{files / 'b.npy'}"
    words = ("match", sets / "a.npz", sets / "b.npz", "--features", features, "--report", "--json")
    outcome = program(*words, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.stderr
    assert outcome.json["accuracy"] == 1.0
    assert (outcome.json["settings"]["features"], outcome.json["settings"]["columns"]) == ("vectors", COLUMNS)
    page = load_page_data(tmp_path / "run" / "page-data.json")
    assert (page["sheet"]["width"], page["sheet"]["height"]) == (12, 12)
    assert len(pd.read_csv(tmp_path / "run" / "labels.csv")) == N
    # the rows of the images that are drawn are those of the file
    outcome = program(*words, "--limit", "7", "--out", tmp_path / "few")
    assert (outcome.json["n"], outcome.json["accuracy"]) == (7, 1.0)
    outcome = program("predict", tmp_path / "run", files / "a.npy", "--json", "--out", tmp_path / "new")
    assert outcome.code == 0, outcome.stderr
    both = [pd.read_csv(tmp_path / name / "labels.csv") for name in ("run", "new")]
    assert both[0].label.tolist() == both[1].label.tolist()
    np.testing.assert_allclose(both[0].probability, both[1].probability, atol=1e-4)
    outcome = program("match", "--config", tmp_path / "run", "--out", tmp_path / "again", "--json")
    assert outcome.json["accuracy"] == 1.0
    words = ("compare", sets / "a.npz", sets / "b.npz", "--features", features, "--json", "--out", tmp_path / "both")
    assert program(*words).json["settings"]["features"] == "vectors"


def test_files_of_vectors_without_images(program, files, rows, sets, tmp_path):
    """.npz, Parquet, HDF5 and AnnData give the same match; labels come from the file."""
    h5py, labels, names = pytest.importorskip("h5py"), np.load(sets / "b.npz")["labels"], np.array(["x", "y", "z"])
    np.savez(tmp_path / "b.npz", embeddings=rows["b"], labels=names[labels])
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(rows["b"], columns=[f"c{i}" for i in range(COLUMNS)]).assign(label=names[labels])
    table.to_parquet(tmp_path / "b.parquet")
    lists = pd.DataFrame({"embedding": list(rows["b"]), "label": names[labels]})
    lists.to_parquet(tmp_path / "lists.parquet")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["deep/layer"] = rows["b"]
        file["deep/kind"] = names[labels].astype("S")
    with h5py.File(tmp_path / "b.h5ad", "w") as file:
        file["X"] = np.zeros((N, 40))
        file["obsm/X_pca"], file["obsm/X_umap"] = rows["b"], rows["b"][:, :2]
        file["obs/cell/codes"], file["obs/cell/categories"] = labels.astype(np.int8), names.astype("S")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["X"], file["obs/label"] = rows["b"], names[labels].astype("S")
    sources = ("b.npz", "b.parquet", "lists.parquet", "b.h5:deep/layer:deep/kind", "b.h5ad:X_pca:cell", "x.h5ad")
    found = []
    for number, name in enumerate(sources):
        words = ("match", files / "a.npy", f"{tmp_path}/{name}", "--features", "vectors", "--json")
        outcome = program(*words, "--out", tmp_path / str(number))
        assert outcome.code == 0, outcome.stderr
        found.append(pd.read_csv(tmp_path / str(number) / "labels.csv").label.tolist())
    assert found == [names[np.load(sets / "a.npz")["labels"]].tolist()] * len(sources)
    assert "one of X, X_pca" in program(*words[:2], tmp_path / "b.h5ad", *words[3:], "--out", tmp_path / "new").stderr


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ("{a},{short}", (), "short.npy has 11 rows for the 12 images of 'b'"),
        ("{a},{nan}", (), "have NaN or infinity"),
        ("{a}", (), "needs 2 files, one for each set"),
        ("{a},{none}", (), "there is no file"),
        ("{a},{b}", ("--rotate-source",), "--rotate-source is for flat images"),
        ("{a},{b}", ("--encoder", "m:f"), "--encoder reads images"),
        ("{a},{b}", ("--symmetry", "rotation"), "vectors have no pixels"),
    ],
)
def test_vectors_that_do_not_fit(program, sets, files, rows, tmp_path, features, options, message):
    odd = {"short": rows["b"][:11], "nan": np.where(rows["b"] > 60, np.nan, rows["b"])}
    for name, values in odd.items():
        np.save(tmp_path / f"{name}.npy", values)
    places = {name: tmp_path / f"{name}.npy" for name in (*odd, "none")} | {x: files / f"{x}.npy" for x in "ab"}
    words = ("match", sets / "a.npz", sets / "b.npz", "--features", features.format(**places), *options)
    outcome = program(*words, "--out", tmp_path / "run")
    assert (outcome.code, message in outcome.complaint) == (2, True), outcome.stderr
    assert not (tmp_path / "run").exists()
