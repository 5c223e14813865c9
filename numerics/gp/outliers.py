"""Whether rows with an outlying output mislead: rows left out are predicted with them, and without them.

Rare high outputs may be right. Then other rows foretell them, and a Gaussian process without them predicts worse; wrong
ones hide the function, and it predicts better.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.expert import Expert
from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import fit_best
from numerics.gp.moments import moments_of, units_of
from numerics.shared.folds import Persons, of_rows

MISLEADING = 3.0
"""Standard errors by which rows left out must be predicted better without outliers (docs/gp-evidence.md)."""


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
    >>> bool(misleading(np.array([gains.sum(), gains @ gains])))
    True
    >>> y = np.exp(4 * x[:, 0])
    >>> gains = gains_without(SquaredExponential(1), x, y, y < 300)
    >>> bool(misleading(np.array([gains.sum(), gains @ gains])))
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
    """Return the absolute error of every row, predicted from the `known` ones but itself."""
    middle, spread = y[known].mean(), y[known].std() or 1.0
    outputs = (y - middle) / spread
    expert = Expert(kernel, fit_best(kernel, x[known], outputs[known]), x[known], outputs[known])
    errors = np.zeros(len(y))
    errors[known] = expert.left_out(of_rows(person, known)).errors
    if not known.all():
        errors[~known] = outputs[~known] - expert.predict(x[~known])[0]
    return np.asarray(spread * np.abs(errors))


def misleading(sums: Float64[np.ndarray, "2"]) -> bool:
    """Return whether gains with this sum and this sum of squares are more than chance explains."""
    return bool(sums[0] > MISLEADING * np.sqrt(sums[1]))
