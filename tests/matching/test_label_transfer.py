"""The estimator with scikit-learn's interface."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import bispectral_ot as bot


@pytest.fixture(scope="module")
def halves():
    return bot.split_halves(bot.load("digits"), per_class=12)


def test_images_are_predicted_and_a_set_is_transduced(halves):
    source, target = halves
    estimator = bot.LabelTransfer().fit(target.images, target.labels)
    probabilities = estimator.predict_proba(source.images)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(estimator.predict(source.images), estimator.classes_[probabilities.argmax(axis=1)])
    assert estimator.score(source.images, source.labels) > 0.8
    match = estimator.transduce(source.images)
    labels = estimator.classes_[match.labels().label.astype(int)]
    assert (labels == source.labels).mean() > 0.8
    by_dataset = bot.LabelTransfer().fit(target)
    assert set(by_dataset.classes_) == set(target.classes)
    assert set(by_dataset.predict(source)) <= set(target.classes)


def test_model_selection_works_on_rows(halves):
    _, target = halves
    rows = target.images.reshape(len(target), -1).astype(float)
    assert cross_val_score(bot.LabelTransfer(), rows, target.labels, cv=2).mean() > 0.7
    search = GridSearchCV(bot.LabelTransfer(), {"metric_learning": ["auto", "none"]}, cv=2).fit(rows, target.labels)
    assert clone(search.best_estimator_).get_params()["metric_learning"] in ("auto", "none")


@pytest.mark.filterwarnings("ignore::bispectral_ot.DataWarning")
def test_estimator_passes_the_checks_of_scikit_learn():
    """But for subsets, whose probabilities may differ by float32 rounding: BLAS sums in another order."""
    rounding = {"check_methods_subset_invariance": "float32"}
    found = check_estimator(bot.LabelTransfer(), on_skip=None, expected_failed_checks=rounding)
    assert {each["status"] for each in found} <= {"passed", "skipped", "xfail"}


def test_probabilities_do_not_depend_on_the_batch(halves):
    source, target = halves
    estimator = bot.LabelTransfer().fit(target.images, target.labels)
    one_by_one = np.concatenate([estimator.predict_proba(source.images[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(one_by_one, estimator.predict_proba(source.images)[:5], atol=1e-4)


def test_labels_that_are_missing_or_too_few_are_refused(halves):
    _, target = halves
    with pytest.raises(ValueError, match="requires y to be passed"):
        bot.LabelTransfer().fit(target.images)
    with pytest.raises(ValueError, match="give one for each"):
        bot.LabelTransfer().fit(target.images, target.labels[:-1])
