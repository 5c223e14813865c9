"""Outcome of a run of Gaussian process experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.gp.aggregation import FusedPrediction
from numerics.gp.alone import Difference, chosen_points
from numerics.gp.calibration import BINS, Calibration
from numerics.gp.dirichlet import class_probabilities
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import Queries
from numerics.shared.classification import log_losses
from protocols.gp.settings import Settings
from strategies.gp.alone import NOBODY, Alone
from strategies.gp.expert_count_curve import Sample, rows_of
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
        The experts' predictions, in the common units. If outputs are classes, a point has a row for each class.
    fused : FusedPrediction or None
        The prediction of an observation at every point, in the common units; rows as in `answers`.
    sample : Sample or None
        The experts' predictions at some of the points, to score fewer experts a point.
    sharing_sites : tuple of str
        Sites that gave rows to the communication expert.
    contradictions : dict[str, float]
        Distance of each site's predictions from those of most others (`strategies.gp.trust`), over all answers.
    reductions : ndarray or None
        ``(N,)`` share by which a measurement at each point reduces the mean variance at the points (`gp.suggest`).
    balanced : bool
        Whether class probabilities are those of rows among which all classes are equally frequent (``class-weight``).
    alone : Alone
        Losses of each site alone at the test points.
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
    balanced: bool = False

    @property
    def calibration(self) -> Calibration:
        """Distribution of the standardized errors; normal for a rule that the experts' residuals do not calibrate."""
        return self.model.calibration if self.settings.calibrated else Calibration(np.zeros(BINS, np.int64))

    @property
    def prior(self) -> Float64[np.ndarray, "N"]:
        """``(N,)`` prior variance of the latent function, in the common units; a point has a row for each output."""
        assert self.queries is not None  # noqa: S101 - the caller has checked it
        registry, theta = self.model.registry, self.model.fit.theta
        kernel = kernel_of(self.model.kernel, len(registry.features))
        return np.repeat(kernel.diagonal(theta[:-1], registry.units.inputs(self.queries.x)), registry.n_outputs)

    def probabilities(self, fused: FusedPrediction) -> Float64[np.ndarray, "n k"]:
        """Return class probabilities by the predicted latent functions."""
        latent, k = self.model.registry.latent, self.model.registry.n_outputs
        assert latent is not None  # noqa: S101 - the caller has checked it
        mean, variance = fused.mean.reshape(-1, k), np.maximum(fused.variance - self.model.noise, 0.0).reshape(-1, k)
        probabilities = class_probabilities(mean, variance, latent, self.model.sharpness)
        if self.balanced:
            counts = self.model.registry.class_counts.sum(axis=0)
            probabilities = probabilities / (counts + 1.0)
            probabilities /= probabilities.sum(axis=1, keepdims=True)
        return probabilities

    @cached_property
    def class_probabilities(self) -> Float64[np.ndarray, "N k"]:
        """``(N, k)`` probabilities of the classes at the points."""
        assert self.fused is not None  # noqa: S101 - the caller has checked it
        return self.probabilities(self.fused)

    @property
    def class_places(self) -> Int64[np.ndarray, "m"] | None:
        """``(m,)`` places of the classes at the measured points; None for amounts, or if no class is known."""
        if not self.model.registry.classes or self.queries is None or self.queries.y is None:
            return None
        return np.asarray(self.queries.y[self.queries.measured].astype(np.int64))

    def losses(self, fused: FusedPrediction, points: Int64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
        """Return squared errors, in the common units, or log losses of these predictions of measured points."""
        assert self.queries is not None  # noqa: S101 - the caller has checked it
        assert self.queries.y is not None  # noqa: S101 - the caller has checked it
        y = self.queries.y[points]
        if self.model.registry.classes:
            return log_losses(self.probabilities(fused), y.astype(np.int64))
        return np.asarray(np.square(self.model.registry.units.outputs(y) - fused.mean))

    def fused_at(self, points: Int64[np.ndarray, "n"]) -> FusedPrediction:
        """Return the predictions of some points; of classes, those of all latent functions."""
        assert self.fused is not None  # noqa: S101 - the caller has checked it
        rows = rows_of(points, self.model.registry.n_outputs)
        return FusedPrediction(self.fused.mean[rows], self.fused.variance[rows])

    @property
    def mean(self) -> Float64[np.ndarray, "N"]:
        """``(N,)`` predictions, in the units of the data."""
        assert self.fused is not None  # noqa: S101 - the caller has checked it
        units = self.model.registry.units
        return np.asarray(self.fused.mean * units.y_scale + units.y_mean)

    @property
    def differences_alone(self) -> dict[str, Difference]:
        """By site, the SMSE or log loss of the combined prediction beside its own; empty where nobody was asked."""
        if self.queries is None or self.queries.y is None or self.fused is None:
            return {}
        measured = self.queries.measured
        some = measured[chosen_points(len(measured))]
        losses, unit = self.losses(self.fused_at(some), some), self.unit_alone
        return self.alone.differences(losses, unit) if unit > 0 else {}

    @property
    def unit_alone(self) -> float:
        """Unit of errors alone: the variance of the outputs at these points; 1 for log losses."""
        if self.model.registry.classes or self.queries is None or self.queries.y is None:
            return 1.0
        some = self.queries.measured[chosen_points(len(self.queries.measured))]
        return float(np.var(self.model.registry.units.outputs(self.queries.y)[some]))

    @property
    def std(self) -> Float64[np.ndarray, "N"]:
        """``(N,)`` standard deviations of an observation, in the units of the data."""
        assert self.fused is not None  # noqa: S101 - the caller has checked it
        return np.asarray(np.sqrt(self.fused.variance) * self.model.registry.units.y_scale)

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` by name (docs/gp.md)."""
        arrays = self.model.arrays()
        if self.queries is None or self.answers is None:
            return arrays
        if self.model.registry.classes:
            return arrays | {
                "probabilities": self.class_probabilities,
                "selected": self.answers.selected[:: self.model.registry.n_outputs],
                "queries": self.queries.x,
            }
        arrays |= {
            "mean": self.mean,
            "std": self.std,
            "selected": self.answers.selected,
            "queries": self.queries.x,
        }
        return arrays if self.queries.y is None else {**arrays, "outputs": self.queries.y}
