"""Scenarios of real data sets: training rows, test rows and number of experts as in the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from scenarios import datasets
from scenarios.gp.cells import concrete_cells, pumadyn_cells, real_world_cells
from scenarios.gp.common import (
    AIRFOIL,
    CANCER,
    CONCRETE,
    PARKINSONS,
    POLE,
    PROTEIN,
    PUMADYN,
    ROWS,
    SARCOS,
    SONG,
    PooledRows,
    rows_of,
)
from scenarios.gp.sites import add
from scenarios.registry import Cell, Config, ScenarioError


@dataclass(frozen=True)
class World:
    """A data set and how the paper uses it.

    Attributes
    ----------
    data_set : str
        Name in `scenarios.datasets.DATA_SETS`.
    stream : int
        Number of its random stream, different from those of other worlds.
    n_train, n_test : int
        The paper's numbers of training rows and test rows. If the data do not mark them, they are drawn by seed, in
        this proportion if the file has another length.
    classes : tuple of str
        Classes whose places the outcomes are; none: the outcomes are amounts.
    """

    data_set: str
    stream: int
    n_train: int
    n_test: int
    classes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return f"gp-{self.data_set}"


def draw(world: World, config: Config, seed: int) -> PooledRows:
    """Draw the rows of a world; `gp.rows` of the training rows.

    Fewer training rows are a subset of more, and have the same test rows.

    Raises
    ------
    ScenarioError
        If the data are not available, there are too few rows, or the outcome is constant in the training rows or in
        the test rows.
    """
    path = datasets.locate(world.data_set, config)
    return _draw(world, path, rows_of(world.name, config, 0, world.n_train), seed)


@lru_cache(maxsize=16)
def _draw(world: World, path: Path | None, n_rows: int, seed: int) -> PooledRows:
    data = datasets.load(world.data_set, path)
    stream = (seed, world.stream)
    order = np.random.default_rng([*stream, ROWS]).permutation(len(data.x))
    test = _test_rows(world, order) if data.test is None else data.test
    training = order[~test[order]]
    if len(training) < max(2, n_rows) or np.count_nonzero(test) < 2:
        raise ScenarioError(
            f"{world.name}: {path or 'the data set'} has {len(training)} training rows and {np.count_nonzero(test)}"
            f" test rows, and needs {max(2, n_rows)} and 2"
        )
    rows = np.sort(training[: n_rows or len(training)])
    y, y_test = data.outcome[rows].astype(np.float64), data.outcome[test].astype(np.float64)
    if np.ptp(y) == 0 or np.ptp(y_test) == 0:
        raise ScenarioError(f"{world.name}: the outcome of {path or 'the data set'} is the same in all rows")
    return PooledRows(data.x[rows], y, data.x[test], y_test, data.features, stream, world.classes)


def _test_rows(world: World, order: np.ndarray) -> Bool[np.ndarray, "n"]:
    """Return which rows are test rows: the last of the order."""
    test = np.zeros(len(order), bool)
    test[order[round(len(order) * world.n_train / (world.n_train + world.n_test)) :]] = True
    return test


def _cells(world: World, rows: Callable[[Config], Sequence[Cell]], config: Config) -> Sequence[Cell]:
    datasets.locate(world.data_set, config)  # A wrong `data` is an error before any site is asked.
    return rows(config)


_WORLDS = (
    # world, (experts, sites, rows of the table), source, summary
    (
        World("concrete", CONCRETE, 927, 103),
        (10, 5, concrete_cells),
        "file concrete.csv or OpenML",
        "Strength of concrete: rules, gates and their experts (Figures 2 and 7, Table I)",
    ),
    (
        World("airfoil", AIRFOIL, 1203, 300),
        (5, 5, partial(real_world_cells, "airfoil")),
        "file airfoil.csv or OpenML",
        "Noise of airfoils in a wind tunnel (Tables IV and V)",
    ),
    (
        World("pumadyn", PUMADYN, 7168, 1024),
        (10, 10, pumadyn_cells),
        "file pumadyn32nm.csv",
        "Acceleration of a simulated robot arm, 32 inputs (Table II)",
    ),
    (
        World("parkinsons", PARKINSONS, 5000, 875),
        (10, 10, partial(real_world_cells, "parkinsons")),
        "file parkinsons_updrs.data or OpenML",
        "Severity of Parkinson's disease by the voice (Tables IV and V)",
    ),
    (
        World("pole", POLE, 10_000, 5000),
        (10, 10, partial(real_world_cells, "pole")),
        "file pole.csv or OpenML",
        "Pole telecommunication (Tables IV and V)",
    ),
    (
        World("protein", PROTEIN, 40_000, 5730),
        (70, 10, partial(real_world_cells, "protein")),
        "file protein.csv or OpenML",
        "Error of predicted protein structures, 70 experts (Tables IV and V)",
    ),
    (
        World("sarcos", SARCOS, 44_484, 4449),
        (72, 10, partial(real_world_cells, "sarcos")),
        "file sarcos_inv.mat or OpenML",
        "Torque of a robot arm, 72 experts (Tables IV and V)",
    ),
    (
        World("song", SONG, 100_000, 10_000),
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
        data_set=_world.data_set,
    )

_CANCER = World("cancer", CANCER, 400, 169, ("benign", "malignant"))
add(
    name=_CANCER.name,
    draw=partial(draw, _CANCER),
    n_parts=5,
    sites=5,
    source="scikit-learn's copy",
    summary="Classes: are tumours malignant or benign? Not in the paper",
    columns=(),
)
