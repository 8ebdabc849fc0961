"""Base class of features: batches, blocks, output arrays, the scikit-learn contract."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import check_estimator

import bispectral_ot.transformer as base
from bispectral_ot import runtime
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import (
    BatchTransformer,
    CombinedBispectrum,
    CyclicBispectrum,
    D4Bispectrum,
    GlobalBispectrum,
    LocalBispectrum,
    Pixels,
    RingBispectrum,
    TranslationBispectrum,
)

IMAGE_KINDS = (Pixels, RingBispectrum, TranslationBispectrum)


class RowsAsImages(BatchTransformer):
    """Rows of any length as images: a row of a check, with 1 to 10 columns, is repeated until it fills a square."""

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        side = max(4, math.isqrt(n_columns - 1) + 1)
        return side, side

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        column = np.arange(math.prod(self.image_shape_)) % rows.shape[1]
        return super()._fill(rows[:, column], out)


class RowsRingBispectrum(RowsAsImages, RingBispectrum):
    pass


class RowsTranslationBispectrum(RowsAsImages, TranslationBispectrum):
    pass


class RowsCoupledBispectrum(RowsAsImages, GlobalBispectrum):
    pass


@pytest.mark.parametrize(
    "transformer",
    [
        Pixels(),
        CyclicBispectrum(),
        RowsRingBispectrum(),
        RowsTranslationBispectrum(),
        RowsCoupledBispectrum(n_rings=3, max_frequency=3),
    ],
    ids=repr,
)
def test_scikit_learn_contract(transformer: BatchTransformer) -> None:
    outcomes = check_estimator(transformer, on_skip=None)
    skipped = {outcome["check_name"] for outcome in outcomes if outcome["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment


@pytest.mark.parametrize(
    "features",
    [RingBispectrum(), TranslationBispectrum(), GlobalBispectrum(), D4Bispectrum(), CombinedBispectrum()],
    ids=repr,
)
def test_blank_images_are_counted(features: BatchTransformer) -> None:
    images = np.random.default_rng(0).uniform(size=(20, 16, 16))
    images[3] = 0
    features.fit(images[4:])
    with pytest.warns(DataWarning, match="1 of 20"):
        rows = features.transform(images)
    assert np.isfinite(rows).all()
    assert not rows[3].any() or isinstance(features, CombinedBispectrum)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (RingBispectrum(radial_weight=float("nan")), "radial_weight"),
        (RingBispectrum(sampling="cubic"), "choose one of bilinear, nearest"),
        (TranslationBispectrum(band_limit=1.5), "band_limit"),
        (GlobalBispectrum(symmetry="mirror"), "unknown symmetry .* choose one of"),
        (GlobalBispectrum(n_angles=18), "n_angles of at least 19"),
        (GlobalBispectrum(n_bands=11), "cannot make 11 bands"),
        (LocalBispectrum(intensity="loud"), "intensity"),
        (D4Bispectrum(band=0), "band must be"),
    ],
    ids=repr,
)
def test_bad_options_are_refused(features: BatchTransformer, said: str) -> None:
    with pytest.raises(InputError, match=said):
        features.fit(np.ones((2, 12, 12)))


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_blocks_and_threads_change_nothing(kind: type[BatchTransformer], monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).uniform(0, 1, size=(50, 8, 8))
    transformer = kind().fit(images)
    whole = transformer.transform(images)
    monkeypatch.setattr(base, "SCRATCH_BYTES", 1)  # one image a block
    calls: list[Any] = []
    with runtime.running(progress=lambda *call: calls.append(call)):
        np.testing.assert_array_equal(transformer.transform(images), whole)
    assert calls[-1] == ("features", 50, 50)
    assert len(calls) > 1
    out = np.empty_like(whole[:3])
    assert transformer.fill(images[:3], out) == 0
    np.testing.assert_array_equal(out, whole[:3])


def test_out_is_filled_also_when_memory_mapped(tmp_path: Path) -> None:
    images = np.random.default_rng(0).uniform(0, 1, size=(20, 8, 8))
    transformer = RingBispectrum().fit(images)
    expected = transformer.transform(images)
    shape = (20, transformer.n_features_out_)
    mapped = np.lib.format.open_memmap(tmp_path / "features.npy", mode="w+", dtype=np.float32, shape=shape)
    assert transformer.transform(images, out=mapped) is mapped
    mapped.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), expected)
    frame = RingBispectrum(n_angles=12).set_output(transform="pandas").fit(images).transform(images)
    assert frame.columns[0] == "channel0_ring0_i0_j0_part0"
    for wrong in (np.empty(shape), np.empty((19, shape[1]), np.float32), np.empty(shape[::-1], np.float32).T):
        with pytest.raises(InputError, match="out must be"):
            transformer.transform(images, out=wrong)


@pytest.mark.parametrize(("kind", "bad"), [(RingBispectrum, np.nan), (Pixels, np.inf)])
def test_the_image_with_a_bad_pixel_is_named(kind: type[BatchTransformer], bad: float) -> None:
    images = np.ones((9, 8, 8))
    transformer = kind().fit(images)
    images[7, 3, 3] = bad
    with pytest.raises(InputError, match="signal 107"):
        transformer.fill(images, np.empty((9, transformer.n_features_out_), np.float32), first=100)
    with pytest.raises(InputError, match=r"signal 7 .*NaN or inf"):
        transformer.transform(images)
    with pytest.raises(InputError, match="signal 7"):
        kind().fit(images)


def test_bad_batches_are_refused() -> None:
    transformer = RingBispectrum().fit(np.ones((2, 8, 8)))
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
