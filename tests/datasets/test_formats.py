"""Files of other libraries, written by them: what is in them comes back, and what is missing or odd is named."""

import io
import json
import sys

import h5py
import mrcfile
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import starfile
import tifffile
import zarr
from astropy.io import fits
from PIL import Image

from bispectral_ot import Dataset, load
from bispectral_ot.errors import DatasetError, DataWarning, InputError, MemoryBudgetError

RANDOM = np.random.default_rng(4)
IMAGES = RANDOM.integers(0, 256, (6, 9, 7), dtype=np.uint8)
COLOURS = RANDOM.integers(0, 256, (6, 9, 7, 3), dtype=np.uint8)
FLOATS = RANDOM.normal(size=(6, 9, 7)).astype(np.float32)
LABELS = np.array([3, 1, 1, 0, 3, 1])


def png(image: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, format=kind)
    return file.getvalue()


def assert_same(dataset: Dataset, images: np.ndarray, labels: np.ndarray | None = LABELS) -> None:
    np.testing.assert_array_equal(dataset.images, images)
    if labels is None:
        assert dataset.labels is None
    else:
        np.testing.assert_array_equal(np.array(dataset.classes)[dataset.labels], labels.astype(str))


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file["images"], file["ans"] = COLOURS, LABELS.astype(np.uint8)
        file["other/planes"], file["other/kinds"] = IMAGES, np.array([f"k{n}" for n in LABELS], dtype="S")
    return path


def write_zarr(path):
    group = zarr.open_group(str(path), mode="w")
    group.create_array("images", data=COLOURS, chunks=(2, 9, 7, 3))
    group.create_array("labels", data=LABELS)
    return path


def write_parquet(path):
    rows = [{"bytes": png(image), "path": f"{i}.png"} for i, image in enumerate(COLOURS)]
    table = pa.table({"image": rows, "label": LABELS})
    features = {"label": {"names": ["a", "b", "c", "d"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=2)
    return path


def write_mrcs(path):
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(FLOATS)
        file.set_image_stack()
    return path


def write_star(path):
    (path.parent / "stacks").mkdir(exist_ok=True)
    write_mrcs(path.parent / "stacks" / "one.mrcs")
    names = [f"{i:06}@stacks/one.mrcs" for i in (4, 1, 6)]
    particles = pandas.DataFrame({"rlnImageName": names, "rlnClassNumber": [2, 1, 2]})
    optics = pandas.DataFrame({"rlnOpticsGroup": [1], "rlnImagePixelSize": [1.2]})
    starfile.write({"optics": optics, "particles": particles}, path, overwrite=True)
    return path


def write_fits(path):
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(FLOATS, name="CUBE")]).writeto(path, overwrite=True)
    return path


def write_tiff(path):
    tifffile.imwrite(path, IMAGES, photometric="minisblack")
    return path


def write_csv(path):
    write_pictures(path.parent / "pictures")
    path.write_text("\n".join(["path,label", *(f"pictures/{i}.png,{label}" for i, label in enumerate(LABELS))]))
    return path


def write_pictures(path):
    path.mkdir(exist_ok=True)
    for i, image in enumerate(COLOURS):
        (path / f"{i}.png").write_bytes(png(image))
    return path


