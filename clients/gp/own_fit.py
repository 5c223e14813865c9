"""A site's own choice of hyperparameters, and of the rows that mislead it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from clients.gp.experts import (
    Part,
    draw_of,
    in_own_units,
    kernel_for,
    min_rows,
    rows_of,
    usual_rows,
)
from clients.site import Site
from numerics.gp.kernel_names import kernels_of
from numerics.gp.likelihood import evaluate, fit_best
from numerics.gp.measurements import LIMIT, Measurements
from numerics.gp.outliers import gains_without
from numerics.shared.digits import rounded
from numerics.shared.folds import of_rows
from protocols.gp.payloads import LARGEST, OWN_FIT_ROWS, Survey


class OwnFit(NamedTuple):
    """The hyperparameters that fit a site's own rows best.

    Attributes
    ----------
    theta : ndarray
        ``(p,)`` hyperparameters.
    information : ndarray
        ``(q,)`` upper triangle of the average information of all rows on them.
    likelihood : float
        Log likelihood per row.
    """

    theta: Float64[np.ndarray, "p"]
    information: Float64[np.ndarray, "q"]
    likelihood: float


@lru_cache(maxsize=64)  # a few numbers each; the cells of a table need the same ones
def best_fit_of(text: str, own: Part) -> OwnFit:
    """Fit the hyperparameters of a kernel to a draw of the site's rows."""
    n, kernel = len(own.y), kernel_for(text, own.x.shape[1])
    sample = np.sort(np.random.default_rng(own.digest).permutation(n)[:OWN_FIT_ROWS])
    x, y, noise = own.x[sample], own.y[sample], None if own.noise is None else own.noise[sample]
    theta = fit_best(kernel, x, y, noise)
    at = evaluate(kernel, theta, x, y, noise)
    information = at.information * (n / len(sample))
    return OwnFit(theta, information[np.triu_indices(len(information))], at.value / len(sample))


def own_fit(ask: Survey, rows: Measurements) -> dict[str, Float64[np.ndarray, "_"]]:
    """Return the fields of `Moments` about the site's own fit: empty arrays if nothing is, or can be, fitted."""
    if not ask.fit or len(rows.classes) == 1:
        return dict.fromkeys(("theta", "information", "likelihoods"), np.zeros(0))
    part = in_own_units(rows).part
    fits = [best_fit_of(kernel, part) for kernel in kernels_of(ask.kernel)]
    # The wire takes finite numbers; the log likelihood of rows that cannot be factorized is -inf.
    likelihoods = np.maximum([fit.likelihood for fit in fits], -LARGEST)
    best = fits[int(likelihoods.argmax())]
    return {"theta": best.theta, "information": best.information, "likelihoods": rounded(likelihoods)}


def gain_without_outliers(ask: Survey, site: Site) -> Float64[np.ndarray, "2"]:
    """Return the gain in predictions if outlying outputs are left out, as `Moments.outliers`.

    Of several kernels, the first one predicts.
    """
    rows, own = rows_of(site, replace(ask, robust=False)), usual_rows(site)
    usual = np.asarray(~own.cells_beyond(LIMIT).any(axis=1))
    if rows.classes or rows_of(site, replace(ask, robust=True)).n == rows.n:
        return np.zeros(2)
    if site.has_private_rows:  # else the gains would be about the outliers alone, perhaps one row
        usual = own.usual(LIMIT, min_rows(site), draw_of(own))
    sample = draw_of(rows).permutation(rows.n)[:OWN_FIT_ROWS]
    if usual[sample].all():
        return np.zeros(2)
    kernel, person = kernel_for(kernels_of(ask.kernel)[0], rows.x.shape[1]), of_rows(rows.person, sample)
    gains = gains_without(kernel, rows.x[sample], rows.y[sample], usual[sample], person)
    return rounded(np.array([gains.sum(), gains @ gains]))
