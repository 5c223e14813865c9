"""Ways to classify instances from the labels of raters and clusterings, for benchmarks/raters.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float64

from numerics.bc3e.e_step import EStepSettings, cold_start, e_step
from numerics.bc3e.ensemble import Ensemble, n_values
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.grid import MAX_BITS, from_grid
from numerics.bc3e.m_step import maximize_alpha
from numerics.bc3e.reliability import (
    class_probabilities,
    confusion_of,
    doubt_of,
    draws_of,
    first_table,
    gain,
    maximize_table,
    share_right,
)
from numerics.bc3e.responsibilities import likelihood_table

Probabilities = Float64[np.ndarray, "n k"]

_LEAST = 1e-6
"""Smallest probability of a log loss."""
_STEPS, _TOLERANCE = 100, 1e-6


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of one draw.

    Attributes
    ----------
    ensemble : Ensemble
        Hard labels by raters and clusterings, and the truth.
    one_hot : ndarray
        ``(r, n, k)``: the raters' labels; zeros where there is none.
    """

    ensemble: Ensemble
    one_hot: Float64[np.ndarray, "r n k"]

    @classmethod
    def of(cls, ensemble: Ensemble) -> Labels:
        """Return the labels of an ensemble."""
        k = max(map(n_values, ensemble.classifiers.values()))
        given = np.stack(list(ensemble.classifiers.values()))
        return cls(ensemble, (given[:, :, np.newaxis] == np.arange(k)).astype(float))

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.one_hot.shape[2])

    @property
    def votes(self) -> Probabilities:
        """Votes for each class."""
        return np.asarray(self.one_hot.sum(axis=0))

    def right(self, probabilities: Probabilities) -> float:
        """Return the percentage of instances whose likeliest class is the true one."""
        return 100 * float(np.mean(probabilities.argmax(axis=1) == self.ensemble.truth))

    def log_loss(self, probabilities: Probabilities) -> float:
        """Return the mean log loss."""
        total = probabilities.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, probabilities / np.where(total > 0, total, 1), 1 / self.k)
        return -float(np.mean(np.log(np.maximum(shares[np.arange(len(shares)), self.ensemble.truth], _LEAST))))


# -- methods ----------------------------------------------------------------------------------------------------------


def vote(labels: Labels) -> Probabilities:
    """Return the votes."""
    return labels.votes


def weighted_vote(labels: Labels) -> Probabilities:
    """Weight raters by the log odds of their agreement with the vote, with errors spread over the other classes."""
    majority = labels.votes.argmax(axis=1)
    given = labels.one_hot.sum(axis=(1, 2))
    agree = (labels.one_hot[:, np.arange(len(majority)), majority].sum(axis=1) + 1) / (given + 2)
    weights = np.log(agree * max(labels.k - 1, 1) / (1 - agree))
    return np.asarray(np.exp(np.einsum("r,rnk->nk", weights, labels.one_hot)))


def best_rater(labels: Labels) -> Probabilities:
    """Return the labels of the rater with most right labels, and votes where that rater has no label."""
    truth = labels.ensemble.truth
    right = [float((given == truth).mean()) for given in labels.ensemble.classifiers.values()]
    best = labels.one_hot[int(np.argmax(right))]
    return np.where(best.any(axis=1, keepdims=True), best, labels.votes)


def dawid_skene(labels: Labels) -> Probabilities:
    """Fit every rater's confusion matrix by EM (Dawid and Skene 1979), with 0.01 labels added to every entry."""
    shares = labels.votes + 1e-12
    shares /= shares.sum(axis=1, keepdims=True)
    for _ in range(_STEPS):
        tables = np.einsum("ni,rnj->rij", shares, labels.one_hot) + 0.01
        tables /= tables.sum(axis=2, keepdims=True)
        logs = np.log(shares.mean(axis=0) + 1e-12) + np.einsum("rnj,rij->ni", labels.one_hot, np.log(tables))
        before, shares = shares, np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        if np.abs(shares - before).max() < 1e-4:
            break
    return np.asarray(shares)


def c3e(labels: Labels, weight: float = 0.01) -> Probabilities:
    """Fit C3E with squared losses (Acharya, Hruschka, Ghosh and Acharyya 2011), on pooled labels.

    Class probabilities y minimize ``sum_i |y_i - pi_i|^2 / 2 + weight sum_ij s_ij |y_i - y_j|^2 / 2``: pi_i is the mean
    label of the raters, and s_ij the share of the clusterings that have i and j in one cluster.
    """
    votes = labels.votes + 1e-12
    mean = votes / votes.sum(axis=1, keepdims=True)
    clusterings = labels.ensemble.clusterings.values()
    if not clusterings:
        return np.asarray(mean)
    alike = sum((given[:, np.newaxis] == given).astype(float) for given in clusterings) / len(clusterings)
    laplacian = np.diag(alike.sum(axis=1)) - alike
    return np.maximum(np.linalg.solve(np.eye(len(mean)) + 2 * weight * laplacian, mean), 0.0)


