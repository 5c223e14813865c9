"""Gated parallel boosting, finished by boosting of the agents' steps.

All agents fit the same residual at the same time, each by a small tree. Only steps that lower the error on validation
rows count (the gate). They are combined by least squares, and a share of the combination is subtracted from the
residual. The finish fits boosted trees to what is left, with a column for every step that counted. Where the sum of the
steps is additive over the agents, these trees learn interaction between columns of different agents, like the general
rho of eq. (9) of Zheng, Kulkarni and Poor (2010).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.alone import SURE
from numerics.residual.chosen_boosting import choose_boosting, is_notable
from numerics.residual.losses import LogLoss, Loss

AGENT, MIN_LEAF = "tree(max_leaf_nodes=8)", 20
"""Agents' method and its smallest leaf, unless the run or the site says otherwise."""
SHRINKAGE, PATIENCE = 0.2, 6
"""Defaults: share of a combined step that is subtracted, and iterations without a smaller error before the end."""
GATE, GATE_ROWS = 1.0, 100
"""Standard errors that the gain of a step on the validation rows must exceed, and the number of these rows from which
on it must exceed them in full; with fewer rows, a proportional share. Without the gate, irrelevant agents pass if there
are many rows; with the full gate, useful steps fail if there are few (docs/residual.md)."""
RIDGE = 1e-3
"""Least ridge of a combination of steps: agents with equal columns get equal shares of it."""


def gated_weights(
    loss: Loss,
    steps: Float64[np.ndarray, "D c n"],
    sums: Float64[np.ndarray, "c n"],
    *,
    shrinkage: float,
    ridge: float,
) -> Float64[np.ndarray, "D c"]:
    """Return the coefficients of the agents' steps: best jointly on the training rows, 0 for those that fail the gate.

    A step passes the gate if its share lowers the mean loss of the validation rows by more than `GATE` standard errors,
    or a share of these with fewer than `GATE_ROWS` rows (`gate_of`).

    Parameters
    ----------
    loss : Loss
        The loss, with the split of the rows, which has validation rows.
    steps : ndarray
        ``(D, c, n)`` the agents' fits of the residual of every score, for all rows.
    sums : ndarray
        ``(c, n)`` sums of the earlier steps.
    shrinkage : float
        nu, by which the coefficients are multiplied.
    ridge : float
        As in `numerics.residual.linear.combine`; `RIDGE` at least.

    Examples
    --------
    >>> from numerics.residual.losses import SquaredError
    >>> from numerics.residual.split import Split
    >>> steps = np.array([[[1.0, -1.0, 1.0, -1.0]], [[1.0, -1.0, -1.0, 1.0]]])
    >>> loss = SquaredError(np.array([2.0, -2.0, 2.0, -2.0]), Split(2, 2, 0), 0.0)
    >>> gated_weights(loss, steps, np.zeros((1, 4)), shrinkage=0.5, ridge=0).round(2).ravel()
    array([1., 0.])
    """
    residual = loss.residual(sums)
    passed = np.flatnonzero(
        is_notable(loss.gains(steps, residual, sums, shrinkage), gate_of(loss.rows_that_judge(sums)))
    )
    weights = np.zeros(steps.shape[:2])
    if len(passed):
        weights[passed] = shrinkage * loss.combined(steps[passed], residual, sums, max(ridge, RIDGE))
    return weights


def gate_of(n_rows: float) -> float:
    """Return the number of standard errors that a gain on `n_rows` rows must exceed."""
    return GATE * min(1.0, n_rows / GATE_ROWS)


@dataclass(frozen=True, eq=False)
class Finish:
    """Finished combination of steps.

    Attributes
    ----------
    combination : AgentCombination
        Sum of the steps, and the boosted trees if they lower the error on the validation rows.
    errors : ndarray
        ``(3,)`` mean losses by kind of row; that on validation rows is from before the model learned from them.
    judged : ndarray
        Predictions of the validation rows, from before the model learned from them: ``(m,)`` amounts less the mean, or
        ``(m, k)`` probabilities.
    """

    combination: AgentCombination
    errors: Float64[np.ndarray, "3"]
    judged: Float64[np.ndarray, "m ..."]


def finish(
    combination: AgentCombination, parts: Float64[np.ndarray, "k n"], loss: Loss, *, min_leaf: int = 1
) -> Finish:
    """Boost trees on the steps, if that lowers the error on the validation rows by enough to pass the gate.

    For amounts, the trees fit the residual of the sum of the steps. For classes, they fit the classes, with the sums of
    the steps as further columns, and must be better by `SURE` standard errors: with few rows they are too sure. Trees
    are fitted to the training rows, and validation rows choose their number (`choose_boosting`); if they help, they are
    fitted again to both.

    Parameters
    ----------
    combination : AgentCombination
        Sum of the steps, with intercept 0.
    parts : ndarray
        ``(k, n)`` steps of all rows, or bins, in the order of the combination's coefficients.
    loss : Loss
        The loss, with the outcomes and the split of the rows, which has validation rows.
    min_leaf : int
        Fewest rows in a leaf of any tree.

    Examples
    --------
    >>> from numerics.residual.losses import SquaredError
    >>> from numerics.residual.split import Split
    >>> a, b = np.random.default_rng(0).choice([-1.0, 1.0], size=(2, 400))
    >>> sum_of_steps = AgentCombination(("a", "b"), np.ones(2), 0.0)
    >>> loss = SquaredError(a + b + a * b, Split(200, 100, 100), 0.0)
    >>> bool(finish(sum_of_steps, np.stack([a, b]), loss).errors[2] < 0.01)
    True
    """
    split = loss.split
    validation = split.slices[1]
    sums = combination.sums(parts)
    additive = loss.prediction(sums)
    before = Finish(combination, loss.errors(additive), additive[validation])
    if not len(parts):
        return before
    n_learn, columns = split.n_fit + split.n_validation, combination.columns(parts)
    target, n_classes, weights = loss.left(additive), 0, None
    if isinstance(loss, LogLoss):
        target, n_classes, weights = loss.y.astype(np.float64), loss.n_classes, loss.weights[:n_learn]
    chosen = choose_boosting(
        columns[:n_learn],
        target[:n_learn],
        split.n_fit,
        n_classes=n_classes,
        weights=weights,
        steps=not combination.levels,
        min_leaf=min_leaf,
    )
    judged = chosen.judged if combination.classes else additive[validation] + chosen.judged
    gain = loss.judged_losses(additive[validation]) - loss.judged_losses(judged)
    if not is_notable(gain, SURE if combination.classes else gate_of(split.n_validation)):
        return before
    scores = combination.classes and replace(combination.classes, places=tuple(chosen.places.tolist()), n_rows=n_learn)
    finished = replace(combination, model=chosen.model, classes=scores)
    errors = loss.errors(finished.predict_columns(parts))
    errors[1] = loss.judged_error(judged)
    return Finish(finished, errors, judged)
