"""Clusters of learners: from losses to clusters, and from newcomers to existing clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.sec.cluster_assignment import assign
from numerics.sec.partition_choice import MixtureLosses, choose_partition
from numerics.sec.similarity import complete, dissimilarity, incomparable, similarity, similarity_to
from numerics.sec.spectral import Method, cluster, partitions
from protocols.sec.settings import Settings
from strategies.errors import FusionError
from strategies.sec.learners import Learners


@dataclass(frozen=True)
class LearnerClusters:
    """Clusters of all learners of a run, newcomers included, in the order of their names.

    Attributes
    ----------
    labels : ndarray
        ``(L,)`` cluster of each learner; -1 if its losses are too few to tell.
    n_clusters : int
        Number of clusters.
    dissimilarity, similarity : ndarray
        ``(L, L)``; NaN where unknown. Between clustered learners the similarity is completed.
    scale : float
        ``a`` of ``s = exp(-a v)``.
    eigenvalues : ndarray
        Eigenvalues of the normalized similarity of the clustered learners, descending.
    gap, gap_error : ndarray
        Gap statistic for 2, 3, ... clusters; empty unless it chose their number.
    n_completed : int
        Number of pairs of clustered learners that were not compared and whose similarity was completed. It is 0 with
        landmarks, where most pairs are not compared by design.
    by_prediction : bool
        Whether the number of clusters is the one that predicts best, not one that the similarities alone suggest.
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
    by_prediction: bool = False

    @property
    def measure(self) -> dict[str, float]:
        """Numbers for the progress line."""
        return {"n_clusters": float(self.n_clusters)}

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays by their names in `arrays.npz`."""
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
    noise: Mapping[str, float] | None = None,
) -> LearnerClusters:
    """Cluster the learners, or take the clusters of an earlier run; then assign the newcomers to them.

    Parameters
    ----------
    learners : Learners
        All L learners of the run.
    losses : ndarray
        ``(L, L)`` losses ``e_{i -> j}``, as `Learners.losses` returns them.
    settings : Settings
        Settings of the run.
    earlier : Mapping[str, ndarray]
        Arrays of the run whose clusters newcomers join; empty if there is no such run.
    rng : Generator
        Draws the starts of k-means and the references of the gap statistic.
    noise : Mapping[str, float]
        By learner, the standard deviation of the noise in its losses (`protocols.sec.payloads.Losses`); 0 for learners
        that are not named.

    Raises
    ------
    FusionError
        If no learner can be compared with another.

    Examples
    --------
    Models of the first two learners predict each other's rows well, and so do those of the last two:

    >>> from protocols.sec.payloads import FittedModel
    >>> def profile(error):
    ...     empty = np.zeros(0)
    ...     return FittedModel("lr", error, 0.1, 20, ("x",), empty.astype(np.uint8), empty, np.zeros((0, 0)))
    >>> learners = Learners.of({name: profile(1.0) for name in "abcd"}, (), {})
    >>> losses = np.where(np.kron(np.eye(2), np.ones((2, 2))) > 0, 1.0, 9.0)
    >>> cluster_learners(learners, losses, Settings(k=2), {}, np.random.default_rng(0)).labels
    array([0, 0, 1, 1])
    """
    v = dissimilarity(losses, learners.errors)
    if earlier:
        clusters = _read_earlier(learners, v, earlier)
    else:
        clusters = _cluster(learners, losses, v, settings, rng, noise or {})
    new = np.flatnonzero(learners.newcomer)
    old = np.flatnonzero(clusters.labels >= 0)
    similarities = similarity_to(v[np.ix_(new, old)], clusters.scale)
    clusters.labels[new] = assign(similarities, clusters.labels[old], settings.assign)
    clusters.similarity[np.ix_(new, old)], clusters.similarity[np.ix_(old, new)] = similarities, similarities.T
    return clusters


def _cluster(
    learners: Learners,
    losses: Float64[np.ndarray, "L L"],
    v: Float64[np.ndarray, "L L"],
    settings: Settings,
    rng: np.random.Generator,
    noise: Mapping[str, float],
) -> LearnerClusters:
    """Cluster the learners, except newcomers and those that no loss compares with another."""
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
    k_max = max(settings.k_max, k_min) if settings.k_max else 0
    held_out = settings.k_method == "held-out" and settings.k == 0
    k = k_min if held_out else min(settings.k, len(old))
    method: Method = "gap" if settings.k_method == "gap" else "eigengap"
    clustering = cluster(s, k=k, method=method, k_min=k_min, k_max=k_max, rng=rng)
    labels = np.full(len(v), -1, np.int64)
    labels[old] = clustering.labels
    if held_out:
        mixtures = _mixture_losses(learners, losses, old, noise)
        contrast = complete(similarity(mixtures.contrasts)[0])
        candidates = [*partitions(s, k_min, k_max, rng), *partitions(contrast, k_min, k_max, rng)]
        labels[old] = choose_partition(mixtures, candidates)
    known = np.full(v.shape, np.nan)
    np.fill_diagonal(known, 1.0)
    known[np.ix_(old, old)] = s
    n_completed = 0 if settings.exchange == "landmarks" else int(np.isnan(partial).sum()) // 2
    return LearnerClusters(
        labels,
        int(labels.max()) + 1,
        v,
        known,
        scale,
        clustering.eigenvalues,
        clustering.gap,
        clustering.gap_error,
        n_completed,
        held_out,
    )


def _mixture_losses(
    learners: Learners, losses: Float64[np.ndarray, "L L"], old: Int64[np.ndarray, "o"], noise: Mapping[str, float]
) -> MixtureLosses:
    """Return losses, errors, weights and noise of the learners to cluster."""
    return MixtureLosses(
        losses=losses[np.ix_(old, old)],
        errors=learners.errors[old],
        variances=learners.variances[old],
        n=np.array([profile.n for profile in learners.profiles.values()], np.float64)[old],
        weights=learners.weights[old],
        noise=np.array([noise.get(learners.names[i], 0.0) for i in old]),
        squared=not learners.classes,
    )


def _read_earlier(
    learners: Learners, v: Float64[np.ndarray, "L L"], earlier: Mapping[str, Shaped[np.ndarray, "..."]]
) -> LearnerClusters:
    """Take the clusters of an earlier run, and the dissimilarities and similarities of their learners."""
    place = {str(name): i for i, name in enumerate(earlier["learners"])}
    old = np.flatnonzero(~learners.newcomer)
    earlier_places = np.array([place[learners.names[i]] for i in old], np.int64)
    labels = np.full(len(v), -1, np.int64)
    labels[old] = earlier["labels"][earlier_places]
    known = np.full(v.shape, np.nan)
    np.fill_diagonal(known, 1.0)
    v, block, earlier_block = v.copy(), np.ix_(old, old), np.ix_(earlier_places, earlier_places)
    v[block], known[block] = earlier["dissimilarity"][earlier_block], earlier["similarity"][earlier_block]
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
