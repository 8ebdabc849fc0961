"""Names and defaults of features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from bispectral_ot import costs
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.groups import CyclicGroup
from bispectral_ot.invariants import (
    DEFAULT_FEATURES,
    FEATURES,
    CombinedBispectrum,
    CyclicBispectrum,
    GroupBispectrum,
    Pixels,
    RingBispectrum,
    RingPowerSpectrum,
    TranslationBispectrum,
    as_transformer,
    make_features,
)
from bispectral_ot.invariants.transformer import METRICS


@pytest.mark.parametrize("name", FEATURES)
def test_names(name: str) -> None:
    assert type(make_features(name)) is FEATURES[name]


@pytest.mark.parametrize(
    ("symmetry", "kind"),
    [
        ("none", Pixels),
        ("rotation", CombinedBispectrum),
        ("rotation-reflection", CombinedBispectrum),
        ("translation", TranslationBispectrum),
    ],
)
def test_the_default_follows_the_symmetry(symmetry: str, kind: type) -> None:
    assert type(make_features(symmetry=symmetry)) is kind
    assert set(DEFAULT_FEATURES.values()) <= set(FEATURES)


@pytest.mark.parametrize("name", ["coupled-bispectrum", "aligned"])
def test_features_that_know_mirrors_are_told_the_symmetry(name: str) -> None:
    for symmetry in ("rotation", "rotation-reflection"):
        assert make_features(name, symmetry=symmetry).symmetry == symmetry
    assert make_features(name).symmetry == "rotation"


@pytest.mark.parametrize(
    ("name", "symmetry", "advice"),
    [
        ("aligned", "none", "pixels"),
        ("ring-power", "translation", "translation-bispectrum"),
        (
            "ring-bispectrum",
            "rotation-reflection",
            "combined-bispectrum, coupled-bispectrum, local-bispectrum, aligned, ring-power",
        ),
        ("pixels", "rotation", "combined-bispectrum, coupled-bispectrum, local-bispectrum, aligned, ring-bispectrum"),
        (RingBispectrum(), "d4", "d4-bispectrum"),
    ],
)
def test_a_symmetry_that_the_features_do_not_have_is_told(name: Any, symmetry: str, advice: str) -> None:
    with pytest.warns(DataWarning, match=f"but '{symmetry}' is asked for. .* that have it are: {advice}[.]"):
        features = make_features(name, symmetry=symmetry)
    assert features.symmetry != symmetry


def test_what_sees_neither_mirrors_nor_rotations_has_rotation() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_features("ring-power", symmetry="rotation")


def test_features_tell_their_symmetry() -> None:
    said = {name: make_features(name).symmetry for name in FEATURES}
    assert said["pixels"] == "none"
    assert said["coupled-bispectrum"] == said["aligned"] == said["ring-bispectrum"] == "rotation"
    for symmetry in DEFAULT_FEATURES:
        assert make_features(symmetry=symmetry).symmetry == symmetry
    assert make_features(PCA()).symmetry is None


@pytest.mark.parametrize("name", ["ring-power", "ring-bispectrum"])
def test_only_the_power_of_rings_does_not_see_mirrors(name: str) -> None:
    images = np.random.default_rng(0).normal(size=(4, 9, 9))
    transformer = make_features(name).fit(images)
    first, mirrored = transformer.transform(images), transformer.transform(images[:, :, ::-1])
    reflected = transformer.symmetry == "rotation-reflection"
    assert np.allclose(first, mirrored, rtol=1e-3, atol=1e-3) == reflected


def test_every_class_says_its_symmetries_and_metrics() -> None:
    for name, kind in FEATURES.items():
        assert kind().symmetry in kind.symmetries
        assert set(kind.symmetries) <= set(DEFAULT_FEATURES)
        assert kind.default_metric in kind.metrics
        assert kind.aligns == (name == "aligned")
    assert METRICS == costs.METRICS
    assert FEATURES["aligned"].metrics == costs.aligned.ALIGNED_METRICS


def test_a_transformer_is_taken_as_it_is() -> None:
    transformer = RingBispectrum(n_angles=20)
    assert make_features(transformer, symmetry="rotation") is transformer


def test_transformers_of_other_libraries_are_adapted() -> None:
    images = np.random.default_rng(0).normal(size=(30, 6, 6))
    given = PCA(3, random_state=0)
    adapted = make_features(given, symmetry="rotation").fit(images)
    assert (adapted.symmetry, adapted.metrics, adapted.default_metric, adapted.aligns) == (None, METRICS, "l1", False)
    assert (adapted.n_features_out_, adapted.feature_weights_) == (3, None)
    assert not hasattr(given, "components_")  # a copy of it is fitted
    assert repr(adapted) == repr(given)
    expected = clone(given).fit(images.reshape(30, -1)).transform(images.reshape(30, -1))
    np.testing.assert_allclose(adapted.transform(images), expected, rtol=1e-5)
    out = np.empty((30, 3), dtype=np.float32)
    assert adapted.fill(images, out) == 0
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_a_pipeline_reads_images_if_its_first_step_does_and_has_the_weights_of_its_last() -> None:
    images = np.random.default_rng(0).normal(size=(5, 8, 8))
    ring = RingBispectrum(n_angles=8).fit(images)
    adapted = as_transformer(make_pipeline(FunctionTransformer(), RingBispectrum(n_angles=8))).fit(images)
    np.testing.assert_array_equal(adapted.feature_weights_, ring.feature_weights_)
    np.testing.assert_array_equal(adapted.transform(images), ring.transform(images))
    union = as_transformer(make_union(RingBispectrum(n_angles=8), RingPowerSpectrum(n_angles=8))).fit(images)
    np.testing.assert_array_equal(union.transform(images)[:, : ring.n_features_out_], ring.transform(images))
    assert union.feature_weights_ is None


def test_a_class_of_a_user_says_what_it_wants_to() -> None:
    class Mean:
        default_metric = "l2"
        symmetry = "translation"

        def fit(self, X: Any) -> None:
            pass

        def transform(self, X: Any) -> Any:
            return X.mean(axis=(1, 2))[:, None] if X.shape[1] == 4 else X

    features = make_features(Mean(), symmetry="translation").fit(np.ones((3, 4, 4)))
    assert (features.default_metric, features.symmetry, features.n_features_out_) == ("l2", "translation", 1)
    with pytest.raises(InputError, match=r"Mean gave features of shape \(2, 5, 5\) for 2 images"):
        features.transform(np.ones((2, 5, 5)))


@pytest.mark.parametrize("kind", [CyclicBispectrum, lambda: GroupBispectrum(CyclicGroup(6))])
def test_rows_with_one_channel_are_rows(kind: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 6))
    expected = kind().fit_transform(rows)
    for same in (rows[:, :, None], rows[:, None]):
        np.testing.assert_array_equal(kind().fit(rows).transform(same), expected)
    with pytest.raises(InputError, match="dim 3"):
        kind().fit(rows.reshape(3, 2, 3))


def test_unknown_names_get_suggestions() -> None:
    with pytest.raises(InputError, match="did you mean 'ring-bispectrum'"):
        make_features("ring-bispectrm", symmetry="rotation")
    with pytest.raises(InputError, match="did you mean 'rotation'"):
        make_features(symmetry="rotations")
    with pytest.raises(InputError, match=r"unknown features 'xyz'; choose one of pixels, combined-bispectrum"):
        make_features("xyz", symmetry="none")
    for wrong in (RingBispectrum, 3):
        with pytest.raises(InputError, match="must be a transformer with fit and transform"):
            make_features(wrong, symmetry="rotation")
