"""Rare labels, which a site withholds so that no sum describes few of its instances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.bc3e.ensemble import Counts, Ensemble, Labels, combination_codes, n_values, present
from numerics.bc3e.grid import add_up


def without_rare_labels(ensemble: Ensemble, fewest: int, counts: Counts = None) -> Ensemble:
    """Withhold the labels of small clusters and classes; their instances count as unlabeled by that model.

    Parameters
    ----------
    ensemble : Ensemble
        Labels of the instances.
    fewest : int
        Fewest instances of a label. With soft labels all instances with a positive probability count, and the
        probabilities that remain are scaled to 1.
    counts : ndarray or None
        ``(n,)`` number of instances that each stands for; None: one.

    Returns
    -------
    Ensemble
        The labels that remain; the ensemble itself if all do.

    Examples
    --------
    >>> ensemble = Ensemble(4, {}, {"kmeans": np.array([0, 0, 0, 1])})
    >>> without_rare_labels(ensemble, fewest=2).clusterings["kmeans"].tolist()
    [0, 0, 0, -1]
    """
    classifiers, clusterings, withheld = dict(ensemble.classifiers), dict(ensemble.clusterings), False
    for models in (classifiers, clusterings):
        for name, labels in models.items():
            rare = _support(labels, counts)
            rare = (rare > 0) & (rare < fewest)
            if rare.any():
                models[name], withheld = _without(labels, rare), True
    return replace(ensemble, classifiers=classifiers, clusterings=clusterings) if withheld else ensemble


def _support(labels: Labels, counts: Counts) -> Int64[np.ndarray, "k_m"]:
    if labels.ndim == 2:
        return add_up((labels > 0).astype(np.int64).T, counts)
    labeled = labels >= 0
    weights = None if counts is None else counts[labeled]  # as floats: exact, far below 2**53
    return np.bincount(labels[labeled], weights, minlength=n_values(labels)).astype(np.int64)


def _without(labels: Labels, rare: Shaped[np.ndarray, "k_m"]) -> Labels:
    if labels.ndim == 1:
        return np.where((labels >= 0) & rare[labels], -1, labels)
    shares = np.where(rare, 0.0, labels)
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(shares, total, out=np.zeros_like(shares), where=total > 0))


def without_rare_combinations(ensemble: Ensemble, fewest: int, counts: Counts = None, seed: int = 0) -> Ensemble:
    """Withhold labels until every remaining combination of labels has enough instances.

    This is local suppression (Sweeney 2002): an instance of a rare combination loses one label if that is enough, else
    the labels of as many models as it takes, in a random order. Sites with different orders withhold different models'
    labels, so that together they tell of every model. Soft labels are neither counted nor withheld.

    Parameters
    ----------
    ensemble : Ensemble
        Labels of the instances.
    fewest : int
        Fewest instances of a combination; those without any label may be fewer.
    counts : ndarray or None
        ``(n,)`` number of instances that each stands for; None: one.
    seed : int
        Seed of the order of the models.

    Returns
    -------
    Ensemble
        The labels that remain; the ensemble itself if all do.

    Examples
    --------
    >>> ensemble = Ensemble(4, {"svm": np.array([0, 0, 0, 0])}, {"kmeans": np.array([0, 0, 1, 2])})
    >>> without_rare_combinations(ensemble, 2).clusterings["kmeans"].tolist()
    [0, 0, -1, -1]
    """
    models = [
        (kind, name)
        for kind in ("classifiers", "clusterings")
        for name, labels in getattr(ensemble, kind).items()
        if labels.ndim == 1
    ]
    if not models:
        return ensemble
    models = [models[at] for at in np.random.default_rng(seed).permutation(len(models))]
    before = np.stack([getattr(ensemble, kind)[name] for kind, name in models], axis=1)
    after, rare, q = before.copy(), np.ones(ensemble.n, bool), len(models)
    single, several = (slice(at, at + 1) for at in range(q)), (slice(most) for most in range(2, q + 1))
    for withheld in [slice(0), *single, *several]:
        after[rare, withheld] = -1
        rare &= _instances_alike(after, counts) < fewest
        after[rare] = before[rare]
    after[rare] = -1
    if (after == before).all():
        return ensemble
    remainder: dict[str, dict[str, Labels]] = {"classifiers": {}, "clusterings": {}}
    for at, (kind, name) in enumerate(models):
        remainder[kind][name] = after[:, at]
    return replace(
        ensemble,
        classifiers={**ensemble.classifiers, **remainder["classifiers"]},
        clusterings={**ensemble.clusterings, **remainder["clusterings"]},
    )


def share_withheld(remainder: Ensemble, ensemble: Ensemble, counts: Counts = None) -> float:
    """Return the share of the labels of an ensemble that are not in the remainder; 0 without labels.

    Examples
    --------
    >>> share_withheld(Ensemble(2, {"svm": np.array([0, -1])}), Ensemble(2, {"svm": np.array([0, 1])}))
    0.5
    """
    rest, every = (
        sum(
            float(present(labels) @ (np.ones(each.n) if counts is None else counts))
            for labels in (*each.classifiers.values(), *each.clusterings.values())
        )
        for each in (remainder, ensemble)
    )
    return 1 - rest / every if every else 0.0


def _instances_alike(labels: Int64[np.ndarray, "n q"], counts: Counts) -> Int64[np.ndarray, "n"]:
    """Count the instances of each instance's combination."""
    code = combination_codes(labels.T, len(labels))
    _, place = np.unique(code, return_inverse=True)
    return np.asarray(np.bincount(place, counts)[place].astype(np.int64))
