"""Fitted scikit-learn regressors on the wire: skops files, never pickles, of listed types only.

With a model, only what predicting reads leaves a site: its settings, and the fitted attributes that `contract` lists.
Seeds, optimizers, learning curves, impurities, numbers of rows, values of inner nodes, and names of columns stay. A
received file is checked by `archive` (the bytes), `parts` (the types), and `contract` with `trees` and `regressors`
(the attributes) before anything is constructed. skops then reads a file that is written anew from what was accepted.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8
from sklearn.base import BaseEstimator

from common.skops_import import skops_io
from protocols.models import classifiers, regressors, trees  # noqa: F401  they fill `KINDS`
from protocols.models.archive import Archive, ModelError, pack, quote, unpack
from protocols.models.contract import KINDS, TRAINING_ONLY, check_predictor, is_setting, parameters
from protocols.models.parts import TREE, parse

__all__ = ["ModelError", "check_model", "decode_model", "decode_models", "encode_model", "n_features"]

_CACHE_BYTES = 256 * 2**20


def encode_model(model: BaseEstimator, n_classes: int = 0) -> UInt8[np.ndarray, "bytes"]:
    """Return a fitted regressor, or classifier, as a skops file; equal models give equal bytes.

    Parameters
    ----------
    model : estimator
        LinearRegression, Ridge, Lasso, ElasticNet, Lars, LassoLars, DecisionTreeRegressor, RandomForestRegressor,
        GradientBoostingRegressor and HistGradientBoostingRegressor (squared error, numeric inputs),
        KNeighborsRegressor (``algorithm="brute"``), SVR, MLPRegressor or DummyRegressor, of one outcome; or a Pipeline
        of StandardScalers and one of these, or a TransformedTargetRegressor with a StandardScaler around any of them.
        It is not changed; by-products of training are left out.
    n_classes : int
        For a classifier the number of its classes, which are 0, 1, ...: LogisticRegression, DecisionTreeClassifier,
        RandomForestClassifier, GradientBoostingClassifier and HistGradientBoostingClassifier (log loss),
        KNeighborsClassifier (``algorithm="brute"``), MLPClassifier or DummyClassifier (``strategy="prior"``).

    Raises
    ------
    ModelError
        If it, or something in it, is not on the list; if it is not fitted.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
    >>> check_model(encode_model(model))
    1
    >>> round(float(decode_model(encode_model(model)).predict([[2.0]])[0]), 6)
    5.0
    """
    slim = _slim(model)
    try:
        data = pack(skops_io().dumps(slim))
    except (TypeError, KeyError):
        raise ModelError("holds something that skops cannot write", _type_name(model)) from None
    check_predictor(parse(unpack(data), KINDS), n_classes)
    return np.frombuffer(data, np.uint8)


def check_model(data: UInt8[np.ndarray, "bytes"], n_classes: int = 0) -> int:
    """Check a file without constructing anything of it, and return the number of the model's inputs.

    Parameters
    ----------
    data : ndarray
        A file, as `encode_model` writes it.
    n_classes : int
        As in `encode_model`.

    Raises
    ------
    ModelError
        If it is not such a file, is too large, holds a type that is not on the list, or an attribute that is not
        sound: indices out of range, shapes that do not fit, numbers that are not finite. Names the attribute and its
        type.
    """
    return check_predictor(parse(unpack(data.tobytes()), KINDS), n_classes)


def decode_model(data: UInt8[np.ndarray, "bytes"], n_classes: int = 0) -> BaseEstimator:
    """Return the model of a file, after `check_model` and a first prediction.

    It predicts bit for bit as the encoded one. Parameters that only training reads (seeds, jobs, verbosity) have
    neutral values.

    Raises
    ------
    ModelError
        As `check_model`; or if it cannot be loaded, or does not predict, with the scikit-learn that is installed here.
    """
    return _build(unpack(data.tobytes()), n_classes)


def decode_models(
    files: Sequence[UInt8[np.ndarray, "_"]], n_classes: Sequence[int] = ()
) -> list[BaseEstimator | ModelError]:
    """Return the models of many files; recent files are not decoded again.

    Up to 256 MiB of decoded models (inflated) are cached: the sites that a worker of a simulation answers for share one
    model, which they must not change.

    Parameters
    ----------
    files : sequence of ndarray
        As for `decode_model`.
    n_classes : sequence of int
        Number of classes of each, if they are classifiers.

    Returns
    -------
    list
        In the same order, the model, or the error that refused it.
    """
    sizes = n_classes or [0] * len(files)
    return [_cache.model(file.tobytes(), size) for file, size in zip(files, sizes, strict=True)]


def n_features(model: BaseEstimator) -> int:
    """Return the number of inputs of a decoded model.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> n_features(LinearRegression().fit([[0.0, 1.0], [1.0, 0.0]], [1.0, 3.0]))
    2
    """
    return int(model.n_features_in_)


def _build(archive: Archive, n_classes: int) -> BaseEstimator:
    inputs = check_predictor(parse(archive, KINDS), n_classes)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A model of another release of scikit-learn may still predict well; the first prediction shows it.
        warnings.simplefilter("ignore")
        # Errors from here on are worded by others, and may quote a foreign file.
        try:
            model = skops_io().loads(archive.stored(), trusted=sorted(KINDS))
            if hasattr(model, "regressor_"):
                model.regressor, model.transformer = model.regressor_, model.transformer_  # what `fit` would clone
            row = np.zeros((1, inputs))
            first = np.asarray(model.predict_proba(row)[0] if n_classes else model.predict(row))
        except Exception:
            raise ModelError("cannot be loaded, or does not predict, with the scikit-learn of this site") from None
    if first.shape != (n_classes or 1,) or first.dtype.kind != "f" or not np.isfinite(first).all():
        wanted = f"{n_classes} finite numbers" if n_classes else "one finite number"
        raise ModelError(f"does not predict {wanted} for a row of zeros")
    return model


class _Cache:
    """Decoded models by the hash of their file; the least recently used are dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._models: OrderedDict[bytes, tuple[BaseEstimator, int]] = OrderedDict()
        self._lock = threading.Lock()

    def model(self, data: bytes, n_classes: int) -> BaseEstimator | ModelError:
        """Return the model of a file, or the error that refused it; refused files are not cached."""
        key = hashlib.sha256(data).digest() + bytes([n_classes])
        with self._lock:
            if key in self._models:
                self._models.move_to_end(key)
                return self._models[key][0]
        try:
            archive = unpack(data)
            model = _build(archive, n_classes)
        except ModelError as error:
            return error
        self._keep(key, model, archive.size)
        return model

    def _keep(self, key: bytes, model: BaseEstimator, size: int) -> None:
        with self._lock:
            if key in self._models or size > self._most_bytes:
                return
            self._models[key] = model, size
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._bytes -= self._models.popitem(last=False)[1][1]


