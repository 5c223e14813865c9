"""Attacks on an output that lies far from all others: sums over the rows with it, and without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from consilience.attack.gp.center import MAX_ROWS, claim_boxes
from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from protocols.gp.payloads import Moments, Survey

_CANDIDATES = 200_001
"""Number of outputs that are tried."""
_Outputs = Float64[np.ndarray, "c"]


def outliers(site: AttackedSite) -> Claims:
    """Moments with an outlying output and without it: a sum of squares is hardly more than its square."""

    def misfits(output: _Outputs, all_rows: Moments, usual: Moments) -> _Outputs:
        (n, mean, variance), (m, usual_mean, usual_variance) = _moments(all_rows), _moments(usual)
        others = n - m - 1  # left out with the outlier
        total = n * mean - m * usual_mean - output - others * usual_mean
        squares = n * (variance + mean**2) - m * (usual_variance + usual_mean**2) - output**2
        squares -= others * (usual_variance + usual_mean**2)
        misfit: _Outputs = total**2 / (others * usual_variance + 1e-12)
        misfit += squares**2 / (2 * others * usual_variance**2 + 1e-12)
        return misfit

    return _claim(site, misfits)


def gains(site: AttackedSite) -> Claims:
    """How much better rows are predicted without an outlying output: without a function, it moves all alike."""

    def misfits(output: _Outputs, all_rows: Moments, usual: Moments) -> _Outputs:
        n, mean, variance = _moments(all_rows)
        mean_without = (n * mean - output) / (n - 1)
        variance_without = (n * (variance + mean**2) - output**2) / (n - 1) - mean_without**2
        change = np.abs(output - mean_without) / n / np.sqrt(np.maximum(variance_without, 1e-12))
        misfit: _Outputs = np.abs(change - np.sqrt(all_rows.outliers[1] / n))
        return misfit

    return _claim(site, misfits)


def _claim(site: AttackedSite, misfits: Callable[[_Outputs, Moments, Moments], _Outputs]) -> Claims:
    """Claim the output that fits the site's moments with the outlying rows and without them best."""
    n_columns = site.ranges.shape[1]
    if not site.start_run():
        return Claims.none(n_columns, "the site takes no part")
    answers = [site.ask(Survey(MAX_ROWS, "se", fit=True, robust=robust)) for robust in (False, True)]
    if not all(isinstance(each, Moments) and len(each.counts) == 1 for each in answers):
        return Claims.none(n_columns, "the site takes no part, or has several experts")
    all_rows, usual = answers
    if not all_rows.counts[0] > usual.counts[0]:
        return Claims.none(n_columns, "no output lies far off")
    n, mean, variance = _moments(all_rows)
    side = np.sign(mean - _moments(usual)[1]) or 1.0
    candidates = mean + side * np.linspace(0, np.sqrt(n * variance), _CANDIDATES)
    box = np.full(n_columns, np.nan)
    box[-1] = candidates[misfits(candidates, all_rows, usual).argmin()]
    return claim_boxes([box], site, [f"an output of {box[-1]:.6g}"])


def _moments(answer: Moments) -> tuple[int, float, float]:
    return int(answer.counts[0]), float(answer.y_means[0]), float(answer.y_variances[0])
