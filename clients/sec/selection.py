"""Selection, step 1 of sec: choose the candidate with the smallest half-half error, and fit it to all rows (eq. 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.base import BaseEstimator

from clients.regressors import Candidate, fit
from clients.sec.left_out import LeftOut, leave_out
from numerics.sec.cache import Cache
from numerics.sec.mixture import mean_squared_errors
from numerics.sec.predictors import Predictors


class SelectionError(ValueError):
    """No candidate can be fitted to a learner's rows; the message says why."""


@dataclass(frozen=True)
class Selection:
    """A learner's choice among candidates.

    Attributes
    ----------
    method : str
        The candidate as the user typed it.
    model : estimator
        Fitted to all rows. It may be shared and must not be changed. It may hold more of the rows than prediction
        needs; `protocols.models.encode_model` leaves them out.
    fitted_error : float
        Mean squared error on the rows that the model was fitted to (``e_i`` of eq. 3).
    cv_error : float
        Mean squared error on one half of the rows after a fit to the other (eq. 2).
    candidate : Candidate
        The candidate as it was read.
    """

    method: str
    model: BaseEstimator
    fitted_error: float
    cv_error: float
    candidate: Candidate


@dataclass(frozen=True)
class _Fitted:
    """Result of a fit: a model and its error; if it failed, an infinite error and the reason."""

    model: BaseEstimator | None
    error: float
    reason: str = ""


_half_errors: Cache[str, _Fitted] = Cache(4096)
_refits: Cache[str, _Fitted] = Cache(64)
_left_out: Cache[str, LeftOut] = Cache(64)
"""Recent fits. A table of nested candidate lists repeats the same fits (Ye, Ding and Ghanadan 2022, Table II). Models
are large, and a learner chooses few methods, so fewer models than errors are kept."""


def forget_fits() -> None:
    """Empty the process's memory of recent fits."""
    _half_errors.clear()
    _refits.clear()
    _left_out.clear()


def split_halves(n: int, rng_seed: int) -> tuple[Int64[np.ndarray, "a"], Int64[np.ndarray, "b"]]:
    """Draw the rows to fit to and the rows to measure the error on; with odd `n` the second half has one more.

    Examples
    --------
    >>> first, second = split_halves(5, rng_seed=0)
    >>> len(first), len(second), sorted([*first, *second]) == list(range(5))
    (2, 3, True)
    """
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

    The halves depend on `rng_seed` only. A random fit depends on `rng_seed` and its candidate, never on the other
    candidates. The same arguments give the same selection, bit for bit, in every process.
    Source: Ye, Ding and Ghanadan (2022), eq. 2.

    Parameters
    ----------
    candidates : sequence of Candidate
        The first of equally good candidates is chosen. A candidate is skipped if it cannot be fitted, or if its error
        is not finite.
    x, y : ndarray
        ``(n, p)`` and ``(n,)`` finite rows, at least two.
    standardize : str
        As in `clients.regressors.build`.
    min_leaf : int
        Fewest rows in a leaf of a tree.
    rng_seed : int
        Not negative.

    Raises
    ------
    SelectionError
        If there are fewer than two rows, or if all candidates are skipped.

    Examples
    --------
    >>> from clients.regressors import parse_candidates
    >>> x = np.linspace(-1, 1, 40)[:, np.newaxis]
    >>> candidates = parse_candidates("lr tree")
    >>> select(candidates, x, 3 * x[:, 0], standardize="none", min_leaf=5, rng_seed=0).method
    'lr'
    """
    if len(y) < 2:
        raise SelectionError(f"half-half selection needs at least two rows; there is {len(y)}")
    rows = _digest(x, y, (standardize, min_leaf, rng_seed))
    first, second = split_halves(len(y), rng_seed)
    compute = partial(_try_fit, standardize=standardize, min_leaf=min_leaf)
    tried = []
    for candidate in candidates:
        seed = _seed(rng_seed, candidate)
        fit_half = partial(compute, candidate, x[first], y[first], x[second], y[second], keep=False, seed=seed)
        tried.append((candidate, _half_errors.get(f"{rows} {candidate.key}", fit_half)))
    reasons = {candidate.text: half.reason for candidate, half in tried if half.reason}
    # The sort is stable: of two candidates with equal errors, the earlier one comes first.
    for candidate, half in sorted((each for each in tried if not each[1].reason), key=lambda each: each[1].error):
        fit_whole = partial(compute, candidate, x, y, x, y, keep=True, seed=_seed(rng_seed, candidate))
        refit = _refits.get(f"{rows} {candidate.key}", fit_whole)
        if refit.model is not None:
            return Selection(candidate.text, refit.model, refit.error, half.error, candidate)
        reasons[candidate.text] = refit.reason
    why = "; ".join(f"{text}: {reason}" for text, reason in reasons.items())
    raise SelectionError(f"no candidate can be fitted to the {len(y)} rows ({why}); name another candidate")


def leave_out_chosen(
    chosen: Selection,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    standardize: str,
    min_leaf: int,
    rng_seed: int,
) -> LeftOut:
    """Predict the learner's own rows by models like the chosen one that were fitted without them.

    Parameters are those of `select`, whose result `chosen` is.
    """
    candidate, seed = chosen.candidate, _seed(rng_seed, chosen.candidate)

    def refit(x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"]) -> BaseEstimator:
        return fit(candidate, x, y, standardize=standardize, min_leaf=min_leaf, seed=seed)

    def compute() -> LeftOut:
        rng = np.random.default_rng([rng_seed, 1])
        return leave_out(chosen.model, refit, x, y, linear=candidate.key == "lr()", rng=rng)

    return _left_out.get(f"{_digest(x, y, (standardize, min_leaf, rng_seed))} {candidate.key}", compute)


def _digest(x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], settings: tuple[str | int, ...]) -> str:
    digest = hashlib.sha256(repr((x.shape, *settings)).encode())
    for array in (x, y):
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())
    return digest.hexdigest()


def _seed(rng_seed: int, candidate: Candidate) -> int:
    return int.from_bytes(hashlib.sha256(f"{rng_seed} {candidate.key}".encode()).digest()[:4], "big")


def _try_fit(
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
    """Fit to some rows, and measure the error on others."""
    try:
        model = fit(candidate, x, y, standardize=standardize, min_leaf=min_leaf, seed=seed)
    except Exception as error:  # a method may fail on these rows in any way; the other candidates are still tried
        # The kind of error only: scikit-learn's message may quote a value, and this reason may leave the site.
        return _Fitted(None, np.inf, f"{type(error).__name__} when fitted to {len(y)} rows")
    loss = float(mean_squared_errors(Predictors([model]).predict(x_test), y_test)[0])
    if not np.isfinite(loss):
        return _Fitted(None, np.inf, "its error is not finite")
    return _Fitted(model if keep else None, loss)
