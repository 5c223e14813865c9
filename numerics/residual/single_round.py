"""Combinations of agents that fit the outcome once (Zheng, Kulkarni and Poor 2010, section II-A)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.boosting import l2_boosting
from numerics.residual.influence import compare, without_each
from numerics.residual.linear import combine
from numerics.residual.rules import Rules, Without
from numerics.residual.split import Split


def combine_once(
    names: tuple[str, ...],
    F: Float64[np.ndarray, "D N"],
    y: Float64[np.ndarray, "N"],
    seen: Bool[np.ndarray, "D"],
    rules: Rules,
) -> AgentCombination:
    """Combine predictions of the training rows; the intercept is 0.

    Parameters
    ----------
    names : tuple of str
        The D agents.
    F : ndarray
        ``(D, N)`` predictions of the training rows; zeros for an agent without a prediction.
    y : ndarray
        ``(N,)`` outcomes minus the mean.
    seen : ndarray
        ``(D,)`` agents that gave a prediction.
    rules : Rules
        ``average``: the mean of the predictions; ``meta-linear``: least squares on them; ``meta-boosting``: L2 boosting
        of trees on them.

    Examples
    --------
    >>> F = np.array([[1.0, -1.0], [3.0, -3.0]])
    >>> combine_once(("a", "b"), F, F[0], np.array([True, True]), Rules(algorithm="average")).beta
    array([0.5, 0.5])
    """
    beta, model = np.zeros(len(names)), None
    if rules.algorithm == "average":
        beta[seen] = 1.0 / max(int(seen.sum()), 1)
    elif rules.algorithm == "meta-linear":
        beta = combine(F, y, rules.ridge).beta
    else:
        model = l2_boosting(F.T, y, min_leaf=rules.min_leaf, seed=0)
    return AgentCombination(names, beta, 0.0, model)


def without_each_once(
    combination: AgentCombination,
    F: Float64[np.ndarray, "D n"],
    y: Float64[np.ndarray, "n"],
    split: Split,
    rules: Rules,
) -> Without:
    """Return the errors without each agent.

    The others are averaged or combined anew; the model of meta-boosting predicts without the agent, as it does when an
    agent is absent.

    Parameters
    ----------
    combination : AgentCombination
        Of `combine_once`.
    F : ndarray
        ``(D, n)`` predictions of all rows.
    y : ndarray
        ``(n,)`` outcomes minus the mean.
    split : Split
        Use of these rows.
    rules : Rules
        As in `combine_once`.

    Examples
    --------
    >>> F, rules = np.array([[1.0, -1.0], [3.0, -3.0]]), Rules(algorithm="average")
    >>> combination = combine_once(("a", "b"), F, F[0], np.array([True, True]), rules)
    >>> without_each_once(combination, F, F[0], Split(2, 0, 0), rules).errors[:, 0]
    array([4., 0.])
    """
    if rules.algorithm == "meta-linear":
        return without_each(F, y, split, rules.ridge)
    if combination.model is not None:
        parts = dict(zip(combination.names, F, strict=True))
        predictions = combination.predict_without_each(parts, F.shape[1])
    else:
        present = (combination.beta != 0) & np.vstack([np.ones(len(F), bool), ~np.eye(len(F), dtype=bool)])
        predictions = present / np.maximum(present.sum(axis=1, keepdims=True), 1) @ F
    residuals = y - predictions
    return compare(residuals[0], residuals[1:], split)
