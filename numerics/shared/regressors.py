"""Fits of methods of regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from numerics.shared.candidates import LEAF, STANDARDIZE, Candidate, new_estimator
from numerics.shared.folds import Persons, draw_folds
from numerics.shared.threads import single_threaded
from numerics.shared.units import fit_in_units
from numerics.shared.value_groups import ValueGroups

if TYPE_CHECKING:  # scikit-learn takes a second to import, and many asks need the names of methods only
    from sklearn.base import BaseEstimator
    from sklearn.linear_model import LinearRegression


def build(candidate: Candidate, *, standardize: str, min_leaf: int, seed: int) -> BaseEstimator:
    """Return the unfitted estimator of a candidate.

    Parameters
    ----------
    candidate : Candidate
        Method and settings.
    standardize : str
        ``"model"``: with scalers of x and y, if the method depends on units; ``"learner"`` (the rows are standardized
        already) and ``"none"``: without; but a network gets scalers with ``"none"``, too, since in large units its
        first steps leave single rows in its weights. A linear regression gets none: `fit_in_units` makes it the same
        function in any units. (With fewer rows than inputs it is the exact solution of minimum norm.)
    min_leaf : int
        Fewest rows in a leaf of a tree.
    seed : int
        Seed of all randomness, below 2**32.

    Raises
    ------
    ValueError
        If `standardize` is none of these.

    Examples
    --------
    >>> from numerics.shared.candidates import parse_candidates
    >>> [forest] = parse_candidates("rf(max_depth=3)")
    >>> build(forest, standardize="model", min_leaf=5, seed=0).min_samples_leaf
    5
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if standardize not in STANDARDIZE:
        raise ValueError(f"standardize is one of {', '.join(STANDARDIZE)}, not {standardize!r}")
    estimator = new_estimator(candidate.method).set_params(**dict(candidate.settings))
    parameters = set_common_parameters(estimator, seed=seed, min_leaf=min_leaf)
    if parameters.get("cv") is not None:
        # Shuffled: a site may keep its rows sorted, so that consecutive parts would differ.
        estimator.set_params(cv=KFold(parameters["cv"], shuffle=True, random_state=seed))
    scaled = standardize == "model" or (standardize == "none" and candidate.method == "nn")
    if not scaled or LEAF in parameters or isinstance(estimator, LinearRegression):
        return estimator
    pipeline = Pipeline([("scale", StandardScaler()), ("method", estimator)])
    return TransformedTargetRegressor(regressor=pipeline, transformer=StandardScaler())


def fit(
    candidate: Candidate,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    standardize: str,
    min_leaf: int,
    seed: int,
    group: int = 1,
    person: Persons = None,
) -> BaseEstimator:
    """Fit a candidate.

    The fit uses one thread: the number of threads changes the rounding of sums, and so the model. A linear model,
    scaled or not, becomes one plain ``LinearRegression`` in the units of the rows. If the outcome is constant, as in a
    single row, every method predicts this constant. A method has at most as many neighbors, or parts of the rows, as
    there are rows. If a forest cannot split so few rows, its trees predict the mean.

    Parameters
    ----------
    x, y : ndarray
        ``(n, p)`` inputs and ``(n,)`` outcomes; finite, one row at least.
    candidate, standardize, min_leaf, seed
        As in `build`.
    group : int
        Size of the groups of neighboring values that no threshold of a tree divides; 1: any threshold.
    person : ndarray or None
        ``(n,)`` persons of the rows; cross-validation of a penalty leaves out whole persons.

    Raises
    ------
    Exception
        Any exception of a method that cannot be fitted to these rows.

    Examples
    --------
    >>> from numerics.shared.candidates import parse_candidates
    >>> x = np.arange(8.0)[:, np.newaxis]
    >>> model = fit(parse_candidates("lr")[0], x, 3 * x[:, 0], standardize="model", min_leaf=1, seed=0)
    >>> model.coef_.round(6)
    array([3.])
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import KFold
    from sklearn.neighbors import KNeighborsRegressor

    from numerics.shared.linear_models import as_linear

    if np.ptp(y) == 0:
        return constant(float(y[0]), x.shape[1])
    model = build(candidate, standardize=standardize, min_leaf=min_leaf, seed=seed)
    method = model.regressor.steps[-1][1] if isinstance(model, TransformedTargetRegressor) else model
    if isinstance(method, KNeighborsRegressor):
        method.set_params(n_neighbors=min(method.n_neighbors, len(y)))
    elif isinstance(method, RandomForestRegressor) and len(y) < 2 * min_leaf:
        # A tree that cannot split has one leaf. Of rows drawn with replacement it could hold a single outcome.
        method.set_params(bootstrap=False)
    elif isinstance(getattr(method, "cv", None), KFold):
        if person is None or np.ptp(person) == 0:
            method.cv.n_splits = min(method.cv.n_splits, len(y))
        else:
            method.set_params(cv=draw_folds(len(y), np.random.default_rng(seed), method.cv.n_splits, person))
    if group > 1 and LEAF in model.get_params(deep=False):
        x = ValueGroups.of(x, group).apply(x)
    with quiet_fit():
        fit_in_units(model, x, y)
    return as_linear(model) or model


def set_common_parameters(estimator: BaseEstimator, *, seed: int, min_leaf: int) -> dict[str, Any]:
    """Set seed and fewest rows in a leaf, if the method has them, and return the parameters that it had before."""
    parameters: dict[str, Any] = estimator.get_params(deep=False)
    own = {name: value for name, value in (("random_state", seed), (LEAF, min_leaf)) if name in parameters}
    estimator.set_params(**own)
    return parameters


@contextmanager
def quiet_fit() -> Iterator[None]:
    """Fit in one thread and without warnings.

    Warnings of early stops are ignored: the error on held-out rows shows how good the model is.
    """
    with single_threaded(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def constant(value: float, n_inputs: int) -> LinearRegression:
    """Return a linear model with this number of inputs that predicts the same value for every row.

    Examples
    --------
    >>> constant(2.5, n_inputs=2).predict(np.zeros((2, 2)))
    array([2.5, 2.5])
    """
    from sklearn.linear_model import LinearRegression

    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.zeros(n_inputs), value, n_inputs
    return model
