"""What was learned together, without the agents' models: how their predictions of a row become one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True)
class AgentCombination:
    """``mean + sum_j beta_j f_j(x_j)``; of meta-boosting ``mean + model(f_1(x_1), ..., f_D(x_D))``.

    Attributes
    ----------
    names : tuple of str
        The agents.
    beta : ndarray
        ``(D,)`` coefficients; without meaning where there is a model.
    mean : float
        The intercept.
    model : estimator or None
        Of meta-boosting.
    """

    names: tuple[str, ...]
    beta: Float64[np.ndarray, "D"]
    mean: float
    model: Any = None

    def uses(self, name: str) -> bool:
        """Whether an agent's predictions make a difference."""
        return self.model is not None or bool(self.beta[self.names.index(name)] != 0)

    def predict(self, parts: Mapping[str, Float64[np.ndarray, "n"]], n: int) -> Float64[np.ndarray, "n"]:
        """The prediction of n rows.

        Parameters
        ----------
        parts : Mapping[str, ndarray]
            By agent, ``(n,)`` what it predicts; 0 stands for one that is not there.
        n : int
            Number of rows.
        """
        F = np.zeros((len(self.names), n))
        for name, part in parts.items():
            F[self.names.index(name)] = part
        return np.asarray(self.mean + (self.beta @ F if self.model is None else self.model.predict(F.T)))

    def missing(self, heard: Collection[str]) -> tuple[str, ...]:
        """The agents that make a difference and were not heard."""
        return tuple(name for name in self.names if self.uses(name) and name not in heard)
