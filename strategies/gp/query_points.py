"""The query points of a run: those of the center's own file, or of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from numerics.gp.measurements import Queries
from numerics.shared.classes import places_of
from protocols.center_inputs import unusable_input
from protocols.gp.payloads import LARGEST
from strategies.class_labels import class_places
from strategies.errors import FusionError
from strategies.gp.expert_registry import ExpertRegistry


def own_queries(
    registry: ExpertRegistry, columns: Mapping[str, Shaped[np.ndarray, "t"]], target: str, id_column: str
) -> Queries:
    """Return the query points of the center's own file.

    Parameters
    ----------
    registry : ExpertRegistry
        The experts, with their inputs and classes.
    columns : Mapping
        The file's columns by name (`clients.data.testset.center_queries`).
    target, id_column : str
        Columns of the outcomes, which may be missing or empty, and of the points' names.

    Raises
    ------
    FusionError
        If the points lack an input or a value, or have other outcomes than the sites.
    """
    if wrong := unusable_input(columns, registry.features):
        raise FusionError(f"the center's file of query points{wrong}")
    x = np.column_stack([columns[name] for name in registry.features])
    y = _outcomes(columns[target], registry.classes, target) if target in columns else None
    return Queries(x, registry.features, y, columns.get(id_column), registry.classes)


def usable_queries(registry: ExpertRegistry, queries: Queries) -> Queries:
    """Return the query points with outcomes as places in the run's list of classes.

    Raises
    ------
    FusionError
        If their inputs are not those of the experts, or lie too far from them.
    """
    if queries.y is not None and queries.classes != registry.classes:
        places = places_of(queries.classes, registry.classes)
        queries = replace(queries, y=places[queries.y.astype(np.int64)].astype(np.float64), classes=registry.classes)
    if queries.features != registry.features:
        raise FusionError(
            f"the query points have the inputs {', '.join(queries.features)}; the experts have"
            f" {', '.join(registry.features)}"
        )
    if np.abs(registry.units.inputs(queries.x)).max(initial=0.0) > LARGEST:
        raise FusionError(f"a query point lies beyond {LARGEST:g} standard deviations of an input")
    return queries


def _outcomes(
    column: Shaped[np.ndarray, "t"], classes: tuple[str, ...], target: str
) -> Float64[np.ndarray, "t"] | None:
    """Return amounts, or places of classes, with NaN for unknown outcomes; None if none is known."""
    known = _known(column)
    if not known.any():
        return None
    y = np.full(len(column), np.nan)
    if classes:
        y[known] = class_places(column[known], classes, target, "query points")
        return y
    try:
        y[known] = column[known].astype(np.float64)  # few whole numbers have been read as classes
    except ValueError:
        raise FusionError(f"the center's file of query points has classes in {target!r}, the sites amounts") from None
    return y


def _known(column: Shaped[np.ndarray, "t"]) -> Bool[np.ndarray, "t"]:
    if column.dtype.kind == "f":
        return np.asarray(~np.isnan(column))
    return np.array([cell is not None for cell in column.tolist()], bool)
