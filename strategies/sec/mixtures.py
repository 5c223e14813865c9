"""What each learner predicts by: its own model, its cluster's, or all (Ye, Ding and Ghanadan 2022, eq. 5)."""

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
    """The combinations of models that one learner tries (`protocols.sec.payloads.Predict` says how they predict).

    Attributes
    ----------
    combinations : tuple of str
        Their names.
    weights : ndarray
        ``(combinations, models)`` of the models it was sent; no columns where models are not mixed.
    own : ndarray
        ``(combinations,)`` weight of the learner's own model.
    coefficients : ndarray
        ``(combinations, p + 1)``; no columns where nothing is pooled.
    """

    combinations: tuple[str, ...]
    weights: Float64[np.ndarray, "combinations models"]
    own: Float64[np.ndarray, "combinations"]
    coefficients: Float64[np.ndarray, "combinations q"]


def partners_of(
    name: str,
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    usable: Bool[np.ndarray, "L"],
    truth: Mapping[str, int],
) -> dict[str, Bool[np.ndarray, "L"]]:
    """Return the learners that a learner predicts with, by combination; none: with its own model alone.

    Newcomers use the others' models and lend none: they were not part of the clustering. Learners that are not
    `usable`, because their predictions were not finite somewhere, are left out of the combinations of all.
    """
    place = learners.names.index(name)
    clustered = ~learners.newcomer & (labels >= 0)
    partners = {
        "alone": np.zeros(len(labels), bool),
        "cluster": clustered & (labels == labels[place]),
        "all": clustered & usable,
    }
    if name in truth:
        true = np.array([truth.get(other, -1) for other in learners.names])
        partners["oracle"] = clustered & usable & (true == truth[name])
    return partners


def mixtures(
    name: str,
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    senders: Sequence[str],
    *,
    usable: Bool[np.ndarray, "L"],
    pooled: bool,
    truth: Mapping[str, int],
) -> Mixture:
    """Return the combinations that one learner tries.

    Parameters
    ----------
    name : str
        Of the learner.
    learners : Learners
        All L of them.
    labels : ndarray
        ``(L,)`` clusters, -1 for none.
    senders : Sequence of str
        Learners whose models it was sent. Of its partners, those among them and the learner itself predict: all of
        them, unless only landmarks' models were exchanged.
    usable : ndarray
        ``(L,)`` mask of the learners whose model predicts finite numbers.
    pooled : bool
        Whether partners predict by their pooled linear regression instead of the mean of eq. (5).
    truth : Mapping[str, int]
        True cluster by learner, where a scenario knows it.
    """
    partners = partners_of(name, learners, labels, usable, truth)
    own, weights, coefficients = [], [], []
    for members in partners.values():
        if pooled:
            own.append(float(not members.any()))
            q = len(next(iter(learners.profiles.values())).mean)
            coefficients.append(learners.pooled_regression(members) if members.any() else np.zeros(q))
            continue
        mass = dict(zip(learners.names, np.where(members, learners.n, 0).tolist(), strict=True))
        of_models = np.array([float(mass[sender]) for sender in senders])
        of_own = 0.0 if name in senders else float(mass[name])
        total = of_models.sum() + of_own
        own.append(of_own / total if total else 1.0)
        weights.append(of_models / total if total else of_models)
    nothing = np.zeros((len(partners), 0))
    return Mixture(
        tuple(partners),
        nothing if pooled else np.array(weights),
        np.array(own),
        np.array(coefficients) if pooled else nothing,
    )


def by_cluster(
    learners: Learners, labels: Int64[np.ndarray, "L"], x: Float64[np.ndarray, "t p"], *, pooled: bool
) -> Float64[np.ndarray, "clusters t"]:
    """Predict by every cluster: the mean of its models weighted by rows (eq. 5), or its pooled regression.

    Newcomers lend no model, as in `partners_of`. The fusion center holds all models, also where only landmarks' were
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
    clusters = [~learners.newcomer & (labels == cluster) for cluster in range(int(labels.max()) + 1)]
    if pooled:
        coefficients = np.stack([learners.pooled_regression(members) for members in clusters])
        return np.asarray(coefficients[:, :1] + coefficients[:, 1:] @ x.T)
    predictions = Predictors([decode_model(profile.model) for profile in learners.profiles.values()]).predict(x)
    rows = np.where(clusters, learners.n, 0)
    return mix(rows / rows.sum(axis=1, keepdims=True), predictions)


def on_test_rows(
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    x: Float64[np.ndarray, "t p"],
    y: Float64[np.ndarray, "t"],
    *,
    usable: Bool[np.ndarray, "L"],
    pooled: bool,
) -> dict[str, dict[str, float]]:
    """Return the mean squared error on the center's own test rows, by learner and combination, of all models."""
    predictions = Predictors([decode_model(profile.model) for profile in learners.profiles.values()]).predict(x)
    errors = {}
    for place, name in enumerate(learners.names):
        mixture = mixtures(name, learners, labels, learners.names, usable=usable, pooled=pooled, truth={})
        total = combine(mixture.own, predictions[place], mixture.weights, predictions, mixture.coefficients, x)
        errors[name] = dict(zip(mixture.combinations, mean_squared_errors(total, y).tolist(), strict=True))
    return errors
