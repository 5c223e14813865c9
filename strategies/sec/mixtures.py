"""Mixtures of models: a learner's own, those of its cluster, those of all (Ye, Ding and Ghanadan 2022, eq. 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt8

from numerics.sec.mixture import combine, mean_squared_errors, mix
from numerics.sec.predictors import Predictors
from protocols.models import decode_model
from strategies.sec.learners import Learners
from strategies.sec.retraining import Retraining


@dataclass(frozen=True)
class Mixture:
    """Combinations of models that one learner tries (`protocols.sec.payloads.Predict` has the equation).

    Attributes
    ----------
    combinations : tuple of str
        Names of the combinations.
    weights : ndarray
        ``(combinations, models)`` weights of the models that the learner got; no columns for pooled regressions.
    own : ndarray
        ``(combinations,)`` weight of the learner's own model.
    coefficients : ndarray
        ``(combinations, p + 1)`` coefficients of pooled regressions, intercept first; no columns for mixed models.
    models : tuple of ndarray
        Models that were fitted to pooled rows.
    pool_weights : ndarray
        ``(combinations, len(models))`` their weights.
    """

    combinations: tuple[str, ...]
    weights: Float64[np.ndarray, "combinations models"]
    own: Float64[np.ndarray, "combinations"]
    coefficients: Float64[np.ndarray, "combinations q"]
    models: tuple[UInt8[np.ndarray, "_"], ...]
    pool_weights: Float64[np.ndarray, "combinations pool_models"]


def partners_of(
    name: str,
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    usable: Bool[np.ndarray, "L"],
    truth: Mapping[str, int],
) -> dict[str, Bool[np.ndarray, "L"]]:
    """Return the learners whose models predict for a learner, by combination; an empty mask means its own model alone.

    Newcomers use the models of others, but lend none: they were not part of the clustering. The combinations of all
    learners leave out those that are not `usable`: their predictions were not finite somewhere.

    Parameters
    ----------
    name : str
        Name of the learner.
    learners, labels, usable, truth
        As in `mix_models`.

    Returns
    -------
    dict of str to ndarray
        ``(L,)`` masks of ``alone``, ``cluster``, ``all``, and ``oracle`` if `truth` has the learner.

    Examples
    --------
    >>> from protocols.sec.payloads import FittedModel
    >>> empty = np.zeros(0)
    >>> profile = FittedModel("lr", 1.0, 0.1, 20, ("x",), empty.astype(np.uint8), empty, np.zeros((0, 0)))
    >>> learners = Learners.of(dict.fromkeys("abc", profile), (), {})
    >>> partners_of("a", learners, np.array([0, 0, 1]), np.ones(3, bool), {})["cluster"]
    array([ True,  True, False])
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


def mix_models(
    name: str,
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    senders: Sequence[str],
    *,
    usable: Bool[np.ndarray, "L"],
    pooled: bool,
    truth: Mapping[str, int],
    personal: bool = False,
    retraining: Retraining | None = None,
) -> Mixture:
    """Mix the models of each of a learner's combinations (eq. 5), by the weights of the learners.

    Parameters
    ----------
    name : str
        Name of the learner.
    learners : Learners
        All L learners.
    labels : ndarray
        ``(L,)`` clusters, -1 for none.
    senders : Sequence of str
        Learners whose models it got. If only landmarks' models were exchanged, the learner mixes its own model with
        those of the landmarks among its partners.
    usable : ndarray
        ``(L,)`` mask of the learners whose model predicts finite numbers.
    pooled : bool
        Use the pooled linear regression of the partners instead of the mean of eq. (5).
    truth : Mapping[str, int]
        True cluster by learner, if a scenario knows it.
    personal : bool
        Whether the learner also tries its personal mixture, whose weights it finds itself. A learner whose cluster has
        a model of pooled rows does not: a personal mixture cannot hold that model.
    retraining : Retraining, optional
        Models of pooled rows. Each takes the place of the models of the learners that sent these rows, with the sum of
        their weights.

    Examples
    --------
    Learners a and b form a cluster; a has 10 rows and b has 30, with the same error:

    >>> from protocols.sec.payloads import FittedModel
    >>> def profile(n):
    ...     empty = np.zeros(0)
    ...     return FittedModel("lr", 1.0, 0.1, n, ("x",), empty.astype(np.uint8), empty, np.zeros((0, 0)))
    >>> learners = Learners.of({"a": profile(10), "b": profile(30)}, (), {})
    >>> labels, usable = np.zeros(2, int), np.ones(2, bool)
    >>> mixture = mix_models("a", learners, labels, ("a", "b"), usable=usable, pooled=False, truth={})
    >>> mixture.weights[mixture.combinations.index("cluster")]
    array([0.25, 0.75])
    """
    partners = partners_of(name, learners, labels, usable, truth)
    own, weights, coefficients = [], [], []
    retraining = retraining or Retraining.none(len(labels))
    personal = personal and not retraining.among(partners["cluster"]).any()
    pools = [retraining.among(members) for members in partners.values()]
    keys = list(dict.fromkeys(pool.tobytes() for pool in pools if pool.any()))
    pool_weights = np.zeros((len(partners) + personal, len(keys)))
    for place, (members, pool) in enumerate(zip(partners.values(), pools, strict=True)):
        if pooled:
            own.append(float(not members.any()))
            q = len(next(iter(learners.profiles.values())).mean)
            coefficients.append(learners.pooled_regression(members) if members.any() else np.zeros(q))
            continue
        mass = dict(zip(learners.names, np.where(members & ~pool, learners.weights, 0.0).tolist(), strict=True))
        model_mass = np.array([mass[sender] for sender in senders])
        own_mass = 0.0 if name in senders else mass[name]
        total = model_mass.sum() + own_mass + learners.weights[pool].sum()
        if pool.any():
            pool_weights[place, keys.index(pool.tobytes())] = learners.weights[pool].sum() / total
        own.append(own_mass / total if total else 1.0)
        weights.append(model_mass / total if total else model_mass)
    names = tuple(partners)
    if personal:
        names += ("personal",)
        own.append(0.0)
        weights.append(np.zeros(len(senders)))
    no_columns = np.zeros((len(names), 0))
    return Mixture(
        names,
        no_columns if pooled else np.array(weights),
        np.array(own),
        np.array(coefficients) if pooled else no_columns,
        tuple(retraining.models[key] for key in keys),
        pool_weights,
    )


