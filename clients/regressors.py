"""Candidate methods of a learner by short name: what may be typed, and how they are fitted."""

from __future__ import annotations

import difflib
import importlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from numerics.shared.threads import single_threaded

if TYPE_CHECKING:  # scikit-learn takes a second to import, and many asks need names of methods only
    from sklearn.base import BaseEstimator
    from sklearn.linear_model import LinearRegression

Value = bool | int | float | str | None

STANDARDIZE = ("model", "learner", "none")
ROW_MODELS = frozenset({"knn", "svr"})
"""Methods whose models contain rows they were fitted on: all of them (knn) or the support vectors (svr)."""

_METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # 50 trees, a third of the columns at every split; the lasso is tuned half-half.
    "rf": ("sklearn.ensemble.RandomForestRegressor", {"n_estimators": 50, "max_features": 1 / 3}),
    "lr": ("sklearn.linear_model.LinearRegression", {}),
    "lasso": ("sklearn.linear_model.LassoCV", {"cv": 2}),
    "lars": ("sklearn.linear_model.LarsCV", {"cv": 2}),
    "en": ("sklearn.linear_model.ElasticNetCV", {"cv": 2}),
    # Tuned by leaving one row out, which ridge regression gives in closed form.
    "ridge": ("sklearn.linear_model.RidgeCV", {"alphas": np.logspace(-3, 5, 17)}),
    "knn": ("sklearn.neighbors.KNeighborsRegressor", {"n_neighbors": 5, "algorithm": "brute"}),
    "svr": ("sklearn.svm.SVR", {}),
    # With a hundred rows a quasi-Newton method and a strong penalty are both quicker and better than epochs of Adam.
    "nn": (
        "sklearn.neural_network.MLPRegressor",
        {"hidden_layer_sizes": (50,), "solver": "lbfgs", "alpha": 1.0, "max_iter": 300},
    ),
    "gb": ("sklearn.ensemble.GradientBoostingRegressor", {}),
    "hgb": ("sklearn.ensemble.HistGradientBoostingRegressor", {}),
    # Of any depth: the smallest leaf alone says how fine it is.
    "tree": ("sklearn.tree.DecisionTreeRegressor", {}),
}
"""Full name of the estimator, and what we set of it."""
METHODS = tuple(_METHODS)
"""Short names of all methods."""

MOST_STEPS = 1000
"""Trees, steps or units of a fit that may be asked for: a fusion center must not keep a site busy for ever."""
_STEPS = frozenset({"n_estimators", "max_iter", "alphas", "hidden_layer_sizes"})
"""Settings that say how many."""

_LEAF = "min_samples_leaf"
"""The setting by which a method shows that it grows trees: these need no scaler, whatever the units of x and y."""
OURS: Mapping[str, str] = {
    "random_state": "a run's seed sets it",
    "n_jobs": "a site answers with one thread",
    "warm_start": "every fit starts anew",
    "verbose": "a site writes its own log",
    "algorithm": "no other model may be sent",
    "categorical_features": "every input is a number",
    "criterion": "a leaf holds a mean of outcomes, never one of them",
    "init": "no other model may be sent",
    "loss": "the protocol compares squared errors",
    "max_samples": "a tree of a few rows would hold single outcomes",
    _LEAF: "min-leaf of the run or of the site sets it",
    "subsample": "a tree of a few rows would hold single outcomes",
}
"""Settings that are not a candidate's to choose."""

_NAME = re.compile(r"[\s,]*([A-Za-z][\w-]*)")
_SETTING = re.compile(
    r"""\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s,()"'=]+))\s*(?:,|(?=\)))"""
)
_CLOSE = re.compile(r"\s*\)")


class SettingsError(ValueError):
    """Settings that cannot be read, or are none of a method; the message is what follows the method's name."""


class CandidateError(ValueError):
    """A list of candidates that cannot be read; the message says what there is."""


@dataclass(frozen=True)
class Candidate:
    """A method that a learner may choose.

    Attributes
    ----------
    method : str
        Its short name, of `METHODS`; or the full name of an estimator of scikit-learn, where its owner may name any.
    settings : tuple of (str, value)
        Parameters of the scikit-learn estimator that differ from ours, by name.
    text : str
        As it was typed.
    """

    method: str
    settings: tuple[tuple[str, Value], ...]
    text: str

    @property
    def key(self) -> str:
        """The same for two ways of typing the same candidate."""
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in self.settings)})"


