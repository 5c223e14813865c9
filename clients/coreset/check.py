"""What a site should know before it joins a fair clustering: what of its data is used, and what leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from clients.coreset.shard import Roles, grouped_blocks, roles_of
from clients.cost import Work, cost_lines
from clients.data import setting
from clients.data.blocks import Blocks, open_blocks
from clients.data.table import own_number
from numerics.coreset.grouped_rows import BLOCK_ROWS, GroupedRows, RowBlock
from protocols.coreset.settings import Consents, Settings

_UNEQUAL = 100.0  # one column's standard deviation over another's, from which on the other hardly counts
_SHOWN = 20  # groups that are listed


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`, from one pass over the site's own data.

    Parameters
    ----------
    config : Mapping
        Run or node configuration.

    Raises
    ------
    DataError
        As `clients.coreset.shard.open_rows` and its blocks; or if ``min-weight`` is no number of rows.
    """
    blocks = open_blocks(config)
    roles, least = roles_of(blocks.schema, config), _least(config)
    statistics = _Statistics.of(grouped_blocks(blocks, roles))
    warnings = [*_scale_warnings(statistics, roles, config), *_group_warnings(statistics, least)]
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
        f"  rows as they are{', their names' if roles.entity else ''}; the names of rarer groups; columns not used;",
        "  which row is in which cluster:",
        "  this is kept in this site's own directory (site-output-dir) or not at all",
        "",
        *cost_lines({"coreset.Summarise": [_summary(statistics, roles, blocks, config)]}, statistics.n, config),
        *(["", "Worth a look", *warnings] if warnings else []),
    ]


def _summary(statistics: _Statistics, roles: Roles, blocks: Blocks, config: Mapping[str, object]) -> Work:
    """Return the summary of the rows, of which the first block is measured, again and again where it is too short."""
    how, first = Settings.of(config).how, next(grouped_blocks(blocks, roles))

    def run(m: int) -> object:
        from numerics.coreset.summary import summarise

        some = np.arange(m) % len(first.x)
        rows = GroupedRows.of(first.x[some], first.group[some], first.group_names)
        rng = np.random.default_rng(0)
        return summarise(
            rows, how.size, construction=how.construction, projection=how.projection, scale=how.scaled, rng=rng
        )

    return Work(run, (1.0, 1.0), block=BLOCK_ROWS, first=2000)


@dataclass(frozen=True)
class _Statistics:
    """Statistics of one pass over the rows: how many of each group, and each column's standard deviation."""

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
            # About the first row, so that a column far from zero does not lose its digits, and a constant one has 0.
            origin = block.x[0] if origin is None else origin
            x = block.x - origin
            total = x.sum(axis=0) + (0.0 if total is None else total)
            squares = np.einsum("nd,nd->d", x, x) + (0.0 if squares is None else squares)
        n = counts.sum()
        return cls(names, counts, np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0)))


def _least(config: Mapping[str, object]) -> int:
    """Return the fewest rows that a point may stand for: the run's number, or the site's own if that is larger."""
    return max(own_number(config, "min-weight", Consents.min_weight), Settings.of(config).min_weight)


def _used_lines(statistics: _Statistics, roles: Roles, blocks: Blocks, config: Mapping[str, object]) -> list[str]:
    """Return lines about features, groups, names of rows, and columns that are not used."""
    unused = [name for name in blocks.schema.columns if name not in {*roles.features, *roles.sensitive, roles.entity}]
    scaled = setting(config, "coreset.scale") != "none"
    unit = "standard deviations over all sites" if scaled else "the column's own unit (coreset.scale=none)"
    names = f"named by {roles.entity}" if roles.entity else "by their number"
    return [
        f"  features: {', '.join(roles.features)}",
        f"    each counts in {unit}",
        f"  groups: {len(statistics.names)}, by {', '.join(roles.sensitive)}",
        *_group_lines(statistics),
        f"  rows: {names}, in this site's own list of clusters",
        f"  columns not used: {', '.join(unused) or 'none'}",
    ]


def _group_lines(statistics: _Statistics) -> list[str]:
    """Return a line for each group with its rows, the largest first."""
    order = np.argsort(-statistics.counts, kind="stable")
    lines = [
        f"    {statistics.names[h]}: {statistics.counts[h]} rows, {statistics.counts[h] / statistics.n:.1%}"
        for h in order[:_SHOWN]
    ]
    return [*lines, *([f"    and {len(order) - _SHOWN} more"] if len(order) > _SHOWN else [])]


def _leaving_lines(statistics: _Statistics, roles: Roles, config: Mapping[str, object], least: int) -> list[str]:
    size = Settings.of(config).how.size
    n_points = int(np.minimum(statistics.counts // least, size).sum())
    n_groups, d = int((statistics.counts >= least).sum()), len(roles.features)
    rare = int(statistics.counts[statistics.counts < least].sum())
    lines = [
        f"  once: how many rows ({statistics.n}); the names of the {d} features and of the {n_groups} groups that have "
        f"{least} rows or more",
        f"  once: at most {n_points} points, up to {size} for each of these groups: the mean of {least} or more rows "
        "of one group,",
        "    how many they are, and their group",
        *(["    A point of 1 row IS THAT ROW: set min-weight if that must not be statistics"] if least == 1 else []),
        f"  once: how far rows are from their points, one sum of squares over all of them for every feature ({d} "
        "numbers)",
        "  once: how many rows no point stands for, and how many points were too light and joined another",
        "  at the end: how many rows of each group are in each cluster, and two sums of squared distances to centers",
    ]
    if setting(config, "coreset.assignment") == "exact":
        lines += [
            "  in every round of prices (coreset.assignment=exact): how many rows of each group go to each center at",
            "    these prices, softened, with its derivatives, and sums of costs, over all rows of the groups sent.",
            "    These are counts, and may be of 1 row; a malicious center can choose prices that reveal much of a",
            "    row. A real site answers them only with allow-prices=true in its node configuration",
        ]
    if rare:
        lines.append(f"  Of {rare} rows of groups with fewer than {least} rows nothing leaves but their number")
    return lines


def _scale_warnings(statistics: _Statistics, roles: Roles, config: Mapping[str, object]) -> list[str]:
    """Return warnings about columns that hardly count."""
    named = list(zip(roles.features, statistics.deviations.tolist(), strict=True))
    lines = [f"  {name}: every row has the same value, so it adds nothing here" for name, sd in named if sd == 0]
    varying = sorted((sd, name) for name, sd in named if sd > 0)
    if setting(config, "coreset.scale") == "none" and varying and varying[-1][0] > _UNEQUAL * varying[0][0]:
        (low, small), (high, large) = varying[0], varying[-1]
        lines.append(
            f"  coreset.scale=none: {large} (standard deviation {high:.3g}) outweighs {small} ({low:.3g}), so that "
            "this hardly counts"
        )
    return lines


def _group_warnings(statistics: _Statistics, least: int) -> list[str]:
    if not (statistics.counts >= least).any():
        return [f"  no group has {least} rows: this site can send nothing, and takes no part"]
    if len(statistics.names) == 1:
        return ["  one group only: that is in order; fairness counts over all sites"]
    return []
