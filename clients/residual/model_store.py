"""An agent's saved model: its fitted estimators and the columns that these take, to predict with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, UInt8

from clients.model_store import ModelFileError, load_model, save_model
from clients.site import Site
from common.skops_import import skops_io
from numerics.residual.bins import ColumnBins, randomized
from numerics.residual.chosen_boosting import Boosting
from numerics.residual.columns_and_outcomes import Columns
from numerics.shared.threads import single_threaded
from numerics.shared.value_groups import ValueGroups

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_TRUSTED = ("sklearn.", "numpy.", "scipy.")
"""Packages of which a saved file may hold any type; it never holds a pickle."""


@dataclass(frozen=True)
class SavedBins:
    """A site's bins, to compute those of other rows.

    Attributes
    ----------
    bins : ColumnBins
        Edges and categories.
    epsilon : float
        eps of the randomized response; 0: none.
    key : bytes
        Key of its draws, which nobody else knows; empty without randomized response.
    """

    bins: ColumnBins
    epsilon: float
    key: bytes

    def apply(self, columns: Columns) -> UInt8[np.ndarray, "n c"]:
        """Return the bins of all rows, some replaced if there is randomized response."""
        names = [str(row) for row in range(columns.n)] if columns.entity is None else columns.entity.tolist()
        return randomized(self.bins.apply(columns), self.bins.levels, self.epsilon, self.key, names)


@dataclass(frozen=True)
class SavedModel:
    """An agent's part in the prediction.

    Attributes
    ----------
    features : tuple of str
        As in `Columns`, of the columns that the models take.
    categories : Mapping[str, tuple of str]
        As in `Columns`.
    parts : tuple of (float, estimator)
        Coefficient and model of every part; none: the agent has no part in the prediction.
    reader : str
        The site that may read the predictions, sealed for it; empty: the fusion center may.
    groups : ValueGroups or None
        Groups of values that the model does not tell apart; None in a simulation.
    separate : bool
        Whether a prediction has a column for every part, not their sum.
    bins : SavedBins or None
        Bins that replace predictions.
    own : Boosting or None
        Prediction by the site's columns alone, whose columns are the last; None: it has no share in the result.
    medians : Mapping[str, float]
        By column, the median that has filled empty cells.
    """

    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    parts: tuple[tuple[float, BaseEstimator], ...]
    reader: str = ""
    groups: ValueGroups | None = None
    separate: bool = False
    bins: SavedBins | None = None
    own: Boosting | None = None
    medians: Mapping[str, float] = field(default_factory=dict)

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n c"]:
        """Return the sum over the parts of coefficient times prediction, or these one by one; then the site's own.

        Parameters
        ----------
        x : ndarray
            ``(n, p)`` rows with the columns `features`.

        Raises
        ------
        MethodError
            If a model cannot predict these rows.
        """
        from clients.residual.methods import predict

        x = self.groups.apply(x) if self.groups else x
        total = np.zeros((len(x), len(self.parts) if self.separate else 1))
        for place, (coefficient, model) in enumerate(self.parts):
            total[:, place if self.separate else 0] += coefficient * predict(model, x)
        if self.own is None:
            return total
        with single_threaded():
            return np.hstack([total, self.own.predict(x)])


# -- estimators as bytes ----------------------------------------------------------------------------------------------


def dump(model: Any) -> bytes:
    """Return a fitted estimator, or a list or mapping of estimators and plain values, as a skops file.

    Raises
    ------
    ModelFileError
        If skops cannot write it.
    """
    try:
        return bytes(skops_io().dumps(model))
    except (TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"a {type(model).__name__} cannot be written as a skops file: {error}") from error


def restore(data: bytes) -> Any:
    """Return what `dump` has written; it predicts bit for bit as before.

    Raises
    ------
    ModelFileError
        If this is no skops file of this scikit-learn, or holds a type that is not of scikit-learn, NumPy or SciPy.
    """
    skops = skops_io()
    try:
        types = skops.get_untrusted_types(data=data)
        foreign = [each for each in types if not each.startswith(_TRUSTED)]
        if not foreign:
            return skops.loads(data, trusted=types)
    except Exception as error:  # whatever reading a damaged file raises
        raise ModelFileError(f"is no skops file that can be read here: {type(error).__name__}") from error
    raise ModelFileError(f"holds {foreign[0]}, which is not of scikit-learn, NumPy or SciPy")


# -- files ------------------------------------------------------------------------------------------------------------


def save_agent(site: Site, run: str, model: SavedModel) -> None:
    """Write ``models/RUN.skops``, with everything that predicting takes; raises as `save_file`."""
    content = {
        "features": list(model.features),
        "categories": {name: list(values) for name, values in model.categories.items()},
        "coefficients": [float(coefficient) for coefficient, _ in model.parts],
        "models": [part for _, part in model.parts],
        "reader": model.reader,
        "edges": list(model.groups.edges) if model.groups else [],
        "means": list(model.groups.means) if model.groups else [],
        "separate": model.separate,
        "bins": _bins_as_content(model.bins) if model.bins else {},
        "own": _own_as_content(model.own) if model.own else {},
        "medians": dict(model.medians),
    }
    save_file(site, run, content)


def load_agent(site: Site, run: str) -> SavedModel:
    """Return the agent's part that the site has saved of a run; raises as `clients.model_store.load_model`."""
    return load_model(site, run, "skops", _read_agent)


