"""Scenarios of a real data set: residual-concrete and residual-concrete-nuisance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from scenarios import datasets
from scenarios.common import frozen
from scenarios.registry import Cell, Config, ScenarioError
from scenarios.residual.common import COLUMNS, CONCRETE, ROWS, Draw, World, add, all_algorithms, with_nuisance

N_TRAIN = 700
"""Section V-A: training rows, of 1030; the others are test rows."""
_LEAST_TEST = 2
_N_NUISANCE = 8


def concrete(config: Config, seed: int) -> World:
    """Draw 700 training rows of Concrete Compressive Strength by seed; the other 330 are test rows (section V-A).

    The outcome is standardized by the mean and the deviation of the training rows.

    Setting: `data` (`scenarios.datasets.locate`).

    Raises
    ------
    ScenarioError
        If the data are not available, have too few rows, or the outcome is the same in all training rows.
    """
    return _split(datasets.locate("concrete", config), seed, 0)


def concrete_nuisance(config: Config, seed: int) -> World:
    """Draw the same split of the same rows, and add eight standard normal attributes.

    Parameters, result and errors are those of `concrete`.
    """
    return _split(datasets.locate("concrete", config), seed, _N_NUISANCE)


@lru_cache(maxsize=32)  # 0.2 MB each
def _split(path: Path | None, seed: int, n_nuisance: int) -> World:
    data = datasets.load("concrete", path)
    if len(data.x) < N_TRAIN + _LEAST_TEST:
        raise ScenarioError(
            f"residual-concrete: {path or 'the data set'} has {len(data.x)} rows, too few: {N_TRAIN} are training rows,"
            f" and {_LEAST_TEST} or more must be test rows"
        )
    stream = (seed, CONCRETE)
    order = np.random.default_rng([*stream, ROWS]).permutation(len(data.x))
    x, y = data.x[order], data.outcome[order]
    training = y[:N_TRAIN]
    if np.ptp(training) == 0:
        raise ScenarioError(f"residual-concrete: the outcome of {path or 'the data set'} is the same in all rows")
    y = (y - training.mean()) / training.std()
    frozen(x, y)
    p = len(data.features)
    world = World(x, y, data.features, (True,) * p, len(y) - N_TRAIN, stream)
    return with_nuisance(world, p + n_nuisance)


def _cells(config: Config) -> Sequence[Cell]:
    datasets.locate("concrete", config)  # A wrong `data` is an error before any site is asked.
    return all_algorithms(config)


_WORLDS: tuple[tuple[str, int, str, Draw], ...] = (
    ("residual-concrete", 8, "an attribute a site", concrete),
    (
        "residual-concrete-nuisance",
        8 + _N_NUISANCE,
        "and 8 irrelevant attributes",
        concrete_nuisance,
    ),
)
for _name, _sites, _columns, _draw in _WORLDS:
    add(
        name=_name,
        sites=_sites,
        any_number=True,
        source="file concrete.csv or OpenML",
        summary=f"Strength of concrete, {_columns}: all algorithms (Figure 3)",
        draw=_draw,
        pooled=True,
        cells=_cells,
        at_once=5,
        columns=COLUMNS,
        data_set="concrete",
    )
