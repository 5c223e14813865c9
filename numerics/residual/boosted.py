"""Gated parallel boosting, finished by boosting of the agents' steps.

All agents fit the same residual at the same time, each by a small tree. Only steps that lower the error on validation
rows count (the gate). They are combined by least squares, and a share of the combination is subtracted from the
residual. The finish fits boosted trees to what is left, with a column for every step that counted. Where the sum of the
steps is additive over the agents, these trees learn interaction between columns of different agents, like the general
rho of eq. (9) of Zheng, Kulkarni and Poor (2010).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.linear import combine
from numerics.residual.rules import Split

if TYPE_CHECKING:  # scikit-learn takes a second to import, and few asks need it
    from sklearn.ensemble import HistGradientBoostingRegressor

AGENT, MIN_LEAF = "tree(max_leaf_nodes=8)", 20
"""Agents' method and its smallest leaf, unless the run or the site says otherwise."""
SHRINKAGE, PATIENCE = 0.2, 6
"""Share of a combined step that is subtracted, and iterations without a smaller error, unless the run says more."""
GATE, GATE_ROWS = 1.0, 100
"""Standard errors of a gain on the validation rows that a step must exceed, and the number of these rows from which on
it must exceed them all; with fewer a share of them. Without the gate irrelevant agents come through where there are
many rows, and with a whole one steps that help do not where there are few (docs/residual.md)."""
RIDGE = 1e-3
"""Least ridge of a combination of steps: agents with equal columns get equal shares of it."""


def gated_weights(
    steps: Float64[np.ndarray, "D n"],
    residual: Float64[np.ndarray, "n"],
    split: Split,
    *,
    shrinkage: float,
    ridge: float,
) -> Float64[np.ndarray, "D"]:
    """Return the coefficients of the agents' steps: least squares on the training rows, 0 beyond the gate.

    A step passes the gate if its share lowers the mean squared error on the validation rows by more than `GATE`
    standard errors, or a share of these with fewer than `GATE_ROWS` rows.

    Parameters
    ----------
    steps : ndarray
        ``(D, n)`` the agents' fits of the residual, for all rows.
    residual : ndarray
        ``(n,)`` residual of all rows.
    split : Split
        Use of these rows, with validation rows.
    shrinkage : float
        nu, by which the coefficients of least squares are multiplied.
    ridge : float
        As of `numerics.residual.linear.combine`; `RIDGE` at least.

    Examples
    --------
    >>> steps = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]])
    >>> gated_weights(steps, np.array([2.0, -2.0, 2.0, -2.0]), Split(2, 2, 0), shrinkage=0.5, ridge=0).round(2)
    array([1., 0.])
    """
    training, validation, _ = split.slices
    left = residual[validation]
    gain = np.square(left) - np.square(left - shrinkage * steps[:, validation])
    scatter = gain.std(axis=1, ddof=1) / np.sqrt(len(left)) if len(left) > 1 else np.full(len(steps), np.inf)
    gate = GATE * min(1.0, len(left) / GATE_ROWS)
    passed = np.flatnonzero(gain.mean(axis=1) > gate * scatter)
    weights: Float64[np.ndarray, "D"] = np.zeros(len(steps))
    if len(passed):
        combination = combine(steps[passed][:, training], residual[training], max(ridge, RIDGE))
        weights[passed] = shrinkage * combination.beta
    return weights


@dataclass(frozen=True, eq=False)
class Finish:
    """Finished combination of steps.

    Attributes
    ----------
    combination : AgentCombination
        Sum of the steps, and the boosted trees if they lower the error on the validation rows.
    errors : ndarray
        ``(3,)`` mean squared errors by kind of row; on validation rows those before these were learned from.
    left : ndarray
        ``(n_validation,)`` what it leaves of these rows, before they were learned from.
    """

    combination: AgentCombination
    errors: Float64[np.ndarray, "3"]
    left: Float64[np.ndarray, "n_validation"]


def finish(
    combination: AgentCombination,
    steps: Float64[np.ndarray, "k n"],
    y: Float64[np.ndarray, "n"],
    split: Split,
    *,
    min_leaf: int = MIN_LEAF,
) -> Finish:
    """Boost what the sum of the steps leaves of the outcome, if that lowers the error on the validation rows.

    Trees are fitted to the training rows, and judged by the validation rows; if they help, they are fitted again to
    both.

    Parameters
    ----------
    combination : AgentCombination
        Sum of the steps, with intercept 0.
    steps : ndarray
        ``(k, n)`` steps of all rows, or bins, in the order of the combination's coefficients.
    y : ndarray
        ``(n,)`` outcomes minus the intercept.
    split : Split
        Use of these rows, with validation rows.
    min_leaf : int
        Fewest rows in a leaf.

    Examples
    --------
    >>> a, b = np.random.default_rng(0).choice([-1.0, 1.0], size=(2, 400))
    >>> sum_of_steps = AgentCombination(("a", "b"), np.ones(2), 0.0)
    >>> finished = finish(sum_of_steps, np.stack([a, b]), a + b + a * b, Split(200, 100, 100))
    >>> bool(finished.errors[2] < 0.01)
    True
    """
    residual = y - combination.beta @ steps
    additive = split.errors(residual)
    n_learn = split.n_fit + split.n_validation
    validation = split.slices[1]
    if not len(steps):
        return Finish(combination, additive, residual[validation])
    trial = _boosting(steps[:, : split.n_fit], residual[: split.n_fit], min_leaf)
    left = residual - trial.predict(steps.T)
    judged = split.errors(left)
    if not judged[1] < additive[1]:
        return Finish(combination, additive, residual[validation])
    model = _boosting(steps[:, :n_learn], residual[:n_learn], min_leaf)
    finished = replace(combination, model=model)
    errors = split.errors(residual - model.predict(steps.T))
    errors[1] = judged[1]
    return Finish(finished, errors, left[validation])


def _boosting(
    steps: Float64[np.ndarray, "k n"], target: Float64[np.ndarray, "n"], min_leaf: int
) -> HistGradientBoostingRegressor:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(early_stopping=False, min_samples_leaf=min_leaf, random_state=0)
    return model.fit(steps.T, target)
