"""Assignment of new rows to the clusters of fair clustering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.coreset.shard import groups_of
from clients.data import DataError, Table, cell_name, numeric, sensitive_columns
from common.settings import Settings, setting
from consilience.predict.interface import LearnedRun, Predictions, RequestError
from numerics.coreset.fairness.assignment import fair_assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.shared.distances import squared_distances
from numerics.shared.threads import single_threaded
from protocols.coreset import settings as run_settings
from strategies.coreset.fairness import Fairness
from strategies.errors import FusionError

RULES = ("fair", "nearest", "points")


@dataclass(frozen=True)
class Options(Settings):
    """Rules that assign rows to clusters.

    ``fair``: every cluster gets each group's share of these rows, within the run's balance. ``nearest``: each row goes
    to its nearest center. ``points``: each row goes to the cluster of the nearest point of its group.
    """

    rule: str = setting("", f"one of {', '.join(RULES)}", words="fair where the rows have groups, else nearest")


_PRINTED = 8
"""Groups whose shares are printed."""
_BLOCK = 2**22
"""Distances to points that are computed at a time."""


def predict(run: LearnedRun, table: Table, options: Options) -> Predictions:
    """Return each row's cluster, and its distance from the center (`consilience.predict.interface`)."""
    config, arrays, rule = run.config, run.arrays, options.rule
    if rule and rule not in RULES:
        raise RequestError(f"rule is one of {', '.join(RULES)}, not {rule!r}")
    sensitive = sorted(sensitive_columns(table, config))
    if rule in ("fair", "points") and not sensitive:
        raise RequestError(
            f"rule={rule} needs the rows' groups: set sensitive to their column"
            if not config.get("sensitive")
            else f"rule={rule} needs the rows' groups, and {table.source} has no column {config['sensitive']!r}"
        )
    x = np.column_stack([numeric(table, str(name), allow_missing=False) for name in arrays["features"]])
    group, names = groups_of(table, sensitive) if sensitive else (np.zeros(table.n, np.int64), ())
    with single_threaded():
        squared = squared_distances(x / arrays["scale"], arrays["centers"] / arrays["scale"])
        rule = rule or ("fair" if sensitive else "nearest")
        if rule == "points":
            cluster = _of_nearest_points(x, _groups_of_run(group, names, arrays, table, sensitive), arrays)
        else:
            cluster = squared.argmin(axis=1)
        bounds, fairness = None, Fairness.of(run_settings.Settings.of(config))
        if sensitive:
            try:
                bounds = fairness.bounds(names, np.bincount(group))
            except FusionError as error:
                raise RequestError(f"{table.source}: {error}") from None
        if rule == "fair" and bounds is not None:
            cluster = fair_assignment(squared, np.ones(table.n, np.int64), group, bounds).center
    distance = np.sqrt(squared[np.arange(table.n), cluster])
    counts = np.zeros((len(arrays["centers"]), max(len(names), 1)), np.int64)
    np.add.at(counts, (cluster, group), 1)
    names, members = fairness.bounded(names) if bounds is not None else ((), np.zeros((0, counts.shape[1]), bool))
    furthest = bounds.violation(counts) if bounds is not None else 0.0
    lines = _lines(rule, counts @ members.T, counts.sum(axis=1), names, bounds, furthest)
    if config.get("sensitive") and not sensitive:
        lines.insert(0, f"{table.source} has no column {config['sensitive']!r}: groups are not reported")
    return Predictions({"cluster": cluster, "distance": distance}, lines)


def _groups_of_run(
    group: Int64[np.ndarray, "n"],
    names: Sequence[str],
    arrays: Mapping[str, Shaped[np.ndarray, "..."]],
    table: Table,
    sensitive: Sequence[str],
) -> Int64[np.ndarray, "n"]:
    """Return each row's group as an index among those of the run."""
    index = {str(name): number for number, name in enumerate(arrays["groups"])}
    indices: Int64[np.ndarray, "n"] = np.array([index.get(name, -1) for name in names], np.int64)[group]
    for row in np.flatnonzero(indices < 0)[:1]:
        cell = cell_name(table, sensitive[0], int(row))
        raise DataError(
            f"{cell}: the run had no row of group {names[group[row]]!r}, and so has no point of it; leave the row out,"
            " or set rule=fair",
            "label-out-of-range",
        )
    return indices


def _of_nearest_points(
    x: Float64[np.ndarray, "n d"],
    group: Int64[np.ndarray, "n"],
    arrays: Mapping[str, Shaped[np.ndarray, "..."]],
) -> Int64[np.ndarray, "n"]:
    """Return the cluster of the nearest point of each row's group, the first of equally near ones."""
    cluster = np.zeros(len(x), np.int64)
    for own in np.unique(group):
        rows, points = np.flatnonzero(group == own), np.flatnonzero(arrays["point_groups"] == own)
        places = arrays["points"][points] / arrays["scale"]
        for part in np.array_split(rows, -(-len(rows) * len(points) // _BLOCK)):
            nearest = squared_distances(x[part] / arrays["scale"], places).argmin(axis=1)
            cluster[part] = arrays["point_clusters"][points[nearest]]
    return cluster


def _lines(
    rule: str,
    counts: Int64[np.ndarray, "k G"],
    sizes: Int64[np.ndarray, "k"],
    names: Sequence[str],
    bounds: Bounds | None,
    furthest: float,
) -> list[str]:
    """Return lines on the rows of each cluster, and on the shares of groups beside their bounds."""
    rules = {
        "fair": "rule fair: to the centers at least cost, with every group's share within its bounds (whole rows)",
        "nearest": "rule nearest: each row to its nearest center, in any group",
        "points": "rule points: each row to where the nearest point of its group went",
    }
    lines = [rules[rule]]
    printed = [] if bounds is None else list(enumerate(names))[:_PRINTED]
    for cluster, size in enumerate(sizes.tolist()):
        shares = [f"{name} {counts[cluster, h] / size:.3f}" for h, name in printed] if size else []
        lines.append(f"cluster {cluster}: {size} rows" + (f"; {', '.join(shares)}" if shares else ""))
    if bounds is not None:
        allowed = [f"{name} {bounds.low[h]:.3f} to {bounds.high[h]:.3f}" for h, name in printed]
        rest = f", and {len(names) - _PRINTED} more groups" if len(names) > _PRINTED else ""
        lines.append(f"bounds of these {sizes.sum()} rows: {', '.join(allowed)}{rest}")
        lines.append(f"furthest from its bounds: {furthest:.2f} rows")
    return lines
