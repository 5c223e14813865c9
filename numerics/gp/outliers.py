"""Test whether rows with an outlying output mislead: rows left out are predicted with them, and without them.

Rare high outputs may be right. Then other rows predict them, and a Gaussian process without them predicts worse. Wrong
ones hide the function, and a process without them predicts better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.expert import Expert
from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import fit_best
from numerics.gp.moments import moments_of, units_of
from numerics.shared.exact_sum import exact_sum
from numerics.shared.folds import Persons, of_rows

MISLEADING = 3.0
"""Standard errors by which rows left out must be predicted better without outliers (docs/gp-evidence.md)."""
_MOST_OF_A_SITE = 4.0
"""Most standard errors that one site's gains count for: a site that lies cannot decide for the others."""


def gains_without(
    kernel: Kernel,
    x: Float64[np.ndarray, "n d"],
    y: Float64[np.ndarray, "n"],
    usual: Bool[np.ndarray, "n"],
    person: Persons = None,
) -> Float64[np.ndarray, "n"]:
    """Return how much smaller each row's absolute error is without the rows that are not `usual`.

    Every row is left out of its own prediction, with all rows of its person. Errors are in deviations of the usual
    outputs.

    Examples
    --------
    One output of a line is wrong: its neighbors are predicted better without it. It is right at the end of a steep
    curve:

    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> x = np.linspace(-2, 2, 30)[:, np.newaxis]
    >>> usual = np.arange(30) != 14
    >>> gains = gains_without(SquaredExponential(1), x, np.where(usual, x[:, 0], 40.0), usual)
    >>> misleading([np.array([gains.sum(), gains @ gains])])
    True
    >>> y = np.exp(4 * x[:, 0])
    >>> gains = gains_without(SquaredExponential(1), x, y, y < 300)
    >>> misleading([np.array([gains.sum(), gains @ gains])])
    False
    """
    units = units_of(moments_of(x[usual], y[usual]))
    x, y = units.inputs(x), units.outputs(y)
    gains: Float64[np.ndarray, "n"] = _errors(kernel, x, y, np.ones(len(y), bool), person)
    gains -= _errors(kernel, x, y, usual, person)
    return gains


def _errors(
    kernel: Kernel,
    x: Float64[np.ndarray, "n d"],
    y: Float64[np.ndarray, "n"],
    known: Bool[np.ndarray, "n"],
    person: Persons,
) -> Float64[np.ndarray, "n"]:
    """Return the absolute error of every row, predicted from the other `known` rows."""
    middle, spread = y[known].mean(), y[known].std() or 1.0
    outputs = (y - middle) / spread
    expert = Expert(kernel, fit_best(kernel, x[known], outputs[known]), x[known], outputs[known])
    errors = np.zeros(len(y))
    errors[known] = expert.left_out(of_rows(person, known)).errors
    if not known.all():
        errors[~known] = outputs[~known] - expert.predict(x[~known])[0]
    return np.asarray(spread * np.abs(errors))


def misleading(sums: Sequence[Float64[np.ndarray, "2"]]) -> bool:
    """Return whether gains are significant, from each site's sum of gains and sum of their squares.

    The sum over all rows must exceed 0 by `MISLEADING` standard errors. So must the m sites with outliers if all have
    the same weight (Stouffer's method), each with at most `_MOST_OF_A_SITE` standard errors. So a site that lies has
    others' rows left out only if their own gains are ``(3 sqrt(m) - 4) / (m - 1)`` standard errors on average.

    Examples
    --------
    A site's large gain does not outweigh that other sites predict worse without their outliers:

    >>> misleading([np.array([1e9, 1e17]), np.array([0.5, 0.01])])
    True
    >>> misleading([np.array([1e9, 1e17]), np.array([-0.1, 0.01])])
    False
    """
    total, squares = exact_sum(sums)
    errors = [np.clip(gain / np.sqrt(square), None, _MOST_OF_A_SITE) for gain, square in sums if square > 0]
    together = exact_sum([np.array([each]) for each in errors])[0] if errors else 0.0
    return bool(total > MISLEADING * np.sqrt(squares) and together > MISLEADING * np.sqrt(len(errors)))
