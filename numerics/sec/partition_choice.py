"""Expected errors of clusters of learners, from the losses of single models, and the choice of the best partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.sec.spectral import by_first_learner

_ROUNDING = 1e-10
"""Share of a learner's largest loss below which its own error counts as this share."""
_INFINITE = 1e6
"""An infinite loss counts as this times the largest finite one."""
_SMALLEST_RATIO = 0.05
"""Estimates of small errors can be negative; a mixture is never expected to be better than this."""
_LARGEST_CONTRAST = 30.0
"""Largest dissimilarity of two learners in one direction, in standard errors."""
_LARGEST_ROW = 1.3
"""Influence of a row (`numerics.sec.disclosure`) in standard deviations of the differences: their .85 quantile."""
_TOO_MANY = 2.0
"""Standard errors by which fewer clusters may be worse than the best."""
_HARMED = 3.0
"""Standard errors beyond which a learner predicts worse with its cluster than alone."""


@dataclass(frozen=True)
class MixtureLosses:
    """Expected squared errors of weighted means of models, from the errors of the single models.

    The error of a mean is the mean of the errors, less the mean squared distance of the models from their mean (Krogh
    and Vedelsby 1995). On the rows of learner j, model i has the error ``s_j + b_ij + V_i``: noise, squared bias, and
    the variance that comes from the few rows that it was fitted to. Learner j's error ``e_j`` on rows left out of the
    fit is ``s_j + V_j``. So ``b_ij = e_{i->j} - e_j - V_i + V_j``, and two models are ``V_i + V_k + b_ik`` apart.

    Attributes
    ----------
    losses : ndarray
        ``(L, L)``: ``losses[i, j]`` is the error of model i on the rows of j; NaN where unknown, infinite where a
        prediction is not finite. A learner mixes the models whose errors on its rows are known, and its own.
    errors : ndarray
        ``(L,)`` ``e_j``, finite.
    variances : ndarray
        ``(L,)`` ``V_j``.
    n : ndarray
        ``(L,)`` rows that each error is a mean over.
    weights : ndarray
        ``(L,)`` weight of each model in a mixture, not negative.
    noise : ndarray
        ``(L,)`` standard deviation of the noise that learner j added to its losses, in units of the influence of one of
        its rows; 0 if it added none.
    squared : bool
        Whether the losses are squared errors. With log losses, the variance of a row's difference is twice the distance
        of the models (to second order), whatever the error is.

    Examples
    --------
    Two learners of one relation gain by each other's model, and a third one would lose:

    >>> losses = np.array([[0.8, 1.2, 9.0], [1.2, 0.8, 9.0], [9.0, 9.0, 0.8]])
    >>> ones = np.ones(3)
    >>> mixtures = MixtureLosses(losses, errors=1.2 * ones, variances=0.2 * ones, n=30 * ones, weights=ones,
    ...     noise=0 * ones)
    >>> mixtures.ratios(np.array([0, 0, 1]))[0].round(3)
    array([0.917, 0.917, 1.   ])
    >>> mixtures.contrasts.round(1)
    array([[ 0.,  0., 60.],
           [ 0.,  0., 60.],
           [60., 60.,  0.]])
    >>> choose_partition(mixtures, [np.zeros(3, int), np.array([0, 0, 1])])
    array([0, 0, 1])
    """

    losses: Float64[np.ndarray, "L L"]
    errors: Float64[np.ndarray, "L"]
    variances: Float64[np.ndarray, "L"]
    n: Float64[np.ndarray, "L"]
    weights: Float64[np.ndarray, "L"]
    noise: Float64[np.ndarray, "L"]
    squared: bool = True

    @cached_property
    def own_errors(self) -> Float64[np.ndarray, "L"]:
        """Return ``e_j``, greater than 0."""
        finite = np.where(np.isfinite(self.losses), self.losses, 0.0)
        floor = _ROUNDING * np.maximum(finite.max(axis=0, initial=0.0), finite.max(axis=1, initial=0.0))
        return np.asarray(np.maximum(self.errors, np.maximum(floor, np.finfo(np.float64).tiny)))

    @property
    def _residuals(self) -> Float64[np.ndarray, "L"]:
        """Return the variance of a row's difference over four times the distance of the models."""
        return self.own_errors if self.squared else np.full(len(self.own_errors), 0.5)

    @cached_property
    def biases(self) -> Float64[np.ndarray, "L L"]:
        """Return ``b_ij``, NaN where unknown; an estimate can be negative."""
        finite = self.losses[np.isfinite(self.losses)]
        largest = _INFINITE * float(max(finite.max(initial=0.0), self.own_errors.max(initial=0.0)))
        losses = np.where(np.isinf(self.losses), largest, self.losses)
        biases = losses - self.own_errors - self.variances[:, np.newaxis] + self.variances
        np.fill_diagonal(biases, 0.0)
        return np.asarray(biases)

    @cached_property
    def distances(self) -> Float64[np.ndarray, "L L"]:
        """Return ``b_ik`` as the mean of both directions; 0 where neither is known."""
        both = np.stack([self.biases, self.biases.T])
        known = ~np.isnan(both)
        return np.asarray(np.where(known, both, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))

    @property
    def contrasts(self) -> Float64[np.ndarray, "L L"]:
        """Return the dissimilarity of learners in standard errors: the sum of ``|b_ij|`` and ``|b_ji|`` in theirs.

        If the learners' noise is very unequal, the noisy ones alone determine eq. (3), but not this. It is 30 at most
        for each direction. If one direction is unknown, it is twice the other; if both are, NaN.
        """
        apart = self.variances[:, np.newaxis] + self.variances
        deviations = np.sqrt(4 * self._residuals * apart * (1 / self.n + np.square(_LARGEST_ROW * self.noise)))
        sizes = np.abs(self.biases)
        certain = np.where(sizes > _ROUNDING * self.own_errors, _LARGEST_CONTRAST, 0.0)
        certain[np.isnan(sizes)] = np.nan
        contrasts = np.divide(sizes, deviations, out=certain, where=deviations > 0)
        contrasts = np.minimum(contrasts, _LARGEST_CONTRAST)
        contrasts = np.where(np.isnan(contrasts), contrasts.T, contrasts)
        return np.asarray(contrasts + contrasts.T)

    def ratios(self, labels: Int64[np.ndarray, "L"]) -> tuple[Float64[np.ndarray, "L"], Float64[np.ndarray, "L"]]:
        """Return each learner's error with its cluster over its error alone, and the standard error of this ratio.

        The standard error is that of a paired comparison on the learner's own rows. A learner without a known loss has
        the ratio 1.
        """
        ratios, deviations = np.ones(len(labels)), np.zeros(len(labels))
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            if len(members) > 1:
                ratios[members], deviations[members] = self._ratios_of(members)
        return ratios, deviations

    def _ratios_of(self, members: Int64[np.ndarray, "m"]) -> tuple[Float64[np.ndarray, "m"], Float64[np.ndarray, "m"]]:
        biases, distances = self.biases[np.ix_(members, members)], self.distances[np.ix_(members, members)]
        variances, errors = self.variances[members], self.own_errors[members]
        residuals = self._residuals[members]
        # Column j: the shares of the models in the mixture of learner j.
        shares = np.where(np.isnan(biases), 0.0, self.weights[members, np.newaxis])
        total = shares.sum(axis=0)
        shares = np.divide(shares, total, out=np.eye(len(members)), where=total > 0)
        known = np.where(np.isnan(biases), 0.0, biases)
        bias = (shares * known).sum(axis=0) - (shares * (distances @ shares)).sum(axis=0) / 2
        own = np.diag(shares)
        variance = np.square(shares).T @ variances
        excess = bias + variance - variances
        # Squared distance of the mixture from the own model: a row's two errors differ by it times the residual.
        apart = np.maximum(bias, 0.0) + variance + (1 - 2 * own) * variances
        # Two members are as far apart, and the numbers added to their losses differ, so that they average out.
        each = np.maximum(distances, 0.0) + variances[:, np.newaxis] + variances
        np.fill_diagonal(each, 0.0)
        added = np.square(_LARGEST_ROW * self.noise[members]) * (np.square(shares) * each).sum(axis=0)
        deviation = np.sqrt(4 * residuals * (np.maximum(apart, 0.0) / self.n[members] + added))
        return np.maximum(1 + excess / errors, _SMALLEST_RATIO), deviation / errors


