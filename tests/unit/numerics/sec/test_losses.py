"""Log losses of sec: mixtures, distances of models, and what few rows can do to what leaves a site."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from numerics.sec.disclosure import guarded_errors, ranks_and_noise, supported_predictions
from numerics.sec.losses import Loss, mixture_weights, right_probabilities
from numerics.sec.partition_choice import MixtureLosses, choose_partition
from numerics.sec.selection import leave_out_chosen, select
from numerics.shared.candidates import CandidateError, parse_candidates
from numerics.shared.classifiers import class_probabilities

LOSS = Loss(2)
FLOOR = 5


def test_weights_are_those_of_least_log_loss_with_eight_rows_of_the_cluster() -> None:
    p, cluster = np.random.default_rng(0).beta(2, 1, size=(4, 60)), np.array([0.5, 0.3, 0.2, 0.0])

    def loss(shares: np.ndarray) -> float:
        return float(-np.log(shares @ p).sum() - 8 * cluster[:3] @ np.log(shares[:3]))

    def of_logits(logits: np.ndarray) -> float:
        return loss(np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())

    best = min(minimize(of_logits, start).fun for start in np.random.default_rng(1).normal(size=(5, 4)))
    assert loss(mixture_weights(p, cluster)) == pytest.approx(best, abs=1e-3 * 68)


def test_models_that_cannot_predict_get_no_weight_and_without_rows_the_cluster_decides() -> None:
    p = np.array([[0.9, 0.9], [np.nan, 0.9], [0.2, 0.2]])
    assert mixture_weights(p, np.array([0.0, 1.0, 0.0]))[1] == 0
    np.testing.assert_allclose(mixture_weights(p[:, :0], np.array([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5], atol=1e-3)


def test_a_mixture_gives_a_rows_class_the_mixture_of_the_probabilities() -> None:
    rng = np.random.default_rng(0)
    p, y, shares = rng.dirichlet(np.ones(3), (4, 20)), rng.integers(3, size=20), rng.dirichlet(np.ones(4))
    mixed = np.tensordot(shares, p, 1)
    np.testing.assert_allclose(shares @ right_probabilities(p, y), right_probabilities(mixed[None], y)[0])


def test_fewer_rows_than_the_floor_do_not_matter_whatever_a_model_says_of_them() -> None:
    rng = np.random.default_rng(0)
    own = rng.uniform(0.3, 0.9, 60)
    foreign = np.tile(own, (2, 1))
    foreign[1, : FLOOR - 1] = 1e-9
    ranks, noise = np.full(2, FLOOR), np.zeros(2)
    one, other = guarded_errors(foreign, own, np.zeros(60), ranks, noise, LOSS)
    assert one == other == pytest.approx(LOSS.means(own[None], np.zeros(60))[0])
    bounded = LOSS.from_scale(supported_predictions(LOSS.to_scale(foreign), LOSS.to_scale(own), ranks))
    np.testing.assert_allclose(bounded[1], own)
    assert (bounded <= 1).all()


def test_strips_of_class_trees_do_not_tell_where_a_row_is() -> None:
    """Each of 400 models gives every row 1/2, but the rows in a strip the least probability, so as to count them."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=80), rng.integers(2, size=80)
    own = np.where(y == (x > 0.5), 0.8, 0.2)
    edges = np.linspace(0, 1, 401)
    inside = (x >= edges[:-1, None]) & (x < edges[1:, None])
    foreign = np.where(inside, 1e-9, 0.5)
    drawn = [ranks_and_noise(np.random.default_rng(place), 80, FLOOR, 400) for place in range(400)]
    ranks, noise = np.array([rank for rank, _ in drawn]), np.array([each for _, each in drawn])
    told = guarded_errors(foreign, own, y.astype(float), ranks, noise, LOSS)
    holds = inside.any(axis=1)
    assert roc_auc_score(holds, LOSS.means(foreign, y.astype(float))) == 1
    assert abs(roc_auc_score(holds, told) - 0.5) < 0.1


def test_the_distance_of_two_models_is_what_both_lose_by_it() -> None:
    """Half of Jeffreys' divergence is, to second order, the sum of both models' excess over the truth between them."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 5.0), 400)
    moved = rng.normal(scale=0.01, size=truth.shape) * truth
    moved -= moved.mean(axis=1, keepdims=True)
    one, other = truth + moved, truth - moved
    excess = sum(float((truth * np.log(truth / each)).sum(axis=1).mean()) for each in (one, other))
    apart = float(((one - other) * (np.log(one) - np.log(other))).sum(axis=1).mean()) / 2
    assert apart == pytest.approx(2 * excess, rel=0.02)  # they lie on both sides of it: four times, not twice, of one


def test_clusters_of_log_losses_are_found_and_kept_together() -> None:
    within, between = 0.5, 2.0
    losses = np.where(np.kron(np.eye(2), np.ones((3, 3))) > 0, within, between)
    ones = np.ones(6)
    mixtures = MixtureLosses(losses, 0.5 * ones, 0.05 * ones, 40 * ones, ones, 0 * ones, squared=False)
    chosen = choose_partition(mixtures, [np.zeros(6, int), np.array([0, 0, 0, 1, 1, 1]), np.arange(6)])
    assert chosen.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("method", ["lr", "rf", "tree", "knn", "nn", "gb", "hgb"])
def test_every_method_is_selected_fitted_and_left_out(method: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) * [1.0, 1000.0]
    y = (x[:, 0] + rng.normal(scale=0.5, size=60) > 0).astype(float)
    settings = {"standardize": "model", "min_leaf": 5, "rng_seed": 0, "loss": LOSS, "class_weight": "balanced"}
    candidates = parse_candidates(f"{method}(n_estimators=5)" if method in ("rf", "gb") else method, classes=True)
    chosen = select(candidates, x, y, **settings)
    left = leave_out_chosen(chosen, x, y, **settings)
    assert chosen.fitted_error <= left.error < np.log(2)
    assert 0 < left.variance < 1
    p = class_probabilities(chosen.model, x, np.arange(2), 2, 60)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert ((left.predictions >= 0) & (left.predictions <= 1)).all()


def test_methods_without_probabilities_are_refused_by_name() -> None:
    with pytest.raises(CandidateError, match="lasso predicts no classes; there are: rf, lr, knn, nn, gb, hgb, tree"):
        parse_candidates("lr lasso", classes=True)
    with pytest.raises(CandidateError, match=r"class_weight is not a candidate's to set"):
        parse_candidates("lr(class_weight=balanced)", classes=True)


def test_balanced_weights_help_a_rare_class() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    y = (rng.random(400) < 1 / (1 + np.exp(3.5 - 2 * x[:, 0]))).astype(float)
    settings = {"standardize": "model", "min_leaf": 5, "rng_seed": 0, "loss": LOSS}
    recalls = []
    for weight in ("none", "balanced"):
        model = select(parse_candidates("lr", classes=True), x, y, class_weight=weight, **settings).model
        recalls.append(model.predict(x)[y == 1].mean())
    assert recalls[1] > recalls[0] + 0.2
