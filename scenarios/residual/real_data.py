"""The worlds of a given data set: residual-concrete and residual-concrete-nuisance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from scenarios import sources
from scenarios.common import frozen
from scenarios.registry import Cell, Config, ScenarioError
from scenarios.residual.common import CONCRETE, ROWS, SHOWN, Draw, World, add, all_algorithms, with_nuisance

N_LEARNT = 700
"""Section V-A: rows to learn from, of 1030; the others are test rows."""
_LEAST_TEST = 2
_N_NUISANCE = 8


def concrete(config: Config, seed: int) -> World:
    """Concrete Compressive Strength, 700 rows drawn by seed to learn from and the other 330 to test with.

    Section V-A. The outcome is standardised by the mean and the deviation of the rows learnt from.

    Parameters
    ----------
    config : Config
        Run configuration; used is `data` (`scenarios.sources.find_concrete`).
    seed : int
        Not negative.

    Raises
    ------
    ScenarioError
        If the data cannot be had, have too few rows, or the outcome is the same in all rows learnt from.
    """
    return _split(sources.find_concrete(config), seed, 0)


def concrete_nuisance(config: Config, seed: int) -> World:
    """The same split of the same rows, with eight standard normal attributes beside their own.

    Parameters, result and errors are those of `concrete`.
    """
    return _split(sources.find_concrete(config), seed, _N_NUISANCE)


@lru_cache(maxsize=2)
def _data(path: Path | None) -> sources.Regression:
    return sources.read_concrete(path)


@lru_cache(maxsize=32)  # 0.2 MB each
def _split(path: Path | None, seed: int, n_nuisance: int) -> World:
    data = _data(path)
    if len(data.y) < N_LEARNT + _LEAST_TEST:
        raise ScenarioError(
            f"residual-concrete: {path or 'the data set'} has {len(data.y)} rows, too few: {N_LEARNT} are learnt from,"
            f" and {_LEAST_TEST} or more are needed to test with"
        )
    stream = (seed, CONCRETE)
    order = np.random.default_rng([*stream, ROWS]).permutation(len(data.y))
    x, y = data.x[order], data.y[order]
    learnt = y[:N_LEARNT]
    if np.ptp(learnt) == 0:
        raise ScenarioError(f"residual-concrete: the outcome of {path or 'the data set'} is the same in all rows")
    y = (y - learnt.mean()) / learnt.std()
    frozen(x, y)
    p = len(data.features)
    world = World(x, y, data.features, (True,) * p, len(y) - N_LEARNT, stream)
    return with_nuisance(world, p + n_nuisance)


def _cells(config: Config) -> Sequence[Cell]:
    sources.find_concrete(config)  # A wrong `data` is said before any site is asked.
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
for _name, _sites, _what, _draw in _WORLDS:
    add(
        name=_name,
        sites=_sites,
        any_number=True,
        source="file concrete.csv or OpenML",
        summary=f"Strength of concrete, {_what}: all algorithms (Figure 3)",
        draw=_draw,
        compared=True,
        cells=_cells,
        at_once=5,
        columns=SHOWN,
    )
