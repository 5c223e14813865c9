"""Errors of one Gaussian process of all rows: what a center with all rows in one place would reach."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from numerics.shared.threads import single_threaded
from scenarios.gp.common import Pooled

MOST_ROWS = 8000
"""There is no baseline for more rows: the covariance would take more than half a gigabyte."""
ROWS_FIT = 3100
"""Up to so many rows, the hyperparameters are fitted to all of them."""
ROWS_DRAWN = 2000
"""For more rows, the hyperparameters are fitted to so many, drawn at random."""


@lru_cache(maxsize=256)  # each keeps its world, which is in use anyway; the rows of a table share them
def full_process(pooled: Pooled, kernel: str) -> tuple[tuple[str, float], ...]:
    """Return the errors on the test rows of one Gaussian process, its hyperparameters by maximum likelihood.

    The experts approximate this process (Jalali and Kasneci 2022, section II-A).

    Parameters
    ----------
    pooled : Pooled
        A world. For more than `MOST_ROWS` training rows the result is empty.
    kernel : str
        As `gp.kernel`.

    Returns
    -------
    tuple
        ``smse_full`` and ``msll_full`` with their values.
    """
    if len(pooled.y) > MOST_ROWS:
        return ()
    # A site looks for its shard in this package, and needs no Gaussian process for that.
    from numerics.gp.expert import Expert
    from numerics.gp.kernel_registry import kernel_of
    from numerics.gp.likelihood import fit_one
    from numerics.gp.metrics import msll, smse
    from numerics.gp.moments import moments_of, units_of

    units = units_of(moments_of(pooled.x, pooled.y))
    x, y = units.inputs(pooled.x), units.outputs(pooled.y)
    points, outputs = units.inputs(pooled.x_test), units.outputs(pooled.y_test)
    process = kernel_of(kernel, x.shape[1])
    rows = None if len(y) <= ROWS_FIT else ROWS_DRAWN
    with single_threaded():
        theta = fit_one(process, x, y, rows=rows, rng=np.random.default_rng(pooled.stream))
        mean, explained = Expert(process, theta, x, y).predict(points)
    variance = process.diagonal(theta[:-1], points) - explained + np.exp(2 * theta[-1])
    loss = msll(outputs, mean, variance, float(y.mean()), float(y.var()))
    return ("smse_full", smse(outputs, mean)), ("msll_full", loss)
