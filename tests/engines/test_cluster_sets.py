"""Images that are read by the workers: chunks of a Dask array, folders and Zarr stores."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import bispectral_ot as bot
from bispectral_ot.datasets.common_size import read_together
from bispectral_ot.datasets.dataset import is_chunked
from bispectral_ot.datasets.load import as_datasets, list_set
from bispectral_ot.transport import Sinkhorn

pytest.importorskip("distributed")
OPTIONS = {"solver": Sinkhorn(tol=1e-7), "features": "global-bispectrum"}


@pytest.fixture(scope="module")
def turned():
    source, target = bot.split_halves(bot.load("digits"), per_class=40)
    return bot.rotate_randomly(source), target


def test_chunks_of_a_dask_array_are_read_by_the_workers(client, turned, monkeypatch):
    import dask.array as da

    expected = bot.match(*turned, client=client, **OPTIONS)
    images = da.map_blocks(read, da.from_array(turned[0].images, chunks=(170, 4, 8)), dtype=np.float32)
    monkeypatch.setenv("NO_IMAGES_HERE", "1")  # the workers do not have it
    source = bot.Dataset(images, turned[0].labels, classes=turned[0].classes)
    found = bot.match(source, turned[1], client=client, **OPTIONS)
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)
    np.testing.assert_array_equal(found.top_matches(3).indices, expected.top_matches(3).indices)


def read(chunk):
    if "NO_IMAGES_HERE" in os.environ:
        raise AssertionError("read by the client")
    return chunk


def test_chunks_that_cannot_be_used():
    import dask.array as da

    images = da.zeros((10, 8, 8), chunks=5)
    with pytest.raises(bot.InputError, match="compute_chunk_sizes"):
        bot.Dataset(images[images[:, 0, 0] >= 0])
    with pytest.raises(bot.InputError, match="chunk 1 has no images"):
        bot.Dataset(
            da.concatenate([images, images[:0], images], axis=0, allow_unknown_chunksizes=True).rechunk(
                ((5, 0, 15), 8, 8)
            )
        )
    with pytest.raises(bot.InputError, match="expected images of shape"):
        bot.Dataset(images[0])
    with pytest.raises(bot.InputError, match="real numbers"):
        bot.Dataset(images.astype(complex))


# Paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits of two sizes as files, class by class."""
    place = tmp_path_factory.mktemp("sets") / "glyphs"
    digits = bot.load("digits", limit=60)
    for i, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        (place / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.pad(image, i % 2) * 15).save(place / str(label) / f"{i:02d}.png")
    return place


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    zarr = pytest.importorskip("zarr")
    place = tmp_path_factory.mktemp("sets") / "digits.zarr"
    digits = bot.load("digits", limit=50)
    group = zarr.open_group(str(place), mode="w")
    for name in ("images", "labels"):
        values = getattr(digits, name)
        group.create_array(name, shape=values.shape, chunks=(20, *values.shape[1:]), dtype=values.dtype)[:] = values
    return place


def test_paths_are_read_by_the_workers(client, folder, store, monkeypatch):
    monkeypatch.setattr("bispectral_ot.datasets.common_size._CHUNK_IMAGES", 25)
    monkeypatch.chdir(folder.parent)  # workers have another
    expected = bot.match("glyphs", store, **OPTIONS)
    found = bot.match("glyphs", store, client=client, **OPTIONS)
    assert is_chunked(found.source.images)
    assert is_chunked(found.target.images)
    assert [len(found.source), *found.source.images.chunks[0]] == [60, 25, 25, 10]
    assert found.source.files == expected.source.files
    np.testing.assert_array_equal(np.asarray(found.source.images), expected.source.images)
    np.testing.assert_array_equal(found.source_labels, expected.source_labels)
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)
    np.testing.assert_array_equal(found.top_matches(3).indices, expected.top_matches(3).indices)


@pytest.mark.parametrize("grey", [False, True])
def test_files_of_several_kinds_become_one_in_all_chunks(tmp_path, monkeypatch, grey):
    monkeypatch.setattr("bispectral_ot.datasets.common_size._CHUNK_IMAGES", 2)
    for i in range(7):
        picture = Image.fromarray(np.full((8, 8), 30 * i + np.arange(8), dtype=np.uint8))
        deep = Image.fromarray(np.full((8, 8), 9000 * i + np.arange(8), dtype=np.uint16))
        {4: deep, 5: picture.convert("RGB")}.get(i, picture).save(tmp_path / f"{i}.png")
    expected, found = (read_together([list_set(tmp_path)], grey=grey, stay=stay)[0] for stay in (False, True))
    assert found.images.dtype == expected.images.dtype
    np.testing.assert_array_equal(found.images.compute(scheduler="synchronous"), expected.images)


def test_a_folder_that_workers_cannot_see_is_named_with_the_worker(client, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "here")
    (source,) = as_datasets([tmp_path / "here"], ["source"], stay=True)
    shutil.rmtree(tmp_path / "here")  # seen while it was listed, and never by a worker
    with pytest.raises(bot.ClusterError, match=r"worker tcp://127\.0\.0\.1:\d+ on .* cannot see .*/here\. Put it on"):
        bot.match(source, source, features="pixels", client=client)


def test_a_run_of_images_that_stay_has_tables_only(client, folder, store, tmp_path):
    from bispectral_ot.cli.main import app

    words = ["match", str(folder), str(store), "--features", "pixels", "--json", "--out"]
    options = ["--scheduler", client.scheduler.address]
    here = CliRunner().invoke(app, [*words, str(tmp_path / "here"), "--no-figures"])
    there = CliRunner().invoke(app, [*words, str(tmp_path / "there"), *options])
    assert (here.exit_code, there.exit_code) == (0, 0), there.output
    assert json.loads(there.stdout)["distance"] == pytest.approx(json.loads(here.stdout)["distance"], rel=1e-4)
    warnings = json.loads(there.stdout)["warnings"]
    assert any("figures and model.npz are skipped" in each for each in warnings)
    found = {path.name for path in (tmp_path / "there").iterdir()}
    assert found == {"matches.csv", "labels.csv", "confusion.csv", "outliers.csv", "results.json", "run.json"}