def _read_agent(path: Path) -> SavedModel:
    content = _read(path)
    try:
        parts = zip(content["coefficients"], content["models"], strict=True)
        groups = ValueGroups(tuple(content["edges"]), tuple(content["means"])) if content["edges"] else None
        return SavedModel(
            features=tuple(content["features"]),
            categories={name: tuple(values) for name, values in content["categories"].items()},
            parts=tuple((float(coefficient), model) for coefficient, model in parts),
            reader=str(content["reader"]),
            groups=groups,
            separate=bool(content["separate"]),
            bins=_bins_in(content["bins"]) if content["bins"] else None,
            own=_own_in(content["own"]) if content["own"] else None,
            medians={name: float(value) for name, value in content["medians"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError("holds no model of an agent") from error


def _bins_as_content(saved: SavedBins) -> dict[str, Any]:
    bins = saved.bins
    return {
        "features": list(bins.features),
        "edges": list(bins.edges),
        "categories": [[name, list(each)] for name, each in bins.categories],
        "epsilon": saved.epsilon,
        "key": saved.key.hex(),
    }


def _bins_in(content: Mapping[str, Any]) -> SavedBins:
    categories = tuple((name, tuple(each)) for name, each in content["categories"])
    bins = ColumnBins(tuple(content["features"]), tuple(content["edges"]), categories)
    return SavedBins(bins, float(content["epsilon"]), bytes.fromhex(content["key"]))


def _own_as_content(own: Boosting) -> dict[str, Any]:
    return {"model": own.model, "n_rows": own.n_rows, "places": own.places, "n_classes": own.n_classes}


def _own_in(content: Mapping[str, Any]) -> Boosting:
    numbers = int(content["n_rows"]), np.asarray(content["places"], np.int64), int(content["n_classes"])
    return Boosting(content["model"], np.zeros(0), *numbers)


def save_file(site: Site, name: str, content: Mapping[str, Any]) -> None:
    """Write ``models/NAME.skops`` in the site's own directory.

    Parameters
    ----------
    site : Site
        The site.
    name : str
        Name of the run, or of the content.
    content : Mapping
        Estimators, arrays, and lists and mappings of these and of plain values.

    Raises
    ------
    SiteFault
        As `clients.model_store.save_model`.
    """
    save_model(site, name, "skops", lambda path: path.write_bytes(dump(dict(content))))


def load_file(site: Site, name: str) -> dict[str, Any]:
    """Return what `save_file` has written in an earlier run; raises as `clients.model_store.load_model`."""
    return load_model(site, name, "skops", _read)


def _read(path: Path) -> dict[str, Any]:
    content = restore(path.read_bytes())
    if not isinstance(content, dict):
        raise ModelFileError(f"holds a {type(content).__name__}")
    return content
