"""Candidate methods as a setting names them: ``lasso``, ``rf(n_estimators=50)``."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # scikit-learn takes a second to import, and many asks need the names of methods only
    from sklearn.base import BaseEstimator


Value = bool | int | float | str | None
STANDARDIZE = ("model", "learner", "none")
ROW_MODELS = frozenset({"knn", "svr"})
"""Methods whose models contain rows of the site: all of them (knn), or the support vectors (svr)."""
_METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # All columns are tried at every split: with a third of them the error is 1 to 3.4 times as large
    # (docs/sec-evidence.md). The lasso is tuned on two halves of the rows.
    "rf": ("sklearn.ensemble.RandomForestRegressor", {"n_estimators": 50}),
    "lr": ("sklearn.linear_model.LinearRegression", {}),
    "lasso": ("sklearn.linear_model.LassoCV", {"cv": 2}),
    "lars": ("sklearn.linear_model.LarsCV", {"cv": 2}),
    "en": ("sklearn.linear_model.ElasticNetCV", {"cv": 2}),
    # Tuned by leave-one-out, which has a closed form for ridge regression.
    "ridge": ("sklearn.linear_model.RidgeCV", {"alphas": np.logspace(-3, 5, 17)}),
    "knn": ("sklearn.neighbors.KNeighborsRegressor", {"n_neighbors": 5, "algorithm": "brute"}),
    "svr": ("sklearn.svm.SVR", {}),
    # On a hundred rows a quasi-Newton method with a strong penalty is quicker and more accurate than Adam.
    "nn": (
        "sklearn.neural_network.MLPRegressor",
        {"hidden_layer_sizes": (50,), "solver": "lbfgs", "alpha": 1.0, "max_iter": 300},
    ),
    "gb": ("sklearn.ensemble.GradientBoostingRegressor", {}),
    "hgb": ("sklearn.ensemble.HistGradientBoostingRegressor", {}),
    # Its smallest leaf limits it, not its depth.
    "tree": ("sklearn.tree.DecisionTreeRegressor", {}),
}
"""Full name of the estimator, and settings that differ from scikit-learn's defaults."""
METHODS = tuple(_METHODS)
"""Short names of all methods."""
_CLASS_METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "rf": ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 100}),
    # Penalized, on standardized inputs: without a penalty, separable classes have no estimate.
    "lr": ("sklearn.linear_model.LogisticRegression", {"max_iter": 300}),
    "knn": ("sklearn.neighbors.KNeighborsClassifier", {"n_neighbors": 15, "algorithm": "brute"}),
    "nn": (
        "sklearn.neural_network.MLPClassifier",
        {"hidden_layer_sizes": (50,), "solver": "lbfgs", "alpha": 1.0, "max_iter": 300},
    ),
    "gb": ("sklearn.ensemble.GradientBoostingClassifier", {}),
    "hgb": ("sklearn.ensemble.HistGradientBoostingClassifier", {}),
    "tree": ("sklearn.tree.DecisionTreeClassifier", {}),
}
"""Methods for classes, under the same short names where scikit-learn has one that predicts probabilities."""
MOST_STEPS = 1000
"""Most trees, steps or units of a fit: a fusion center must not keep a site busy forever."""
_STEPS = frozenset({"n_estimators", "max_iter", "alphas", "hidden_layer_sizes"})
"""Settings that `MOST_STEPS` limits."""
LEAF = "min_samples_leaf"
"""Setting of methods that grow trees; these need no scaler, whatever the units of x and y."""
OURS: Mapping[str, str] = {
    "random_state": "a run's seed sets it",
    "n_jobs": "a site answers with one thread",
    "warm_start": "every fit starts anew",
    "verbose": "a site writes its own log",
    "algorithm": "no other model may be sent",
    "bootstrap": "leaves of trees that all know all rows would together count them",
    "categorical_features": "every input is a number",
    "criterion": "a leaf holds a mean of outcomes, never one of them",
    "init": "no other model may be sent",
    "loss": "the protocol compares squared errors",
    "max_samples": "a tree of a few rows would hold single outcomes",
    "splitter": "random thresholds would ask for the rows of any interval",
    LEAF: "min-leaf of the run or of the site sets it",
    "subsample": "a tree of a few rows would hold single outcomes",
}
"""Settings that a candidate may not change, with the reason."""
_OURS_OF_CLASSES: Mapping[str, str] = {
    "class_weight": "class-weight of the run sets it",
    "solver": "no other model may be sent",
    "penalty": "no other model may be sent",
}
"""More such settings, of methods for classes."""
Bounds = tuple[float, float]
_ANY: Bounds = (-np.inf, np.inf)
_TREE = dict.fromkeys(("max_depth", "max_features", "max_leaf_nodes", "min_impurity_decrease", "ccp_alpha"), _ANY)
_LINEAR = dict.fromkeys(("alphas", "cv", "eps", "fit_intercept", "max_iter", "positive", "tol"), _ANY)
_RATE: Bounds = (0.001, 1.0)
_OF_RUN: Mapping[str, Mapping[str, Bounds]] = {
    # All that linear models know are means and products of columns, over all rows.
    **dict.fromkeys(("lr", "lasso", "ridge"), _LINEAR),
    "lars": _LINEAR | {"max_n_alphas": _ANY},
    "en": _LINEAR | {"l1_ratio": _ANY},
    "tree": _TREE,
    "rf": _TREE | {"n_estimators": _ANY},
    # The next trees' outcomes, and so their leaves, must not grow: these are rounded to a share of the outcome's range.
    "gb": _TREE | {"n_estimators": _ANY, "learning_rate": _RATE},
    "hgb": {
        **dict.fromkeys(("l2_regularization", "max_bins", "max_depth", "max_features", "max_iter"), _ANY),
        "max_leaf_nodes": _ANY,
        "learning_rate": _RATE,
    },
    # No solver but lbfgs: one long step of a gradient leaves the rows in the weights.
    "nn": {"activation": _ANY, "hidden_layer_sizes": _ANY, "max_iter": _ANY, "alpha": (0.01, np.inf)},
}
"""By method, the settings that a run may choose for all sites, with bounds: none makes a fit depend on few rows.

Of 80 rows, 78 were the weights of networks that stopped early, each fitted to one row. A method that is not here has
models that hold rows, for which a site has to consent.
"""
_OF_RUN_TO_CLASSES: Mapping[str, Mapping[str, Bounds]] = {
    # With hardly a penalty, coefficients tell of the few rows at the margin.
    "lr": {"C": (0.0, 1.0), "fit_intercept": _ANY, "max_iter": _ANY, "tol": _ANY},
}
_NAME = re.compile(r"[\s,]*([A-Za-z][\w-]*)")
_SETTING = re.compile(
    r"""\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s,()"'=]+))\s*(?:,|(?=\)))"""
)
_CLOSE = re.compile(r"\s*\)")


