"""Scenarios of real data sets: coreset-adult, coreset-diabetes and coreset-bank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.coreset.grouped_rows import GroupedRows
from protocols.coreset.settings import Settings
from scenarios import datasets
from scenarios.common import frozen, number
from scenarios.coreset.baselines import pooled_costs
from scenarios.coreset.common import ADULT, BANK, DIABETES, ROWS, SPLIT, K, PooledRows, add, settings
from scenarios.coreset.split import SPLITS, check_rows, even_edges, group_edges, split_of
from scenarios.registry import Cell, Config, ScenarioError
from scenarios.tables import Table


@dataclass(frozen=True)
class World:
    """A data set, and the scenario's own settings where the run configuration leaves them open.

    Attributes
    ----------
    name : str
        Name of the scenario.
    stream : int
        Number of its random stream, different from those of other worlds.
    data_set : str
        Name in `scenarios.datasets.DATA_SETS`.
    sensitive : str
        Column of categories that makes the groups.
    along : str
        Column for `coreset.split` "column".
    others : tuple of str
        Other columns that may be sensitive, for the part "groups" of its table.
    published : Mapping
        By part of the table and by metric, the paper's result.
    """

    name: str
    stream: int
    data_set: str
    sensitive: str
    along: str
    others: tuple[str, ...]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)


WORLDS = (
    World("coreset-adult", ADULT, "adult", "sex", "age", ("sex", "race", "race sex")),
    World(
        "coreset-diabetes",
        DIABETES,
        "diabetes",
        "gender",
        "age",
        ("gender", "race", "gender race"),
        {"quality": {"gain": 0.05}},
    ),
    World(
        "coreset-bank",
        BANK,
        "bank",
        "married",
        "age",
        ("married", "marital", "education marital"),
        {"error": {"error": 0.035}},
    ),
)


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows of a data set that a world uses.

    Attributes
    ----------
    pooled : PooledRows
        The rows of all sites.
    rows : ndarray
        ``(n,)`` ascending, each row's number in the data set.
    along : ndarray
        ``(n,)`` each row's value, or the rank of its category, in the column that the sites may be split along.
    """

    pooled: PooledRows
    rows: Int64[np.ndarray, "n"]
    along: Shaped[np.ndarray, "n"]


# -- rows -------------------------------------------------------------------------------------------------------------


def select(world: World, config: Config, seed: int) -> Selection:
    """Select the rows of a world; the same object for the same arguments, as long as it is in use.

    Fewer rows are a subset of more.

    Parameters
    ----------
    world : World
        The world.
    config : Config
        Run configuration; used are

        - `sensitive`: a group is the category in this column, e.g. ``Female``, or those in several columns together,
          e.g. ``race=White, sex=Female``;
        - `coreset.balanced`: "yes" draws equal numbers of every group, "no" draws all rows with equal probability.
          Empty is yes for two groups, whose equal numbers the paper's algorithms need, else no;
        - `coreset.rows`: number of rows, rounded down to a multiple of the groups for equal numbers; 0: all.
    seed : int
        Not negative.

    Raises
    ------
    ScenarioError
        If the data are not available, a setting is out of range, or there are too few rows.
    """
    n_rows = int(number(config, "coreset.rows", 0, 0))
    balanced = str(config.get("coreset.balanced", ""))
    if balanced not in ("", "yes", "no"):
        raise ScenarioError(f"coreset.balanced must be yes, no or empty, not {balanced!r}")
    path = datasets.locate(world.data_set, config)
    return _select(world, path, _sensitive(world, config), n_rows, balanced, seed)


def _sensitive(world: World, config: Config) -> tuple[str, ...]:
    """Return the names of the columns that make the groups, sorted."""
    return tuple(sorted(set((str(config.get("sensitive", "")) or world.sensitive).replace(",", " ").split())))


@lru_cache(maxsize=32)  # 10 MB at most each
def _select(
    world: World, path: Path | None, sensitive: tuple[str, ...], n_rows: int, balanced: str, seed: int
) -> Selection:
    data = datasets.load(world.data_set, path)
    labels = _labels(world, data, sensitive)
    shuffled = np.random.default_rng([seed, world.stream, ROWS]).permutation(len(labels))
    names, group, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if balanced == "yes" or (not balanced and len(names) == 2):
        _check_range(world.name, n_rows, len(names), len(names) * int(counts.min()))
        each = n_rows // len(names) or int(counts.min())
        # Sorted by group, within a group as shuffled: the first `each` rows of every group.
        by_group = shuffled[np.argsort(group[shuffled], kind="stable")]
        first = np.cumsum(counts) - counts
        rows = np.sort(by_group[(first[:, np.newaxis] + np.arange(each)).ravel()])
    else:
        _check_range(world.name, n_rows, 1, len(labels))
        rows = np.sort(shuffled[: n_rows or len(labels)])
    return _selection(world, data, labels, rows)


