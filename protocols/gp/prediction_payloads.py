"""Payloads of predictions, and of how well a site does alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float16, Float32, Float64

from protocols.budget import MODELS, QUERY_POINTS
from protocols.gp.learning_payloads import ExpertAsk
from protocols.wire.payload import Payload


@dataclass(frozen=True)
class Predictions(Payload):
    """To the center: predictions of each of the site's experts at its points, in the common units.

    Where outputs are classes, every point has one prediction for each class, in the order of the classes; with a
    hundred rows around it they tell how many have which class, and rounding hides the last of them.

    Attributes
    ----------
    mean : tuple of ndarray
        Means of the latent function (Jalali and Kasneci 2022, eq. 2).
    explained : tuple of ndarray
        Prior variance that the expert's rows explain: ``k**`` minus the variance of eq. (3).
    features : tuple of ndarray
        Features that give the covariance with other experts' predictions (numerics/gp/sketch.py).
    further_mean, further_unknown : tuple of ndarray
        If asked, answers about D values of the function around each point: means, and the upper triangles of the
        covariances that are left (numerics/gp/joint_answers.py). They reveal as much as predictions at D more points,
        each rounded in the same way, and nothing where few rows tell of a value.
    """

    mean: tuple[Float64[np.ndarray, "_"], ...]
    explained: tuple[Float64[np.ndarray, "_"], ...]
    features: tuple[Float16[np.ndarray, "_ D"], ...]
    further_mean: tuple[Float32[np.ndarray, "_ A"], ...] = ()
    further_unknown: tuple[Float16[np.ndarray, "_ T"], ...] = ()


@dataclass(frozen=True)
class Predict(ExpertAsk, answer=Predictions):
    """To sites, usually once: asks for predictions of the output at these points.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    theta : ndarray
        The hyperparameters.
    points : tuple of ndarray
        Points of each of the site's experts, in the common units; none for an expert that is not chosen.
    landmarks, seed : int
        D, and the seed of the landmarks around every point, which the features are over (numerics/gp/landmarks.py); 0:
        no features.
    varies : ndarray
        Whether an input differs between rows of any sites.
    shared_rows : int
        Number of rows that the site was asked to share: its own are among the shared rows, and count once.
    shared_x, shared_y : ndarray
        Rows that every expert has in addition to its own (GRBCM); none: no such rows.
    joint : bool
        Whether experts also answer about the landmarks (``gp.answers``).
    """

    kernel: str
    theta: Float64[np.ndarray, "p"]
    points: tuple[Float64[np.ndarray, "_ d"], ...]
    landmarks: int
    seed: int
    varies: Bool[np.ndarray, "d"]
    shared_rows: int
    shared_x: Float64[np.ndarray, "s d"]
    shared_y: Float64[np.ndarray, "s"]
    joint: bool = field(default=False, kw_only=True)

    @property
    def n_answers(self) -> int:
        """Number of values of the function that the site is asked about."""
        return sum(map(len, self.points)) * (1 + self.landmarks * self.joint)

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1, QUERY_POINTS: self.n_answers}


@dataclass(frozen=True)
class ErrorsAlone(Payload):
    """To the center: how well the site predicts test points by its own rows alone, in sums over groups of points.

    Where outputs are classes, the sums are of log losses.

    The site uses hyperparameters that fit its own rows, so none are of the center's choice. The sums are rounded to
    three digits. A CENTER THAT MAKES UP THE POINTS OF A GROUP, all at one place, learns the site's prediction there: of
    25 places in a run at most, and rounded as every prediction is.

    Attributes
    ----------
    squares : ndarray
        ``(g,)`` sums of squared errors, in the common units, or of log losses; point i is in group ``i % g``.
    """

    squares: Float64[np.ndarray, "g"]


@dataclass(frozen=True)
class PredictAlone(ExpertAsk, answer=ErrorsAlone):
    """To sites, once, with the ask for predictions: asks how well the site would predict the test points alone.

    The center's outputs at these points, which are its own, thereby go to the sites (``gp.alone``).

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    points, outputs : ndarray
        ``(t, d)`` and ``(t,)`` test points, in the common units; outputs that are classes by their places.
    groups : int
        Number of groups g, each of four points at least.
    """

    kernel: str
    points: Float64[np.ndarray, "t d"]
    outputs: Float64[np.ndarray, "t"]
    groups: int

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1, QUERY_POINTS: len(self.points)}