class SettingsError(ValueError):
    """Error: settings cannot be read, or the method lacks them. The message follows the method's name."""


class CandidateError(ValueError):
    """Error: a list of candidates cannot be read. The message names the methods."""


@dataclass(frozen=True)
class Candidate:
    """A method with settings.

    Attributes
    ----------
    method : str
        Its short name, one of `METHODS`; or the full name of an estimator of scikit-learn, if the site chooses itself.
    settings : tuple of (str, value)
        Parameters of the scikit-learn estimator that differ from the method's, sorted by name.
    text : str
        The user's text.
    classes : bool
        Whether it predicts classes (`numerics.shared.classifiers`) instead of an amount.

    Examples
    --------
    >>> [forest] = parse_candidates("rf( max_depth = 3 )")
    >>> forest.method, forest.key
    ('rf', 'rf(max_depth=3)')
    """

    method: str
    settings: tuple[tuple[str, Value], ...]
    text: str
    classes: bool = False

    @property
    def key(self) -> str:
        """Method and settings in one form, whatever the user's text."""
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in self.settings)})"


def parse_candidates(text: str, *, classes: bool = False, own: bool = False) -> tuple[Candidate, ...]:
    """Read candidates as a user types them: ``"lasso rf(max_depth=3, n_estimators=50)"``.

    Names are separated by spaces or commas. Settings are parameters of the scikit-learn estimator; a value is a number,
    ``True``, ``False``, ``None``, or text with or without quotes. With `classes` they predict classes. With `own` they
    are a site's own list; a run's list may set less: nothing that makes a fit depend on few rows.

    Raises
    ------
    CandidateError
        If there is no candidate, or the same twice; if a name or setting is unknown; or if a setting has a value that
        the estimator refuses, or may not be changed (`random_state`, `min_samples_leaf`, ...).

    Examples
    --------
    >>> [candidate.method for candidate in parse_candidates("lasso, rf(max_depth=3)")]
    ['lasso', 'rf']
    """
    candidates: list[Candidate] = []
    at = 0
    while text[at:].strip(" \t\r\n,"):
        name = _NAME.match(text, at)
        if name is None:
            raise CandidateError(f"candidates {text!r}: cannot read {text[at:].strip()!r}; {_example()}")
        try:
            settings, end = read_settings(text, name.end())
        except SettingsError as error:
            raise CandidateError(f"candidates {text!r}: {error}; {_example()}") from None
        candidate = _candidate(name[1], settings, text[name.start(1) : end], classes=classes, own=own)
        if any(each.key == candidate.key for each in candidates):
            raise CandidateError(f"candidates {text!r}: {candidate.text} is named twice; name every candidate once")
        candidates.append(candidate)
        at = end
    if not candidates:
        raise CandidateError(f"there is no candidate; {_example()}")
    return tuple(candidates)


