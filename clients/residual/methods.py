"""Methods of agents: names and settings, fits, predictions."""

from __future__ import annotations

import difflib
import importlib
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from numerics.shared.candidates import METHODS, OURS, Candidate, SettingsError, check_settings, read_settings
from numerics.shared.folds import Persons
from numerics.shared.regressors import constant, fit
from numerics.shared.threads import single_threaded

if TYPE_CHECKING:  # scikit-learn takes a second to import, and not every ask needs it
    from sklearn.base import BaseEstimator

_NAME = re.compile(r"\s*([A-Za-z][\w.]*)")
_OURS_IN_FULL = ("random_state", "n_jobs", "warm_start", "verbose", "min_samples_leaf")
"""Settings that a site may not choose for an estimator that it names in full; all others it may."""


class MethodError(ValueError):
    """A method that cannot be read, fitted or asked; one sentence for the site's own log or terminal."""


@lru_cache(maxsize=64)  # each ask reads the method again, and its check takes as long as the fit of a small tree
def parse_method(text: str, *, dotted: bool) -> Candidate:
    """Read a method as a user types it: ``"tree"``, ``"hgb(max_depth=3)"``.

    Parameters
    ----------
    text : str
        A short name of `numerics.shared.candidates.METHODS`, and settings as of
        `numerics.shared.candidates.parse_candidates`.
    dotted : bool
        Whether the full name of any regressor of scikit-learn may be used, e.g.
        ``"sklearn.ensemble.ExtraTreesRegressor(n_estimators=50)"``: in a site's own configuration, not in an ask.

    Raises
    ------
    MethodError
        If there is no method or more than one, the name or a setting is unknown, or a setting has a value that the
        estimator refuses or may not be chosen.

    Examples
    --------
    >>> parse_method("hgb(max_depth=3)", dotted=False).settings
    (('max_depth', 3),)
    """
    name = _NAME.match(text)
    if name is None:
        raise MethodError(f"agent {text!r}: names no method; {_example(dotted)}")
    short = name[1] in METHODS
    if not short:
        _check_full_name(name[1], text.strip(), dotted=dotted)
    ours: Mapping[str, str] = OURS if short else {key: OURS[key] for key in _OURS_IN_FULL}
    try:
        settings, end = read_settings(text, name.end())
        check_settings(name[1], settings, ours, "an agent's")
    except SettingsError as error:
        raise MethodError(f"agent {text.strip()}: {error}") from None
    if text[end:].strip():
        raise MethodError(f"agent {text.strip()}: an agent has one method, so {text[end:].strip()!r} is too much")
    return Candidate(name[1], tuple(sorted(settings.items())), text.strip())


def _example(dotted: bool) -> str:
    full = ", or any regressor of scikit-learn by its full name, e.g. sklearn.ensemble.ExtraTreesRegressor"
    return f"write one, e.g. 'hgb(max_depth=3)'; there are: {', '.join(METHODS)}{full if dotted else ''}"


def _check_full_name(name: str, text: str, *, dotted: bool) -> None:
    """Check that this is the full name of a regressor of scikit-learn, and that a full name is allowed."""
    from sklearn.base import BaseEstimator, is_regressor

    module_name, _, class_name = name.rpartition(".")
    if not module_name:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise MethodError(f"agent {text}: there is no method {name!r}; {_example(dotted)}{hint}")
    if not dotted:
        raise MethodError(
            f"agent {text}: only a site itself may name an estimator in full; for all sites {_example(dotted)}"
        )
    if module_name.split(".")[0] != "sklearn":
        raise MethodError(f"agent {text}: {name} is not of scikit-learn; {_example(dotted)}")
    try:
        module = importlib.import_module(module_name)
    except Exception:  # a module may need a package that is not installed, and says so in any way
        raise MethodError(f"agent {text}: this scikit-learn has no module {module_name}") from None
    estimator = getattr(module, class_name, None)
    if not isinstance(estimator, type) or not estimator.__module__.startswith("sklearn."):
        near = difflib.get_close_matches(class_name, dir(module), n=1)
        hint = f"; did you mean {module_name}.{near[0]}?" if near else ""
        raise MethodError(f"agent {text}: {module_name} has no {class_name}{hint}")
    try:
        regressor = issubclass(estimator, BaseEstimator) and is_regressor(estimator())
    except TypeError:
        raise MethodError(
            f"agent {text}: {class_name} consists of other estimators; name one whose settings are numbers and texts"
        ) from None
    if not regressor:
        raise MethodError(f"agent {text}: {class_name} is no regressor")


def fit_method(
    method: Candidate,
    x: Float64[np.ndarray, "n p"],
    target: Float64[np.ndarray, "n"],
    *,
    min_leaf: int,
    seed: int,
    person: Persons = None,
) -> BaseEstimator:
    """Fit a method to a target, as `numerics.shared.regressors.fit`: in one thread, scaled if it depends on units.

    A constant target, or constant columns, give the target's mean with every method.

    Parameters
    ----------
    method : Candidate
        The method.
    x : ndarray
        ``(n, p)`` finite rows, one at least.
    target : ndarray
        ``(n,)`` finite numbers.
    min_leaf : int
        Fewest rows in a leaf of a tree. With fewer than ``2 min_leaf`` rows a tree has one leaf.
    seed : int
        Seed of all randomness, below 2**32.
    person : ndarray or None
        As in `numerics.shared.regressors.fit`.

    Raises
    ------
    MethodError
        If there is no row, or the method cannot be fitted.

    Examples
    --------
    >>> x = np.arange(6.0)[:, np.newaxis]
    >>> model = fit_method(parse_method("lr", dotted=False), x, 2 * x[:, 0] + 1, min_leaf=1, seed=0)
    >>> predict(model, np.array([[10.0]])).round(6)
    array([21.])
    """
    if len(target) == 0:
        raise MethodError(f"agent {method.text}: there is no row to fit")
    if not np.ptp(x, axis=0).any():
        return constant(float(target.mean()), x.shape[1])
    try:
        return fit(method, x, target, standardize="model", min_leaf=min_leaf, seed=seed, person=person)
    except Exception as error:
        raise MethodError(
            f"agent {method.text}: cannot be fitted to {x.shape[0]} rows of {x.shape[1]} columns: {_describe(error)}"
        ) from error


def predict(model: BaseEstimator, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
    """Predict rows by a fitted method.

    Parameters
    ----------
    model : estimator
        Model of `fit_method`.
    x : ndarray
        ``(n, p)`` finite rows; n may be 0.

    Returns
    -------
    ndarray
        ``(n,)`` finite numbers.

    Raises
    ------
    MethodError
        If the model raises an exception, or does not predict one finite number for every row.
    """
    from sklearn import config_context

    if len(x) == 0:
        return np.zeros(0)
    name = type(model).__name__
    try:
        with (
            single_threaded(),
            config_context(assume_finite=True, skip_parameter_validation=True),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            predictions = np.asarray(model.predict(x), np.float64)
    except Exception as error:
        raise MethodError(f"agent {name}: cannot predict {len(x)} rows: {_describe(error)}") from error
    if predictions.size != len(x) or not np.isfinite(predictions).all():
        raise MethodError(f"agent {name}: does not predict one finite number for every row; name another method")
    return predictions.reshape(len(x))


def _describe(error: Exception) -> str:
    """Return an exception as the end of a sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{f' ({lines[0]})' if lines else ''}"
