"""Pooled rows and checked settings, for all scenarios of Gaussian process experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64

from scenarios.common import choice, frozen, number, settings_of
from scenarios.registry import Config, ScenarioError

# A world draws from streams of its own: [seed, world, purpose, ...].
SYNTHETIC, CONCRETE, AIRFOIL, PUMADYN, PROTEIN, PARKINSONS, POLE, SARCOS, SONG, CANCER = range(10)
ROWS, PARTS = range(2)

SPLITS = ("kmeans", "random")
"""`gp.split`: experts of neighboring rows (disjoint partitioning), or of rows drawn at random."""

COLUMNS = (
    "smse",
    "msll",
    "coverage_95",
    "smse_full",
    "msll_full",
    "rmse",
    "n_selected",
    "fit_rounds",
    "bytes_per_query",
)

settings = partial(settings_of, "gp")


@dataclass(frozen=True, eq=False)
class PooledRows:
    """All rows of one draw of a world, as no site ever holds them.

    Attributes
    ----------
    x, y : ndarray
        ``(n, d)`` and ``(n,)`` training rows; read-only.
    x_test, y_test : ndarray
        ``(t, d)`` and ``(t,)`` test rows; read-only.
    features : tuple of str
        Names of the d inputs.
    stream : tuple of int
        Random stream of the split over experts.
    classes : tuple of str
        Classes whose places the outputs are; none: the outputs are amounts.
    """

    x: Float64[np.ndarray, "n d"]
    y: Float64[np.ndarray, "n"]
    x_test: Float64[np.ndarray, "t d"]
    y_test: Float64[np.ndarray, "t"]
    features: tuple[str, ...]
    stream: tuple[int, ...]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        frozen(self.x, self.y, self.x_test, self.y_test)


Draw = Callable[[Config, int], PooledRows]
"""``draw(config, seed)``: the same object for the same arguments, as long as it is in use."""


def rows_of(name: str, config: Config, own: int, most: int) -> int:
    """Return `gp.rows`, the world's own number where it is 0.

    Raises
    ------
    ScenarioError
        If it is out of range, or more than `most`.
    """
    n_rows = int(number(config, "gp.rows", 0, 0)) or own
    if n_rows > most:
        raise ScenarioError(f"{name} has {most} training rows at most: gp.rows cannot be {n_rows}")
    return n_rows


def split_of(config: Config) -> str:
    """Return `gp.split`, k-means if it is empty."""
    return choice(config, "gp.split", SPLITS)