def _example() -> str:
    return f"write names with or without settings, e.g. 'lasso rf(max_depth=3)'; there are: {', '.join(METHODS)}"


def read_settings(text: str, at: int) -> tuple[dict[str, Value], int]:
    """Read the settings in parentheses at a position of the text, if there are any.

    Returns
    -------
    settings : dict
        Values by name.
    end : int
        Position after the settings.

    Raises
    ------
    SettingsError
        If the text has something else there, or a setting twice.

    Examples
    --------
    >>> read_settings("rf(max_depth=3) lasso", 2)
    ({'max_depth': 3}, 15)
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
            raise SettingsError(f"the setting {setting['name']} is set twice")
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


def _candidate(method: str, settings: dict[str, Value], text: str, *, classes: bool, own: bool) -> Candidate:
    methods = tuple(_CLASS_METHODS if classes else _METHODS)
    if method not in methods:
        near = difflib.get_close_matches(method, methods, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        what = f"{method} predicts no classes" if method in METHODS else f"unknown candidate {method!r}"
        raise CandidateError(f"{what}; there are: {', '.join(methods)}{hint}")
    try:
        ours = {**OURS, **_OURS_OF_CLASSES} if classes else OURS
        bounds = None if own else ({**_OF_RUN, **_OF_RUN_TO_CLASSES} if classes else _OF_RUN).get(method)
        check_settings(method, settings, ours, "a candidate's", bounds, classes=classes)
    except SettingsError as error:
        raise CandidateError(f"candidate {text}: {error}") from None
    return Candidate(method, tuple(sorted(settings.items())), text, classes)


def check_settings(
    method: str,
    settings: Mapping[str, Value],
    ours: Mapping[str, str],
    whose: str,
    bounds: Mapping[str, Bounds] | None = None,
    *,
    classes: bool = False,
) -> None:
    """Check that a method takes these settings.

    Parameters
    ----------
    method : str
        As in `Candidate`.
    settings : Mapping
        Values by name.
    ours : Mapping of str
        Settings that may not be changed, with the reason.
    whose : str
        Whose choice the settings are, for the message: ``a candidate's``.
    bounds : Mapping or None
        The only settings that a run may choose, with bounds of their numbers; None: the site chooses.
    classes : bool
        As in `Candidate`.

    Raises
    ------
    SettingsError
        If the method has no such setting or refuses its value, or the setting is one of `ours`.

    Examples
    --------
    >>> check_settings("lr", {"seed": 3}, OURS, "a candidate's")
    Traceback (most recent call last):
    numerics.shared.candidates.SettingsError: lr has no setting 'seed'; it has: copy_X, fit_intercept, positive, tol
    """
    if not settings:
        return
    estimator = new_estimator(method, classes=classes)
    parameters = estimator.get_params(deep=False)
    may_be_none = method == "ridge" or "." in method
    for name, value in settings.items():
        choices = ", ".join(sorted((set(parameters) if bounds is None else set(parameters) & set(bounds)) - set(ours)))
        if name not in parameters:
            raise SettingsError(f"{method} has no setting {name!r}; it has: {choices}")
        if name in ours:
            raise SettingsError(f"{name} is not {whose} to set ({ours[name]}); set: {choices}")
        if bounds is not None:
            _check_bounds(name, value, bounds, choices)
        if name == "cv" and not ((type(value) is int and value >= 2) or (value is None and may_be_none)):
            raise SettingsError(f"cv is a number of parts of the rows, 2 or more, not {value!r}")
        if name in _STEPS and type(value) is int and value > MOST_STEPS:
            raise SettingsError(f"{name} is {MOST_STEPS} at most, not {value}")
        if value == "precomputed":
            raise SettingsError(f"{name} needs rows, nothing precomputed; set: {choices}")
    estimator.set_params(**settings)
    try:
        estimator._validate_params()
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _check_bounds(name: str, value: Value, bounds: Mapping[str, Bounds], choices: str) -> None:
    if name not in bounds:
        raise SettingsError(
            f"{name} is for a site's own candidates only, since fits could depend on few rows; a run may set: {choices}"
        )
    least, most = bounds[name]
    if isinstance(value, int | float) and not least <= value <= most:
        limits = f"{least:g} to {most:g}" if most < np.inf else f"{least:g} or more"
        raise SettingsError(f"a run may set {name} to {limits}, not {value}")


def new_estimator(method: str, *, classes: bool = False) -> BaseEstimator:
    """Return the estimator of a short or full name, with its default settings.

    Examples
    --------
    >>> new_estimator("tree", classes=True)
    DecisionTreeClassifier()
    """
    full, settings = (_CLASS_METHODS if classes else _METHODS).get(method, (method, {}))
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)(**settings)
