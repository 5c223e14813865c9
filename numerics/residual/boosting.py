"""L2 boosting of regression trees, with all columns in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from numerics.shared.units import fit_in_units

if TYPE_CHECKING:  # scikit-learn takes a second to import, and few asks need it
    from sklearn.ensemble import GradientBoostingRegressor

ROUNDS = 60
"""Number of trees, equal to the iterations of the agents' algorithms. The paper states neither number."""
SHRINKAGE = 0.25
"""nu, the share of each tree that is added."""


def l2_boosting(
    x: Float64[np.ndarray, "n p"],
    y: Float64[np.ndarray, "n"],
    *,
    min_leaf: int,
    seed: int,
) -> GradientBoostingRegressor:
    """Fit regression trees one after the other, each to the residual of the sum of the earlier ones.

    With the attributes of all agents as `x` this is centralized L2 boosting; with the agents' predictions as `x` it is
    meta-learning by a non-linear model (Zheng, Kulkarni and Poor 2010, section V-A). Trees have any depth; only their
    smallest leaf is limited, as for an agent.

    Parameters
    ----------
    x : ndarray
        ``(n, p)`` finite numbers.
    y : ndarray
        ``(n,)`` finite outcomes.
    min_leaf : int
        Fewest rows in a leaf. With fewer than ``2 min_leaf`` rows every tree is a constant, the mean.
    seed : int
        Seed that decides between equally good splits; from 0 to below 2**32.

    Returns
    -------
    GradientBoostingRegressor
        Fitted model; the same rows and seed give the same trees.

    Examples
    --------
    >>> x = np.linspace(0, 1, 100)[:, np.newaxis]
    >>> model = l2_boosting(x, np.sin(6 * x[:, 0]), min_leaf=5, seed=0)
    >>> float(np.abs(model.predict(x) - np.sin(6 * x[:, 0])).max()) < 0.2
    True
    """
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(
        n_estimators=ROUNDS, learning_rate=SHRINKAGE, max_depth=None, min_samples_leaf=min_leaf, random_state=seed
    )
    fitted: GradientBoostingRegressor = fit_in_units(model, x, y)
    return fitted
