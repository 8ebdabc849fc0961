"""Files that were read wrongly, without end, or with gigabytes of memory: each is refused, or warned of."""

import gzip
import json
import os
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import h5py
import mrcfile
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
import zarr
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.datasets.load import list_set
from bispectral_ot.errors import DatasetError, DataWarning, InputError

CASES = Path(__file__).parent / "cases"
FILES = "a.npz", "a.zarr", "a.npy", "a.h5", "a.mrcs", "a.star"
RANDOM = np.random.default_rng(4)
IMAGES = RANDOM.integers(0, 256, (6, 9, 7), dtype=np.uint8)


def peak_of(code: str) -> float:
    """Peak memory in GB of another process that loads a file and expects an InputError, or none."""
    script = f"""
import warnings
warnings.simplefilter("ignore")
import numpy as np
from bispectral_ot.datasets import load
from bispectral_ot.errors import InputError
from bispectral_ot.memory import peak_memory
try:
    {code}
except InputError as error:
    print(error)
print(peak_memory() / 1e9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    return float(done.stdout.splitlines()[-1])


def test_a_stray_parquet_file_does_not_take_over_a_folder_of_images(tmp_path: Path):
    (tmp_path / "a").mkdir()
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(tmp_path / "a" / f"{number}.png")
    (tmp_path / "notes.parquet").write_bytes(b"PAR1")
    with pytest.warns(DataWarning, match="the images are read"):
        np.testing.assert_array_equal(load(tmp_path).images, IMAGES)


def test_missing_chunks_of_a_zarr_store_are_told(tmp_path: Path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("images", shape=IMAGES.shape, chunks=(2, 9, 7), dtype="u1")[:] = IMAGES
    group.create_array("labels", shape=(6,), chunks=(2,), dtype="i8")[:] = np.arange(6) + 1
    with warnings.catch_warnings(action="error"):
        load(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/images/c/1/0/0").unlink()
    with pytest.warns(DataWarning, match=r"1 of 3 chunks of .*::images are not stored, and count as 0"):
        load(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/labels/c/2").unlink()
    with pytest.warns(DataWarning, match=r"1 of 3 chunks of .*::labels are not stored"):
        load(tmp_path / "a.zarr")


def write_mrc(path: Path, data: np.ndarray, **header: int) -> Path:
    with warnings.catch_warnings(action="ignore"), mrcfile.new(path, data, overwrite=True) as file:
        for name, value in header.items():
            file.header[name] = value
    return path


def test_volumes_and_complex_numbers_of_mrc_files_are_refused(tmp_path: Path):
    volumes = write_mrc(tmp_path / "v.mrcs", RANDOM.normal(size=(3, 4, 5, 6)).astype(np.float32))
    with pytest.raises(DatasetError, match="has volumes"):
        load(volumes)
    write_mrc(tmp_path / "c.mrcs", RANDOM.normal(size=(3, 5, 6)).astype(np.complex64))
    (tmp_path / "a.star").write_text("data_\nloop_\n_rlnImageName #1\n1@c.mrcs\n2@c.mrcs\n")
    for name in ("c.mrcs", "a.star"):
        with pytest.raises(DatasetError, match="complex numbers"):
            load(tmp_path / name)


def test_damaged_headers_of_mrc_files_take_no_memory(tmp_path: Path):
    path = write_mrc(tmp_path / "a.mrcs", IMAGES.astype(np.float32))
    for offset, value in ((92, 2**31 - 1), (92, -5), (8, 2**30), (12, 77)):  # extended header, sections, mode
        content = bytearray(path.read_bytes())
        content[offset : offset + 4] = struct.pack("<i", value)
        (tmp_path / "b.mrcs").write_bytes(content)
        with pytest.raises(DatasetError, match="no images that can be read"):
            load(tmp_path / "b.mrcs")
    assert peak_of(f"load({str(tmp_path / 'b.mrcs')!r})") < 0.5


@pytest.mark.parametrize(
    "images",
    [IMAGES.astype(np.uint32) + 2**31, IMAGES / 255.0 + 1e9, np.repeat([0, 1e9], [5, 1])[:, None, None] + IMAGES],
    ids=["uint32", "float64", "one of them"],
)
def test_offsets_that_float32_cannot_resolve_are_refused(tmp_path: Path, images: np.ndarray):
    with pytest.raises(InputError, match=r"which float32 cannot resolve at their size .*subtract an offset"):
        Dataset(images)
    np.save(tmp_path / "a.npy", images)
    for size in (None, 5):
        with pytest.raises(InputError, match="subtract an offset"):
            load(tmp_path / "a.npy", resize=size)
    Dataset(images - images.min(axis=(1, 2), keepdims=True))
    # noise on blank images and large numbers that are exact lose nothing
    Dataset(np.concatenate([RANDOM.normal(size=(5, 9, 7)), np.full((1, 9, 7), 7.0) + 1e-12 * RANDOM.random((1, 9, 7))]))
    Dataset((IMAGES // 128).astype(np.int64) * 2**33)


def test_pages_of_other_files_are_not_read(tmp_path: Path):
    secret = tmp_path / "elsewhere" / "secret.ome.tif"
    secret.parent.mkdir()
    uuid = "urn:uuid:12345678-1234-1234-1234-123456789abc"
    tifffile.imwrite(secret, IMAGES, metadata={"axes": "TYX"}, ome=True)
    named = f'<UUID FileName="elsewhere/secret.ome.tif">{uuid}</UUID>'
    planes = "".join(f'<TiffData FirstT="{t}" IFD="{t}" PlaneCount="1">{named}</TiffData>' for t in range(6))
    xml = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:0">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" SizeX="7" SizeY="9" SizeC="1" '
        f'SizeZ="1" SizeT="6">{planes}</Pixels></Image></OME>'
    )
    tifffile.imwrite(tmp_path / "a.ome.tif", IMAGES[0], description=xml, metadata=None)
    with pytest.raises(DatasetError, match=r"names pages of other files"):
        load(tmp_path / "a.ome.tif")


def test_strings_that_hdf5_never_finds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bispectral_ot.datasets.formats.array_files._SECONDS", 2.0)
    with pytest.raises(DatasetError, match="cannot be read in 2 s; the file is damaged"):
        load(CASES / "hang.h5")
    assert len(load(f"{CASES / 'hang.h5'}::images")) == 6


def test_strings_of_hdf5_under_a_limit_of_memory(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"], file["labels"] = IMAGES, list("abcabc")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (6 * 10**9,) * 2)"  # as ulimit -v does
    done = f"import os; {limit}; load({str(tmp_path / 'a.h5')!r}); print(1e9, flush=True); os._exit(0)"
    assert peak_of(done) == 1e9


def test_particles_come_from_regular_files_of_the_project(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    for place in (project / "a.mrcs", tmp_path / "secret.mrcs"):
        write_mrc(place, IMAGES.astype(np.float32))
    os.mkfifo(project / "pipe.mrcs")
    for other in ("pipe.mrcs", "../secret.mrcs", tmp_path / "secret.mrcs"):
        (project / "a.star").write_text(f"data_\nloop_\n_rlnImageName #1\n1@a.mrcs\n2@{other}\n")
        with pytest.raises(DatasetError, match="not a file inside the folder of the project"):
            load(project / "a.star")


def test_tables_name_files_of_their_own_folder(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for place in (folder / "a.png", tmp_path / "secret.png"):
        Image.fromarray(IMAGES[0]).save(place)
    for name in ("../secret.png", str(tmp_path / "secret.png"), "x/../../secret.png"):
        (folder / "a.csv").write_text(f"path\na.png\n{name}\n")
        with pytest.raises(DatasetError, match="outside its folder"):
            load(folder / "a.csv")
    (folder / "a.csv").write_text(f"path\na.png\n{folder / 'a.png'}\n")  # absolute, but inside
    assert len(load(folder / "a.csv")) == 2


def test_images_that_parquet_stores_once_are_in_memory_once(tmp_path: Path):
    noise = RANDOM.integers(0, 256, (700, 1000), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    content, n = (tmp_path / "a.png").read_bytes(), 3000
    encoded = pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), [content]).cast(pa.large_binary())
    rows = pa.StructArray.from_arrays([encoded, pa.array([None] * n, pa.string())], names=["bytes", "path"])
    pq.write_table(pa.table({"image": rows, "label": ["a"] * n}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2 * 10**6
    code = f"print(load({str(tmp_path / 'a.parquet')!r}, limit=3, resize=8))"
    assert peak_of(code) < 1.0  # 2.1 GB of encoded images


def test_metadata_nested_very_deep(tmp_path: Path):
    Image.fromarray(IMAGES[0]).save(tmp_path / "a.png")
    table = pa.table({"image": [{"bytes": (tmp_path / "a.png").read_bytes()}] * 2, "label": [0, 1]})
    deep = b"[" * 100_000 + b"]" * 100_000
    pq.write_table(table.replace_schema_metadata({b"huggingface": deep}), tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet").classes == ("0", "1")


def test_announced_sizes_that_cannot_be_true():
    assert peak_of(f"load({str(CASES / 'tall-tiff')!r})") < 0.5
    with pytest.raises(DatasetError, match=r"2\.tif declares 58\.7 MB of pixels but has 185 B only"):
        load(CASES / "tall-tiff")


def test_chunks_that_are_much_larger_than_their_array(tmp_path: Path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("images", data=IMAGES, chunks=(6, 9, 7))
    grid = {"name": "regular", "configuration": {"chunk_shape": [6, 900_000, 1000]}}
    metadata = tmp_path / "a.zarr/images/zarr.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"chunk_grid": grid}))
    with pytest.raises(DatasetError, match=r"in chunks of 5\.4 GB; the file is damaged"):
        load(tmp_path / "a.zarr")
    # a chunk of the right shape whose content is not
    encoders = (zarr.codecs.ZstdCodec(), numcodecs.zstd.Zstd().encode), (zarr.codecs.GzipCodec(), gzip.compress)
    for number, (codec, encode) in enumerate(encoders):
        group = zarr.open_group(tmp_path / f"{number}.zarr", mode="w")
        group.create_array("images", data=IMAGES, chunks=(6, 9, 7), compressors=codec)
        (tmp_path / f"{number}.zarr/images/c/0/0/0").write_bytes(encode(bytes(3 * 10**7)) + bytes(2**16))
        with pytest.raises(DatasetError, match="has a chunk that is larger than announced"):
            load(tmp_path / f"{number}.zarr")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("images", shape=(600, 20, 20), chunks=(600, 20, 20), dtype="u1", compression="gzip")
        array.id.write_direct_chunk((0, 0, 0), zlib.compress(RANDOM.bytes(2**20) + bytes(2**25)))
    with pytest.raises(DatasetError, match="has a chunk that is larger than announced"):
        load(tmp_path / "a.h5")


def test_lengths_of_labels_are_compared_before_they_are_read(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = IMAGES
        file.create_dataset("labels", shape=(2 * 10**9,), dtype="i8", chunks=(10**6,))
    with pytest.raises(DatasetError, match=r"'labels' has shape \(2000000000,\) for 6 images"):
        load(tmp_path / "a.h5")


@pytest.mark.parametrize("options", [{}, {"compressors": None}, {"zarr_format": 2}, {"dtype": ">i8"}])
def test_chunks_of_labels_that_are_missing(tmp_path: Path, options: dict):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=options.pop("zarr_format", 3))
    group.create_array("images", data=np.ones((40, 1, 1), dtype=np.uint8), chunks=(40, 1, 1))
    labels = group.create_array("labels", **{"shape": (40,), "chunks": (6,), "dtype": "i4", "fill_value": 7} | options)
    labels[:39] = np.arange(39) % 5
    next((tmp_path / "a.zarr/labels").rglob("3")).unlink()
    with pytest.warns(DataWarning, match="1 of 7 chunks of .*::labels are not stored"):
        found = load(tmp_path / "a.zarr")
    expected = np.where((np.arange(40) // 6 == 3) | (np.arange(40) == 39), 7, np.arange(40) % 5)
    assert [found.classes[i] for i in found.labels] == expected.astype(str).tolist()


def test_files_that_vanish_after_they_were_listed(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / f"{number}.png")
    np.savez(tmp_path / "a.npz", images=IMAGES)
    zarr.create_array(str(tmp_path / "a.zarr"), data=IMAGES, chunks=(1, 9, 7))
    np.save(tmp_path / "a.npy", np.zeros((9, 99, 99)))
    write_mrc(tmp_path / "a.mrcs", np.zeros((9, 99, 99), dtype=np.float32))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = np.ones((9, 99, 99))
    (tmp_path / "a.star").write_text("data_\nloop_\n_rlnImageName #1\n8@a.mrcs\n9@a.mrcs\n")
    listed = [list_set(path) for path in (folder, *map(tmp_path.joinpath, FILES))]
    listed[-1].source.get(("1", "a.mrcs"))
    (folder / "3.png").unlink()
    (tmp_path / "a.npz").unlink()
    (tmp_path / "a.zarr/c/3/0/0").unlink()
    for name in ("a.npy", "a.h5", "a.mrcs"):  # HDF5 reads zeros, a mapped file ends the process
        os.truncate(tmp_path / name, 5000)
    gone = ("3.png: No such file", "a.npz::images: No such file", "a.zarr::images, or a part of it, was deleted")
    for lazy, words in zip(listed, (*gone, *["was truncated while it was read"] * 4), strict=True):
        with pytest.raises(DatasetError, match=words):
            lazy.read()


def test_warnings_of_pillow_are_not_passed_on(tmp_path: Path):
    for number, image in enumerate(IMAGES[:2]):
        picture = Image.fromarray(image).convert("P")
        picture.save(tmp_path / f"{number}.png", transparency=bytes([255] * 200))
    with warnings.catch_warnings(action="error"):
        load(tmp_path)


def test_grids_on_the_sphere_must_have_one_size(tmp_path: Path):
    for name, size in (("a", (16, 32)), ("b", (8, 16))):
        np.save(tmp_path / f"{name}.npy", RANDOM.normal(size=(6, *size)).astype(np.float32))
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for sets in (paths, [np.load(path) for path in paths]):
        for compared in (lambda s: bot.match(*s, symmetry="so3"), lambda s: bot.compare(s, symmetry="so3")):
            with pytest.raises(InputError, match=r"different sizes.*resample the signals"):
                compared(sets)
