"""Shapes in 3-D: clouds of different sizes, volumes, and folders of meshes."""

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.clouds import cloud_points
from bispectral_ot.datasets.dataset import as_dataset
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError, InputError


def clouds(sizes, seed=0):
    random = np.random.default_rng(seed)
    return [random.random((size, 3)).astype(np.float32) for size in sizes]


def test_a_dataset_of_clouds_of_different_sizes():
    parts = clouds([5, 9, 7, 3, 8, 6])
    dataset = Dataset(parts, list("aabbcc"), kind="clouds")
    assert repr(dataset) == "Dataset('images': 6 clouds of up to 9x3 float32, 3 classes)"
    assert dataset.images.dtype == np.float32
    chosen = dataset.select([3, 0])
    assert repr(chosen) == "Dataset('images': 2 clouds of up to 5x3 float32, 3 classes)"
    np.testing.assert_array_equal(cloud_points(chosen.images[0]), parts[3])
    source, target = bot.split_halves(dataset)
    assert (len(source), source.kind, len(target)) == (3, "clouds", 3)
    again = Dataset(dataset.images, kind="clouds")  # as it is kept, an .npz for example
    np.testing.assert_array_equal(again.images, dataset.images)


def test_a_list_of_clouds_needs_no_kind():
    assert as_dataset(clouds([5, 9])).kind == "clouds"
    assert as_dataset(clouds([5, 5])).kind == "images"  # could be images that are three pixels wide
    with pytest.raises(InputError, match="do not form one array"):
        as_dataset([np.zeros((4, 5)), np.zeros((6, 5))])


def test_arrays_become_the_shapes_that_they_can_be():
    def as_shapes(*shape):
        return LazyDataset.of(Dataset(np.zeros(shape))).of_kind("shapes")

    assert (as_shapes(2, 50, 3).kind, as_shapes(2, 9, 8, 7).kind) == ("clouds", "volumes")
    with pytest.raises(InputError, match=r"clouds must have shape \(n, points, 3\), got \(2, 9, 8\)"):
        as_shapes(2, 9, 8)
    with pytest.raises(InputError, match="images with channels are not volumes"):
        as_shapes(2, 9, 8, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "has no clouds"),
        (np.zeros((5, 3)), r"shape \(n, points, 3\), got \(5, 3\); use cloud\[None\]"),
        ([np.zeros((5, 3)), np.zeros((5, 2))], r"cloud 1: points must be real numbers of shape \(n, 3\), got \(5, 2\)"),
        ([np.zeros((5, 3)), np.array([[1, np.nan, 1]])], "cloud 1: 1 points have NaN"),
        (np.array([[[1.0, 1, 1], [np.nan] * 3, [1, 2, 3]]]), "cloud 0: 1 points have NaN or infinity .*first 1"),
        ([np.full((2, 3), 1e300)], "beyond float32"),
        ([np.ma.masked_array(np.zeros((2, 3)), mask=np.eye(2, 3))], "masked"),
    ],
)
def test_bad_clouds_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Dataset(wrong, kind="clouds")


def test_volumes():
    volumes = Dataset(np.zeros((3, 2, 8, 9), dtype=np.uint8), kind="volumes")  # thin, but no channels first
    assert repr(volumes) == "Dataset('images': 3 volumes of 2x8x9 uint8, no labels)"
    with pytest.raises(InputError, match=r"volumes must have shape \(n, depth, height, width\), got \(3, 8, 9\)"):
        Dataset(np.zeros((3, 8, 9)), kind="volumes")
    for change in (bot.rotate_randomly, bot.center):
        with pytest.raises(InputError, match="for flat images only, but 'images' has volumes"):
            change(volumes)
    with pytest.raises(InputError, match="unknown kind of dataset 'cloud'; did you mean 'clouds'"):
        Dataset(np.zeros((2, 50, 3)), kind="cloud")


trimesh = pytest.importorskip("trimesh")