def _labels(world: World, data: Table, sensitive: tuple[str, ...]) -> Shaped[np.ndarray, "n"]:
    """Return the name of every row's group."""
    unknown = [name for name in sensitive if name not in data.categories]
    if unknown or not sensitive:
        raise ScenarioError(
            f"sensitive={' '.join(sensitive)!r}: {world.name} has the columns of categories"
            f" {', '.join(data.categories)}"
        )
    if len(sensitive) == 1:
        return data.categories[sensitive[0]].to_numpy(str)
    parts = [f"{name}=" + data.categories[name] for name in sensitive]
    return reduce(lambda one, other: one + ", " + other, parts).to_numpy(str)


def _check_range(name: str, n_rows: int, least: int, most: int) -> None:
    if n_rows and not least <= n_rows <= most:
        equal = f", equally many of each of its {least} groups" if least > 1 else ""
        raise ScenarioError(f"{name} has from {least} to {most} rows{equal}: coreset.rows cannot be {n_rows}")


def _selection(world: World, data: Table, labels: Shaped[np.ndarray, "n"], rows: Int64[np.ndarray, "n"]) -> Selection:
    names, group = np.unique(labels[rows], return_inverse=True)
    x = data.x[rows]
    if world.along in data.features:
        along = x[:, data.features.index(world.along)]
    else:
        _, along = np.unique(data.categories[world.along].to_numpy(str)[rows], return_inverse=True)
    frozen(x, group, rows, along)
    return Selection(PooledRows(x, group, tuple(str(name) for name in names), data.features), rows, along)


# -- sites ------------------------------------------------------------------------------------------------------------


def shards(world: World, config: Config, seed: int, n_sites: int) -> list[GroupedRows]:
    """Return the selected rows, split as `coreset.split` says; a row's entity is its number in the data set.

    Rows keep the order of the file within a site.

    Raises
    ------
    ScenarioError
        As `select`; or if `coreset.split` is unknown, or there are fewer rows than sites.
    """
    selection = select(world, config, seed)
    check_rows(world.name, len(selection.rows), n_sites)
    return list(_split(selection, split_of(config), world.stream, seed, n_sites))


@lru_cache(maxsize=32)  # as large as the rows
def _split(selection: Selection, split: str, stream: int, seed: int, n_sites: int) -> tuple[GroupedRows, ...]:
    pooled, n = selection.pooled, len(selection.rows)
    shuffled, edges = np.random.default_rng([seed, stream, SPLIT]).permutation(n), even_edges(n, n_sites)
    order = shuffled
    if split == "column":  # equal values in random order
        order = shuffled[np.argsort(selection.along[shuffled], kind="stable")]
    elif split == "group":
        groups, edges = group_edges(pooled.counts, n_sites)
        order = shuffled[np.argsort(np.argsort(groups)[pooled.group[shuffled]], kind="stable")]
    parts = []
    for part in map(np.sort, np.split(order, edges[1:-1])):
        x, group, rows = pooled.x[part], pooled.group[part], selection.rows[part]
        frozen(x, group, rows)
        parts.append(GroupedRows.of(x, group, pooled.names, pooled.features, rows))
    return tuple(parts)


def baselines(world: World, config: Config, seed: int) -> dict[str, float]:
    """Return costs of clusterings of all rows in one place (`pooled_costs`); none of more than 5000 rows."""
    return pooled_costs(select(world, config, seed).pooled, config, seed)


# -- tables -----------------------------------------------------------------------------------------------------------

ROWS_SMALL = (1000, 2000, 3000, 4000)
"""Figure 2: numbers of rows for which the paper also clusters all rows."""
K_SMALL = 4
N_QUALITY, K_QUALITY = 1000, (2, 5, 10, 20, 40, 60)
"""Figure 4: number of rows, and numbers of clusters."""
ALGORITHMS = ("fair-kmeans++", "reassigned-cklv", "cklv")
POINTS = 200
"""Section 4: size of the paper's coreset, for each cluster."""
RESTARTS = 20
"""With few clusters the cost depends on the start more than on the coreset: 5 starts differ by 3 % at k = 4."""
WEIGHTS = (2, 5, 10, 20)
BALANCES = (1.0, 0.8)


