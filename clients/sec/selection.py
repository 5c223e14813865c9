"""Select, the first step of SEC: the candidate with the smallest half-half error, refitted on all rows (eq. 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.base import BaseEstimator

from clients.regressors import Candidate, fit
from numerics.sec.cache import Cache
from numerics.sec.mixture import mean_squared_errors
from numerics.sec.predictors import Predictors


class SelectionError(ValueError):
    """No candidate can be fitted to a learner's rows; the message says why."""


@dataclass(frozen=True)
class Selection:
    """What a learner chose.

    Attributes
    ----------
    method : str
        The candidate as it was typed.
    model : estimator
        Fitted on all rows; never to be changed, for it may be shared. It may hold more of them than prediction needs,
        which `protocols.models.encode_model` leaves out.
    fitted_error : float
        Its mean squared error on the rows it was fitted on (e_i of eq. 3).
    cv_error : float
        The candidate's mean squared error on one half when fitted on the other (eq. 2).
    """

    method: str
    model: BaseEstimator
    fitted_error: float
    cv_error: float


@dataclass(frozen=True)
class _Fitted:
    """What a fit came to: a model and an error, or, if it failed, an infinite error and why."""

    model: BaseEstimator | None
    error: float
    reason: str = ""


_half_errors: Cache[str, _Fitted] = Cache(4096)
_refits: Cache[str, _Fitted] = Cache(64)
"""A table of nested candidate lists asks for the same fits again and again (Ye, Ding and Ghanadan, Table II). Models
are large and a learner has few, so fewer models than errors are kept."""


def forget_fits() -> None:
    """Empty the process's memory of recent fits."""
    _half_errors.clear()
    _refits.clear()


def halves(n: int, rng_seed: int) -> tuple[Int64[np.ndarray, "a"], Int64[np.ndarray, "b"]]:
    """Rows to fit on and rows to measure the error on, at random; of an odd number the second half has one more."""
    order = np.random.default_rng(rng_seed).permutation(n)
    return order[: n // 2], order[n // 2 :]


def select(
    candidates: Sequence[Candidate],
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    standardize: str,
    min_leaf: int,
    rng_seed: int,
) -> Selection:
    """Choose among candidates by half-half cross-validation and refit the best on all rows.

    The halves depend on `rng_seed` only, and what is random in a fit on `rng_seed` and the candidate, never on the
    other candidates. The same arguments give the same selection, bit for bit, in every process.
    Source: Ye, Ding and Ghanadan, eq. 2.

    Parameters
    ----------
    candidates : sequence of Candidate
        Of equally good ones the first is chosen. One that cannot be fitted, or whose error is not finite, is passed
        over.
    x, y : ndarray
        ``(n, p)`` and ``(n,)`` finite rows, at least two.
    standardize : str
        As in `clients.regressors.build`.
    min_leaf : int
        Rows in a leaf of a tree, at least.
    rng_seed : int
        Not negative.

    Raises
    ------
    SelectionError
        If there are fewer than two rows, or no candidate is left.
    """
    if len(y) < 2:
        raise SelectionError(f"half-half selection needs at least two rows, and there is {len(y)}")
    digest = hashlib.sha256(repr((x.shape, standardize, min_leaf, rng_seed)).encode())
    for array in (x, y):
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())
    rows = digest.hexdigest()
    first, second = halves(len(y), rng_seed)
    compute = partial(_fitted, standardize=standardize, min_leaf=min_leaf)
    tried = []
    for candidate in candidates:
        seed = _seed(rng_seed, candidate)
        fit_half = partial(compute, candidate, x[first], y[first], x[second], y[second], keep=False, seed=seed)
        tried.append((candidate, _half_errors.get(f"{rows} {candidate.key}", fit_half)))
    reasons = {candidate.text: half.reason for candidate, half in tried if half.reason}
    # A stable sort: of equal errors the earlier candidate comes first.
    for candidate, half in sorted((each for each in tried if not each[1].reason), key=lambda each: each[1].error):
        fit_whole = partial(compute, candidate, x, y, x, y, keep=True, seed=_seed(rng_seed, candidate))
        refit = _refits.get(f"{rows} {candidate.key}", fit_whole)
        if refit.model is not None:
            return Selection(candidate.text, refit.model, refit.error, half.error)
        reasons[candidate.text] = refit.reason
    why = "; ".join(f"{text}: {reason}" for text, reason in reasons.items())
    raise SelectionError(f"no candidate can be fitted to the {len(y)} rows ({why}); name another candidate")


def _seed(rng_seed: int, candidate: Candidate) -> int:
    return int.from_bytes(hashlib.sha256(f"{rng_seed} {candidate.key}".encode()).digest()[:4], "big")


def _fitted(
    candidate: Candidate,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    x_test: Float64[np.ndarray, "t p"],
    y_test: Float64[np.ndarray, "t"],
    *,
    keep: bool,
    standardize: str,
    min_leaf: int,
    seed: int,
) -> _Fitted:
    """Fit on some rows, measure on others."""
    try:
        model = fit(candidate, x, y, standardize=standardize, min_leaf=min_leaf, seed=seed)
    except Exception as error:  # a method may fail on such rows in any way; the others are still to be tried
        # The kind only: a message of scikit-learn's may quote a value, and this one may leave the site.
        return _Fitted(None, np.inf, f"{type(error).__name__} when fitted to {len(y)} rows")
    loss = float(mean_squared_errors(Predictors([model]).predict(x_test), y_test)[0])
    if not np.isfinite(loss):
        return _Fitted(None, np.inf, "its error is not finite")
    return _Fitted(model if keep else None, loss)
