"""Similarity of learners: dissimilarity (Ye, Ding and Ghanadan 2022, eq. 3), similarity, completion from landmarks."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.linalg import eigh

from numerics.sec.canonical_order import canonical_order, distinct_rows
from numerics.shared.threads import single_threaded

Scale = Literal["mean", "median"]

# Two mean squared errors that differ by less than this share are one, computed twice: without it, learners that are
# identical would be told apart by the last digits of their losses, whose scale is what `similarity` divides by.
_ROUNDING = 1e-10

# Eigenvalues of the landmarks' similarity below this share of the largest one are left out: they carry the noise of
# the losses, which their inverse would amplify.
_TRUNCATION = 1e-2


def dissimilarity(losses: Float64[np.ndarray, "L L"], errors: Float64[np.ndarray, "L"]) -> Float64[np.ndarray, "L L"]:
    """Dissimilarity of learners, ``v_ij = |e_{i->j} - e_j| + |e_{j->i} - e_i|`` (Ye, Ding and Ghanadan 2022, eq. 3).

    Differences at the level of rounding (1e-10 of the losses) count as 0.

    Parameters
    ----------
    losses : ndarray
        ``(L, L)``: ``losses[i, j]`` is the mean squared error of learner i's model on learner j's rows. NaN: not known;
        inf: the model's prediction was not finite. The diagonal is not used.
    errors : ndarray
        ``(L,)`` each learner's reference error, on its own rows; NaN and inf as in `losses`.

    Returns
    -------
    ndarray
        ``(L, L)``, symmetric, in squared units of the outcome, diagonal 0. With one direction missing it is twice the
        other; with both, NaN. It is inf where a loss, or the error it is compared with, is.
    """
    with np.errstate(over="ignore"):
        top = np.maximum(losses, errors)
        # inf - inf would be NaN, "not known", of what is known to be bad.
        finite = np.isfinite(losses) & np.isfinite(errors)
        excess = np.abs(np.subtract(losses, errors, out=np.full(losses.shape, np.inf), where=finite))
        excess[finite & (excess <= _ROUNDING * top)] = 0.0
        excess[np.isnan(top)] = np.nan
        known = ~np.isnan(excess)
        one_sided = np.where(known, 2 * excess, 2 * excess.T)
        v = np.where(known & known.T, excess + excess.T, one_sided)
    np.fill_diagonal(v, 0.0)
    return np.asarray(v)


def nothing_known(v: Float64[np.ndarray, "L L"]) -> Bool[np.ndarray, "L"]:
    """Mask of the learners whose dissimilarity to everyone else is unknown: no clustering can place them.

    Parameters
    ----------
    v : ndarray
        ``(L, L)`` dissimilarity or similarity, NaN where unknown. A single learner is not one of them.
    """
    n = len(v)
    return np.asarray((np.isnan(v) | np.eye(n, dtype=bool)).all(axis=1) & (n > 1))


def similarity(v: Float64[np.ndarray, "L L"], scale: Scale = "mean") -> tuple[Float64[np.ndarray, "L L"], float]:
    """Similarity ``s_ij = exp(-a v_ij)`` and its scale `a`.

    The paper leaves `a` open ("a tuning parameter"). Here it is 1 over the mean or the median of the finite
    dissimilarities between different learners, so that the units of the outcome do not matter. If these are all 0, or
    there are none, `a` is 1. If more than half are 0, so that the median is, the median of the positive ones serves.
    With two learners there is one dissimilarity and ``s = 1/e`` whatever it is: it carries no information.

    One pair of a huge, finite dissimilarity draws the mean and makes all others look alike; the median stands firm.

    Parameters
    ----------
    v : ndarray
        ``(L, L)``, as of `dissimilarity`.
    scale : {"mean", "median"}
        What `a` is 1 over.

    Returns
    -------
    s : ndarray
        ``(L, L)`` in [0, 1], diagonal 1; 0 where `v` is inf, NaN where it is.
    a : float
        Positive; for `similarity_to`.

    Raises
    ------
    ValueError
        If `scale` is neither.
    """
    if scale not in ("mean", "median"):
        raise ValueError(f"the scale of the similarity must be 'mean' or 'median', not {scale!r}")
    pairs = v[np.triu_indices(len(v), k=1)]
    # Sorted, so that the sum does not depend on the order of the learners.
    pairs = np.sort(pairs[np.isfinite(pairs)])
    unit = 0.0
    if len(pairs):
        # Divided first: the sum of huge losses would overflow.
        unit = float((pairs / len(pairs)).sum() if scale == "mean" else np.median(pairs))
        if unit == 0 and pairs[-1] > 0:
            unit = float(np.median(pairs[pairs > 0]))
    a = 1 / unit if unit >= np.finfo(np.float64).tiny else 1.0
    s = similarity_to(v, a)
    np.fill_diagonal(s, 1.0)
    return s, a


def similarity_to(v: Float64[np.ndarray, "q L"], a: float) -> Float64[np.ndarray, "q L"]:
    """``exp(-a v)`` with a scale that is given: of newcomers to learners that have been clustered.

    Parameters
    ----------
    v : ndarray
        ``(q, L)`` dissimilarities; NaN stays NaN, inf becomes 0.
    a : float
        Scale of the clustering, positive.
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-a * v))


