"""The worlds of given data sets: what the paper learns from and tests with, and in how many experts it splits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from scenarios import sources
from scenarios.gp.cells import concrete_cells, pumadyn_cells, real_world_cells
from scenarios.gp.common import (
    AIRFOIL,
    CONCRETE,
    PARKINSONS,
    POLE,
    PROTEIN,
    PUMADYN,
    ROWS,
    SARCOS,
    SONG,
    Pooled,
    rows_of,
)
from scenarios.gp.sites import add
from scenarios.registry import Cell, Config, ScenarioError

_Read = Callable[[Any], sources.Divided]


@dataclass(frozen=True)
class World:
    """A data set and how the paper uses it.

    Attributes
    ----------
    name : str
        Of the scenario.
    stream : int
        What its draws differ by from those of other worlds.
    find : Callable
        The data's file by the run configuration; None: OpenML.
    read : Callable
        What the file holds, and which of its rows are to test with, if it says.
    learnt, tested : int
        Rows that the paper learns from and tests with. Where the data do not say which, they are drawn by seed; of a
        file of another length, in this proportion.
    """

    name: str
    stream: int
    find: Callable[[Config], Path | None]
    read: _Read
    learnt: int
    tested: int


def draw(world: World, config: Config, seed: int) -> Pooled:
    """The rows of a world; `gp.rows` of those to learn from, drawn by seed.

    Fewer rows are always among the more, and tested with the same rows.

    Raises
    ------
    ScenarioError
        If the data cannot be had, there are not so many rows, or the outcome is the same in all of one side.
    """
    return _draw(world, world.find(config), rows_of(world.name, config, 0, world.learnt), seed)


@lru_cache(maxsize=2)  # 80 MB of songs, others less
def _data(read: _Read, path: Path | None) -> sources.Divided:
    return read(path)


@lru_cache(maxsize=16)
def _draw(world: World, path: Path | None, n_rows: int, seed: int) -> Pooled:
    data, marked = _data(world.read, path)
    stream = (seed, world.stream)
    order = np.random.default_rng([*stream, ROWS]).permutation(len(data.y))
    tested = _tested(world, order) if marked is None else marked
    learnt = order[~tested[order]]
    if len(learnt) < max(2, n_rows) or np.count_nonzero(tested) < 2:
        raise ScenarioError(
            f"{world.name}: {path or 'the data set'} has {len(learnt)} rows to learn from and"
            f" {np.count_nonzero(tested)} to test with, and needs {max(2, n_rows)} and 2"
        )
    rows = np.sort(learnt[: n_rows or len(learnt)])
    y, y_test = data.y[rows], data.y[tested]
    if np.ptp(y) == 0 or np.ptp(y_test) == 0:
        raise ScenarioError(f"{world.name}: the outcome of {path or 'the data set'} is the same in all rows")
    return Pooled(data.x[rows], y, data.x[tested], y_test, data.features, stream)


def _tested(world: World, order: np.ndarray) -> Bool[np.ndarray, "n"]:
    """Rows to test with: the last of the order."""
    tested = np.zeros(len(order), bool)
    tested[order[round(len(order) * world.learnt / (world.learnt + world.tested)) :]] = True
    return tested


def _cells(world: World, rows: Callable[[Config], Sequence[Cell]], config: Config) -> Sequence[Cell]:
    world.find(config)  # A wrong `data` is said before any site is asked.
    return rows(config)


def _concrete(path: Path | None) -> sources.Divided:
    return sources.read_concrete(path), None


_WORLDS = (
    # scenario, experts, sites, rows of the table, source, what it is
    (
        World("gp-concrete", CONCRETE, sources.find_concrete, _concrete, 927, 103),
        (10, 5, concrete_cells),
        "file concrete.csv or OpenML",
        "Strength of concrete: rules, gates and their experts (Figures 2 and 7, Table I)",
    ),
    (
        World("gp-airfoil", AIRFOIL, sources.find_airfoil, sources.read_airfoil, 1203, 300),
        (5, 5, partial(real_world_cells, "airfoil")),
        "file airfoil.csv or OpenML",
        "Noise of airfoils in a wind tunnel (Tables IV and V)",
    ),
    (
        World("gp-pumadyn", PUMADYN, sources.find_pumadyn, sources.read_pumadyn, 7168, 1024),
        (10, 10, pumadyn_cells),
        "file pumadyn32nm.csv",
        "Acceleration of a simulated robot arm, 32 inputs (Table II)",
    ),
    (
        World("gp-parkinsons", PARKINSONS, sources.find_parkinsons, sources.read_parkinsons, 5000, 875),
        (10, 10, partial(real_world_cells, "parkinsons")),
        "file parkinsons_updrs.data or OpenML",
        "Parkinson's disease heard in the voice (Tables IV and V)",
    ),
    (
        World("gp-pole", POLE, sources.find_pole, sources.read_pole, 10_000, 5000),
        (10, 10, partial(real_world_cells, "pole")),
        "file pole.csv or OpenML",
        "Pole telecommunication (Tables IV and V)",
    ),
    (
        World("gp-protein", PROTEIN, sources.find_protein, sources.read_protein, 40_000, 5730),
        (70, 10, partial(real_world_cells, "protein")),
        "file protein.csv or OpenML",
        "How far a predicted protein structure is off, 70 experts (Tables IV and V)",
    ),
    (
        World("gp-sarcos", SARCOS, sources.find_sarcos, sources.read_sarcos, 44_484, 4449),
        (72, 10, partial(real_world_cells, "sarcos")),
        "file sarcos_inv.mat or OpenML",
        "Torque of a robot arm, 72 experts (Tables IV and V)",
    ),
    (
        World("gp-song", SONG, sources.find_song, sources.read_song, 100_000, 10_000),
        (80, 10, partial(real_world_cells, "song")),
        "file YearPredictionMSD.txt or OpenML",
        "Year of a song by its sound, 80 experts (Tables IV and V)",
    ),
)
for _world, (_n_parts, _sites, _rows), _source, _summary in _WORLDS:
    add(
        name=_world.name,
        draw=partial(draw, _world),
        n_parts=_n_parts,
        sites=_sites,
        source=_source,
        summary=_summary,
        cells=partial(_cells, _world, _rows),
    )
