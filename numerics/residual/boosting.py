"""L2 boosting of regression trees, where all columns are in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:  # scikit-learn takes a second to import, and few asks of a site need it
    from sklearn.ensemble import GradientBoostingRegressor

ROUNDS = 60
"""Trees of a fit, as many as the agents' algorithms have iterations. The paper states neither number."""
SHRINKAGE = 0.25
"""nu, the share of each tree that is added."""


def l2_boosting(
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    rounds: int = ROUNDS,
    shrinkage: float = SHRINKAGE,
    min_leaf: int,
    seed: int,
) -> GradientBoostingRegressor:
    """Regression trees, each fitted to what the sum of those before it has left of the outcome.

    Zheng, Kulkarni and Poor 2010, section V-A: centralized L2 boosting where `x` are the attributes of all agents,
    meta-learning with a non-linear model where they are the agents' predictions. The trees are those of an agent:
    limited by their smallest leaf alone, of any depth.

    Parameters
    ----------
    x : ndarray
        ``(n, p)`` finite numbers.
    y : ndarray
        ``(n,)`` finite outcomes.
    rounds : int
        Number of trees.
    shrinkage : float
        nu, greater than 0 and at most 1.
    min_leaf : int
        Rows in a leaf, at least; with fewer than twice as many rows every tree is their mean.
    seed : int
        Decides between splits that are equally good; from 0 to below 2**32.

    Returns
    -------
    GradientBoostingRegressor
        Fitted; the same rows and seed give the same trees.
    """
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(
        n_estimators=rounds, learning_rate=shrinkage, max_depth=None, min_samples_leaf=min_leaf, random_state=seed
    )
    return model.fit(x, y)
