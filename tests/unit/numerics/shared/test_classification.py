"""Scores of class probabilities, against scikit-learn's; lists of classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from numerics.shared.classes import align_probabilities, places_of, union_of_classes
from numerics.shared.classification import (
    SCORES,
    as_metrics,
    auc,
    best_threshold,
    classification_scores,
    confusion,
    predicted_classes,
    reliability,
)


def drawn(k: int, n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities, with ties, and classes."""
    rng = np.random.default_rng(seed)
    p = 0.1 / k + 0.9 * np.round(rng.dirichlet(np.ones(k), n), 2)
    p /= p.sum(axis=1, keepdims=True)
    return p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)


@pytest.mark.parametrize("k", [2, 5])
def test_scores_are_those_of_scikit_learn(k: int) -> None:
    p, y = drawn(k)
    scores = classification_scores(p, y)
    labels, ranked = list(range(k)), p[:, 1] if k == 2 else p
    theirs = {
        "log_loss": metrics.log_loss(y, p, labels=labels),
        "accuracy": metrics.accuracy_score(y, p.argmax(axis=1)),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, p.argmax(axis=1)),
        "auc": metrics.roc_auc_score(y, ranked, multi_class="ovr"),
        "brier": metrics.brier_score_loss(y, ranked, labels=labels),
    }
    assert tuple(scores) == SCORES
    for name, value in theirs.items():
        assert scores[name].value == pytest.approx(value, rel=1e-9), name
    np.testing.assert_array_equal(confusion(y, p.argmax(axis=1), k), metrics.confusion_matrix(y, p.argmax(axis=1)))


@pytest.mark.parametrize("name", [name for name in SCORES if name != "calibration_error"])
def test_standard_errors_are_those_of_the_bootstrap(name: str) -> None:
    p, y = drawn(3)
    rng = np.random.default_rng(1)
    again = [classification_scores(p[rows], y[rows])[name].value for rows in rng.integers(0, len(y), (300, len(y)))]
    assert classification_scores(p, y)[name].se == pytest.approx(np.std(again), rel=0.15)


def test_the_error_of_an_auc_is_that_of_delong_where_a_class_is_rare() -> None:
    """DeLong, DeLong and Clarke-Pearson (1988): pairs of rows won, averaged over either class."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [8, 92])
    p = np.round(rng.random(100) * 0.5 + 0.3 * y, 2)
    won = (p[:8, np.newaxis] > p[8:]) + 0.5 * (p[:8, np.newaxis] == p[8:])
    se = np.sqrt(won.mean(axis=1).var() / 8 + won.mean(axis=0).var() / 92)
    assert auc(np.column_stack([1 - p, p]), y).se == pytest.approx(se)


def test_of_equally_good_thresholds_the_nearest_to_one_half_is_chosen() -> None:
    p = np.array([0.2, 0.3, 0.8, 0.95])
    assert best_threshold(np.column_stack([1 - p, p]), np.array([0, 1, 0, 1])) == 0.25


def test_calibration_error_of_calibrated_probabilities_is_small_and_bins_sum_up() -> None:
    p, y = drawn(3, 20_000)
    assert classification_scores(p, y)["calibration_error"].value < 0.02
    halves = [np.array(reliability(p[rows], y[rows])) for rows in (slice(0, 9_000), slice(9_000, None))]
    np.testing.assert_allclose(halves[0] + halves[1], np.array(reliability(p, y)), rtol=1e-12)


def test_rows_of_one_class_have_no_auc() -> None:
    p, y = drawn(2)
    scores = classification_scores(p[y == 1], y[y == 1])
    assert np.isnan(scores["auc"].value)
    assert "auc" not in as_metrics(scores)
    assert auc(p[:0], y[:0]).value != auc(p[:0], y[:0]).value
    with pytest.raises(ValueError, match="no row"):
        classification_scores(p[:0], y[:0])


def test_a_threshold_serves_rare_classes() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.1).astype(np.int64)
    odds = 0.1 / 0.9 * np.exp(2 * (rng.normal(size=2000) + 2 * y) - 2)
    p = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
    half = len(y) // 2
    threshold = best_threshold(p[:half], y[:half])

    def balanced_accuracy(threshold: float | None) -> float:
        right = predicted_classes(p[half:], threshold) == y[half:]
        return float(np.mean([right[y[half:] == place].mean() for place in (0, 1)]))

    before, after = balanced_accuracy(None), balanced_accuracy(threshold)
    assert after > before + 0.05
    assert best_threshold(p[y == 0], y[y == 0]) == 0.5
    np.testing.assert_array_equal(predicted_classes(p), predicted_classes(p, 0.5))


def test_lists_are_aligned_by_name() -> None:
    lists = [("a", "c"), ("b",), ("c", "d")]
    agreed = union_of_classes(lists)
    assert agreed == ("a", "b", "c", "d")
    places = places_of(lists[2], agreed)
    p = align_probabilities(np.array([[0.25, 0.75]]), places, 4, n_rows=np.inf)
    np.testing.assert_array_equal(p, [[0, 0, 0.25, 0.75]])
    with pytest.raises(ValueError, match="'e' is not in the list"):
        places_of(("e",), agreed)