def complete(s: Float64[np.ndarray, "L L"]) -> Float64[np.ndarray, "L L"]:
    """Fill the unknown similarities by the Nystrom method (Williams and Seeger 2001).

    The landmarks are the learners whose similarity to everyone is known. With C their columns and W their rows of C,
    ``S ~ C W^+ C^T``. Losses make no kernel: W may have negative eigenvalues, which are kept; eigenvalues below
    1 % of the largest one in size are left out of the inverse. Learners that resemble all landmarks exactly alike are
    the same as far as anyone knows: their similarity is 1, unless they resemble none.

    Parameters
    ----------
    s : ndarray
        ``(L, L)``, symmetric, in [0, 1], NaN where unknown.

    Returns
    -------
    ndarray
        ``(L, L)``, symmetric, in [0, 1]; what was known is as it was. It permutes with the learners, exactly.

    Raises
    ------
    ValueError
        If something is unknown and there is no landmark.
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
        kept = np.abs(values) > _TRUNCATION * np.abs(values).max()
        half = columns @ vectors[:, kept]
        estimate = (half / values[kept]) @ half.T
    estimate = np.clip((estimate + estimate.T) / 2, 0.0, 1.0)
    np.fill_diagonal(estimate, np.where(columns.any(axis=1), 1.0, 0.0))
    place = np.empty_like(order)
    place[order] = which
    return np.where(unknown, estimate[np.ix_(place, place)], s)


def choose_landmarks(n_learners: int, m: int, rng: np.random.Generator) -> Int64[np.ndarray, "m"]:
    """Learners, drawn at random, against whose models everyone is evaluated.

    Parameters
    ----------
    n_learners : int
        L, at least 1.
    m : int
        How many; 0: the larger of 20 and ``2 sqrt(L)``; never more than L. Accuracy depends on how many fall into each
        cluster, hardly on L: with 5 equal clusters 20 do about as well as all, of 100 learners or of 500. The root is
        for uneven ones: with a smallest cluster of 5 % of 300 learners, 20 recover all labels in 3 of 8 draws, 35 in 8.
    rng : Generator
        Source of the draw.

    Returns
    -------
    ndarray
        ``(min(m, L),)`` indices, ascending.

    Raises
    ------
    ValueError
        If `m` is negative.
    """
    if m < 0:
        raise ValueError(f"the number of landmarks must be positive, or 0 for the rule, not {m}")
    m = m or max(20, int(np.ceil(2 * np.sqrt(n_learners))))
    return np.sort(rng.permutation(n_learners)[:m])
