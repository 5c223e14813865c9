"""Whose models predict for a learner of sec."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from protocols.models import encode_model
from protocols.sec.payloads import FittedModel
from strategies.sec.influence import influence_on_predictions
from strategies.sec.learners import Learners
from strategies.sec.mixtures import partners_of, predict_by_cluster

SLOPES = {"anna": 1.0, "bert": 2.0, "carl": 4.0, "dora": 8.0, "emil": 16.0}
ROWS = {"anna": 10, "bert": 30, "carl": 20, "dora": 50, "emil": 90}
LABELS = np.array([0, 0, 1, 0, -1])
"""Clusters: dora, a newcomer, has joined the first, and emil could be compared with nobody."""
X = np.array([[0.0], [1.0], [2.0]])


@pytest.fixture(scope="module")
def learners() -> Learners:
    profiles = {}
    for name, slope in SLOPES.items():
        x = np.arange(float(ROWS[name]))[:, np.newaxis]
        columns = np.column_stack([x, slope * x])
        centered = columns - columns.mean(axis=0)
        model = encode_model(LinearRegression().fit(x, slope * x[:, 0]))
        profiles[name] = FittedModel("lr", 1.0, 0.1, len(x), ("x",), model, columns.mean(axis=0), centered.T @ centered)
    return Learners.of(profiles, ("dora",), {})


def names_of(partners: dict[str, np.ndarray]) -> dict[str, list[str]]:
    return {key: np.array(list(SLOPES))[mask].tolist() for key, mask in partners.items()}


@pytest.mark.parametrize(
    ("name", "cluster"), [("anna", ["anna", "bert"]), ("dora", ["anna", "bert"]), ("carl", ["carl"]), ("emil", [])]
)
def test_newcomers_and_those_who_cannot_be_compared_lend_no_model(
    learners: Learners, name: str, cluster: list[str]
) -> None:
    partners = partners_of(name, learners, LABELS, np.ones(5, bool), {})
    assert names_of(partners) == {"alone": [], "cluster": cluster, "all": ["anna", "bert", "carl"]}


def test_who_predicts_no_finite_number_is_left_to_its_own_cluster(learners: Learners) -> None:
    usable = np.array([True, False, True, True, True])
    partners = partners_of("anna", learners, LABELS, usable, dict.fromkeys(SLOPES, 7))
    expected = {"cluster": ["anna", "bert"], "all": ["anna", "carl"], "oracle": ["anna", "carl"]}
    assert names_of(partners) == {"alone": [], **expected}


def test_a_cluster_predicts_by_the_mean_of_its_models_weighted_by_rows(learners: Learners) -> None:
    predicted = predict_by_cluster(learners, LABELS, X, pooled=False)
    slopes = [(10 * 1 + 30 * 2) / 40, 4]
    np.testing.assert_allclose(predicted, np.outer(slopes, X[:, 0]), atol=1e-9)


def test_a_pooled_cluster_predicts_by_the_regression_on_all_its_rows(learners: Learners) -> None:
    x = np.concatenate([np.arange(10.0), np.arange(30.0)])
    y = np.concatenate([np.arange(10.0), 2 * np.arange(30.0)])
    slope, intercept = np.polyfit(x, y, 1)
    predicted = predict_by_cluster(replace(learners), LABELS, X, pooled=True)
    np.testing.assert_allclose(predicted, [intercept + slope * X[:, 0], 4 * X[:, 0]], atol=1e-9)


def test_influence_is_the_weight_of_models_that_others_got(learners: Learners) -> None:
    everyone = influence_on_predictions(learners, LABELS, dict.fromkeys(SLOPES, tuple(SLOPES))).without
    # Anna has a quarter of bert's and of dora's predictions, bert three quarters of anna's and of dora's.
    assert everyone == pytest.approx({"anna": 0.5 / 4, "bert": 1.5 / 4, "carl": 0, "dora": 0, "emil": 0})
    landmark = influence_on_predictions(learners, LABELS, dict.fromkeys(SLOPES, ("bert",))).without
    assert landmark == pytest.approx({**dict.fromkeys(SLOPES, 0), "bert": (0.75 + 1) / 4})
    assert influence_on_predictions(learners, LABELS, {"anna": ("anna",)}).unknown
