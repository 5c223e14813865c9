"""Accepted types of models, and the checks of their attributes.

For every type: the attributes that predicting reads, and a check of them that reads plain values only. The check comes
before anything is constructed, because scikit-learn and libsvm follow the indices and lengths in a fitted model without
checking them: a forged tree can crash a process, or read its memory, even while it is loaded.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from protocols.models.archive import ModelError, quote
from protocols.models.parts import Part

DECISION_TREE = "sklearn.tree._classes.DecisionTreeRegressor"
DUMMY = "sklearn.dummy.DummyRegressor"
PIPELINE = "sklearn.pipeline.Pipeline"
MOST_CLASSES = 100
"""Most classes of a model."""
MOST_FEATURES = 1_000_000
MOST_WIDTH = 10_000
"""Most numbers that a model computes of one row at a time: units of a layer, neighbors, nodes from root to leaf.

A small file can describe a model that would take terabytes, or days, for a few rows.
"""
_VERSION = "_sklearn_version"  # scikit-learn adds it to the state of every estimator

TRAINING_ONLY: Mapping[str, Any] = {
    "random_state": None,  # a forest's seed would reveal the rows that each tree was grown from
    "n_jobs": None,  # the sender does not choose the number of a receiver's processes
    "verbose": False,
    "memory": None,
    "copy": True,  # a scaler that does not copy would scale the receiver's own rows, for all models after it
    "regressor": None,  # the unfitted originals of regressor_ and transformer_
    "transformer": None,
}
"""Parameters that predicting does not read, and the values that they cross with."""


@dataclass(frozen=True)
class Kind:
    """An accepted type.

    Attributes
    ----------
    fitted : tuple of str
        Attributes that predicting reads, besides the parameters of the constructor.
    check : callable
        Checks a `Part` of this type against its contract and returns the number of its inputs.
    predicts : bool
        Whether it is a regressor or a classifier.
    classifies : bool
        Whether it is a classifier, which predicts a probability for each of its classes 0, 1, ...
    has_parameters : bool
        Whether the parameters of its constructor cross too: they describe the model.
    blank : Mapping[str, Callable]
        Attributes of which predicting needs the form only; for each, a function that returns the value to send instead.
    """

    fitted: tuple[str, ...]
    check: Callable[[Part], int]
    predicts: bool = True
    has_parameters: bool = True
    blank: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    classifies: bool = False


KINDS: dict[str, Kind] = {}
"""All types that may be constructed, by module and class; others are refused. `accepts` fills it."""

Check = Callable[[Part], int]


def accepts(
    type_name: str,
    *,
    fitted: str,
    predicts: bool = True,
    has_parameters: bool = True,
    blank: Mapping[str, Callable[[Any], Any]] | None = None,
    classifies: bool = False,
) -> Callable[[Check], Check]:
    """Return a decorator that lists a type with the function that checks it; other parameters as of `Kind`."""

    def put(check: Check) -> Check:
        KINDS[type_name] = Kind(tuple(fitted.split()), check, predicts, has_parameters, blank or {}, classifies)
        return check

    return put


def regressors() -> set[str]:
    """Return the listed types that predict an amount."""
    return {name for name, kind in KINDS.items() if kind.predicts and not kind.classifies}


def classifiers() -> set[str]:
    """Return the listed types that predict classes."""
    return {name for name, kind in KINDS.items() if kind.classifies}


def check_predictor(value: Any, n_classes: int) -> int:
    """Check a parsed file against the contracts, and return the number of inputs of the model in it.

    Parameters
    ----------
    value : object
        The parsed file.
    n_classes : int
        Number of classes that it must have; 0: it must be a regressor.

    Raises
    ------
    ModelError
        If it is no such model, or an attribute breaks its contract; names the type.
    """
    kind = "classifier" if n_classes else "regressor"
    core = value
    if isinstance(value, Part) and value.type_name == PIPELINE:
        n_inputs = checked(value)
        core = value.state["steps"][-1][1]
    if not isinstance(core, Part) or core.type_name not in (classifiers() if n_classes else regressors()):
        type_name = core.type_name if isinstance(core, Part) else type(core).__name__
        raise ModelError(f"is a {type_name.rpartition('.')[2]}, which is not a {kind}", type_name)
    if core is value:
        n_inputs = checked(value)
    if n_classes and (size := len(core.state["classes_"])) != n_classes:
        raise ModelError(f"has {size} classes, and {n_classes} are expected", core.type_name)
    return n_inputs


def parameters(type_name: str) -> tuple[str, ...]:
    """Return the parameters of an estimator's constructor, in the scikit-learn that is installed here."""
    kind = KINDS[type_name]
    return tuple(name for name in _parameters(type_name) if name not in kind.fitted) if kind.has_parameters else ()


