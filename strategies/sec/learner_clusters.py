"""Clusters of learners: from losses to clusters, and newcomers into an existing clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.sec.cluster_assignment import assign
from numerics.sec.similarity import complete, dissimilarity, incomparable, similarity, similarity_to
from numerics.sec.spectral import cluster
from protocols.sec.settings import Settings
from strategies.errors import FusionError
from strategies.sec.learners import Learners


@dataclass(frozen=True)
class LearnerClusters:
    """Clusters of all learners of a run, newcomers included, in the order of their names.

    Attributes
    ----------
    labels : ndarray
        ``(L,)`` cluster of each learner; -1 where too little is known of it.
    n_clusters : int
        Number of clusters.
    dissimilarity, similarity : ndarray
        ``(L, L)``; NaN where unknown. Between clustered learners the similarity is completed.
    scale : float
        ``a`` of ``s = exp(-a v)``.
    eigenvalues : ndarray
        Of the normalised similarity of the clustered learners, descending.
    gap, gap_error : ndarray
        Gap statistic from two clusters on; empty unless it chose their number.
    n_completed : int
        Pairs of clustered learners that were not compared, and whose similarity was completed; 0 with landmarks, where
        that is the method.
    """

    labels: Int64[np.ndarray, "L"]
    n_clusters: int
    dissimilarity: Float64[np.ndarray, "L L"]
    similarity: Float64[np.ndarray, "L L"]
    scale: float
    eigenvalues: Float64[np.ndarray, "e"]
    gap: Float64[np.ndarray, "c"]
    gap_error: Float64[np.ndarray, "c"]
    n_completed: int = 0

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line."""
        return {"n_clusters": float(self.n_clusters)}

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return arrays by their names in `arrays.npz`."""
        return {
            "labels": self.labels,
            "dissimilarity": self.dissimilarity,
            "similarity": self.similarity,
            "eigenvalues": self.eigenvalues,
            "gap": self.gap,
            "gap_error": self.gap_error,
            "scale": np.array(self.scale),
        }


def cluster_learners(
    learners: Learners,
    losses: Float64[np.ndarray, "L L"],
    settings: Settings,
    earlier: Mapping[str, Shaped[np.ndarray, "..."]],
    rng: np.random.Generator,
) -> LearnerClusters:
    """Cluster the learners, or take the clusters of an earlier run; then assign the newcomers to them.

    Parameters
    ----------
    learners : Learners
        All of them.
    losses : ndarray
        ``e_{i -> j}``, as of `Learners.losses`.
    settings : Settings
        Of the run.
    earlier : Mapping[str, ndarray]
        Arrays of the run whose clusters newcomers join; empty: none.
    rng : Generator
        Starts of k-means, references of the gap statistic.

    Raises
    ------
    FusionError
        If no learner can be compared with another.
    """
    v = dissimilarity(losses, learners.errors)
    clusters = _former(learners, v, earlier) if earlier else _new(learners, v, settings, rng)
    new = np.flatnonzero(learners.newcomer)
    old = np.flatnonzero(clusters.labels >= 0)
    resemblance = similarity_to(v[np.ix_(new, old)], clusters.scale)
    clusters.labels[new] = assign(resemblance, clusters.labels[old], settings.assign)
    clusters.similarity[np.ix_(new, old)], clusters.similarity[np.ix_(old, new)] = resemblance, resemblance.T
    return clusters


def _new(
    learners: Learners, v: Float64[np.ndarray, "L L"], settings: Settings, rng: np.random.Generator
) -> LearnerClusters:
    old = np.flatnonzero(~learners.newcomer)
    old = old[~incomparable(v[np.ix_(old, old)])]
    if not len(old):
        raise FusionError("no learner tried another's model, so no learners can be compared")
    partial, scale = similarity(v[np.ix_(old, old)], settings.scale)
    try:
        s = complete(partial)
    except ValueError as error:
        raise FusionError(f"the similarity cannot be completed: {error}") from None
    k_min = min(settings.k_min, len(old))
    clustering = cluster(
        s,
        k=min(settings.k, len(old)),
        method=settings.k_method,
        k_min=k_min,
        k_max=max(settings.k_max, k_min) if settings.k_max else 0,
        rng=rng,
    )
    labels = np.full(len(v), -1, np.int64)
    labels[old] = clustering.labels
    known = np.full(v.shape, np.nan)
    np.fill_diagonal(known, 1.0)
    known[np.ix_(old, old)] = s
    n_completed = 0 if settings.exchange == "landmarks" else int(np.isnan(partial).sum()) // 2
    return LearnerClusters(
        labels, clustering.k, v, known, scale, clustering.eigenvalues, clustering.gap, clustering.gap_error, n_completed
    )


def _former(
    learners: Learners, v: Float64[np.ndarray, "L L"], earlier: Mapping[str, Shaped[np.ndarray, "..."]]
) -> LearnerClusters:
    """Take the clusters of an earlier run, with what it knew of its learners."""
    place = {str(name): i for i, name in enumerate(earlier["learners"])}
    old = np.flatnonzero(~learners.newcomer)
    then = np.array([place[learners.names[i]] for i in old], np.int64)
    labels = np.full(len(v), -1, np.int64)
    labels[old] = earlier["labels"][then]
    known = np.full(v.shape, np.nan)
    np.fill_diagonal(known, 1.0)
    v, block, before = v.copy(), np.ix_(old, old), np.ix_(then, then)
    v[block], known[block] = earlier["dissimilarity"][before], earlier["similarity"][before]
    return LearnerClusters(
        labels,
        int(labels.max()) + 1,
        v,
        known,
        float(earlier["scale"]),
        earlier["eigenvalues"],
        earlier["gap"],
        earlier["gap_error"],
    )