def bgcm(labels: Labels, weight: float = 2.0) -> Probabilities:
    """Fit BGCM (Gao, Liang, Fan, Sun and Han 2009) to pooled labels, by steps between instances and groups.

    Each class of a rater and each cluster is a group. A group has the mean class probabilities of its instances; the
    group of a rater's class is pulled towards that class by `weight`. An instance has the mean of its groups.
    """
    ensemble, k = labels.ensemble, labels.k
    clusters = [given[:, np.newaxis] == np.arange(n_values(given)) for given in ensemble.clusterings.values()]
    edges = np.hstack([*labels.one_hot, *(each.astype(float) for each in clusters)])
    pulled = np.zeros((edges.shape[1], k))
    pulled[: k * len(labels.one_hot)] = np.tile(weight * np.eye(k), (len(labels.one_hot), 1))
    shares = np.full((ensemble.n, k), 1 / k)
    for _ in range(_STEPS):
        groups = edges.T @ shares + pulled
        groups /= np.maximum(edges.sum(axis=0)[:, np.newaxis] + pulled.sum(axis=1, keepdims=True), 1e-12)
        before, shares = shares, edges @ groups / np.maximum(edges.sum(axis=1, keepdims=True), 1e-12)
        if np.abs(shares - before).max() < 1e-8:
            break
    return np.asarray(shares)


def crowd_kit(name: str, labels: Labels) -> Probabilities:
    """Fit a method of the package crowd-kit, with its defaults, to the labels of the raters."""
    from crowdkit import aggregation

    task, worker = np.nonzero(labels.one_hot.any(axis=2).T)
    given = labels.one_hot.argmax(axis=2)[worker, task]
    table = pd.DataFrame({"task": task, "worker": worker, "label": given})
    found = getattr(aggregation, name)().fit_predict_proba(table)
    shares = found.reindex(index=range(labels.ensemble.n), columns=range(labels.k)).fillna(0.0).to_numpy()
    return np.where(shares.any(axis=1, keepdims=True), shares, 1 / labels.k)


def bc3e(labels: Labels, draws: int | None = None) -> tuple[Probabilities, Mapping[str, float]]:
    """Fit by plain EM; return class probabilities, and the estimated share of right labels by rater.

    `draws` is explained in `numerics.bc3e.reliability`; None: the protocol's choice.
    """
    ensemble, k, bits = labels.ensemble, labels.k, MAX_BITS
    decides = draws is None and bool(ensemble.clusterings)
    counts = draws_of([0.0] * len(ensemble.clusterings)) if draws is None else draws
    sizes = {name: n_values(given) for name, given in ensemble.clusterings.items()}
    if counts:
        sizes |= dict.fromkeys(map(confusion_of, ensemble.classifiers), k)
    tables = {name: first_table(name, k, size, 0) for name, size in sizes.items()}
    alpha = np.ones(k)
    gamma = add_alpha(alpha, cold_start(ensemble.classifiers, ensemble.clusterings, ensemble.n, k, bits), bits)
    bound = -np.inf
    for _ in range(_STEPS):
        rates = {name: likelihood_table(table) for name, table in tables.items()}
        used, right = alpha, tables
        settings = EStepSettings(bits, 1e-5, 50, counts, alone=decides)
        gamma, part = e_step(alpha, rates, ensemble.classifiers, ensemble.clusterings, gamma, settings)
        if decides:
            gains = [gain(part.mass[name], part.squares[name], bits) for name in ensemble.clusterings]
            counts, decides = draws_of(gains), False
        if abs(part.bound - bound) <= _TOLERANCE * abs(part.bound):
            break
        bound = part.bound
        alpha = maximize_alpha(alpha, from_grid(part.log_theta, bits) / ensemble.n)
        tables = {name: maximize_table(name, part.mass[name], bits, 0.0) for name in tables}
    given = {name: int((labels >= 0).sum()) for name, labels in ensemble.classifiers.items() if counts}
    shares = {name: share_right(used, right[confusion_of(name)], n_labels) for name, n_labels in given.items()}
    return class_probabilities(gamma, used if counts else np.zeros(0), doubt_of(counts, tables)), shares


def _draws(labels: Labels, most: int) -> int:
    return most if labels.ensemble.clusterings else 1


Method = Callable[[Labels], Probabilities]

METHODS: Mapping[str, Method] = {
    "vote": vote,
    "weighted vote": weighted_vote,
    "best rater": best_rater,
    "Dawid-Skene": dawid_skene,
    "C3E": c3e,
    "BGCM": bgcm,
    "bc3e, none": lambda labels: bc3e(labels, 0)[0],
    "bc3e, 1 draw": lambda labels: bc3e(labels, 1)[0],
    "bc3e, 2 draws": lambda labels: bc3e(labels, _draws(labels, 2))[0],
    "bc3e, 3 draws": lambda labels: bc3e(labels, _draws(labels, 3))[0],
}
"""Methods by name; bc3e with its defaults is added at the end of every table."""

CROWD_KIT: Mapping[str, Method] = {
    "vote": vote,
    "Dawid-Skene": partial(crowd_kit, "DawidSkene"),
    "one coin": partial(crowd_kit, "OneCoinDawidSkene"),
    "GLAD": partial(crowd_kit, "GLAD"),
    "MACE": partial(crowd_kit, "MACE"),
}
"""Methods of crowd-kit by name, which only use the raters' labels."""