@cache
def _class(type_name: str) -> Any:
    module, _, name = type_name.rpartition(".")
    return getattr(importlib.import_module(module), name)


@cache
def _parameters(type_name: str) -> tuple[str, ...]:
    return tuple(_class(type_name)._get_param_names())


def _may_be_newer(type_name: str, name: str) -> bool:
    """Return whether it can be a parameter of another release of scikit-learn: it hides no attribute here."""
    own = name.strip("_") == name and not hasattr(_class(type_name), name)
    return KINDS[type_name].has_parameters and name.isidentifier() and own


def is_setting(value: Any) -> bool:
    """Return whether a parameter may have this value: a number, a text, None, or a flat list or tuple of them."""
    if isinstance(value, list | tuple):
        return all(item is None or isinstance(item, bool | int | float | str) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


# -- parts of the checks -----------------------------------------------------------------------------------------------


def checked(value: Any, *type_names: str) -> int:
    """Check a part, of one of these types if any are given, and return the number of its inputs."""
    part = known(value, *type_names)
    return KINDS[part.type_name].check(part)


def known(value: Any, *type_names: str) -> Part:
    """Return a part after checking that it has only attributes of its kind, and plain settings.

    Its fitted attributes are not checked: the kind's own check must check every one of them.
    """
    if not isinstance(value, Part) or (type_names and value.type_name not in type_names):
        type_name = value.type_name if isinstance(value, Part) else type(value).__name__
        wanted = type_names[0].rpartition(".")[2] if len(type_names) == 1 else "a regressor of another kind"
        raise ModelError(f"holds {type_name.rpartition('.')[2]} where it should hold {wanted}", type_name)
    kind, allowed = KINDS[value.type_name], parameters(value.type_name)
    for name, setting in value.state.items():
        if name in kind.fitted:
            continue
        if name in allowed or _may_be_newer(value.type_name, name):
            pinned = name in TRAINING_ONLY and setting is not TRAINING_ONLY[name]
            if pinned or not is_setting(setting):
                raise wrong(value, quote(name), "is not a setting that may cross")
        elif name != _VERSION or not isinstance(setting, str):
            raise wrong(value, quote(name), f"is not known here{_fitted_with(value)}")
    return value


def _fitted_with(part: Part) -> str:
    version = part.state.get(_VERSION)
    return f" (the model is of scikit-learn {quote(version)})" if isinstance(version, str) else ""


def wrong(part: Part, name: str, problem: str) -> ModelError:
    """Return the error about an attribute of a part."""
    return ModelError(f"is not sound: {part.name}.{name} {problem}", part.type_name)


def get(part: Part, name: str) -> Any:
    """Return an attribute that must exist."""
    if name not in part.state:
        raise ModelError(f"is not fitted, or not of a known form: {part.name} has no {name}", part.type_name)
    return part.state[name]


def array(part: Part, name: str, shape: tuple[int, ...], dtypes: str = "float64") -> np.ndarray:
    """Return an attribute that is a finite array of this shape and of one of these dtypes."""
    value = get(part, name)
    if not isinstance(value, np.ndarray) or value.dtype.name not in dtypes.split():
        raise wrong(part, name, f"is not an array of {dtypes}")
    if value.shape != shape:
        raise wrong(part, name, f"has shape {value.shape}, and {shape} is expected")
    if not np.isfinite(value).all():
        raise wrong(part, name, "holds NaN or infinity")
    return value


def integer(part: Part, name: str, low: int, high: int) -> int:
    """Return an attribute that is a whole number in this range."""
    value = get(part, name)
    if type(value) is not int or not low <= value <= high:
        raise wrong(part, name, f"is not {low}" if low == high else f"is not a whole number from {low} to {high}")
    return value


def number(part: Part, name: str) -> float:
    """Return an attribute that is a finite number."""
    value = get(part, name)
    try:
        if type(value) in (int, float) and math.isfinite(value):
            return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        pass
    raise wrong(part, name, "is not a finite number")


def one_of(part: Part, name: str, *choices: Any) -> Any:
    """Return an attribute that is one of these, of the same type."""
    value = get(part, name)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise wrong(part, name, f"is not {' or '.join(map(repr, choices))}")
    return value


def a_list(part: Part, name: str) -> list[Any]:
    """Return an attribute that is a list, and not empty."""
    value = get(part, name)
    if not isinstance(value, list) or not value:
        raise wrong(part, name, "is not a list of one or more")
    return value


def inputs(part: Part) -> int:
    """Return the number of inputs that an estimator declares."""
    return integer(part, "n_features_in_", 1, MOST_FEATURES)


def same_inputs(part: Part, inner: int) -> None:
    """Check the number of inputs of an estimator against that of a part of it."""
    if inner != inputs(part):
        raise wrong(part, "n_features_in_", f"is {inputs(part)}, but a part of it takes {inner} inputs")