# -- what may be typed ------------------------------------------------------------------------------------------------


def parse_candidates(text: str) -> tuple[Candidate, ...]:
    """Candidates as a user types them: ``"lasso rf(max_depth=3, n_estimators=50)"``.

    Names are separated by spaces or commas. Settings are parameters of the scikit-learn estimator; a value is a number,
    ``True``, ``False``, ``None``, or text with or without quotes.

    Raises
    ------
    CandidateError
        If there is none, one twice, an unknown name or setting, a value that the estimator does not take, or a setting
        that is not a candidate's to choose (`random_state`, `min_samples_leaf`, ...).
    """
    found: list[Candidate] = []
    at = 0
    while text[at:].strip(" \t\r\n,"):
        name = _NAME.match(text, at)
        if name is None:
            raise CandidateError(f"candidates {text!r}: cannot read {text[at:].strip()!r}; {_example()}")
        try:
            settings, end = read_settings(text, name.end())
        except SettingsError as error:
            raise CandidateError(f"candidates {text!r}: {error}; {_example()}") from None
        candidate = _candidate(name[1], settings, text[name.start(1) : end])
        if any(each.key == candidate.key for each in found):
            raise CandidateError(f"candidates {text!r}: {candidate.text} is there twice; name every candidate once")
        found.append(candidate)
        at = end
    if not found:
        raise CandidateError(f"there is no candidate; {_example()}")
    return tuple(found)


def _example() -> str:
    return f"write names with or without settings, e.g. 'lasso rf(max_depth=3)'; there are: {', '.join(METHODS)}"


def read_settings(text: str, at: int) -> tuple[dict[str, Value], int]:
    """The settings in parentheses that begin at a place of the text, if any do, and where they end.

    Raises
    ------
    SettingsError
        If there is something else than settings, or one twice.
    """
    if text[at : at + 1] != "(":
        if text[at : at + 1].strip(" \t\r\n,"):
            raise SettingsError(f"cannot read {text[at:]!r}")
        return {}, at
    settings: dict[str, Value] = {}
    at += 1
    while not (close := _CLOSE.match(text, at)):
        setting = _SETTING.match(text, at)
        if setting is None:
            raise SettingsError(
                f"cannot read the settings from {text[at:]!r} on; write name=value, separated by commas, and close the "
                "parenthesis"
            )
        if setting["name"] in settings:
            raise SettingsError(f"the setting {setting['name']} is there twice")
        quoted = setting["double"] if setting["double"] is not None else setting["single"]
        settings[setting["name"]] = quoted if quoted is not None else _value(setting["bare"])
        at = setting.end()
    return settings, close.end()


def _value(bare: str) -> Value:
    constants: Mapping[str, Value] = {"true": True, "false": False, "none": None}
    if bare.lower() in constants:
        return constants[bare.lower()]
    for kind in (int, float):
        try:
            return kind(bare)
        except ValueError:
            continue
    return bare


def _candidate(method: str, settings: dict[str, Value], text: str) -> Candidate:
    if method not in _METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise CandidateError(f"unknown candidate {method!r}; there are: {', '.join(METHODS)}{hint}")
    try:
        check_settings(method, settings, OURS, "a candidate's")
    except SettingsError as error:
        raise CandidateError(f"candidate {text}: {error}") from None
    return Candidate(method, tuple(sorted(settings.items())), text)


