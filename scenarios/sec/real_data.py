"""Scenarios of SEC with real data sets: sec-grid and sec-ct."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from numerics.shared.regression_rows import RegressionRows
from scenarios import datasets
from scenarios.common import check_sites, frozen, number
from scenarios.registry import Cell, Config, ScenarioError
from scenarios.sec.common import CT, FOREST, GRID, PAPER, add, settings
from scenarios.synthetic import synthetic_ct, synthetic_ct_groups

# -- Electrical Grid Stability under attack ---------------------------------------------------------------------------

N_GRID = 50
_TRAINING_SHARE = 0.8

ATTACKED = (0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 47, 49)
"""Numbers of attacked learners in the table; the paper's curve is steep from 45 on."""


def grid(config: Config, seed: int, n_sites: int) -> list[RegressionRows]:
    """Split Electrical Grid Stability over 50 learners, of whom `sec.attacked` report ``-y`` instead of y.

    Section VI-B: of the 10,000 rows a random 8,000 go to the learners, 160 to each. The other 2,000 are the test rows
    of the last learner, the only one known to be intact: the errors of a run are its errors, and its metrics
    ``mse_all``, ``mse_alone``, ``mse_cluster`` and ``mse_oracle`` are the four options of Figure 4. The attacked
    learners are drawn among the other 49.

    The paper names no candidates here. Its learners fit a linear regression, alone and on pooled rows, so that is the
    only candidate of the cells. The rows keep their units, and a cluster predicts with its pooled regression. Figure 4
    has no digits. An independent centralized implementation has, times 1e-4, in 8 repetitions: oracle 4.86 to 5.05
    (5.31 with 49 attacked), alone 5.31, all 4.86, 6.7, 16.3, 33.9, 48.0 with 0, 10, 25, 40, 49 attacked; and exact
    clusters in every repetition at all 12 levels.

    For a seed, all levels have the same split, fewer attacked learners are a subset of more, and the arrays are the
    same: every learner has one x, one y and one ``-y``.

    Settings: `sec.attacked` and `data` (`scenarios.datasets.locate`).

    Raises
    ------
    ScenarioError
        If the data are not available.
    """
    check_sites("sec-grid", n_sites, N_GRID)
    versions = _grid_split(datasets.locate("grid", config), seed)
    return [versions[site][attacked] for site, attacked in enumerate(grid_truth(config, seed, n_sites))]


def grid_truth(config: Config, seed: int, n_sites: int) -> list[int]:
    """Return 1 for the attacked learners, 0 for the intact."""
    n_attacked = int(number(config, "sec.attacked", 0, 0, N_GRID - 1))
    truth = np.zeros(N_GRID, np.int64)
    truth[np.random.default_rng([seed, GRID, 1]).permutation(N_GRID - 1)[:n_attacked]] = 1
    return [int(label) for label in truth]


@lru_cache(maxsize=8)  # 1 MB each
def _grid_split(path: Path | None, seed: int) -> tuple[tuple[RegressionRows, RegressionRows], ...]:
    """Return every learner's rows, intact and attacked."""
    data = datasets.load("grid", path)
    n_own = int(_TRAINING_SHARE * len(data.x)) // N_GRID
    if n_own < 2:
        raise ScenarioError(
            f"sec-grid: {path or 'the data set'} has {len(data.x)} rows, too few to give {N_GRID} learners two each"
        )
    shuffled = np.random.default_rng([seed, GRID, 0]).permutation(len(data.x))
    x, y = data.x[shuffled], data.outcome[shuffled]
    negative = -y
    frozen(x, y, negative)
    test = slice(N_GRID * n_own, None)
    learners = []
    for site in range(N_GRID):
        own = slice(site * n_own, (site + 1) * n_own)
        held = test if site == N_GRID - 1 else slice(0)
        intact, attacked = (
            RegressionRows(x[own], outcome[own], x[held], y[held], data.features) for outcome in (y, negative)
        )
        learners.append((intact, attacked))
    return tuple(learners)


def _cells_grid(config: Config) -> Sequence[Cell]:
    datasets.locate("grid", config)  # A wrong `data` is an error before any site is asked.
    papers = PAPER | settings(
        candidates="lr", standardize="none", combine="pooled-linear", k_method="eigengap", k_min=1
    )
    return [Cell({"attacked": n}, settings(attacked=n), defaults=papers) for n in ATTACKED]


# -- CT slices --------------------------------------------------------------------------------------------------------

N_CT = 97
_N_LEARNERS = 64
_SYNTHETIC_SLICES = 40
_LEAST_SLICES = 4


