"""An agent's method: how it may be named, how it is fitted to the numbers of a round, and what it predicts."""

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

from clients.regressors import (
    METHODS,
    OURS,
    Candidate,
    SettingsError,
    check_settings,
    constant,
    fit,
    read_settings,
)
from numerics.shared.threads import single_threaded

if TYPE_CHECKING:  # scikit-learn takes a second to import, and not every ask needs it
    from sklearn.base import BaseEstimator

Agent = Candidate
"""One method with its settings: a short name, or the full name of an estimator of scikit-learn."""

_NAME = re.compile(r"\s*([A-Za-z][\w.]*)")
_OURS_IN_FULL = ("random_state", "n_jobs", "warm_start", "verbose", "min_samples_leaf")
"""What the owner of the data may not choose of an estimator that it names in full: the rest is its own affair."""


class AgentError(ValueError):
    """An agent that cannot be read, fitted, or asked; one sentence for the site's own log or terminal."""


@lru_cache(maxsize=64)  # every ask names the method again, and to check it takes as long as to fit a small tree
def parse_agent(text: str, *, dotted: bool) -> Agent:
    """An agent's method as a user types it: ``"tree"``, ``"hgb(max_depth=3)"``.

    Parameters
    ----------
    text : str
        A short name of `clients.regressors.METHODS`, with settings as candidates of SEC have them.
    dotted : bool
        Whether any regressor of scikit-learn may be named in full, e.g.
        ``"sklearn.ensemble.ExtraTreesRegressor(n_estimators=50)"``: what a site says of itself, never what it is told.

    Raises
    ------
    AgentError
        If there is none or more than one, an unknown name or setting, a value that the estimator does not take, or a
        setting that is not an agent's to choose.
    """
    name = _NAME.match(text)
    if name is None:
        raise AgentError(f"agent {text!r}: names no method; {_example(dotted)}")
    short = name[1] in METHODS
    if not short:
        _check_full_name(name[1], text.strip(), dotted=dotted)
    ours: Mapping[str, str] = OURS if short else {key: OURS[key] for key in _OURS_IN_FULL}
    try:
        settings, end = read_settings(text, name.end())
        check_settings(name[1], settings, ours, "an agent's")
    except SettingsError as error:
        raise AgentError(f"agent {text.strip()}: {error}") from None
    if text[end:].strip():
        raise AgentError(f"agent {text.strip()}: an agent has one method, so {text[end:].strip()!r} is too much")
    return Agent(name[1], tuple(sorted(settings.items())), text.strip())


def _example(dotted: bool) -> str:
    full = ", or any regressor of scikit-learn by its full name, e.g. sklearn.ensemble.ExtraTreesRegressor"
    return f"write one, e.g. 'hgb(max_depth=3)'; there are: {', '.join(METHODS)}{full if dotted else ''}"


def _check_full_name(name: str, text: str, *, dotted: bool) -> None:
    """Whether it is the full name of a regressor of scikit-learn, and may be."""
    from sklearn.base import BaseEstimator, is_regressor

    module_name, _, class_name = name.rpartition(".")
    if not module_name:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AgentError(f"agent {text}: there is no method {name!r}; {_example(dotted)}{hint}")
    if not dotted:
        raise AgentError(
            f"agent {text}: only a site itself may name an estimator in full; for all sites {_example(dotted)}"
        )
    if module_name.split(".")[0] != "sklearn":
        raise AgentError(f"agent {text}: {name} is not of scikit-learn; {_example(dotted)}")
    try:
        module = importlib.import_module(module_name)
    except Exception:  # a module may need a package that is not installed, and says so in any way
        raise AgentError(f"agent {text}: this scikit-learn has no module {module_name}") from None
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not found.__module__.startswith("sklearn."):
        near = difflib.get_close_matches(class_name, dir(module), n=1)
        hint = f"; did you mean {module_name}.{near[0]}?" if near else ""
        raise AgentError(f"agent {text}: {module_name} has no {class_name}{hint}")
    try:
        regressor = issubclass(found, BaseEstimator) and is_regressor(found())
    except TypeError:
        raise AgentError(
            f"agent {text}: {class_name} is made of other estimators; name one that numbers and texts can describe"
        ) from None
    if not regressor:
        raise AgentError(f"agent {text}: {class_name} is no regressor")


def fit_agent(
    agent: Agent, x: Float64[np.ndarray, "n p"], target: Float64[np.ndarray, "n"], *, min_leaf: int, seed: int
) -> BaseEstimator:
    """Fit an agent to numbers, one a row.

    One thread works, between scalers where the method feels units (`clients.regressors.fit`). A target that does not
    vary, and columns that do not, are fitted by every method alike: with the target's mean.

    Parameters
    ----------
    agent : Agent
        The method.
    x : ndarray
        ``(n, p)`` finite rows, one at least.
    target : ndarray
        ``(n,)`` finite numbers.
    min_leaf : int
        Fewest rows in a leaf of a tree; with fewer than twice as many rows a tree has one leaf.
    seed : int
        Of everything random in it, below 2**32.

    Raises
    ------
    AgentError
        If there is no row, or the method cannot be fitted to these.
    """
    if len(target) == 0:
        raise AgentError(f"agent {agent.text}: there is no row to fit")
    if not np.ptp(x, axis=0).any():
        return constant(float(target.mean()), x.shape[1])
    try:
        return fit(agent, x, target, standardize="model", min_leaf=min_leaf, seed=seed)
    except Exception as error:
        raise AgentError(
            f"agent {agent.text}: cannot be fitted to {x.shape[0]} rows of {x.shape[1]} columns: {_told(error)}"
        ) from error


def predict(model: BaseEstimator, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
    """What a fitted agent says of rows.

    Parameters
    ----------
    model : estimator
        As `fit_agent` made it.
    x : ndarray
        ``(n, p)`` finite rows; n may be 0.

    Returns
    -------
    ndarray
        ``(n,)`` finite numbers.

    Raises
    ------
    AgentError
        If it raises, or says anything but one finite number for every row.
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
            said = np.asarray(model.predict(x), np.float64)
    except Exception as error:
        raise AgentError(f"agent {name}: cannot predict {len(x)} rows: {_told(error)}") from error
    if said.size != len(x) or not np.isfinite(said).all():
        raise AgentError(f"agent {name}: does not predict one finite number for every row; name another method")
    return said.reshape(len(x))


def _told(error: Exception) -> str:
    """An exception as the end of a sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{f' ({lines[0]})' if lines else ''}"
