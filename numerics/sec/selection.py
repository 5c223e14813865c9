"""Selection, step 1 of sec: choose the candidate of the least cross-validated error, fit it to all rows (eq. 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator

from numerics.sec.cache import Cache
from numerics.sec.left_out import FOLDS, Fit, LeftOut, leave_out, predict_splits
from numerics.sec.losses import Loss
from numerics.shared.candidates import Candidate
from numerics.shared.classifiers import fit_classes
from numerics.shared.folds import Persons, Split, draw_folds, draw_halves
from numerics.shared.regressors import fit

_SQUARED = Loss()


class SelectionError(ValueError):
    """No candidate can be fitted to a learner's rows; the message says why."""


@dataclass(frozen=True)
class Selection:
    """A learner's choice among candidates.

    Attributes
    ----------
    candidate : Candidate
        The candidate that was chosen.
    model : estimator
        Fitted to all rows. It may be shared and must not be changed. It may hold more of the rows than prediction
        needs; `protocols.models.encode_model` leaves them out.
    fitted_error : float
        Mean loss on the rows that the model was fitted to (``e_i`` of eq. 3).
    """

    candidate: Candidate
    model: BaseEstimator
    fitted_error: float
    _validate: Callable[[], _Fit] = field(repr=False)

    @property
    def method(self) -> str:
        """The candidate as the user typed it."""
        return self.candidate.text

    @property
    def cv_error(self) -> float:
        """Mean loss of a fit to other rows: on one half of the rows (eq. 2), or on each part once.

        Raises
        ------
        SelectionError
            If the method cannot be fitted to a part of the rows.
        """
        validated = self._validate()
        if validated.reason:
            raise SelectionError(f"{self.method}: {validated.reason}")
        return validated.error


@dataclass(frozen=True)
class _Fit:
    """Result of a fit: a model and its error; if it failed, an infinite error and the reason."""

    model: BaseEstimator | None
    error: float
    reason: str = ""


_cv_errors: Cache[str, _Fit] = Cache(4096)
_refits: Cache[str, _Fit] = Cache(64)
_left_out: Cache[str, LeftOut] = Cache(64)
"""Recent fits. A table of nested candidate lists repeats the same fits (Ye, Ding and Ghanadan 2022, Table II). Models
are large, and a learner chooses few methods, so fewer models than errors are kept."""


def draw_splits(n: int, selection: str, rng_seed: int, person: Persons = None) -> list[Split]:
    """Draw the rows to fit to and the rows to measure the error on: once (``half-half``), or five times (``k-fold``).

    Examples
    --------
    >>> [len(measured) for _, measured in draw_splits(9, "half-half", rng_seed=0)]
    [5]
    >>> [len(measured) for _, measured in draw_splits(9, "k-fold", rng_seed=0)]
    [2, 2, 2, 2, 1]
    """
    if selection == "half-half":
        return [draw_halves(n, np.random.default_rng(rng_seed), person)]
    return draw_folds(n, np.random.default_rng([rng_seed, 1]), FOLDS, person)


