"""Dissimilarity (Ye, Ding and Ghanadan 2022, eq. 3) and similarity of learners, and completion from landmarks."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.linalg import eigh

from numerics.sec.canonical_order import canonical_order, distinct_rows
from numerics.shared.threads import single_threaded

Scale = Literal["mean", "median"]

# Mean squared errors that differ by less than this share count as equal. Otherwise identical learners would differ by
# the last digits of their losses, and `similarity` would divide by differences of that size.
_ROUNDING = 1e-10

# Eigenvalues of the landmarks' similarity below this share of the largest one are dropped: they are noise of the
# losses, which the inverse would amplify.
_TRUNCATION = 1e-2


def dissimilarity(losses: Float64[np.ndarray, "L L"], errors: Float64[np.ndarray, "L"]) -> Float64[np.ndarray, "L L"]:
    """Compute the dissimilarity of learners, ``v_ij = |e_{i->j} - e_j| + |e_{j->i} - e_i|``.

    Differences up to rounding (1e-10 of the losses) count as 0. Source: Ye, Ding and Ghanadan 2022, eq. 3.

    Parameters
    ----------
    losses : ndarray
        ``(L, L)``: ``losses[i, j]`` is the mean squared error of learner i's model on learner j's rows; NaN if it is
        unknown, inf if a prediction was not finite. The diagonal is not used.
    errors : ndarray
        ``(L,)`` each learner's reference error, on its own rows; NaN and inf as in `losses`.

    Returns
    -------
    ndarray
        ``(L, L)``, symmetric, in squared units of the outcome, diagonal 0. If one direction is unknown, it is twice the
        other; if both are, NaN. It is inf if a loss, or the error it is compared with, is inf.

    Examples
    --------
    >>> dissimilarity(np.array([[0.0, 3.0], [5.0, 0.0]]), errors=np.array([1.0, 2.0]))
    array([[0., 5.],
           [5., 0.]])
    """
    with np.errstate(over="ignore"):
        top = np.maximum(losses, errors)
        # inf - inf would be NaN, which stands for an unknown loss, not for a bad one.
        finite = np.isfinite(losses) & np.isfinite(errors)
        excess = np.abs(np.subtract(losses, errors, out=np.full(losses.shape, np.inf), where=finite))
        excess[finite & (excess <= _ROUNDING * top)] = 0.0
        excess[np.isnan(top)] = np.nan
        available = ~np.isnan(excess)
        one_sided = np.where(available, 2 * excess, 2 * excess.T)
        v = np.where(available & available.T, excess + excess.T, one_sided)
    np.fill_diagonal(v, 0.0)
    return np.asarray(v)


def incomparable(v: Float64[np.ndarray, "L L"]) -> Bool[np.ndarray, "L"]:
    """Return which learners cannot be clustered, because their dissimilarities to all others are unknown.

    Parameters
    ----------
    v : ndarray
        ``(L, L)`` dissimilarity or similarity, NaN where unknown. A single learner is comparable.

    Returns
    -------
    ndarray
        ``(L,)`` mask.

    Examples
    --------
    >>> incomparable(np.array([[0.0, 1.0, np.nan], [1.0, 0.0, np.nan], [np.nan, np.nan, 0.0]]))
    array([False, False,  True])
    """
    n = len(v)
    return np.asarray((np.isnan(v) | np.eye(n, dtype=bool)).all(axis=1) & (n > 1))


def similarity(v: Float64[np.ndarray, "L L"], scale: Scale = "mean") -> tuple[Float64[np.ndarray, "L L"], float]:
    """Compute the similarity ``s_ij = exp(-a v_ij)`` and its scale `a`.

    In the paper `a` is a tuning parameter. Here 1 / a is the mean or the median of the finite dissimilarities between
    different learners, so that the unit of the outcome does not matter. If these are all 0, or there are none, `a` is
    1. If the median is 0, it is replaced by the median of the positive ones. Two learners have one dissimilarity and
    always ``s = 1/e``, which carries no information.

    One huge, finite dissimilarity raises the mean and makes all other pairs look alike; the median is robust.

    Parameters
    ----------
    v : ndarray
        ``(L, L)``, result of `dissimilarity`.
    scale : {"mean", "median"}
        Definition of 1 / a.

    Returns
    -------
    s : ndarray
        ``(L, L)`` in [0, 1], diagonal 1; 0 where `v` is inf, NaN where `v` is NaN.
    a : float
        Positive scale, for `similarity_to`.

    Raises
    ------
    ValueError
        If `scale` is neither.

    Examples
    --------
    >>> s, a = similarity(np.array([[0.0, 2.0, 2.0], [2.0, 0.0, 2.0], [2.0, 2.0, 0.0]]))
    >>> s[0].round(3), a
    (array([1.   , 0.368, 0.368]), 0.5)
    """
    if scale not in ("mean", "median"):
        raise ValueError(f"the scale of the similarity must be 'mean' or 'median', not {scale!r}")
    pairs = v[np.triu_indices(len(v), k=1)]
    # Sorted, so that the sum does not depend on the order of the learners.
    pairs = np.sort(pairs[np.isfinite(pairs)])
    unit = 0.0
    if len(pairs):
        # Division first: the sum of huge losses would overflow.
        unit = float((pairs / len(pairs)).sum() if scale == "mean" else np.median(pairs))
        if unit == 0 and pairs[-1] > 0:
            unit = float(np.median(pairs[pairs > 0]))
    a = 1 / unit if unit >= np.finfo(np.float64).tiny else 1.0
    s = similarity_to(v, a)
    np.fill_diagonal(s, 1.0)
    return s, a


def similarity_to(v: Float64[np.ndarray, "q L"], a: float) -> Float64[np.ndarray, "q L"]:
    """Compute ``exp(-a v)`` with the scale of a clustering, for newcomers and clustered learners.

    Parameters
    ----------
    v : ndarray
        ``(q, L)`` dissimilarities; NaN stays NaN, inf becomes 0.
    a : float
        Scale of the clustering, positive.

    Returns
    -------
    ndarray
        ``(q, L)``.

    Examples
    --------
    >>> similarity_to(np.array([[0.0, np.inf]]), a=0.5)
    array([[1., 0.]])
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-a * v))