WRITERS = {
    **{"set.h5": write_hdf5, "set.zarr": write_zarr, "set.parquet": write_parquet, "set.mrcs": write_mrcs},
    **{"set.star": write_star, "set.fits": write_fits, "set.tif": write_tiff, "set.csv": write_csv},
    "pictures": write_pictures,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_limit_gives_the_same_rows_as_the_whole_set(tmp_path, name):
    path = WRITERS[name](tmp_path / name)
    whole, some = load(path), load(path, limit=2, seed=1)
    assert len(some) == 2
    rows = [bytes(image) for image in whole.images]
    places = [rows.index(bytes(image)) for image in some.images]
    assert places == sorted(places)
    if whole.labels is not None:
        np.testing.assert_array_equal(some.labels, whole.labels[places])
    assert load(path, resize=5).images.shape[1:3] == (5, 5)


def test_a_library_that_is_not_there_is_named_with_its_extra(tmp_path, monkeypatch):
    path = write_star(tmp_path / "set.star")
    monkeypatch.setitem(sys.modules, "starfile", None)
    with pytest.raises(InputError, match=r"is read with starfile.*pip install 'bispectral-ot\[cryoem\]'"):
        load(path)


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_are_a_dataset_or_an_error(tmp_path, name):
    """Flipped bits and lost ends, the same in every run."""
    place = WRITERS[name](tmp_path / name)
    files = [each for each in (place, *place.rglob("*")) if each.is_file()]
    path = max(files, key=lambda each: each.stat().st_size)
    whole, random, refused = path.read_bytes(), np.random.default_rng(7), 0
    for number in range(60):
        damaged = bytearray(whole)
        for at in random.integers(0, len(whole) if number % 2 else min(len(whole), 400), random.integers(1, 4)):
            damaged[at] ^= 1 << random.integers(8)
        path.write_bytes(damaged[: random.integers(len(whole))] if number % 5 == 0 else damaged)
        try:
            assert isinstance(load(place), Dataset)
        except InputError:
            refused += 1
    assert refused


def test_hdf5_finds_galaxy10_and_reads_what_is_named(tmp_path):
    path = write_hdf5(tmp_path / "set.h5")
    assert_same(load(path), COLOURS)
    assert_same(load(f"{path}::images"), COLOURS, None)
    named = load(f"{path}::other/planes::other/kinds")
    np.testing.assert_array_equal(named.images, IMAGES)
    assert named.classes == ("k0", "k1", "k3")
    with pytest.raises(DatasetError, match="has no array or column 'image'; did you mean 'images'"):
        load(f"{path}::image")
    with pytest.raises(DatasetError, match=r"expected images of shape \(n, height, width\) .*got \(6,\)"):
        load(f"{path}::ans")


def test_splits_channels_first_and_names_of_arrays(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train/images"], file["train/labels"] = np.moveaxis(COLOURS, 3, 1), LABELS
        file["val/images"], file["val/labels"] = np.moveaxis(COLOURS[:2], 3, 1), LABELS[:2]
        file["class_names"] = np.array([b"n0", b"n1", b"n2", "n3 é".encode()])
    assert load(tmp_path / "a.hdf5").classes == ("n0", "n1", "n2", "n3 é")
    np.testing.assert_array_equal(load(tmp_path / "a.hdf5", split="val").images, COLOURS[:2])
    with pytest.raises(DatasetError, match="no images for the test split; it has class_names, train/images"):
        load(tmp_path / "a.hdf5", split="test")
    with pytest.raises(DatasetError, match="no array or column 'cub'; did you mean 'CUBE'"):
        load(f"{write_fits(tmp_path / 'a.fits')}::cub")


def test_hdf5_does_not_follow_other_files(tmp_path):
    """An array may say that its numbers are in /etc/passwd."""
    (tmp_path / "secret").write_bytes(bytes(100))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("images", (1, 5, 5), dtype="u1", external=[(str(tmp_path / "secret"), 0, 25)])
        file["link"] = h5py.ExternalLink(str(tmp_path / "b.h5"), "images")
    with pytest.raises(DatasetError, match="it has none"):
        load(tmp_path / "a.h5")


def test_arrays_larger_than_memory_are_refused_or_made_smaller(tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", (100, 100, 100), dtype="u1", chunks=(10, 100, 100))
    monkeypatch.setattr("bispectral_ot.memory.available_memory", lambda: 10**6)
    monkeypatch.setattr("bispectral_ot.datasets.sources._BLOCK_BYTES", 10**5)
    with pytest.raises(MemoryBudgetError, match=r"with 100 images needs 1\.0 MB .*--limit.*--resize"):
        load(path)
    assert load(path, limit=5).images.shape == (5, 100, 100)
    monkeypatch.setattr("bispectral_ot.memory.available_memory", lambda: 4 * 10**6)
    assert load(path, resize=8).images.shape == (100, 8, 8)


def test_zarr_arrays_and_groups(tmp_path):
    assert_same(load(write_zarr(tmp_path / "a.zarr")), COLOURS)
    assert_same(load(f"{tmp_path / 'a.zarr'}::images"), COLOURS, None)
    zarr.create_array(str(tmp_path / "b.zarr"), data=IMAGES)
    assert_same(load(tmp_path / "b.zarr"), IMAGES, None)
    zarr.open_group(str(tmp_path / "c.zarr"), mode="w")
    with pytest.raises(DatasetError, match="it has none"):
        load(tmp_path / "c.zarr")


def test_parquet_of_the_hub(tmp_path):
    dataset = load(write_parquet(tmp_path / "set.parquet"))
    np.testing.assert_array_equal(dataset.images, COLOURS)
    assert dataset.classes == ("a", "b", "c", "d")
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.files[2] == "2/2.png"
    hub = tmp_path / "hub"
    hub.mkdir()
    for name in ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "validation-00000-of-00001.parquet"):
        write_parquet(hub / name)
    assert (len(load(hub)), len(load(hub, split="val"))) == (12, 6)
    with pytest.raises(InputError, match="has no test split"):
        load(hub, split="test")


def test_parquet_without_images(tmp_path):
    pq.write_table(pa.table({"text": ["a"], "label": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match=r"it has text, label"):
        load(tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": [{"bytes": png(IMAGES[0])}, {"bytes": None}]}), tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match=r"row 1 .* has no image"):
        load(tmp_path / "b.parquet")


def test_stacks_and_cubes(tmp_path):
    assert_same(load(write_mrcs(tmp_path / "a.mrcs")), FLOATS, None)
    assert_same(load(write_fits(tmp_path / "a.fits")), FLOATS, None)
    with mrcfile.new(tmp_path / "v.mrc") as file:
        file.set_data(FLOATS)
        file.set_volume()
    with pytest.raises(DatasetError, match=r"has volumes \(6 x 9 x 7\)"):
        load(tmp_path / "v.mrc")


def test_relion_particles(tmp_path):
    project = tmp_path / "project"
    (project / "Extract").mkdir(parents=True)
    dataset = load(write_star(project / "set.star"))
    assert_same(dataset, FLOATS[[3, 0, 5]], np.array([2, 1, 2]))
    # stacks are relative to the project, wherever in it the .star file is
    (project / "set.star").rename(project / "Extract" / "particles.star")
    assert len(load(project / "Extract" / "particles.star")) == 3
    (project / "stacks" / "one.mrcs").unlink()
    with pytest.raises(DatasetError, match=r"names the stack stacks/one\.mrcs, which is not a file inside the folder"):
        load(project / "Extract" / "particles.star")


def test_tiff_pages(tmp_path):
    assert_same(load(write_tiff(tmp_path / "a.tif")), IMAGES, None)
    stack = RANDOM.integers(0, 65536, (3, 2, 9, 7), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "b.tif", stack, imagej=True, metadata={"axes": "TCYX"})
    np.testing.assert_array_equal(load(tmp_path / "b.tif").images, np.moveaxis(stack, 1, -1))
    tifffile.imwrite(tmp_path / "c.ome.tif", stack, metadata={"axes": "TCYX"})
    np.testing.assert_array_equal(load(tmp_path / "c.ome.tif").images, np.moveaxis(stack, 1, -1))
    with tifffile.TiffWriter(tmp_path / "d.tif") as writer:
        for size in ((9, 7), (20, 12), (8, 8)):
            writer.write(np.full(size, 3, dtype=np.uint8), photometric="minisblack")
    with pytest.warns(DataWarning, match="9 x 7 to 20 x 12"):
        assert load(tmp_path / "d.tif").images.shape == (3, 20, 20)
    Image.fromarray(IMAGES[0]).save(tmp_path / "e.tif")
    with pytest.raises(DatasetError, match="single image"):
        load(tmp_path / "e.tif")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_with_paths_and_labels(tmp_path, delimiter):
    path = write_csv(tmp_path / "set.csv")
    assert_same(load(path), COLOURS)
    path.write_text("\ufeff" + path.read_text().replace(",", delimiter).replace("path", "Filename"), encoding="utf-8")
    assert_same(load(path), COLOURS)
    assert load(path).files[1] == "pictures/1.png"


def test_tables_with_splits_and_other_names(tmp_path):
    write_csv(tmp_path / "set.csv")
    rows = [f"pictures/{i}.png,{'xy'[i % 2]},{('train', 'val')[i % 2]}" for i in range(6)]
    path = tmp_path / "other.csv"
    path.write_text("\n".join(["where,what,split", *rows]))
    with pytest.raises(DatasetError, match="it has where, what, split; expected 'path'"):
        load(path)
    dataset = load(f"{path}::where::what", split="val")
    assert_same(dataset, COLOURS[1::2], np.array(list("yyy")))
    with pytest.raises(DatasetError, match="no rows of the test split"):
        load(f"{path}::where", split="test")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path,label\nnone.png,1\n", r"there is no file none\.png"),
        ("path,label\npictures/0.png\n", "row 1 has 1 fields"),
        ("path,label\npictures/0.png,\n", "row 0 has no label"),
        ("path\n\x00\n", "set.csv"),
        ('path\n"pictures/0.png\n', "cannot read .*set.csv"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, words):
    path = write_csv(tmp_path / "set.csv")
    path.write_text(text)
    with pytest.raises(DatasetError, match=words):
        load(path)


def test_medmnist_with_splits_and_with_several_labels(tmp_path):
    sets = {f"{split}_images": IMAGES[:count] for split, count in (("train", 6), ("val", 3), ("test", 2))}
    one = {f"{split}_labels": LABELS[:count, None] for split, count in (("train", 6), ("val", 3), ("test", 2))}
    np.savez(tmp_path / "bloodmnist.npz", **sets, **one)
    assert_same(load(tmp_path / "bloodmnist.npz", split="val"), IMAGES[:3], LABELS[:3])
    several = {name.replace("images", "labels"): np.ones((len(images), 14), np.uint8) for name, images in sets.items()}
    np.savez(tmp_path / "chestmnist.npz", **sets, **several)
    with pytest.raises(DatasetError, match=r"14.* for 6 images; .* read the images alone as FILE::IMAGES"):
        load(tmp_path / "chestmnist.npz")
    assert_same(load(f"{tmp_path / 'chestmnist.npz'}::train_images"), IMAGES, None)