def cells(world: World, config: Config) -> list[Cell]:
    """Return the rows of a world's table, by ``part``.

    - ``error``: Figure 2, left. The paper's coreset of at most 200 k points of all groups together, which the center
      makes of the sites' points (`coreset.center-size`), against the same algorithm on all rows. Points of single rows
      are sent, as in the paper. Published is the largest error, of bank.
    - ``weight``: the same with points that stand for more rows (`coreset.min-weight`): the cost of privacy.
    - ``split``: the same with rows split at random, along a column, and by group.
    - ``quality``: Figure 4, columns scaled and not. The coreset is the data: the sites send their rows. Published is
      the largest gain, of diabetes.
    - ``groups``: all rows of the file, any number of groups in their own proportions, clusters as fair as the data
      and less fair (`coreset.balance`). All rows are assigned exactly. Assigned by their points they would cost some
      percent more, which is due to the coreset, not to fairness.
    """
    datasets.locate(world.data_set, config)  # A missing file is an error before any site is asked.
    cell = partial(_cell, world, config)
    most = ROWS_SMALL[-1]
    small = partial(cell, defaults=settings(restarts=RESTARTS), k=K_SMALL, center_size=POINTS * K_SMALL)
    whole = partial(cell, "quality", rows=N_QUALITY, size=N_QUALITY, min_weight=1, balanced="yes", balance=1.0)
    return [
        *(small("error", rows=rows, min_weight=1) for rows in ROWS_SMALL),
        *(small("weight", rows=most, min_weight=weight) for weight in WEIGHTS),
        *(small("split", rows=most, min_weight=1, split=split) for split in SPLITS),
        *(
            whole(k=k, algorithm=algorithm, scale=scale)
            for scale in ("variance", "none")
            for algorithm in ALGORITHMS
            for k in K_QUALITY
        ),
        *(
            cell(
                "groups",
                sensitive=sensitive,
                defaults=settings(assignment="exact"),
                rows=0,
                balanced="no",
                k=K,
                balance=balance,
            )
            for sensitive in world.others
            for balance in BALANCES
        ),
    ]


def _cell(
    world: World,
    config: Config,
    part: str,
    *,
    sensitive: str = "",
    defaults: Mapping[str, Any] = MappingProxyType({}),
    **own: Any,
) -> Cell:
    """Return a row of the table; `own`: its settings of `coreset`, `sensitive`: its sensitive columns."""
    row = settings(**own)
    if sensitive:
        row["sensitive"] = sensitive
    used = {**config, **row}
    values = Settings.of(used)
    algorithm = str(used.get("coreset.algorithm") or ALGORITHMS[0])
    labels = {
        "part": part,
        "rows": used["coreset.rows"] or "all",
        "sensitive": " ".join(_sensitive(world, used)),
        "split": split_of(used),
        "min_weight": values.min_weight,
        "scale": used.get("coreset.scale") or "variance",
        "balance": values.balance,
        "algorithm": algorithm,
        "k": used["coreset.k"],
    }
    published = world.published.get(part, {}) if algorithm == ALGORITHMS[0] else {}
    return Cell(labels, row, published, defaults)


_COLUMNS = (
    *("cost", "cost_full", "error", "relative", "gain", "fairlet_share"),
    *("price_of_fairness", "max_violation", "n_coreset"),
)
_TEXTS = {
    "coreset-adult": ("file adult.csv or OpenML", "People of the US census in clusters fair by sex"),
    "coreset-diabetes": ("file diabetes130.csv or OpenML", "Hospital stays in clusters fair by gender"),
    "coreset-bank": ("file bank.csv", "Calls of a bank in clusters fair by being married"),
}
for _world in WORLDS:
    _source, _subject = _TEXTS[_world.name]
    add(
        name=_world.name,
        source=_source,
        summary=f"{_subject}: error, splits, algorithms, groups (Figures 2 and 4)",
        shards=partial(shards, _world),
        baselines=partial(baselines, _world),
        cells=partial(cells, _world),
        at_once=1,
        columns=_COLUMNS,
        data_set=_world.data_set,
    )
