"""New rows to the clusters of fair clustering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.coreset.shard import colours_of
from clients.data import DataError, Table, cell_name, numeric, sensitive_columns
from consilience.predict import RULES, Used, UseError
from numerics.coreset.fairness.assignment import fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import LARGEST

_SHOWN = 8
"""Colours whose shares are shown."""
_BLOCK = 2**22
"""Distances to points that are looked at together."""


def assigned(
    config: Mapping[str, Any], arrays: Mapping[str, Shaped[np.ndarray, "..."]], table: Table, rule: str
) -> Used:
    """Each row's cluster, and its distance from the center; errors as of `consilience.predict.use`.

    Parameters
    ----------
    config : Mapping
        Settings of the run; ``sensitive`` names the columns of colours.
    arrays : Mapping[str, ndarray]
        Its ``arrays.npz`` (docs/coreset.md).
    table : Table
        New rows.
    rule : str
        ``fair``: every cluster gets, of each colour, its share in these rows, within the run's balance.
        ``nearest``: each row to its nearest center. ``points``: each row to where the nearest point of its colour that
        was clustered went. Empty: ``fair`` where the rows have colours.
    """
    if rule and rule not in RULES:
        raise UseError(f"--rule is one of {', '.join(RULES)}, not {rule!r}")
    sensitive = sorted(sensitive_columns(table, config))
    if rule in ("fair", "points") and not sensitive:
        raise UseError(
            f"--rule {rule} needs the rows' colours: name their column with --set sensitive=COLUMN"
            if not config.get("sensitive")
            else f"--rule {rule} needs the rows' colours, and {table.source} has no column {config['sensitive']!r}"
        )
    x = _coordinates(table, [str(name) for name in arrays["features"]])
    colour, names = colours_of(table, sensitive) if sensitive else (np.zeros(table.n, np.int64), ())
    with single_threaded():
        squared = squared_distances(x / arrays["scale"], arrays["centers"] / arrays["scale"])
        rule = rule or ("fair" if sensitive else "nearest")
        if rule == "points":
            cluster = _with_their_points(x, _known(colour, names, arrays, table, sensitive), arrays)
        else:
            cluster = squared.argmin(axis=1)
        bounds = None
        if sensitive:
            bounds = Bounds.of(np.bincount(colour) / table.n, float(arrays["balance"]))
        if rule == "fair" and bounds is not None:
            cluster = fair_assignment(squared, np.ones(table.n, np.int64), colour, bounds).center
    distance = np.sqrt(squared[np.arange(table.n), cluster])
    counts = np.zeros((len(arrays["centers"]), max(len(names), 1)), np.int64)
    np.add.at(counts, (cluster, colour), 1)
    lines = _lines(rule, counts, names, bounds)
    if config.get("sensitive") and not sensitive:
        lines.insert(0, f"{table.source} has no column {config['sensitive']!r}: nothing is said of colours")
    return Used({"cluster": cluster, "distance": distance}, lines)


def _coordinates(table: Table, features: Sequence[str]) -> Float64[np.ndarray, "n d"]:
    x = np.column_stack([numeric(table, name, allow_missing=False) for name in features])
    for row, j in np.argwhere(np.abs(x) > LARGEST)[:1]:
        cell = cell_name(table, features[j], int(row))
        raise DataError(f"{cell}: {x[row, j]:g} is too large; numbers up to {LARGEST:g} can be squared", "not-finite")
    return x


def _known(
    colour: Int64[np.ndarray, "n"],
    names: Sequence[str],
    arrays: Mapping[str, Shaped[np.ndarray, "..."]],
    table: Table,
    sensitive: Sequence[str],
) -> Int64[np.ndarray, "n"]:
    """Each row's colour as a place among those of the run."""
    place = {str(name): number for number, name in enumerate(arrays["colours"])}
    there: Int64[np.ndarray, "n"] = np.array([place.get(name, -1) for name in names], np.int64)[colour]
    for row in np.flatnonzero(there < 0)[:1]:
        cell = cell_name(table, sensitive[0], int(row))
        raise DataError(
            f"{cell}: the run has seen no row of colour {names[colour[row]]!r}, so none of its points is of that; leave"
            " the row out, or take --rule fair",
            "label-out-of-range",
        )
    return there


def _with_their_points(
    x: Float64[np.ndarray, "n d"],
    colour: Int64[np.ndarray, "n"],
    arrays: Mapping[str, Shaped[np.ndarray, "..."]],
) -> Int64[np.ndarray, "n"]:
    """Where the nearest point of a row's colour went; of several as near, the first."""
    cluster = np.zeros(len(x), np.int64)
    for own in np.unique(colour):
        rows, points = np.flatnonzero(colour == own), np.flatnonzero(arrays["point_colours"] == own)
        places = arrays["points"][points] / arrays["scale"]
        for part in np.array_split(rows, -(-len(rows) * len(points) // _BLOCK)):
            nearest = squared_distances(x[part] / arrays["scale"], places).argmin(axis=1)
            cluster[part] = arrays["point_clusters"][points[nearest]]
    return cluster


def _lines(rule: str, counts: Int64[np.ndarray, "k H"], names: Sequence[str], bounds: Bounds | None) -> list[str]:
    """Rows of each cluster, and each colour's share of them beside what it may be."""
    told = {
        "fair": "rule fair: to the centers at least cost, with every colour's share within its bounds (whole rows)",
        "nearest": "rule nearest: each row to its nearest center, whatever its colour",
        "points": "rule points: each row to where the nearest point of its colour went",
    }
    lines, sizes = [told[rule]], counts.sum(axis=1)
    shown = [] if bounds is None else list(enumerate(names))[:_SHOWN]
    for cluster, size in enumerate(sizes.tolist()):
        shares = [f"{name} {counts[cluster, h] / size:.3f}" for h, name in shown] if size else []
        lines.append(f"cluster {cluster}: {size} rows" + (f"; {', '.join(shares)}" if shares else ""))
    if bounds is not None:
        allowed = [f"{name} {bounds.low[h]:.3f} to {bounds.high[h]:.3f}" for h, name in shown]
        rest = f", and {len(names) - _SHOWN} more colours" if len(names) > _SHOWN else ""
        lines.append(f"bounds of these {sizes.sum()} rows: {', '.join(allowed)}{rest}")
        lines.append(f"furthest from its bounds: {bounds.violation(counts):.2f} rows")
    return lines
