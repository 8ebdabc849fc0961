"""Base class of features: batches, blocks, output arrays, the scikit-learn contract."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import bispectral_ot.transformer as base
from bispectral_ot import runtime
from bispectral_ot.errors import InputError
from bispectral_ot.features import (
    BatchTransformer,
    CyclicBispectrum,
    GlobalBispectrum,
    Pixels,
    PolarSpectrum,
    RingBispectrum,
    TranslationBispectrum,
)

IMAGE_KINDS = (Pixels, RingBispectrum, TranslationBispectrum)


class RowsAsImages(BatchTransformer):
    """Lets rows of any length be images: the checks' rows have 1 to 10 columns.

    A row is repeated until it fills a square, so that all rings see something of it. Everything but this
    layout is the transformer under test.
    """

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


class RowsPolarSpectrum(RowsAsImages, PolarSpectrum):
    pass


@pytest.mark.parametrize(
    "transformer",
    [
        Pixels(),
        CyclicBispectrum(),
        RowsRingBispectrum(),
        RowsTranslationBispectrum(),
        RowsCoupledBispectrum(n_rings=3, max_frequency=3),
        RowsPolarSpectrum(n_rings=3, max_frequency=3),
    ],
    ids=repr,
)
def test_scikit_learn_contract(transformer: BatchTransformer) -> None:
    outcomes = check_estimator(transformer, on_skip=None)
    skipped = {outcome["check_name"] for outcome in outcomes if outcome["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment


def test_pixels_are_the_pixels() -> None:
    images = np.random.default_rng(0).integers(0, 255, size=(3, 4, 5, 2)).astype(np.uint8)
    transformer = Pixels().fit(images)
    features = transformer.transform(images)
    np.testing.assert_array_equal(features, images.reshape(3, -1))
    row, column, channel = (transformer.index_map_[field] for field in ("row", "column", "channel"))
    np.testing.assert_array_equal(features[1], images[1][row, column, channel])
    with pytest.raises(InputError, match="range of float32"):
        Pixels().fit_transform([[1e300]])


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
    for wrong in (np.empty(shape), np.empty((19, shape[1]), np.float32), np.empty(shape[::-1], np.float32).T):
        with pytest.raises(InputError, match="out must be"):
            transformer.transform(images, out=wrong)


def test_works_in_a_pipeline_and_survives_clone_and_pickle() -> None:
    images = np.random.default_rng(0).uniform(0, 1, size=(30, 8, 8))
    pipeline = make_pipeline(RingBispectrum(n_angles=12), PCA(5))
    reduced = pipeline.fit_transform(images)
    assert reduced.shape == (30, 5)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.transform(images), pipeline.transform(images))
    assert clone(pipeline[0]).get_params() == pipeline[0].get_params()
    frame = RingBispectrum(n_angles=12).set_output(transform="pandas").fit(images).transform(images)
    assert frame.columns[0] == "channel0_ring0_i0_j0_part0"


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
        (np.ones((2, 4, 16)), "4 x 16"),
        (np.ones((2, 8, 8, 3)), "8 x 8 x 3"),
        (np.ones((2, 81)), "81 features"),
        (np.ones((0, 8, 8)), "0 sample"),
        (np.ones((2, 8, 8), dtype=complex), "[Cc]omplex"),
        (np.full((2, 8, 8), None), "objects"),
        (scipy.sparse.eye_array(64).tocsr(), "sparse"),
        ([np.ones((8, 8)), np.ones((8, 9))], "inhomogeneous"),
        (np.ones((2, 3, 32, 32)), "channels first"),
        (np.ones((2, 2, 8, 8, 3)), "dim 5"),
        (np.full((2, 64), "a"), "not compatible"),
    ]:
        with pytest.raises(InputError, match=said):
            transformer.transform(wrong)


@pytest.mark.parametrize("shape", [(12, 12), (12, 10), (12, 12, 3)])
def test_one_image_is_told_how_to_be_a_batch(shape: tuple[int, ...]):
    images = np.random.default_rng(0).random((3, *shape))
    transformer = RingBispectrum().fit(images)
    with pytest.raises(InputError, match=r"image\[None\]"):
        transformer.transform(images[0])
    assert len(transformer.transform(images[0][None])) == 1
    with pytest.raises(InputError, match=r"image\[None\]"):
        RingBispectrum().fit(images[0, ..., 0] if len(shape) == 3 else images[0])