TRIANGLE = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def shapes(tmp_path):
    """Boxes and spheres in all kinds of files, and a cloud of its own size."""
    (tmp_path / "box").mkdir()
    (tmp_path / "sphere").mkdir()
    box, sphere = trimesh.creation.box((1, 2, 3)), trimesh.creation.icosphere(2, radius=2)
    for number, suffix in enumerate(("obj", "off", "ply", "stl")):
        box.export(tmp_path / "box" / f"{number}.{suffix}")
    sphere.export(tmp_path / "sphere" / "a.OFF", file_type="off")
    trimesh.PointCloud(sphere.vertices).export(tmp_path / "sphere" / "b.ply")
    write(tmp_path / "sphere" / "c.xyz", "# x y z nx ny nz\n1 0 0 0 0 1\n0 1 0 1 1 1\n0 0 1 2 2 2\n")
    return tmp_path


def test_one_sub_folder_per_class(shapes):
    (shapes / "box" / "notes.txt").write_text("not a shape")
    (shapes / "box" / ".hidden.off").write_text("damaged")
    dataset = bot.load(shapes, n_points=200)
    assert (dataset.kind, dataset.classes) == ("clouds", ("box", "sphere"))
    np.testing.assert_array_equal(dataset.class_counts, [4, 3])
    assert dataset.files[:2] == ("box/0.obj", "box/1.off")
    points = [cloud_points(cloud) for cloud in dataset.images]
    assert [len(part) for part in points] == [200, 200, 200, 200, 200, 162, 3]
    for box in points[:4]:
        np.testing.assert_allclose(np.abs(box).max(axis=0), [0.5, 1, 1.5], rtol=0.02)
        assert np.isclose(np.abs(box), [0.5, 1, 1.5]).any(axis=1).all()  # on a side
    assert np.linalg.norm(points[4], axis=1).min() > 1.9
    np.testing.assert_array_equal(points[6], np.eye(3))


def test_points_depend_on_the_seed_and_large_clouds_are_thinned_out(shapes):
    one, again, other = (bot.load(shapes, n_points=100, seed=seed).images for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one[0] != other[0]).any()
    assert (one[0] != one[1]).any()  # the same box, but a stream of its own
    cloud, thinned = trimesh.load(shapes / "sphere" / "b.ply").vertices.astype(np.float32), cloud_points(one[5])
    assert len(np.unique(thinned, axis=0)) == 100
    assert {tuple(point) for point in thinned.tolist()} <= {tuple(point) for point in cloud.tolist()}


def test_parts_quads_and_headers_without_a_line(tmp_path):
    write(tmp_path / "a.off", TRIANGLE.replace("OFF\n", "OFF"))  # as ModelNet has it
    write(tmp_path / "b.obj", "mtllib missing.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nusemtl a\nf 1 2 3 4\n")
    parts = "o one\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\no two\nv 0 0 5\nv 1 0 5\nv 0 1 5\nusemtl b\nf 4 5 6\n"
    write(tmp_path / "c.obj", parts)
    dataset = bot.load(tmp_path, n_points=400)
    assert dataset.labels is None
    triangle, square, two = dataset.images
    assert (triangle[:, :2].sum(axis=1) <= 1).all()
    np.testing.assert_allclose(square.mean(axis=0), [0.5, 0.5, 0], atol=0.02)
    assert (two[:, 2] == 5).sum() == pytest.approx(200, abs=1)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.off", "OFF\n3 0 0\n0 0 0\n1 0 0\n0 1 0\n", r"no faces \(points without faces are read from .ply and .xyz"),
        ("a.obj", "v 0 0 0\nv 0 0 0\nv 0 0 0\nf 1 2 3\n", "no area"),
        ("a.off", TRIANGLE.replace("1 0 0", "nan 0 0", 1), "finite numbers"),
        ("a.off", TRIANGLE.replace("3 0 1 2", "3 0 1 7"), "index"),
        ("a.xyz", "", "it is empty"),
        ("a.xyz", "1 2 3\n", r"has only 1 point"),
        ("a.xyz", "1 2 3\n1e300 1 2\n", "beyond float32"),
        ("a.xyz", "12\nwater\nO 0 0 0\n", ""),
    ],
)
def test_damaged_files_are_named(tmp_path, name, text, message):
    write(tmp_path / "c" / name, text)
    with pytest.raises(DatasetError, match=f"(?s)cannot read the shape .*{name}: .*{message}.*repair or remove it"):
        bot.load(tmp_path)