def ct(config: Config, seed: int, n_sites: int) -> list[RegressionRows]:
    """Split the CT slices by scan, one per learner: 64 learners and 33 newcomers, drawn anew for each seed.

    Section VI-A. The sites 0 to 63 hold all slices of their scans. The sites 64 to 96 are newcomers: a random half of
    their slices assigns them to a cluster, the rest measures the error. Without the file (UCI 206,
    ``slice_localization_data.csv``) the scans are synthetic, 40 slices each (`scenarios.synthetic.synthetic_ct`). They
    demonstrate the protocol; their errors are not comparable with Table III.

    As in the paper, a cluster's model is fitted anew to the pooled slices of its members (`sec.combine` pooled-rows),
    which real sites would have to allow. The candidates standardize their inputs themselves (`sec.standardize` model),
    which the lasso needs. The outcome keeps its units, in which the scans differ.

    Setting: `data` (`scenarios.datasets.locate`).

    Raises
    ------
    ScenarioError
        If the file does not hold 97 scans.
    """
    check_sites("sec-ct", n_sites, N_CT)
    return list(_ct_split(datasets.locate("ct", config), seed))


def ct_truth(config: Config, seed: int, n_sites: int) -> list[int] | None:
    """Return the group of every synthetic scan; None for real scans, whose groups are unknown."""
    if datasets.locate("ct", config) is not None:
        return None
    return [int(group) for group in synthetic_ct_groups(N_CT)[_ct_order(seed)]]


def _ct_order(seed: int) -> Int64[np.ndarray, "scan"]:
    """Return the scan of each site."""
    return np.random.default_rng([seed, CT, 0]).permutation(N_CT)


@lru_cache(maxsize=1)  # 165 MB
def _scans(path: Path | None) -> tuple[RegressionRows, ...]:
    """Return all rows of every scan, in the order of the scans' numbers."""
    data = synthetic_ct(N_CT, _SYNTHETIC_SLICES) if path is None else datasets.load("ct", path)
    assert data.unit is not None  # noqa: S101 - ct's reader names the scan of every row
    scans = data.unit
    numbers, first, counts = np.unique(scans, return_index=True, return_counts=True)
    if len(numbers) != N_CT:
        raise ScenarioError(f"sec-ct: {path} holds {len(numbers)} scans (values of patientId), not {N_CT}")
    if counts.min() < _LEAST_SLICES:
        raise ScenarioError(
            f"sec-ct: {path} holds {counts.min()} slices of scan {numbers[counts.argmin()]:g}, too few: each scan needs"
            f" {_LEAST_SLICES}, half to assign a newcomer and half to measure its error"
        )
    x, y = data.x, data.outcome
    if np.any(np.diff(scans) < 0):  # usually the slices of a scan are contiguous, and 165 MB need no copy
        by_scan = np.argsort(scans, kind="stable")
        x, y, first = x[by_scan], y[by_scan], np.cumsum(counts) - counts
    frozen(x, y)
    ranges = [slice(start, start + n) for start, n in zip(first, counts, strict=True)]
    return tuple(RegressionRows(x[own], y[own], x[:0], y[:0], data.features) for own in ranges)


@lru_cache(maxsize=2)  # a third of the data each
def _ct_split(path: Path | None, seed: int) -> tuple[RegressionRows, ...]:
    scans, order = _scans(path), _ct_order(seed)
    learners = [scans[scan] for scan in order[:_N_LEARNERS]]
    return (*learners, *(_halved(scans[scan], seed, int(scan)) for scan in order[_N_LEARNERS:]))


def _halved(rows: RegressionRows, seed: int, scan: int) -> RegressionRows:
    """Split the slices of a scan at random, half as training rows and half as test rows."""
    half, rest = np.split(np.random.default_rng([seed, CT, 1 + scan]).permutation(rows.n), [rows.n // 2])
    x, y, x_test, y_test = rows.x[half], rows.y[half], rows.x[rest], rows.y[rest]
    frozen(x, y, x_test, y_test)
    return RegressionRows(x, y, x_test, y_test, rows.features)


def _cells_ct(config: Config) -> Sequence[Cell]:
    papers = PAPER | settings(
        candidates=f"{FOREST} lasso", standardize="model", combine="pooled-rows", k_method="gap", k_min=2
    )
    newcomers = settings(newcomers="site-6[4-9] site-7? site-8? site-9?")
    if datasets.locate("ct", config) is None:
        return [Cell({"scans": "made"}, newcomers, defaults=papers)]
    # Two clusters in 3 repetitions and three in 47.
    published = {"mse_cluster": 95.15, "mse_all": 150.31, "n_clusters": 2.94}
    return [Cell({"scans": "UCI-206"}, newcomers, published, papers)]


# -- registration -----------------------------------------------------------------------------------------------------

add(
    name="sec-grid",
    sites=N_GRID,
    source="file grid_stability.csv or OpenML",
    summary="Electrical Grid Stability: 50 learners, 0 to 49 of them report the opposite (Figure 4)",
    shards=grid,
    truth=grid_truth,
    cells=_cells_grid,
    at_once=5,
    columns=("mse_all", "mse_alone", "mse_cluster", "mse_oracle", "clusters_correct"),
    data_set="grid",
)
add(
    name="sec-ct",
    sites=N_CT,
    source="file slice_localization_data.csv, else synthetic",
    summary="CT slices by scan, 64 learners and 33 newcomers (Table III); without the file, synthetic scans",
    shards=ct,
    truth=ct_truth,
    cells=_cells_ct,
    at_once=1,
    columns=("mse_cluster", "mse_all", "n_clusters"),
    data_set="ct",
)
