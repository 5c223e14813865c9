"""The worlds of given data sets: coreset-adult, coreset-diabetes and coreset-bank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.coreset.grouped_rows import GroupedRows
from scenarios import sources
from scenarios.common import frozen, number
from scenarios.coreset.baselines import pooled_costs
from scenarios.coreset.common import ADULT, BANK, DIABETES, MIN_WEIGHT, ROWS, SPLIT, K, Pooled, add, settings
from scenarios.coreset.split import SPLITS, check_rows, colour_edges, even_edges, split_of
from scenarios.registry import Cell, Config, ScenarioError


@dataclass(frozen=True)
class World:
    """A data set, and what of it is the scenario's own where the run configuration leaves it open.

    Attributes
    ----------
    name : str
        Of the scenario.
    stream : int
        What its draws differ by from those of other worlds.
    find : Callable
        The data's file by the run configuration; None: OpenML.
    read : Callable
        What the file holds.
    sensitive : str
        Column of classes that makes the colours.
    along : str
        Column that `coreset.split` "column" goes along.
    others : tuple of str
        What else may be sensitive, as in the part "colours" of its table.
    published : Mapping
        By part of the table and by metric the paper's figure.
    """

    name: str
    stream: int
    find: Callable[[Config], Path | None]
    read: Callable[[Any], sources.Coloured]
    sensitive: str
    along: str
    others: tuple[str, ...]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)


WORLDS = (
    World("coreset-adult", ADULT, sources.find_adult, sources.read_adult, "sex", "age", ("sex", "race", "race sex")),
    World(
        "coreset-diabetes",
        DIABETES,
        sources.find_diabetes,
        sources.read_diabetes,
        "gender",
        "age",
        ("gender", "race", "gender race"),
        {"quality": {"gain": 0.05}},
    ),
    World(
        "coreset-bank",
        BANK,
        sources.find_bank,
        sources.read_bank,
        "married",
        "age",
        ("married", "marital", "education marital"),
        {"error": {"error": 0.035}},
    ),
)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The rows of a file that a world is made of.

    Attributes
    ----------
    pooled : Pooled
        What the sites hold.
    rows : ndarray
        ``(n,)`` ascending, each row's place in the file.
    along : ndarray
        ``(n,)`` each row's value, or the rank of its class, in the column that the sites may be split along.
    """

    pooled: Pooled
    rows: Int64[np.ndarray, "n"]
    along: Shaped[np.ndarray, "n"]


# -- rows -------------------------------------------------------------------------------------------------------------


def chosen(world: World, config: Config, seed: int) -> _Chosen:
    """The rows of a world, read-only; the same object for the same arguments, as long as it is in use.

    Their colour is the class in the column `sensitive`, e.g. ``Female``, or that in several columns together, e.g.
    ``race=White, sex=Female``. `coreset.balanced` "yes" draws equal numbers of every colour, "no" draws of all rows
    alike; left empty it means yes where there are two colours, whose equal numbers the paper's algorithms need.
    `coreset.rows` are drawn, or nearly so many, for equal numbers must divide by the number of colours; 0: as many as
    there are. Fewer rows are always among the more.

    Raises
    ------
    ScenarioError
        If the data cannot be had, a setting is none, or there are not so many rows.
    """
    n_rows = int(number(config, "coreset.rows", 0, 0))
    balanced = str(config.get("coreset.balanced", ""))
    if balanced not in ("", "yes", "no"):
        raise ScenarioError(f"coreset.balanced must be yes, no or empty, not {balanced!r}")
    return _choose(world, world.find(config), _sensitive(world, config), n_rows, balanced, seed)


def _sensitive(world: World, config: Config) -> tuple[str, ...]:
    """Names of the columns that make the colours, sorted."""
    return tuple(sorted(set((str(config.get("sensitive", "")) or world.sensitive).replace(",", " ").split())))


