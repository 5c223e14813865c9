"""Payloads of predictions, and of the errors of a site alone."""

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

    If outputs are classes, every point has one prediction for each class, in the order of the classes. At a point with
    a hundred rows around it, these predictions reveal the number of rows of each class to within one, by rounding.

    Attributes
    ----------
    mean : tuple of ndarray
        Means of the latent function (Jalali and Kasneci 2022, eq. 2).
    explained : tuple of ndarray
        Prior variance that the expert's rows explain: ``k**`` minus the variance of eq. (3).
    features : tuple of ndarray
        Features that give the covariance with other experts' predictions (numerics/gp/sketch.py).
    further_mean, further_unknown : tuple of ndarray
        If asked for, predictions of D values of the function around each point: means, and upper triangles of the
        posterior covariances (numerics/gp/joint_answers.py). They reveal as much as rounded predictions at D more
        points, and nothing of a value that rests on few rows.
    """

    mean: tuple[Float64[np.ndarray, "_"], ...]
    explained: tuple[Float64[np.ndarray, "_"], ...]
    features: tuple[Float16[np.ndarray, "_ D"], ...]
    further_mean: tuple[Float32[np.ndarray, "_ A"], ...] = ()
    further_unknown: tuple[Float16[np.ndarray, "_ T"], ...] = ()


@dataclass(frozen=True)
class Predict(ExpertAsk, answer=Predictions):
    """To sites, usually once: asks for predictions at these points.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    theta : ndarray
        The hyperparameters.
    points : tuple of ndarray
        Points of each of the site's experts, in the common units; no points for an expert that is not chosen.
    landmarks, seed : int
        Number D of landmarks around every point, and their seed (numerics/gp/landmarks.py). Features are functions of
        the landmarks; with D = 0 there are none.
    varies : ndarray
        By input, whether it differs between any two rows of all sites.
    shared_rows : int
        Number of rows that the site was asked to share. They are among `shared_x`, and count once.
    shared_x, shared_y : ndarray
        Rows that every expert gets in addition to its own (GRBCM); may be empty.
    joint : bool
        Whether experts also predict the landmarks (``gp.answers``).
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
        """Number of values of the function that the site predicts."""
        return sum(map(len, self.points)) * (1 + self.landmarks * self.joint)

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: 1, QUERY_POINTS: self.n_answers}


@dataclass(frozen=True)
class ErrorsAlone(Payload):
    """To the center: errors of the site's predictions of test points by its own rows alone, summed over groups.

    The site fits the hyperparameters to its own rows; the center cannot choose them. The sums are rounded to three
    digits. A CENTER THAT PUTS ALL POINTS OF A GROUP AT ONE PLACE learns the site's prediction there, rounded as every
    prediction is, at 25 places in a run at most.

    Attributes
    ----------
    squares : ndarray
        ``(g,)`` sums of squared errors, in the common units, or of log losses; point i is in group ``i % g``.
    """

    squares: Float64[np.ndarray, "g"]


@dataclass(frozen=True)
class PredictAlone(ExpertAsk, answer=ErrorsAlone):
    """To sites, once, with the ask for predictions: asks for the errors of the site alone at the test points.

    The ask brings the center's outputs at these points to the sites (``gp.alone``).

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
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: 1, QUERY_POINTS: len(self.points)}
