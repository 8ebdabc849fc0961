"""Base class of features: batches, blocks, output arrays, the scikit-learn contract."""

import math

import numpy as np
import pytest
import scipy.sparse
from sklearn.utils.estimator_checks import check_estimator

import bispectral_ot.transformer as base
from bispectral_ot import features as ft
from bispectral_ot import runtime
from bispectral_ot.errors import DataWarning, InputError


class RowsAsImages(ft.BatchTransformer):
    """Rows of any length as images: a row of a check, with 1 to 10 columns, is repeated until it fills a square."""

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        side = max(4, math.isqrt(n_columns - 1) + 1)
        return side, side

    def _fill(self, rows, out):
        column = np.arange(math.prod(self.image_shape_)) % rows.shape[1]
        return super()._fill(rows[:, column], out)


class RowsRing(RowsAsImages, ft.RingBispectrum):
    pass


class RowsTranslation(RowsAsImages, ft.TranslationBispectrum):
    pass


class RowsCoupled(RowsAsImages, ft.GlobalBispectrum):
    pass


OF_ROWS = [ft.Pixels(), ft.CyclicBispectrum(), RowsRing(), RowsTranslation(), RowsCoupled(n_rings=3, max_frequency=3)]


@pytest.mark.parametrize("transformer", OF_ROWS, ids=repr)
def test_scikit_learn_contract(transformer):
    outcomes = check_estimator(transformer, on_skip=None)
    skipped = {outcome["check_name"] for outcome in outcomes if outcome["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment


@pytest.mark.parametrize(
    "name", ["ring-bispectrum", "translation-bispectrum", "global-bispectrum", "d4-bispectrum", "bispectrum"]
)
def test_blank_images_are_counted(name):
    images = np.random.default_rng(0).uniform(size=(20, 16, 16))
    images[3] = 0
    features = ft.FEATURES[name]().fit(images[4:])
    with pytest.warns(DataWarning, match="1 of 20"):
        rows = features.transform(images)
    assert np.isfinite(rows).all()
    assert not rows[3].any() or isinstance(features, ft.CombinedBispectrum)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (ft.RingBispectrum(radial_weight=float("nan")), "radial_weight"),
        (ft.RingBispectrum(sampling="cubic"), "choose one of bilinear, nearest"),
        (ft.TranslationBispectrum(band_limit=1.5), "band_limit"),
        (ft.GlobalBispectrum(symmetry="mirror"), "unknown symmetry .* choose one of"),
        (ft.GlobalBispectrum(n_angles=18), "n_angles of at least 19"),
        (ft.GlobalBispectrum(n_bands=11), "cannot make 11 bands"),
        (ft.LocalBispectrum(intensity="loud"), "intensity"),
        (ft.D4Bispectrum(band=0), "band must be"),
    ],
    ids=repr,
)
def test_bad_options_are_refused(features, said):
    with pytest.raises(InputError, match=said):
        features.fit(np.ones((2, 12, 12)))


@pytest.mark.parametrize("kind", [ft.Pixels, ft.RingBispectrum, ft.TranslationBispectrum])
def test_blocks_and_threads_change_nothing(kind, monkeypatch):
    images = np.random.default_rng(0).uniform(0, 1, size=(50, 8, 8))
    transformer = kind().fit(images)
    whole = transformer.transform(images)
    monkeypatch.setattr(base, "SCRATCH_BYTES", 1)  # one image a block
    calls = []
    with runtime.running(progress=lambda *call: calls.append(call)):
        np.testing.assert_array_equal(transformer.transform(images), whole)
    assert calls[-1] == ("features", 50, 50)
    assert len(calls) > 1
    out = np.empty_like(whole[:3])
    assert transformer.fill(images[:3], out) == 0
    np.testing.assert_array_equal(out, whole[:3])


def test_out_is_filled_also_when_memory_mapped(tmp_path):
    images = np.random.default_rng(0).uniform(0, 1, size=(20, 8, 8))
    transformer = ft.RingBispectrum().fit(images)
    expected = transformer.transform(images)
    shape = (20, transformer.n_features_out_)
    mapped = np.lib.format.open_memmap(tmp_path / "features.npy", mode="w+", dtype=np.float32, shape=shape)
    assert transformer.transform(images, out=mapped) is mapped
    mapped.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), expected)
    frame = ft.RingBispectrum(n_angles=12).set_output(transform="pandas").fit(images).transform(images)
    assert frame.columns[0] == "channel0_ring0_i0_j0_part0"
    for wrong in (np.empty(shape), np.empty((19, shape[1]), np.float32), np.empty(shape[::-1], np.float32).T):
        with pytest.raises(InputError, match="out must be"):
            transformer.transform(images, out=wrong)


@pytest.mark.parametrize(("kind", "bad"), [(ft.RingBispectrum, np.nan), (ft.Pixels, np.inf)])
def test_the_image_with_a_bad_pixel_is_named(kind, bad):
    images = np.ones((9, 8, 8))
    transformer = kind().fit(images)
    images[7, 3, 3] = bad
    with pytest.raises(InputError, match="signal 107"):
        transformer.fill(images, np.empty((9, transformer.n_features_out_), np.float32), first=100)
    with pytest.raises(InputError, match=r"signal 7 .*NaN or inf"):
        transformer.transform(images)
    with pytest.raises(InputError, match="signal 7"):
        kind().fit(images)


def test_bad_batches_are_refused():
    transformer = ft.RingBispectrum().fit(np.ones((2, 8, 8)))
    for wrong, said in [
        (np.ones((2, 8, 9)), "8 x 9, but this .* fitted on 8 x 8"),
        (np.ones((8, 8)), r"image\[None\]"),
        (np.ones((2, 8, 8, 3)), "8 x 8 x 3"),
        (np.ones((0, 8, 8)), "0 sample"),
        (np.ones((2, 8, 8), dtype=complex), "[Cc]omplex"),
        (np.full((2, 8, 8), None), "objects"),
        (scipy.sparse.eye_array(64).tocsr(), "sparse"),
        ([np.ones((8, 8)), np.ones((8, 9))], "inhomogeneous"),
        (np.ones((2, 3, 32, 32)), "channels first"),
    ]:
        with pytest.raises(InputError, match=said):
            transformer.transform(wrong)