@lru_cache(maxsize=1)  # 10 to 50 MB
def _data(read: Callable[[Any], sources.Coloured], path: Path | None) -> sources.Coloured:
    return read(path)


@lru_cache(maxsize=32)  # 10 MB at most each
def _choose(
    world: World, path: Path | None, sensitive: tuple[str, ...], n_rows: int, balanced: str, seed: int
) -> _Chosen:
    data = _data(world.read, path)
    labels = _labels(world, data, sensitive)
    shuffled = np.random.default_rng([seed, world.stream, ROWS]).permutation(len(labels))
    names, colour, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if balanced == "yes" or (not balanced and len(names) == 2):
        _check_range(world.name, n_rows, len(names), len(names) * int(counts.min()))
        each = n_rows // len(names) or int(counts.min())
        # Sorted by colour, and within a colour as shuffled: the first so many of each.
        by_colour = shuffled[np.argsort(colour[shuffled], kind="stable")]
        first = np.cumsum(counts) - counts
        rows = np.sort(by_colour[(first[:, np.newaxis] + np.arange(each)).ravel()])
    else:
        _check_range(world.name, n_rows, 1, len(labels))
        rows = np.sort(shuffled[: n_rows or len(labels)])
    return _chosen_rows(world, data, labels, rows)


def _labels(world: World, data: sources.Coloured, sensitive: tuple[str, ...]) -> Shaped[np.ndarray, "n"]:
    """Every row's colour by its name."""
    unknown = [name for name in sensitive if name not in data.classes]
    if unknown or not sensitive:
        raise ScenarioError(
            f"sensitive={' '.join(sensitive)!r}: {world.name} has the columns of classes {', '.join(data.classes)}"
        )
    if len(sensitive) == 1:
        return data.classes[sensitive[0]].to_numpy(str)
    told = [f"{name}=" + data.classes[name] for name in sensitive]
    return reduce(lambda one, other: one + ", " + other, told).to_numpy(str)


def _check_range(name: str, asked: int, least: int, most: int) -> None:
    if asked and not least <= asked <= most:
        equal = f", so many of each of its {least} colours" if least > 1 else ""
        raise ScenarioError(f"{name} has from {least} to {most} rows{equal}: coreset.rows cannot be {asked}")


def _chosen_rows(
    world: World, data: sources.Coloured, labels: Shaped[np.ndarray, "n"], rows: Int64[np.ndarray, "n"]
) -> _Chosen:
    names, colour = np.unique(labels[rows], return_inverse=True)
    x = data.x[rows]
    if world.along in data.features:
        along = x[:, data.features.index(world.along)]
    else:
        _, along = np.unique(data.classes[world.along].to_numpy(str)[rows], return_inverse=True)
    frozen(x, colour, rows, along)
    return _Chosen(Pooled(x, colour, tuple(str(name) for name in names), data.features), rows, along)


# -- sites ------------------------------------------------------------------------------------------------------------


def shards(world: World, config: Config, seed: int, n_sites: int) -> list[GroupedRows]:
    """The rows of `chosen`, dealt out as `coreset.split` says; its entity is its place in the data.

    Rows keep the order of the file within a site.

    Raises
    ------
    ScenarioError
        As `chosen`; or if `coreset.split` is unknown, or there are fewer rows than sites.
    """
    rows = chosen(world, config, seed)
    check_rows(world.name, len(rows.rows), n_sites)
    return list(_deal(rows, split_of(config), world.stream, seed, n_sites))


