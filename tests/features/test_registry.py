"""Names, symmetries and metrics of features, and transformers of other libraries."""

from typing import Any, get_args

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from bispectral_ot import checks, costs
from bispectral_ot.checks import METRICS
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import DEFAULT_FEATURES, FEATURES, CombinedBispectrum, RingBispectrum, choose_features


def test_the_table_is_consistent() -> None:
    for name, kind in FEATURES.items():
        spec = choose_features(name, kind="vectors" if name == "vectors" else "images")
        assert type(spec.transformer) is kind
        assert spec.name == name
        assert spec.symmetry == kind().symmetry
        assert spec.symmetry in kind.symmetries
        assert spec.metric == kind.default_metric
        assert kind.default_metric in kind.metrics
        assert kind.aligns == (name == "best-rotation")
    assert FEATURES["best-rotation"].metrics == costs.ALIGNED_METRICS
    assert set(get_args(checks.FeatureName)) == set(FEATURES)
    assert set(get_args(checks.Symmetry)) == set(DEFAULT_FEATURES)


def test_the_default_follows_the_symmetry_and_the_kind() -> None:
    for symmetry, name in DEFAULT_FEATURES.items():
        assert choose_features(symmetry=symmetry).symmetry == symmetry
        assert choose_features(symmetry=symmetry).name == name
    assert (choose_features(kind="clouds").name, choose_features(PCA()).symmetry) == ("shell-bispectrum", None)
    with pytest.raises(InputError, match="shapes have the symmetry 'so3-shapes', not 'rotation'"):
        choose_features(symmetry="rotation", kind="clouds")  # points are not pixels


@pytest.mark.parametrize(
    ("name", "symmetry", "advice"),
    [
        ("best-rotation", "none", "pixels"),
        ("ring-bispectrum", "rotation-reflection", "bispectrum, global-bispectrum, local-bispectrum, best-rotation"),
        (RingBispectrum(), "d4", "d4-bispectrum"),
    ],
)
def test_a_symmetry_that_the_features_do_not_have_is_told(name: Any, symmetry: str, advice: str) -> None:
    with pytest.warns(DataWarning, match=f"not '{symmetry}', and .* is used. .*: {advice}"):
        assert choose_features(name, symmetry=symmetry).symmetry != symmetry


def test_intensity_is_for_features_by_name_that_have_the_choice() -> None:
    assert choose_features("bispectrum", intensity="keep").transformer.intensity == "keep"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="use bispectrum or local-bispectrum"):
        choose_features("pixels", intensity="keep")
    with pytest.raises(InputError, match="did you mean 'keep'"):
        choose_features("bispectrum", intensity="kep")
    with pytest.raises(InputError, match="intensity is for features by name"):
        choose_features(CombinedBispectrum(), intensity="keep")


def test_transformers_of_other_libraries_are_adapted() -> None:
    images, given = np.random.default_rng(0).normal(size=(30, 6, 6)), PCA(3, random_state=0)
    adapted = choose_features(given, symmetry="rotation").transformer.fit(images)
    assert (adapted.symmetry, adapted.metrics, adapted.default_metric, adapted.aligns) == (None, METRICS, "l1", False)
    np.testing.assert_array_equal(adapted.feature_weights_, [1, 1, 1])
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
    adapted = choose_features(make_pipeline(FunctionTransformer(), RingBispectrum(n_angles=8))).transformer.fit(images)
    np.testing.assert_array_equal(adapted.feature_weights_, ring.feature_weights_)
    np.testing.assert_array_equal(adapted.transform(images), ring.transform(images))