def check_settings(method: str, settings: Mapping[str, Value], ours: Mapping[str, str], whose: str) -> None:
    """Whether a method takes these settings.

    Parameters
    ----------
    method : str
        As in `Candidate`.
    settings : Mapping
        By name.
    ours : Mapping of str
        Settings that are not to be chosen, with the reason.
    whose : str
        ``a candidate's``: who may not choose these.

    Raises
    ------
    SettingsError
        If it has no such setting, does not take the value, or the setting is one of `ours`.
    """
    if not settings:
        return
    estimator = _unfitted(method)
    known = estimator.get_params(deep=False)
    may_be_none = method == "ridge" or "." in method
    for name, value in settings.items():
        free = ", ".join(sorted(set(known) - set(ours)))
        if name not in known:
            raise SettingsError(f"{method} has no setting {name!r}; it has: {free}")
        if name in ours:
            raise SettingsError(f"{name} is not {whose} to set ({ours[name]}); set: {free}")
        if name == "cv" and not ((type(value) is int and value >= 2) or (value is None and may_be_none)):
            raise SettingsError(f"cv is a number of parts of the rows, 2 or more, not {value!r}")
        if name in _STEPS and type(value) is int and value > MOST_STEPS:
            raise SettingsError(f"{name} is {MOST_STEPS} at most, not {value}")
        if value == "precomputed":
            raise SettingsError(f"{name} needs rows, nothing precomputed; set: {free}")
    estimator.set_params(**settings)
    try:
        estimator._validate_params()
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _unfitted(method: str) -> BaseEstimator:
    """The estimator of a short or full name, with the settings that it has of itself."""
    full, settings = _METHODS.get(method, (method, {}))
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)(**settings)


# -- how they are fitted ----------------------------------------------------------------------------------------------


def build(candidate: Candidate, *, standardize: str, min_leaf: int, seed: int) -> BaseEstimator:
    """The estimator of a candidate, not fitted.

    Parameters
    ----------
    candidate : Candidate
        The method and its settings.
    standardize : str
        ``"model"``: between scalers of x and y, where the method is sensitive to scale; ``"learner"`` (the rows are
        standardised already) and ``"none"``: the method by itself. A linear regression needs no scaler: in any units it
        is the same function. (With fewer rows than inputs it is the shortest of the exact solutions, in the units
        given.)
    min_leaf : int
        Rows in a leaf of a tree, at least.
    seed : int
        Of everything random in it, below 2**32.

    Raises
    ------
    ValueError
        If `standardize` is none of these.
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if standardize not in STANDARDIZE:
        raise ValueError(f"standardize is one of {', '.join(STANDARDIZE)}, not {standardize!r}")
    estimator = _unfitted(candidate.method).set_params(**dict(candidate.settings))
    known = estimator.get_params(deep=False)
    given = {name: value for name, value in (("random_state", seed), (_LEAF, min_leaf)) if name in known}
    estimator.set_params(**given)
    if known.get("cv") is not None:
        # In the order of the rows the parts would differ wherever a site keeps its rows sorted.
        estimator.set_params(cv=KFold(known["cv"], shuffle=True, random_state=seed))
    if standardize != "model" or _LEAF in known or isinstance(estimator, LinearRegression):
        return estimator
    scaled = Pipeline([("scale", StandardScaler()), ("method", estimator)])
    return TransformedTargetRegressor(regressor=scaled, transformer=StandardScaler())


def fit(
    candidate: Candidate,
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    standardize: str,
    min_leaf: int,
    seed: int,
) -> BaseEstimator:
    """Fit a candidate.

    One thread does all the work: with another number of threads sums would be rounded otherwise, and the same rows
    could give another model. A linear model, between scalers or not, becomes one plain ``LinearRegression`` in the
    units of the rows. An outcome that is constant (one row always is) is predicted by every method as that constant,
    also by those that cannot be fitted to one. Where there are fewer rows than the method would have neighbours or
    parts, it has as many as there are rows; where a forest could not split them, its trees are their mean.

    Parameters
    ----------
    x, y : ndarray
        ``(n, p)`` and ``(n,)`` finite rows, at least one.
    candidate, standardize, min_leaf, seed
        As in `build`.

    Raises
    ------
    Exception
        Whatever the method raises that cannot be fitted to these rows.
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
        # No tree can split, and the one leaf of a few rows that are drawn with replacement could hold one outcome.
        method.set_params(bootstrap=False)
    elif isinstance(getattr(method, "cv", None), KFold):
        method.cv.n_splits = min(method.cv.n_splits, len(y))
    with single_threaded(), warnings.catch_warnings(), np.errstate(all="ignore"):
        # That an iteration stopped early is no news to anybody: the half-half error says what the model is worth.
        warnings.simplefilter("ignore")
        model.fit(x, y)
    return as_linear(model) or model


def constant(value: float, n_inputs: int) -> LinearRegression:
    """A model of that many inputs that says the same of every row."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.zeros(n_inputs), value, n_inputs
    return model