def select(
    candidates: Sequence[Candidate],
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    selection: str = "k-fold",
    standardize: str,
    min_leaf: int,
    rng_seed: int,
    group: int = 1,
    loss: Loss = _SQUARED,
    class_weight: str = "none",
    person: Persons = None,
) -> Selection:
    """Choose among candidates by cross-validation and refit the best on all rows.

    A single candidate is not cross-validated. The parts of the rows depend on `rng_seed` only. A random fit depends on
    `rng_seed` and its candidate, never on the other candidates. The same arguments give the same selection, bit for
    bit, in every process.
    Source: Ye, Ding and Ghanadan (2022), eq. 2, for two halves; Stone (1974) for more parts.

    Parameters
    ----------
    candidates : sequence of Candidate
        The first of equally good candidates is chosen. A candidate is skipped if it cannot be fitted, or if its error
        is not finite.
    x, y : ndarray
        ``(n, p)`` and ``(n,)`` finite rows, at least two.
    selection : str
        ``k-fold``: each of five parts of the rows is predicted by a fit to the others (of fewer rows, each row is a
        part). ``half-half``: one half by a fit to the other.
    standardize : str
        As in `numerics.shared.regressors.build`.
    min_leaf, group : int
        As in `numerics.shared.regressors.fit`.
    rng_seed : int
        Not negative.
    loss : Loss
        By default squared errors; for classes, the candidates are those that predict classes.
    class_weight : str
        As in `numerics.shared.classifiers.fit_classes`.
    person : ndarray or None
        ``(n,)`` persons of the rows; all rows of a person lie in one part.

    Raises
    ------
    SelectionError
        If there are fewer than two rows or persons, or if all candidates are skipped.

    Examples
    --------
    >>> from numerics.shared.candidates import parse_candidates
    >>> x = np.linspace(-1, 1, 40)[:, np.newaxis]
    >>> candidates = parse_candidates("lr tree")
    >>> select(candidates, x, 3 * x[:, 0], standardize="none", min_leaf=5, rng_seed=0).method
    'lr'
    """
    if len(y) < 2:
        raise SelectionError(f"{selection} selection needs at least two rows; there is {len(y)}")
    if person is not None and np.ptp(person) == 0:
        raise SelectionError(f"{selection} selection needs at least two persons; all rows are about one (group)")
    settings = _fit_settings(standardize, min_leaf, group, loss, class_weight)
    rows = _digest(x, y, person, (rng_seed, *settings.values()))
    splits = draw_splits(len(y), selection, rng_seed, person)
    fits, validations = [], []
    for candidate in candidates:
        refit: Fit = partial(_fit, candidate, seed=_seed(rng_seed, candidate), **settings)
        validate = partial(_cross_validate, refit, x, y, splits, loss, person)
        fits.append(partial(_refits.get, f"{rows} {candidate.key}", partial(_refit, refit, x, y, loss, person)))
        validations.append(partial(_cv_errors.get, f"{rows} {selection} {candidate.key}", validate))
    reasons, order = {}, [0]
    if len(candidates) > 1:
        tried = [validate() for validate in validations]
        reasons = {each.text: one.reason for each, one in zip(candidates, tried, strict=True) if one.reason}
        # The sort is stable: of two candidates with equal errors, the earlier one comes first.
        order = sorted((i for i, one in enumerate(tried) if not one.reason), key=lambda i: tried[i].error)
    for place in order:
        candidate, fitted = candidates[place], fits[place]()
        if fitted.model is not None:
            return Selection(candidate, fitted.model, fitted.error, validations[place])
        reasons[candidate.text] = fitted.reason
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
    group: int = 1,
    loss: Loss = _SQUARED,
    class_weight: str = "none",
    person: Persons = None,
) -> LeftOut:
    """Predict the learner's own rows by models like the chosen one that were fitted without them.

    Parameters are those of `select`, whose result `chosen` is.

    Raises
    ------
    SelectionError
        If the method cannot be fitted to a part of the rows, or does not predict the others.
    """
    candidate, settings = chosen.candidate, _fit_settings(standardize, min_leaf, group, loss, class_weight)
    refit: Fit = partial(_fit, candidate, seed=_seed(rng_seed, candidate), **settings)

    def compute() -> LeftOut:
        rng = np.random.default_rng([rng_seed, 1])
        linear = candidate.key == "lr()"
        try:
            left = leave_out(chosen.model, refit, x, y, linear=linear, rng=rng, loss=loss, person=person)
        except Exception as error:  # as in `_cross_validate`
            raise SelectionError(f"{chosen.method}: {_failed(error, len(y)).reason}, less a part") from None
        if not np.isfinite(left.error):
            raise SelectionError(f"{chosen.method}: its error on rows left out is not finite")
        return left

    return _left_out.get(f"{_digest(x, y, person, (rng_seed, *settings.values()))} {candidate.key}", compute)


def _fit_settings(standardize: str, min_leaf: int, group: int, loss: Loss, class_weight: str) -> dict[str, Any]:
    """Return the settings of every fit."""
    settings: dict[str, Any] = {"standardize": standardize, "min_leaf": min_leaf, "group": group}
    return {**settings, "weight": class_weight} if loss.n_classes else settings


def _fit(
    candidate: Candidate, x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], person: Persons, **settings: Any
) -> BaseEstimator:
    if candidate.classes:
        return fit_classes(candidate, x, y, **settings)
    return fit(candidate, x, y, person=person, **settings)


def _digest(
    x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], person: Persons, settings: tuple[str | int, ...]
) -> str:
    digest = hashlib.sha256(repr((x.shape, *settings)).encode())
    for array in (x, y) if person is None else (x, y, person):
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())
    return digest.hexdigest()


def _seed(rng_seed: int, candidate: Candidate) -> int:
    return int.from_bytes(hashlib.sha256(f"{rng_seed} {candidate.key}".encode()).digest()[:4], "big")


def _cross_validate(
    fit: Fit,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    splits: Sequence[Split],
    loss: Loss,
    person: Persons,
) -> _Fit:
    """Measure the error of a method on the second rows of all splits."""
    measured = np.concatenate([rows for _, rows in splits])
    try:
        predictions = predict_splits(fit, x, y, splits, loss, person)[measured]
    except Exception as error:  # a method may fail on these rows in any way; the other candidates are still tried
        return _failed(error, len(splits[0][0]))
    return _measured(None, predictions, y[measured], loss)


def _refit(fit: Fit, x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "n"], loss: Loss, person: Persons) -> _Fit:
    """Fit a method to all rows, and measure the error on them."""
    try:
        model = fit(x, y, person)
    except Exception as error:  # as above
        return _failed(error, len(y))
    return _measured(model, loss.predict(model, x, y, len(y)), y, loss)


def _failed(error: Exception, n_rows: int) -> _Fit:
    # The kind of error only: scikit-learn's message may quote a value, and this reason may leave the site.
    return _Fit(None, np.inf, f"{type(error).__name__} when fitted to {n_rows} rows")


def _measured(
    model: BaseEstimator | None, predictions: Float64[np.ndarray, "t"], y: Float64[np.ndarray, "t"], loss: Loss
) -> _Fit:
    error = float(loss.means(predictions[np.newaxis], y)[0])
    return _Fit(model, error) if np.isfinite(error) else _Fit(None, np.inf, "its error is not finite")
