"""Model of Gaussian process experts: one run learns it, and later runs predict by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.gp.kernel_registry import kernel_of
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.hyperparameters import Fit


@dataclass(frozen=True, eq=False)
class Model:
    """Everything that a run has learned, and that a later run needs to predict.

    Attributes
    ----------
    registry : ExpertRegistry
        The experts.
    kernel : str
        The kernel, as the run configuration names it.
    max_rows : int
        Largest number of rows of an expert.
    fit : Fit
        The hyperparameters.
    network : ndarray
        ``(w,)`` weights of the gate's network; empty with another gate.
    """

    registry: ExpertRegistry
    kernel: str
    max_rows: int
    fit: Fit
    network: Float64[np.ndarray, "w"]

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` that hold the model."""
        names = kernel_of(self.kernel, len(self.registry.features)).names
        return {
            "theta": self.fit.theta,
            "theta_names": np.array([*names, "log sigma"]),
            "log_likelihood": np.array(self.fit.log_likelihood),
            "kernel": np.array(self.kernel),
            "max_expert_rows": np.array(self.max_rows),
            "network": self.network,
            **self.registry.arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> Model:
        """Read the model from the arrays that `arrays` returned."""
        return cls(
            ExpertRegistry.from_arrays(arrays),
            str(arrays["kernel"]),
            int(arrays["max_expert_rows"]),
            Fit(arrays["theta"], float(arrays["log_likelihood"]), 0, True),
            arrays["network"],
        )
