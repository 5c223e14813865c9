"""Combination of the agents' predictions, without the agents' models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True)
class AgentCombination:
    """``mean + sum_j beta_j f_j(x_j)``; for meta-boosting ``mean + model(f_1(x_1), ..., f_D(x_D))``.

    Attributes
    ----------
    names : tuple of str
        The D agents.
    beta : ndarray
        ``(D,)`` coefficients; not used if there is a model.
    mean : float
        The intercept.
    model : estimator or None
        Model of meta-boosting.

    Examples
    --------
    >>> combination = AgentCombination(("bank", "shop"), np.array([1.0, 0.5]), mean=10.0)
    >>> combination.predict({"bank": np.array([1.0, 2.0]), "shop": np.array([4.0, 0.0])}, n=2)
    array([13., 12.])
    >>> combination.missing(["bank"])
    ('shop',)
    """

    names: tuple[str, ...]
    beta: Float64[np.ndarray, "D"]
    mean: float
    model: Any = None

    def uses(self, name: str) -> bool:
        """Return whether the prediction depends on an agent."""
        return self.model is not None or bool(self.beta[self.names.index(name)] != 0)

    def predict(self, parts: Mapping[str, Float64[np.ndarray, "n"]], n: int) -> Float64[np.ndarray, "n"]:
        """Predict n rows.

        Parameters
        ----------
        parts : Mapping[str, ndarray]
            ``(n,)`` predictions of each agent. An absent agent counts as 0.
        n : int
            Number of rows.
        """
        F = np.zeros((len(self.names), n))
        for name, part in parts.items():
            F[self.names.index(name)] = part
        return np.asarray(self.mean + (self.beta @ F if self.model is None else self.model.predict(F.T)))

    def missing(self, present: Collection[str]) -> tuple[str, ...]:
        """Return the agents that the prediction depends on and that are not among those present."""
        return tuple(name for name in self.names if self.uses(name) and name not in present)
