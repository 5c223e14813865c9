"""The synthetic scenario, gp-synthetic: a curve of one input."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float64

from scenarios.gp.cells import synthetic_cells
from scenarios.gp.common import ROWS, SYNTHETIC, PooledRows, rows_of
from scenarios.gp.sites import add
from scenarios.registry import Config

N_ROWS, MOST = 3000, 1_000_000
TEST_SHARE = 0.1
NOISE = 0.2
TRAINING, TEST = (0.0, 1.0), (-0.2, 1.2)
"""Ranges of the training inputs and of the test inputs, some of which are beyond all data."""


def curve(x: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """Return the curve of Jalali and Kasneci (2022), eq. 9, without noise; it is due to Liu et al. (2018)."""
    return np.asarray(5 * x**2 * np.sin(12 * x) + (x**3 - 0.5) * np.sin(3 * x - 0.5) + 4 * np.cos(2 * x))


def synthetic(config: Config, seed: int) -> PooledRows:
    """Draw points of the curve with noise of deviation 0.2: `gp.rows` training rows (3000), a tenth as many test rows.

    Section V-A1. Inputs are uniform, from 0 to 1 and from -0.2 to 1.2. The test outputs have the noise as well.

    Setting: `gp.rows`.
    """
    return _draw(rows_of("gp-synthetic", config, N_ROWS, MOST), seed)


@lru_cache(maxsize=32)
def _draw(n_rows: int, seed: int) -> PooledRows:
    stream = (seed, SYNTHETIC)
    (x, y), (x_test, y_test) = (
        _points(n, span, (*stream, ROWS, purpose))
        for purpose, (n, span) in enumerate([(n_rows, TRAINING), (max(2, round(TEST_SHARE * n_rows)), TEST)])
    )
    return PooledRows(x, y, x_test, y_test, ("x",), stream)


def _points(
    n: int, span: tuple[float, float], stream: tuple[int, ...]
) -> tuple[Float64[np.ndarray, "n 1"], Float64[np.ndarray, "n"]]:
    # Streams of their own: fewer points are among the more.
    x = np.random.default_rng([*stream, 0]).uniform(*span, size=n)
    return x[:, np.newaxis], curve(x) + np.random.default_rng([*stream, 1]).normal(scale=NOISE, size=n)


add(
    name="gp-synthetic",
    draw=synthetic,
    n_parts=10,
    sites=10,
    source="synthetic",
    summary="A curve of one input: all experts and selected ones (Figures 9 to 11)",
    cells=synthetic_cells,
)
