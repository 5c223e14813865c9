"""Attack by likelihoods with tiny lengths in one column."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from jaxtyping import Float64

from consilience.attack.gp.center import LONGEST, MAX_ROWS, as_classes, claim_boxes, latent_of
from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from numerics.gp.dirichlet import latent_outputs
from numerics.gp.likelihood import evaluate
from numerics.gp.radial_kernels import SquaredExponential
from protocols.gp.payloads import Evaluate, Likelihood, Moments, Survey

_SHORTEST = 1e-3
"""The shortest length at a site."""
_RARE = 4
"""Most rows that may share a value for `likelihoods` to look for their outputs."""


def likelihoods(site: AttackedSite) -> Claims:
    """The likelihood of tiny lengths in a column of two values reveals the sum of the outputs of the rarer value.

    Where one row has it, the covariances tell its other inputs.
    """
    n_columns = site.ranges.shape[1]
    moments = site.ask(Survey(MAX_ROWS, "se", fit=False)) if site.start_run() else None
    if not isinstance(moments, Moments) or len(moments.counts) > 1:
        return Claims.none(n_columns, "the site takes no part, or has several experts")
    low, high = site.ranges[:, :-1]
    n, means, variances = int(moments.counts[0]), moments.means[0], np.diagonal(moments.covariances[0])
    share = (means - low) / np.where(high > low, high - low, 1.0)
    two_values = np.isclose(variances, share * (1 - share) * (high - low) ** 2) & (high > low)
    boxes, notes = [], []
    for column in np.flatnonzero(two_values):
        n_high = round(n * share[column])
        n_rare, value = min((n_high, high[column]), (n - n_high, low[column]))
        total_of = _classes_of_value if moments.classes else _outputs_of_value
        total = total_of(site, moments, int(column), n_rare) if 1 <= n_rare <= _RARE else None
        if total is None:
            continue
        notes.append(
            f"{moments.features[column]} = {value:g}: the outputs of {n_rare} of {n} rows add up to {total:.6g}"
        )
        if n_rare == 1:
            # The covariances with the other columns are then the row's distance from their means.
            sign = 1 if value == high[column] else -1
            others = means + n * moments.covariances[0][column] / (sign * (high - low)[column])
            boxes.append(np.append(np.where(np.arange(len(means)) == column, value, others), total))
    return claim_boxes(boxes, site, notes)


def _outputs_of_value(site: AttackedSite, moments: Moments, column: int, n_rare: int) -> float | None:
    """Return the sum of the outputs of the rows with the rarer value of a column; None if the site refuses.

    Rows of one value have the same inputs but for lengths that do not matter, so that Z consists of two blocks
    ``s^2 11^T + sigma^2 I``. With ``r = s^2 / sigma^2``, ``sigma^2 y^T Z^-1 y`` is
    ``sum y^2 - sum over the blocks of r (sum of y)^2 / (1 + r n)``. The derivatives by log s and log sigma add up to
    ``y^T Z^-1 y - n``.
    """
    n = int(moments.counts[0])
    deviation = float(np.sqrt(max(moments.y_variances[0], 1e-300)))
    ratios = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
    # Outputs of mean 0 would tell the sum but for its sign.
    units = {"y_mean": float(moments.y_means[0]) - deviation, "y_scale": deviation}
    answer = _ask_likelihood(site, moments, column, ratios, units)
    if answer is None:
        return None
    blocks = 2 * n - (answer.gradients[:, -1] + answer.gradients[:, -2] + n)  # outputs have mean 1 and variance 1
    rare, other = ratios / (1 + ratios * n_rare), ratios / (1 + ratios * (n - n_rare))
    # Each answer is a quadratic equation of the sum, whose linear and constant terms are those of the other block.
    roots = np.roots([rare[-1] + other[-1], -2 * n * other[-1], n**2 * other[-1] - blocks[-1]]).real
    misfits = [np.abs(rare * root**2 + other * (n - root) ** 2 - blocks).max() for root in roots]
    total = float(roots[int(np.argmin(misfits))])
    return total * deviation + n_rare * (float(moments.y_means[0]) - deviation)


def _classes_of_value(site: AttackedSite, moments: Moments, column: int, n_rare: int) -> float | None:
    """Return the sum of the places of the classes of the rows with the rarer value; None if the site refuses.

    Only one combination of classes of these rows has the site's likelihood. Of the other rows, only the number of each
    class matters.
    """
    answer = _ask_likelihood(site, moments, column, np.ones(1), {"y_mean": 0.0} | as_classes(moments))
    if answer is None:
        return None
    counts, best, misfit = moments.class_counts[0], 0.0, np.inf
    x = (np.arange(moments.counts[0]) < n_rare).astype(np.float64)[:, np.newaxis]
    theta = np.log([_SHORTEST, 1.0, 1.0])
    for rare in combinations_with_replacement(range(len(counts)), n_rare):
        others = counts - np.bincount(rare, minlength=len(counts))
        if (others < 0).any():
            continue
        outputs = latent_outputs(np.r_[rare, np.repeat(np.arange(len(counts)), others)].astype(int), latent_of(moments))
        off = abs(evaluate(SquaredExponential(1), theta, x, *outputs).value - float(answer.values[0]))
        if off < misfit:
            best, misfit = float(sum(rare)), off
    return best


def _ask_likelihood(
    site: AttackedSite,
    moments: Moments,
    column: int,
    ratios: Float64[np.ndarray, "c"],
    outputs: Mapping[str, Any],
) -> Likelihood | None:
    """Ask for the likelihood where inputs matter in one column only, by ratios of the variances of function and noise.

    Return None if the site refuses.
    """
    lengths = np.full(len(moments.features), LONGEST)
    lengths[column] = _SHORTEST
    answer: Any = site.ask(
        Evaluate(
            max_rows=MAX_ROWS,
            counts=moments.counts,
            mean=moments.means[0],
            scale=np.sqrt(np.maximum(np.diagonal(moments.covariances[0]), 1e-12)),
            kernel="se",
            thetas=np.log([[*lengths, np.sqrt(ratio), 1.0] for ratio in ratios]),
            **outputs,
        )
    )
    return answer if isinstance(answer, Likelihood) else None
