"""`consilience check` of a site's data for coreset: what is used, and what leaves the site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from clients.coreset.shard import BUNDLES, Roles, grouped_blocks, roles_of
from clients.cost import Work, cost_lines
from clients.data import setting
from clients.data.blocks import Blocks, open_blocks
from clients.data.table import own_number
from numerics.coreset.grouped_rows import BLOCK_ROWS, GroupedRows, RowBlock
from protocols.coreset.settings import Consents, Settings

_UNEQUAL = 100.0
"""Ratio of two columns' standard deviations; beyond it, the smaller column has hardly any weight."""
_MOST_LISTED = 20
"""Largest number of groups that are listed."""


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`, from one pass over the site's own data.

    Parameters
    ----------
    config : Mapping
        Run or node configuration.

    Raises
    ------
    DataError
        As `clients.coreset.shard.open_rows` and its blocks; or if ``min-weight`` is not a number of rows.
    """
    blocks = open_blocks(config)
    roles, least = roles_of(blocks.schema, config), _least(config)
    statistics = _Statistics.of(grouped_blocks(blocks, roles))
    warnings = [*_scale_warnings(statistics, roles, config), *_group_warnings(statistics, least, config)]
    return [
        f"{blocks.schema.source}: {statistics.n} rows",
        "",
        "What would be used",
        *_used_lines(statistics, roles, blocks, config),
        "",
        "What would leave this site",
        *_leaving_lines(statistics, roles, config, least),
        "",
        "What never leaves this site",
        f"  rows as they are{', their names' if roles.entity else ''}; the names of rarer groups; columns not used",
        "  the cluster of each row: the site writes it to its own directory (site-output-dir), if it has one",
        "",
        *cost_lines({"coreset.Summarize": [_summary_work(roles, blocks)]}, statistics.n, config),
        *(["", "Worth a look", *warnings] if warnings else []),
    ]


def _summary_work(roles: Roles, blocks: Blocks) -> Work:
    """Return the work of the summary. It is measured on the first block, whose rows are repeated if it is short."""
    first = next(grouped_blocks(blocks, roles))

    def run(m: int) -> object:
        from numerics.coreset.summary import summarize

        some = np.arange(m) % len(first.x)
        rows = GroupedRows.of(first.x[some], first.group[some], first.group_names)
        return summarize(rows, BUNDLES, rng=np.random.default_rng(0))

    return Work(run, (1.0, 1.0), block=BLOCK_ROWS, first=2000)


@dataclass(frozen=True)
class _Statistics:
    """Statistics of one pass over the rows: number of rows by group, and standard deviation of each column."""

    names: tuple[str, ...]
    counts: Int64[np.ndarray, "h"]
    deviations: Float64[np.ndarray, "d"]

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @classmethod
    def of(cls, blocks: Iterator[RowBlock]) -> _Statistics:
        names: tuple[str, ...] = ()
        counts = np.zeros(0, np.int64)
        origin = total = squares = None
        for block in blocks:
            names = block.group_names
            counts = np.bincount(block.group, minlength=len(names)) + np.pad(counts, (0, len(names) - len(counts)))
            # Sums about the first row keep the digits of a column far from zero, and a constant column has exactly 0.
            origin = block.x[0] if origin is None else origin
            x = block.x - origin
            total = x.sum(axis=0) + (0.0 if total is None else total)
            squares = np.einsum("nd,nd->d", x, x) + (0.0 if squares is None else squares)
        n = counts.sum()
        return cls(names, counts, np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))


def _least(config: Mapping[str, object]) -> int:
    """Return the fewest rows of a point: the larger of the run's number and the site's own."""
    return max(own_number(config, "min-weight", Consents.min_weight), Settings.of(config).min_weight)


def _used_lines(statistics: _Statistics, roles: Roles, blocks: Blocks, config: Mapping[str, object]) -> list[str]:
    """Return lines on features, groups, names of rows, and columns that are not used."""
    unused = [name for name in blocks.schema.columns if name not in {*roles.features, *roles.sensitive, roles.entity}]
    scaled = setting(config, "coreset.scale") != "none"
    unit = "its standard deviation over all sites" if scaled else "its own unit (coreset.scale=none)"
    names = f"named by {roles.entity}" if roles.entity else "by their number"
    return [
        f"  features: {', '.join(roles.features)}",
        f"    each measured in {unit}",
        f"  groups: {len(statistics.names)}, by {', '.join(roles.sensitive)}",
        *_group_lines(statistics),
        f"  rows: {names}, in this site's own list of clusters",
        f"  columns not used: {', '.join(unused) or 'none'}",
    ]


def _group_lines(statistics: _Statistics) -> list[str]:
    """Return a line for each group with its number of rows, the largest group first."""
    order = np.argsort(-statistics.counts, kind="stable")
    lines = [
        f"    {statistics.names[h]}: {statistics.counts[h]} rows, {statistics.counts[h] / statistics.n:.1%}"
        for h in order[:_MOST_LISTED]
    ]
    return [*lines, *([f"    and {len(order) - _MOST_LISTED} more"] if len(order) > _MOST_LISTED else [])]


def _leaving_lines(statistics: _Statistics, roles: Roles, config: Mapping[str, object], least: int) -> list[str]:
    size = Settings.of(config).how.size
    n_points = int(np.minimum(statistics.counts // least, size).sum())
    n_groups, d = int((statistics.counts >= least).sum()), len(roles.features)
    rare = int(statistics.counts[statistics.counts < least].sum())
    lines = [
        f"  once: the number of rows ({statistics.n}); the names of the {d} features, and of the {n_groups} groups "
        f"with {least} rows or more",
        f"  once: at most {n_points} points, up to {size} for each of these groups. A point is the mean of {least} or "
        "more rows",
        "    of one group, with their number and their group",
        *(["    A point of 1 row IS THAT ROW: set min-weight if no row may leave"] if least == 1 else []),
        f"  once: for every feature, the sum over all rows of the squared distance to their points ({d} numbers)",
        "  once: the number of rows without a point, and the number of points with too few rows, which joined another",
        "  at the end: the number of rows of each group in each cluster, as the fusion center has told them",
    ]
    if Settings.of(config).alone:
        lines += [
            "  once, unless coreset.alone=false: what at most 4000 rows cost in clusters of this site alone, and in",
            "    joint ones (three sums of three digits)",
        ]
    if setting(config, "coreset.assignment") == "exact":
        if Settings.of(config).refine:
            lines += [
                "  in every round that moves the centers (coreset.refine): the same as in a round of prices, and for",
                f"    every center the sum of its rows, rounded to {least} standard deviations of this site's rows",
            ]
        lines += [
            "  in every round of prices (coreset.assignment=exact): the smoothed number of rows of each group at each",
            "    center, its derivatives, and sums of costs, over all rows of the groups sent. A count may be of 1",
            "    row: a malicious center can choose prices that reveal much of it. At the end also two sums of squared",
            "    distances to centers, which may reveal a row as well. A site answers prices only with",
            "    allow-prices=true in its node configuration",
        ]
    if rare:
        lines.append(f"  {rare} rows belong to groups with fewer than {least} rows: only their number leaves")
    return lines


def _scale_warnings(statistics: _Statistics, roles: Roles, config: Mapping[str, object]) -> list[str]:
    """Return warnings about columns that have hardly any weight in distances."""
    named = list(zip(roles.features, statistics.deviations.tolist(), strict=True))
    lines = [
        f"  {name}: every row has the same value, so it adds nothing at this site" for name, sd in named if sd == 0
    ]
    varying = sorted((deviation, name) for name, deviation in named if deviation > 0)
    if setting(config, "coreset.scale") == "none" and varying and varying[-1][0] > _UNEQUAL * varying[0][0]:
        (low, small), (high, large) = varying[0], varying[-1]
        lines.append(
            f"  coreset.scale=none: {small} (standard deviation {low:.3g}) hardly counts beside {large} ({high:.3g})"
        )
    return lines


def _group_warnings(statistics: _Statistics, least: int, config: Mapping[str, object]) -> list[str]:
    if not (statistics.counts >= least).any():
        return [f"  no group has {least} rows: this site can send nothing, and takes no part"]
    lines, k = [], Settings.of(config).k
    if setting(config, "coreset.assignment") == "exact" and k * least > statistics.n:
        lines.append(
            f"  {statistics.n} rows are fewer than {least} for each of coreset.k={k} clusters: this site refuses"
            " coreset.assignment=exact"
        )
    if len(statistics.names) == 1:
        lines.append("  this site has one group only; fairness is about the rows of all sites, so this is no fault")
    return lines