def predict_by_cluster(
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    x: Float64[np.ndarray, "t p"],
    *,
    pooled: bool,
    retraining: Retraining | None = None,
) -> Float64[np.ndarray, "clusters t"]:
    """Predict by every cluster: the weighted mean of its models (eq. 5), or its pooled regression.

    Newcomers lend no model, as in `partners_of`. The fusion center holds the models of all learners, even if only
    landmarks' were exchanged.

    Parameters
    ----------
    learners : Learners
        All L learners.
    labels : ndarray
        ``(L,)`` clusters, -1 for none.
    x : ndarray
        ``(t, p)`` rows, with the learners' inputs in their order.
    pooled, retraining
        As in `mix_models`.

    Returns
    -------
    ndarray
        ``(clusters, t)``; infinite where a prediction is not finite.

    Raises
    ------
    ModelError
        If a model cannot be read.

    Examples
    --------
    Pooled moments of rows ``(0, 0), (1, 2), (2, 4)`` give ``y = 2 x``:

    >>> from protocols.sec.payloads import FittedModel
    >>> mean, scatter = np.array([1.0, 2.0]), np.array([[2.0, 4.0], [4.0, 8.0]])
    >>> profile = FittedModel("lr", 0.0, 0.0, 3, ("x",), np.zeros(0, np.uint8), mean, scatter)
    >>> learners = Learners.of({"a": profile}, (), {})
    >>> predict_by_cluster(learners, np.zeros(1, int), np.array([[5.0]]), pooled=True).round(6)
    array([[10.]])
    """
    clusters = [~learners.newcomer & (labels == cluster) for cluster in range(int(labels.max()) + 1)]
    if pooled:
        coefficients = np.stack([learners.pooled_regression(members) for members in clusters])
        return np.asarray(coefficients[:, :1] + coefficients[:, 1:] @ x.T)
    weights = np.where(clusters, learners.weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    retraining = retraining or Retraining.none(len(labels))
    pools = np.array([retraining.among(members) for members in clusters])
    shares = np.diag((weights * pools).sum(axis=1))[:, pools.any(axis=1)]
    models = [profile.model for profile in learners.profiles.values()]
    models += [retraining.models[pool.tobytes()] for pool in pools if pool.any()]
    weights = np.hstack([np.where(pools, 0.0, weights), shares])
    return mix(weights, _predict(models, x))


def _predict(
    models: Iterable[UInt8[np.ndarray, "_"]], x: Float64[np.ndarray, "t p"]
) -> Float64[np.ndarray, "models t"]:
    return Predictors([decode_model(model) for model in models]).predict(x)


def predict_by_weights(
    learners: Learners, weights: Float64[np.ndarray, "mixtures L"], x: Float64[np.ndarray, "t p"]
) -> Float64[np.ndarray, "mixtures t"]:
    """Predict by mixtures of the models of all learners; infinite where a prediction is not finite."""
    return mix(weights, _predict((profile.model for profile in learners.profiles.values()), x))


def evaluate_on_test_rows(
    learners: Learners,
    labels: Int64[np.ndarray, "L"],
    x: Float64[np.ndarray, "t p"],
    y: Float64[np.ndarray, "t"],
    *,
    usable: Bool[np.ndarray, "L"],
    pooled: bool,
    retraining: Retraining,
) -> dict[str, dict[str, float]]:
    """Return the mean squared error on the center's own test rows by learner and combination.

    The center holds the models of all learners, so every combination mixes them all.
    """
    predictions = _predict((profile.model for profile in learners.profiles.values()), x)
    errors = {}
    for place, name in enumerate(learners.names):
        mixture = mix_models(
            name, learners, labels, learners.names, usable=usable, pooled=pooled, truth={}, retraining=retraining
        )
        total = combine(mixture.own, predictions[place], mixture.weights, predictions, mixture.coefficients, x)
        if mixture.models:
            total += mix(mixture.pool_weights, _predict(mixture.models, x))
        errors[name] = dict(zip(mixture.combinations, mean_squared_errors(total, y).tolist(), strict=True))
    return errors