def complete(s: Float64[np.ndarray, "L L"]) -> Float64[np.ndarray, "L L"]:
    """Estimate unknown similarities by the Nystrom method (Williams and Seeger 2001).

    Landmarks are the learners whose similarities to all others are known. With their columns C, and W their rows of C,
    ``S ~ C W^+ C^T``. Losses do not define a kernel: W may have negative eigenvalues, which are used. The inverse
    omits eigenvalues below 1 % of the largest absolute value. Learners with equal similarities to all landmarks count
    as identical: their similarity is 1, unless all are 0.

    Parameters
    ----------
    s : ndarray
        ``(L, L)``, symmetric, in [0, 1], NaN where unknown.

    Returns
    -------
    ndarray
        ``(L, L)``, symmetric, in [0, 1]; known similarities are unchanged. A permutation of the learners permutes the
        result exactly.

    Raises
    ------
    ValueError
        If a similarity is unknown and there is no landmark.

    Examples
    --------
    >>> complete(np.array([[1.0, 0.5, 0.4], [0.5, 1.0, np.nan], [0.4, np.nan, 1.0]]))[1, 2]
    np.float64(0.2)
    """
    unknown = np.isnan(s)
    if not unknown.any():
        return s.copy()
    if unknown.any(axis=1).all():
        raise ValueError(
            f"of no learner are the similarities to all {len(s) - 1} others known ({int(np.triu(unknown).sum())} pairs"
            " are missing), so the missing ones cannot be completed; leave out the learners that answered nothing"
        )
    order = canonical_order(np.where(unknown, -1.0, s))
    landmarks = order[~unknown[order].any(axis=1)]
    first, which, _ = distinct_rows(s[np.ix_(order, landmarks)])
    columns = s[np.ix_(order[first], landmarks)]
    with single_threaded():
        values, vectors = eigh(s[np.ix_(landmarks, landmarks)])
        large = np.abs(values) > _TRUNCATION * np.abs(values).max()
        half = columns @ vectors[:, large]
        estimate = (half / values[large]) @ half.T
    estimate = np.clip((estimate + estimate.T) / 2, 0.0, 1.0)
    np.fill_diagonal(estimate, np.where(columns.any(axis=1), 1.0, 0.0))
    place = np.empty_like(order)
    place[order] = which
    return np.where(unknown, estimate[np.ix_(place, place)], s)


def choose_landmarks(n_learners: int, m: int, rng: np.random.Generator) -> Int64[np.ndarray, "m"]:
    """Sample the landmarks: learners whose models are evaluated on all learners' rows.

    Parameters
    ----------
    n_learners : int
        Number L of learners, at least 1.
    m : int
        Number of landmarks, at most L; 0 for the larger of 20 and ``2 sqrt(L)``. Accuracy depends on the number in each
        cluster, hardly on L: with 5 equal clusters of 100 or of 500 learners, 20 landmarks do about as well as all
        learners. The root serves clusters of different sizes: with a smallest cluster of 5 % of 300 learners, 20
        landmarks recover all labels in 3 of 8 draws, 35 in all 8.
    rng : Generator
        Generator of the sample.

    Returns
    -------
    ndarray
        ``(min(m, L),)`` indices, ascending.

    Raises
    ------
    ValueError
        If `m` is negative.

    Examples
    --------
    >>> len(choose_landmarks(100, 0, np.random.default_rng(0)))
    20
    """
    if m < 0:
        raise ValueError(f"the number of landmarks must be positive, or 0 for the rule, not {m}")
    m = m or max(20, int(np.ceil(2 * np.sqrt(n_learners))))
    return np.sort(rng.permutation(n_learners)[:m])
