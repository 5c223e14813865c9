"""Errors of one Gaussian process of all rows: what a center with all rows in one place would reach."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float64, Int64

from numerics.gp.kernel_names import kernels_of
from numerics.gp.kernels import Kernel
from numerics.shared.threads import single_threaded
from scenarios.gp.common import PooledRows

MOST_ROWS = 8000
"""There is no baseline for more rows: the covariance would take more than half a gigabyte."""
ROWS_FIT = 3100
"""Most rows for which the hyperparameters are fitted to all of them."""
ROWS_DRAWN = 2000
"""Number of rows, drawn at random, to which the hyperparameters are fitted otherwise."""


def favored_fit(
    text: str,
    x: Float64[np.ndarray, "n d"],
    y: Float64[np.ndarray, "*columns"],
    noise: Float64[np.ndarray, "n k"] | None = None,
    *,
    rows: int | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[Kernel, Float64[np.ndarray, "p"]]:
    """Fit hyperparameters to all rows, or to `rows` drawn at random; return the kernel of largest likelihood, and them.

    `text` is that of a run (``gp.kernel``).
    """
    from numerics.gp.kernel_registry import kernel_of
    from numerics.gp.likelihood import evaluate, fit_one

    if rows is not None and rng is not None:
        sample = np.sort(rng.choice(len(y), rows, replace=False))
        x, y, noise = x[sample], y[sample], None if noise is None else noise[sample]
    kernels = [kernel_of(each, x.shape[1]) for each in kernels_of(text)]
    fits = [fit_one(kernel, x, y, noise=noise) for kernel in kernels]
    values = [evaluate(kernel, theta, x, y, noise).value for kernel, theta in zip(kernels, fits, strict=True)]
    return kernels[int(np.argmax(values))], fits[int(np.argmax(values))]


@lru_cache(maxsize=256)  # each keeps its world, which is in use anyway; the rows of a table share them
def full_process(pooled: PooledRows, kernel: str) -> tuple[tuple[str, float], ...]:
    """Return the errors on the test rows of one Gaussian process with maximum likelihood hyperparameters.

    The experts approximate this process (Jalali and Kasneci 2022, section II-A).

    Parameters
    ----------
    pooled : PooledRows
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
    from numerics.gp.metrics import msll, smse
    from numerics.gp.moments import moments_of, units_of

    units = units_of(moments_of(pooled.x, pooled.y))
    x, y = units.inputs(pooled.x), units.outputs(pooled.y)
    points, outputs = units.inputs(pooled.x_test), units.outputs(pooled.y_test)
    rows = None if len(y) <= ROWS_FIT else ROWS_DRAWN
    with single_threaded():
        process, theta = favored_fit(kernel, x, y, rows=rows, rng=np.random.default_rng(pooled.stream))
        mean, explained = Expert(process, theta, x, y).predict(points)
    variance = process.diagonal(theta[:-1], points) - explained + np.exp(2 * theta[-1])
    loss = msll(outputs, mean, variance, float(y.mean()), float(y.var()))
    return ("smse_full", smse(outputs, mean)), ("msll_full", loss)


@lru_cache(maxsize=256)  # as above
def full_classes(pooled: PooledRows, kernel: str) -> tuple[tuple[str, float], ...]:
    """Return the scores on the test rows of one Dirichlet-based Gaussian process.

    Parameters are those of `full_process`.

    Returns
    -------
    tuple
        The scores of `numerics.shared.classification`, with ``_full`` after their names.
    """
    if len(pooled.y) > MOST_ROWS:
        return ()
    from numerics.shared.classification import as_metrics, classification_scores

    probabilities = class_process(
        pooled.x, pooled.y.astype(np.int64), pooled.x_test, len(pooled.classes), kernel, pooled.stream
    )
    return tuple(as_metrics(classification_scores(probabilities, pooled.y_test.astype(np.int64)), "full").items())


def class_process(
    x: Float64[np.ndarray, "n d"],
    y: Int64[np.ndarray, "n"],
    points: Float64[np.ndarray, "t d"],
    k: int,
    kernel: str,
    stream: tuple[int, ...],
) -> Float64[np.ndarray, "t k"]:
    """Predict the classes of points by one Gaussian process a class, of all rows, as a site alone does."""
    from numerics.gp.dirichlet import (
        best_sharpness,
        class_probabilities,
        latent_outputs,
        latent_units,
        losses_by_sharpness,
    )
    from numerics.gp.expert import Expert
    from numerics.gp.moments import moments_of, units_of

    units, latent = units_of(moments_of(x, np.zeros(len(y)))), latent_units(np.bincount(y, minlength=k))
    rows, places = units.inputs(x), units.inputs(points)
    outputs, noise = latent_outputs(y, latent)
    most = ROWS_DRAWN if len(y) > ROWS_FIT else None
    with single_threaded():
        process, theta = favored_fit(kernel, rows, outputs, noise, rows=most, rng=np.random.default_rng(stream))
        prior = process.diagonal(theta[:-1], places)
        means, variances, own_means, own_variances = [], [], [], []
        for column, own in zip(outputs.T, noise.T, strict=True):
            expert = Expert(process, theta, rows, np.ascontiguousarray(column), own)
            mean, explained = expert.predict(places)
            means.append(mean)
            variances.append(prior - explained)
            left_out = expert.left_out()
            own_means.append(column - left_out.errors)
            own_variances.append(np.maximum(left_out.variances - own - np.exp(2 * theta[-1]), 0.0))
    own_mean, own_variance = np.column_stack(own_means), np.column_stack(own_variances)
    sharpness = best_sharpness(losses_by_sharpness(own_mean, own_variance, latent, y))
    return class_probabilities(np.column_stack(means), np.column_stack(variances), latent, sharpness)
