"""Payloads of moments, hyperparameters, intervals and the gate, and of rows that sites disclose on consent."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from protocols.budget import MODELS
from protocols.wire.payload import Payload


@dataclass(frozen=True)
class Moments(Payload):
    """To the center, once: the site's experts, in the units of the data.

    Attributes
    ----------
    features : tuple of str
        Names of the d inputs, in order.
    counts : ndarray
        Rows of each expert.
    means, covariances : ndarray
        Moments of each expert's inputs; the covariance is over n.
    y_means, y_variances : ndarray
        Moments of each expert's outputs; the variance is over n.
    theta : ndarray
        Hyperparameters that fit the site's own standardized rows best, of the kernel of largest likelihood; empty if it
        did not fit any.
    information : ndarray
        Their precision: the upper triangle, row by row, of the average information matrix at `theta`.
    likelihoods : ndarray
        Largest log likelihood per row of each kernel compared (`numerics.gp.kernel_names.kernels_of`), with three
        digits.
    consents : tuple of str
        Further payloads that the site's own configuration allows: some of `protocols.gp.payloads.CONSENTS`.
    left_out : int
        Number of rows that the site leaves out of this run because of wrong cells or outliers
        (`numerics.gp.measurements.Measurements.without_outliers`).
    nearest : int
        Number of nearest rows that predict a point; 0: all rows of an expert do.
    classes : tuple of str
        Classes of the outputs, in order; empty: the outputs are amounts. `y_means` and `y_variances` of classes are 0.
    class_counts : ndarray
        Number of rows of each expert and class. A real site sends 1 to 4 as 5, which the most common classes give
        (`numerics.gp.rare_values.common_counts`): they tell that there are some. WITH CRAFTED HYPERPARAMETERS the exact
        number is in `Likelihood` and `Losses`, unless these are masked.
    outliers : ndarray
        Gain in the prediction of left-out rows if rows with an outlying output (at a real site also those left out with
        them) are removed: its sum and sum of squares over the site's rows, to three digits (`numerics.gp.outliers`). 0
        if the site has no outliers, or leaves them out.
    """

    features: tuple[str, ...]
    counts: Int64[np.ndarray, "m"]
    means: Float64[np.ndarray, "m d"]
    covariances: Float64[np.ndarray, "m d d"]
    y_means: Float64[np.ndarray, "m"]
    y_variances: Float64[np.ndarray, "m"]
    theta: Float64[np.ndarray, "p"]
    information: Float64[np.ndarray, "q"]
    likelihoods: Float64[np.ndarray, "c"]
    consents: tuple[str, ...]
    left_out: int = 0
    nearest: int = 0
    classes: tuple[str, ...] = ()
    class_counts: Int64[np.ndarray, "_ k"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    outliers: Float64[np.ndarray, "2"] = field(default_factory=lambda: np.zeros(2))


@dataclass(frozen=True)
class Survey(Payload, answer=Moments):
    """To sites, once, or again to leave outliers out: asks for the moments of the experts.

    Attributes
    ----------
    max_rows : int
        A site with more rows than this splits them among several experts.
    kernel : str
        The experts' kernel (numerics/gp/kernel_registry.py), or ``auto``: the site fits and compares several.
    fit : bool
        Whether the site fits hyperparameters of its own.
    robust : bool
        Whether the site leaves out rows whose output is an outlier, too (``gp.robust``, ``gp.outliers``).
    local : int
        Number of nearest rows from which the single expert of a site with more than `max_rows` rows predicts a point
        (`numerics.gp.nearest_rows`); 0: such a site splits its rows.
    """

    max_rows: int
    kernel: str
    fit: bool
    robust: bool = False
    local: int = 0


@dataclass(frozen=True)
class ExpertAsk(Payload):
    """Fields of every later ask: the split into experts, and the common units.

    A site stores nothing between two asks and splits its rows anew each time. `counts` shows whether the split is still
    the same.

    Attributes
    ----------
    max_rows : int
        As in `Survey`.
    counts : ndarray
        Rows of each of the site's experts.
    mean, scale : ndarray
        Origin and unit of each input: inputs are ``(x - mean) / scale`` from here on.
    y_mean, y_scale : float
        The same for the output.
    robust, local
        As in `Survey`.
    own_noise : bool
        Whether the site predicts with its own noise, fitted to its rows, instead of the common one (``gp.noise``,
        `numerics.gp.own_noise`).
    classes : tuple of str
        Classes of all sites, in order; empty: the outputs are amounts. Each class is an output of its own
        (`numerics.gp.dirichlet`), and `y_scale` is their common unit.
    class_means : ndarray
        Origin of the output of each class. It tells the sites roughly how frequent the class is.
    """

    max_rows: int
    counts: Int64[np.ndarray, "m"]
    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
    y_mean: float
    y_scale: float
    robust: bool = field(default=False, kw_only=True)
    local: int = field(default=0, kw_only=True)
    own_noise: bool = field(default=False, kw_only=True)
    classes: tuple[str, ...] = field(default=(), kw_only=True)
    class_means: Float64[np.ndarray, "k"] = field(default_factory=lambda: np.zeros(0), kw_only=True)


@dataclass(frozen=True)
class Likelihood(Payload, summed=True):
    """To the center: for each candidate, sums over the site's experts (Jalali and Kasneci 2022, eq. 1) and classes.

    If the site's expert predicts from nearest rows, sums over `numerics.gp.nearest_rows.neighborhoods`.

    Attributes
    ----------
    values : ndarray
        Log marginal likelihood; `protocols.gp.payloads.NO_VALUE` where it cannot be computed.
    gradients : ndarray
        Derivatives of `values` by theta.
    informations : ndarray
        The upper triangle, row by row, of the average information matrix (numerics/gp/likelihood.py).
    """

    values: Float64[np.ndarray, "c"]
    gradients: Float64[np.ndarray, "c p"]
    informations: Float64[np.ndarray, "c q"]


@dataclass(frozen=True)
class CandidateAsk(ExpertAsk):
    """Fields of the asks that compare hyperparameters.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    thetas : ndarray
        Candidates: the kernel's parameters, and the logarithm of the noise's standard deviation.
    """

    kernel: str
    thetas: Float64[np.ndarray, "c p"]

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: len(self.thetas)}


@dataclass(frozen=True)
class Evaluate(CandidateAsk, answer=Likelihood):
    """To sites, several times: asks for the likelihood of the outputs with each candidate."""


@dataclass(frozen=True)
class Errors(Payload, summed=True):
    """To the center: leave-one-out errors on the site's rows for each candidate.

    Attributes
    ----------
    squares : ndarray
        Sum of squared errors, in the common units, or of log losses if outputs are classes, over the rows of the
        site's experts; with nearest rows over a sample of them (`numerics.gp.nearest_rows`). Minus
        `protocols.gp.payloads.NO_VALUE` where it cannot be computed.
    """

    squares: Float64[np.ndarray, "c"]


@dataclass(frozen=True)
class Validate(CandidateAsk, answer=Errors):
    """To sites, once, of classes or nearest rows: asks for leave-one-out errors with each candidate."""


@dataclass(frozen=True)
class LeaveOneOutAsk(ExpertAsk, spends={MODELS: 1}):
    """Fields of the asks for leave-one-out predictions.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    theta : ndarray
        The hyperparameters.
    """

    kernel: str
    theta: Float64[np.ndarray, "p"]


@dataclass(frozen=True)
class Residuals(Payload, summed=True):
    """To the center: numbers of leave-one-out residuals by size.

    The center sees no residual, only their numbers by approximate size, without sign and row. A count of 1 in a far bin
    reveals an outlier, and the size of its residual to an eighth. WITH CRAFTED HYPERPARAMETERS a residual is the row's
    output, and the counts are of the outputs by their distance from the origin of the units. So a real site whose rows
    do not predict each other counts five neighboring sizes as their mean. It answers once in a run, with the
    hyperparameters that it also predicts with.

    Attributes
    ----------
    counts : ndarray
        Number of standardized leave-one-out residuals by size (numerics/gp/calibration.py), summed over the site's
        experts; where a sample of the rows has residuals, scaled up to all rows.
    """

    counts: Int64[np.ndarray, "50"]


@dataclass(frozen=True)
class Calibrate(LeaveOneOutAsk, answer=Residuals):
    """To sites, once, with the last ask: asks for the sizes of leave-one-out residuals."""


@dataclass(frozen=True)
class Losses(Payload, summed=True):
    """To the center, if outputs are classes: log losses of the site's rows by the sharpness of their probabilities.

    With crafted hyperparameters the center chooses the probabilities, and the losses reveal at most the number of rows
    of each class.

    Attributes
    ----------
    losses : ndarray
        Sum of leave-one-out log losses for each of `numerics.gp.dirichlet.SHARPNESS`, to three digits.
    """

    losses: Float64[np.ndarray, "21"]


@dataclass(frozen=True)
class Sharpen(LeaveOneOutAsk, answer=Losses):
    """To sites, once, with the last ask, if outputs are classes: asks for log losses by sharpness."""


@dataclass(frozen=True)
class Slope(Payload, summed=True):
    """To the center: the gate's loss over the site's rows, and its gradient (Jalali and Kasneci 2022, Algorithm 3).

    Attributes
    ----------
    loss : float
        Sum over the rows of the cross-entropy.
    gradient : ndarray
        Derivatives of `loss` by the network's weights.
    """

    loss: float
    gradient: Float64[np.ndarray, "w"]


@dataclass(frozen=True)
class Train(ExpertAsk, answer=Slope, spends={MODELS: 1}):
    """To sites, several times: asks for the loss of the gate's network on the site's rows, and for its gradient.

    Attributes
    ----------
    hidden : int
        Number of units of the network's hidden layer.
    n_experts : int
        Number of experts of all sites.
    experts : ndarray
        Numbers of the site's own experts.
    weights : ndarray
        Weights of the network (numerics/gp/gates/network.py).
    """

    hidden: int
    n_experts: int
    experts: Int64[np.ndarray, "m"]
    weights: Float64[np.ndarray, "w"]


@dataclass(frozen=True)
class Rows(Payload):
    """To the center, once, on consent: rows that all sites will see.

    Attributes
    ----------
    x, y : ndarray
        Inputs and outputs, in the common units.
    """

    x: Float64[np.ndarray, "r d"]
    y: Float64[np.ndarray, "r"]


@dataclass(frozen=True)
class Share(ExpertAsk, answer=Rows):
    """To sites, once, for the communication expert of GRBCM: asks for rows drawn at random.

    Attributes
    ----------
    rows : int
        Largest number of rows.
    """

    rows: int


@dataclass(frozen=True)
class Inputs(Payload):
    """To the center, once, on consent: the inputs of every row, for exact covariances between experts.

    Attributes
    ----------
    x : tuple of ndarray
        Inputs of each expert, in the common units.
    """

    x: tuple[Float64[np.ndarray, "_ d"], ...]


@dataclass(frozen=True)
class Disclose(ExpertAsk, answer=Inputs):
    """To sites, once: asks for the inputs of all rows."""