@lru_cache(maxsize=32)  # as large as the rows
def _deal(chosen: _Chosen, split: str, stream: int, seed: int, n_sites: int) -> tuple[GroupedRows, ...]:
    pooled, n = chosen.pooled, len(chosen.rows)
    shuffled, edges = np.random.default_rng([seed, stream, SPLIT]).permutation(n), even_edges(n, n_sites)
    order = shuffled
    if split == "column":  # equal values in random order
        order = shuffled[np.argsort(chosen.along[shuffled], kind="stable")]
    elif split == "colour":
        colours, edges = colour_edges(pooled.counts, n_sites)
        order = shuffled[np.argsort(np.argsort(colours)[pooled.colour[shuffled]], kind="stable")]
    dealt = []
    for part in map(np.sort, np.split(order, edges[1:-1])):
        x, colour, rows = pooled.x[part], pooled.colour[part], chosen.rows[part]
        frozen(x, colour, rows)
        dealt.append(GroupedRows.of(x, colour, pooled.names, pooled.features, rows))
    return tuple(dealt)


def baselines(world: World, config: Config, seed: int) -> dict[str, float]:
    """Costs of clusterings of all rows in one place (`pooled_costs`); none of more than 5000 rows."""
    return pooled_costs(chosen(world, config, seed).pooled, config, seed)


# -- tables -----------------------------------------------------------------------------------------------------------

ROWS_SMALL = (1000, 2000, 3000, 4000)
"""Figure 2: numbers of rows for which the paper clusters all of them as well."""
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
    """The rows of a world's table, by ``part``.

    - ``error``: Figure 2, left. The paper's coreset of 200 k points at most, of all colours together, which the center
      makes of the sites' points (`coreset.center-size`), against the same algorithm on all rows. Points of single rows
      are sent, as a simulation may and the paper does. The paper's one figure is the largest error, of bank.
    - ``weight``: the same where a point must stand for more rows (`coreset.min-weight`): what privacy costs.
    - ``split``: the same with rows at random, along a column, and by colour at the sites.
    - ``quality``: Figure 4, columns scaled and not. The coreset is the data, as the sites send their rows. The paper's
      one figure is the largest gain, of diabetes.
    - ``colours``: all rows of the file, of any numbers of colours in their own proportions, with clusters as fair as
      the data and less (`coreset.balance`). All rows are priced: assigned by their points they cost some percent more,
      which is the coreset's doing and no price of fairness.
    """
    world.find(config)  # A missing file is said before any site is asked.
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
                "colours",
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
    """A row of the table; `own`: what it sets of `coreset`, beside the columns that are sensitive."""
    chosen = settings(**own)
    if sensitive:
        chosen["sensitive"] = sensitive
    used = {**config, **chosen}
    algorithm = str(used.get("coreset.algorithm") or ALGORITHMS[0])
    labels = {
        "part": part,
        "rows": used["coreset.rows"] or "all",
        "sensitive": " ".join(_sensitive(world, used)),
        "split": split_of(used),
        "min_weight": used.get("coreset.min-weight") or MIN_WEIGHT,
        "scale": used.get("coreset.scale") or "variance",
        "balance": used.get("coreset.balance") or 1.0,
        "algorithm": algorithm,
        "k": used["coreset.k"],
    }
    published = world.published.get(part, {}) if algorithm == ALGORITHMS[0] else {}
    return Cell(labels, chosen, published, defaults)


_SHOWN = (
    *("cost", "cost_full", "error", "relative", "gain", "fairlet_share"),
    *("price_of_fairness", "max_violation", "n_coreset"),
)
_WHAT = {
    "coreset-adult": ("file adult.csv or OpenML", "People of the US census in clusters fair by sex"),
    "coreset-diabetes": ("file diabetes130.csv or OpenML", "Stays in hospital in clusters fair by gender"),
    "coreset-bank": ("file bank.csv", "Calls of a bank in clusters fair by being married"),
}
for _world in WORLDS:
    _source, _what = _WHAT[_world.name]
    add(
        name=_world.name,
        source=_source,
        summary=f"{_what}: error, splits, algorithms, colours (Figures 2 and 4)",
        shards=partial(shards, _world),
        baselines=partial(baselines, _world),
        cells=partial(cells, _world),
        at_once=1,
        columns=_SHOWN,
    )
