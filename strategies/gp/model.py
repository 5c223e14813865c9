"""Model of Gaussian process experts: one run learns it, and later runs predict by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.gp.calibration import BINS, Calibration
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
    residuals : ndarray
        Number of the experts' leave-one-out residuals by size (`numerics.gp.calibration`); zeros if nobody was asked.
    sharpness : float
        Of class probabilities (`numerics.gp.dirichlet`); 1 for amounts, and if nobody was asked.
    """

    registry: ExpertRegistry
    kernel: str
    max_rows: int
    fit: Fit
    network: Float64[np.ndarray, "w"]
    residuals: Int64[np.ndarray, "50"] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    sharpness: float = 1.0

    @property
    def noise(self) -> float:
        """Least variance of the noise of an output, in the common units."""
        return self.fit.noise + self.registry.row_noise

    @property
    def calibration(self) -> Calibration:
        """Distribution of the standardized errors of predictions."""
        return Calibration(self.residuals, len(self.fit.theta))

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
            "residual_counts": self.residuals,
            "sharpness": np.array(self.sharpness),
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
            arrays["residual_counts"],
            float(arrays.get("sharpness", 1.0)),
        )
