"""Outcome of a run of Gaussian process experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.gp.aggregation import FusedPrediction
from numerics.gp.alone import Difference
from numerics.gp.calibration import BINS, Calibration
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import Queries
from protocols.gp.settings import Settings
from strategies.gp.alone import NOBODY, Alone
from strategies.gp.expert_count_curve import Sample
from strategies.gp.model import Model
from strategies.gp.prediction import ExpertAnswers


@dataclass(frozen=True, eq=False)
class GPOutcome:
    """A model, and its predictions at the query points, if there are any.

    Attributes
    ----------
    model : Model
        Experts and hyperparameters.
    settings : Settings
        Settings of the run.
    queries : Queries or None
        The N points, in the units of the data.
    answers : ExpertAnswers or None
        The experts' predictions, in the common units.
    fused : FusedPrediction or None
        The prediction of an observation at every point, in the common units.
    sample : Sample or None
        The experts' predictions at some of the points, to score fewer experts a point.
    sharing_sites : tuple of str
        Sites that gave rows to the communication expert.
    contradictions : dict[str, float]
        How far each site's predictions are from those of most others (`strategies.gp.trust`), all answers counted.
    reductions : ndarray or None
        ``(N,)`` by which share a measurement at each point reduces the mean variance at the points (`gp.suggest`).
    alone : Alone
        How well each site predicts the test points alone.
    """

    model: Model
    settings: Settings
    queries: Queries | None = None
    answers: ExpertAnswers | None = None
    fused: FusedPrediction | None = None
    sample: Sample | None = None
    sharing_sites: tuple[str, ...] = ()
    contradictions: Mapping[str, float] = field(default_factory=dict)
    alone: Alone = NOBODY
    reductions: Float64[np.ndarray, "N"] | None = None

    @property
    def calibration(self) -> Calibration:
        """Distribution of the standardized errors; normal for a rule that the experts' residuals do not calibrate."""
        return self.model.calibration if self.settings.calibrated else Calibration(np.zeros(BINS, np.int64))

    @property
    def prior(self) -> Float64[np.ndarray, "N"]:
        """``(N,)`` prior variance of the latent function, in the common units."""
        assert self.queries is not None  # noqa: S101 - who calls has looked
        registry, theta = self.model.registry, self.model.fit.theta
        kernel = kernel_of(self.model.kernel, len(registry.features))
        return kernel.diagonal(theta[:-1], registry.units.inputs(self.queries.x))

    @property
    def mean(self) -> Float64[np.ndarray, "N"]:
        """``(N,)`` predictions, in the units of the data."""
        assert self.fused is not None  # noqa: S101 - who calls has looked
        units = self.model.registry.units
        return np.asarray(self.fused.mean * units.y_scale + units.y_mean)

    @property
    def differences_alone(self) -> dict[str, Difference]:
        """By site, the squared error of the combined prediction beside its own; empty where nobody was asked."""
        if self.queries is None or self.queries.y is None or self.fused is None:
            return {}
        return self.alone.differences(self.fused.mean, self.model.registry.units.outputs(self.queries.y))

    @property
    def std(self) -> Float64[np.ndarray, "N"]:
        """``(N,)`` standard deviations of an observation, in the units of the data."""
        assert self.fused is not None  # noqa: S101 - who calls has looked
        return np.asarray(np.sqrt(self.fused.variance) * self.model.registry.units.y_scale)

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` by name (docs/gp.md)."""
        arrays = self.model.arrays()
        if self.queries is None or self.answers is None:
            return arrays
        arrays |= {
            "mean": self.mean,
            "std": self.std,
            "selected": self.answers.selected,
            "queries": self.queries.x,
        }
        return arrays if self.queries.y is None else {**arrays, "outputs": self.queries.y}