_cache = _Cache(_CACHE_BYTES)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _slim(model: Any) -> Any:
    """Return an object of the same type with only what crosses."""
    name = _type_name(model)
    kind = KINDS.get(name)
    if kind is None:
        raise ModelError(f"holds {quote(name)}, which is not on the list of models that are accepted", quote(name))
    if name == TREE:
        return trees.leaves_only(model)  # `pack` drops the rest of its nodes
    held = vars(model)
    state = {}
    for setting in parameters(name):
        value = TRAINING_ONLY.get(setting, held.get(setting))
        state[setting] = value.item() if isinstance(value, np.generic) else value
        if not is_setting(state[setting]):
            problem = f"has a {type(model).__name__}.{setting} that is not a number or a text"
            raise ModelError(problem, _type_name(value))
    for attribute in kind.fitted:
        if attribute not in held:
            raise ModelError(f"is not fitted: its {type(model).__name__} has no {attribute}", name)
        blank = kind.blank.get(attribute)
        state[attribute] = _plain(held[attribute]) if blank is None else blank(held[attribute])
    twin = object.__new__(type(model))
    vars(twin).update(state)
    return twin


def _plain(value: Any) -> Any:
    """Convert numbers, texts, arrays and containers to Python's and NumPy's own; slim other objects."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            return np.asarray(value)
        return np.array([_slim(item) for item in value.flat], object).reshape(value.shape)
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    return value if value == {} else _slim(value)