def set_aside(mixtures: MixtureLosses, labels: Int64[np.ndarray, "L"]) -> Int64[np.ndarray, "L"]:
    """Give every learner that predicts significantly worse with its cluster a cluster of its own, the worst ones first.

    Examples
    --------
    >>> losses = np.full((4, 4), 1.2) + 50 * (np.arange(4) == 3) + 50 * (np.arange(4) == 3)[:, np.newaxis]
    >>> ones = np.ones(4)
    >>> set_aside(MixtureLosses(losses, 1.2 * ones, 0.2 * ones, 30 * ones, ones, 0 * ones), np.zeros(4, int))
    array([0, 0, 0, 1])
    """
    labels = labels.copy()
    while True:
        ratios, deviations = mixtures.ratios(labels)
        score = np.divide(ratios - 1, deviations, out=np.zeros(len(labels)), where=(deviations > 0) & (ratios > 1))
        harmed = np.zeros(len(labels), bool)
        for label in np.unique(labels[score > _HARMED]):
            # An outlier harms the others of its cluster, which may predict well without it.
            members = labels == label
            harmed |= members & (score >= max(_HARMED, score[members].max() / 2))
        if not harmed.any():
            return by_first_learner(labels)
        labels[harmed] = labels.max() + 1 + np.arange(int(harmed.sum()))


def choose_partition(mixtures: MixtureLosses, candidates: Sequence[Int64[np.ndarray, "L"]]) -> Int64[np.ndarray, "L"]:
    """Choose the coarsest partition that predicts not significantly worse than the best one.

    The partition into single learners is always a candidate, and no learner stays in a cluster that harms it
    (`set_aside`). A partition is scored by the mean logarithm of `MixtureLosses.ratios`; a difference of at most two
    standard errors is not significant.

    Parameters
    ----------
    mixtures : MixtureLosses
        Losses of the L learners.
    candidates : sequence of ndarray
        ``(L,)`` labels each.

    Returns
    -------
    ndarray
        ``(L,)`` labels, numbered in the order of each cluster's first learner.
    """
    n = len(mixtures.errors)
    each_alone = np.arange(n)
    partitions = {labels.tobytes(): labels for labels in (set_aside(mixtures, one) for one in candidates)}
    partitions[each_alone.tobytes()] = each_alone
    scored = []
    for labels in partitions.values():
        ratios, deviations = mixtures.ratios(labels)
        scored.append((int(labels.max()) + 1, np.log(ratios), deviations / ratios, labels))
    scored.sort(key=lambda each: (each[0], each[1].mean()))
    _, best, best_deviation, _ = min(scored, key=lambda each: each[1].mean())
    for _, score, deviation, labels in scored:
        difference = score - best
        moved: Bool[np.ndarray, "L"] = difference != 0
        spread = np.sqrt(np.where(moved, np.maximum(deviation, best_deviation) ** 2, 0.0).sum())
        if difference.sum() <= _TOO_MANY * spread + _ROUNDING * n:
            return labels
    raise AssertionError("the best partition is no worse than itself")
