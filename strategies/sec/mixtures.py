"""Who predicts with whom: the weights of eq. (5), and pooled regressions, for every way that is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.sec.mixture import combine, mean_squared_errors, mix
from numerics.sec.predictors import Predictors
from protocols.models import decode_model
from strategies.sec.learners import Learners


@dataclass(frozen=True)
class Mixture:
    """The combinations that one learner tries (`protocols.sec.payloads.Predict` says how they predict).

    Attributes
    ----------
    combinations : tuple of str
        Their names.
    weights : ndarray
        ``(combinations, models sent)``; no columns where models are not mixed.
    own : ndarray
        ``(combinations,)``, weight of the learner's own model.
    coefficients : ndarray
        ``(combinations, p + 1)``; no columns where nothing is pooled.
    """

    combinations: tuple[str, ...]
    weights: Float64[np.ndarray, "combinations models"]
    own: Float64[np.ndarray, "combinations"]
    coefficients: Float64[np.ndarray, "combinations q"]


def groups_of(
    name: str,
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    fit: Bool[np.ndarray, "L"],
    truth: Mapping[str, int],
) -> dict[str, Bool[np.ndarray, "L"]]:
    """With whom a learner predicts, by combination; nobody: with its own model alone.

    Newcomers use the others' models and lend none: they were not part of the clustering. Those who are not `fit`, whose
    predictions were not finite for somebody, are left out of what everybody would use.
    """
    place = learners.names.index(name)
    clustered = ~learners.newcomer & (labels >= 0)
    groups = {
        "alone": np.zeros(len(labels), bool),
        "cluster": clustered & (labels == labels[place]),
        "all": clustered & fit,
    }
    if name in truth:
        true = np.array([truth.get(other, -1) for other in learners.names])
        groups["oracle"] = clustered & fit & (true == truth[name])
    return groups


def mixtures(
    name: str,
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    senders: Sequence[str],
    *,
    fit: Bool[np.ndarray, "L"],
    pooled: bool,
    truth: Mapping[str, int],
) -> Mixture:
    """The combinations of one learner.

    Parameters
    ----------
    name : str
        Of the learner.
    learners : Learners
        All of them.
    labels : ndarray
        ``(L,)``, -1 for none.
    senders : Sequence of str
        Whose models the learner was sent. Of a group, those among them and the learner itself predict (all of the
        group, unless only landmarks' models were exchanged).
    fit : ndarray
        ``(L,)``, whose model predicts finite numbers.
    pooled : bool
        Whether a group predicts by its pooled linear regression instead of the mean of eq. (5).
    truth : Mapping[str, int]
        True cluster by learner, where a scenario knows it.
    """
    groups = groups_of(name, learners, labels, fit, truth)
    own, weights, coefficients = [], [], []
    for group in groups.values():
        if pooled:
            own.append(float(not group.any()))
            q = len(next(iter(learners.shown.values())).mean)
            coefficients.append(learners.pooled_regression(group) if group.any() else np.zeros(q))
            continue
        mass = dict(zip(learners.names, np.where(group, learners.n, 0).tolist(), strict=True))
        of_models = np.array([float(mass[sender]) for sender in senders])
        of_own = 0.0 if name in senders else float(mass[name])
        total = of_models.sum() + of_own
        own.append(of_own / total if total else 1.0)
        weights.append(of_models / total if total else of_models)
    nothing = np.zeros((len(groups), 0))
    return Mixture(
        tuple(groups),
        nothing if pooled else np.array(weights),
        np.array(own),
        np.array(coefficients) if pooled else nothing,
    )


def by_cluster(
    learners: Learners, labels: Int64[np.ndarray, "L"], x: Float64[np.ndarray, "t p"], *, pooled: bool
) -> Float64[np.ndarray, "clusters t"]:
    """What every cluster predicts: the mean of all its models weighted by rows (eq. 5), or its pooled regression.

    Newcomers lend no model, as in `groups_of`. The fusion center holds all models, also where only landmarks' were
    exchanged.

    Parameters
    ----------
    learners : Learners
        All of them.
    labels : ndarray
        ``(L,)``, -1 for none.
    x : ndarray
        Rows, with the learners' inputs in their order.
    pooled : bool
        As in `mixtures`.

    Returns
    -------
    ndarray
        Infinite where a prediction is not finite.

    Raises
    ------
    ModelError
        If a model cannot be read here.
    """
    groups = [~learners.newcomer & (labels == cluster) for cluster in range(int(labels.max()) + 1)]
    if pooled:
        coefficients = np.stack([learners.pooled_regression(group) for group in groups])
        return np.asarray(coefficients[:, :1] + coefficients[:, 1:] @ x.T)
    predictions = Predictors([decode_model(shown.model) for shown in learners.shown.values()]).predict(x)
    rows = np.where(groups, learners.n, 0)
    return mix(rows / rows.sum(axis=1, keepdims=True), predictions)


def on_test_rows(
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    x: Float64[np.ndarray, "t p"],
    y: Float64[np.ndarray, "t"],
    *,
    fit: Bool[np.ndarray, "L"],
    pooled: bool,
) -> dict[str, dict[str, float]]:
    """Mean squared error on the center's own test rows, by learner and combination; all models are there."""
    predictions = Predictors([decode_model(shown.model) for shown in learners.shown.values()]).predict(x)
    found = {}
    for place, name in enumerate(learners.names):
        mixture = mixtures(name, learners, labels, learners.names, fit=fit, pooled=pooled, truth={})
        total = combine(mixture.own, predictions[place], mixture.weights, predictions, mixture.coefficients, x)
        found[name] = dict(zip(mixture.combinations, mean_squared_errors(total, y).tolist(), strict=True))
    return found
