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
        Of each expert's inputs; the covariance is over n.
    y_means, y_variances : ndarray
        Of each expert's outputs; the variance is over n.
    theta : ndarray
        Hyperparameters that fit the site's own standardized rows best; empty: it did not fit any.
    information : ndarray
        Their precision: the upper triangle, row by row, of the average information matrix there.
    consents : tuple of str
        What the site's own configuration allows beyond this: some of `protocols.gp.payloads.CONSENTS`.
    left_out : int
        Number of rows that the site leaves out in this run for wrong cells or outliers
        (`numerics.gp.measurements.Measurements.without_outliers`).
    nearest : int
        How many of its rows predict a point: those nearest to it; 0: all rows of an expert.
    classes : tuple of str
        Classes that the outputs have, in order; none: the outputs are amounts. The moments of outputs that are classes
        are 0.
    class_counts : ndarray
        Number of each expert's rows of each of these classes.
    """

    features: tuple[str, ...]
    counts: Int64[np.ndarray, "m"]
    means: Float64[np.ndarray, "m d"]
    covariances: Float64[np.ndarray, "m d d"]
    y_means: Float64[np.ndarray, "m"]
    y_variances: Float64[np.ndarray, "m"]
    theta: Float64[np.ndarray, "p"]
    information: Float64[np.ndarray, "q"]
    consents: tuple[str, ...]
    left_out: int = 0
    nearest: int = 0
    classes: tuple[str, ...] = ()
    class_counts: Int64[np.ndarray, "_ k"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))


@dataclass(frozen=True)
class Survey(Payload, answer=Moments):
    """To sites, once: asks for the moments of the experts.

    Attributes
    ----------
    max_rows : int
        A site with more rows than this splits them among several experts.
    kernel : str
        The experts' kernel (numerics/gp/kernel_registry.py).
    fit : bool
        Whether the site fits hyperparameters of its own.
    robust : bool
        Whether the site leaves out rows whose output is an outlier, too (``gp.robust``).
    local : int
        A site with more than `max_rows` rows has one expert instead, which predicts a point from so many rows, those
        nearest to it (`numerics.gp.nearest_rows`); 0: it splits its rows.
    """

    max_rows: int
    kernel: str
    fit: bool
    robust: bool = False
    local: int = 0


@dataclass(frozen=True)
class ExpertAsk(Payload):
    """The beginning of every later ask: the split into experts, and the common units.

    A site keeps nothing between two asks. It splits its rows in the same way again; `counts` shows whether there are as
    many as before.

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
        Whether the site predicts with the noise of its own that fits its rows best, instead of the common one
        (``gp.noise``, `numerics.gp.own_noise`).
    classes : tuple of str
        Classes of all sites, in order; none: the outputs are amounts. Each class is an output of its own
        (`numerics.gp.dirichlet`), and `y_scale` the unit of all of them.
    class_means : ndarray
        Origin of the output of each class: with them, the sites learn about how frequent the classes are.
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

    Of a site whose expert predicts from nearest rows, sums over `numerics.gp.nearest_rows.neighborhoods`.

    Attributes
    ----------
    values : ndarray
        Log marginal likelihood; `protocols.gp.payloads.NO_VALUE` where it cannot be computed.
    gradients : ndarray
        Its derivatives by theta.
    informations : ndarray
        The upper triangle, row by row, of the average information matrix (numerics/gp/likelihood.py).
    """

    values: Float64[np.ndarray, "c"]
    gradients: Float64[np.ndarray, "c p"]
    informations: Float64[np.ndarray, "c q"]


@dataclass(frozen=True)
class Evaluate(ExpertAsk, answer=Likelihood):
    """To sites, several times: asks how likely the outputs are with each of these hyperparameters.

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
        """Return what it takes of a site's budget."""
        return {MODELS: len(self.thetas)}


@dataclass(frozen=True)
class Errors(Payload, summed=True):
    """To the center: for each candidate, how well the site's rows are predicted without themselves.

    Attributes
    ----------
    squares : ndarray
        Sum of squared leave-one-out errors, in the common units, over the rows of the site's experts; of an expert of
        nearest rows over some of them (`numerics.gp.nearest_rows`). Of classes, sum of log losses. Minus
        `protocols.gp.payloads.NO_VALUE` where it cannot be computed.
    """

    squares: Float64[np.ndarray, "c"]


@dataclass(frozen=True)
class Validate(ExpertAsk, answer=Errors):
    """To sites, once, if experts predict from nearest rows: asks for the errors of rows left out.

    Attributes
    ----------
    kernel, thetas
        As in `Evaluate`.
    """

    kernel: str
    thetas: Float64[np.ndarray, "c p"]

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: len(self.thetas)}


@dataclass(frozen=True)
class LeftOut(ExpertAsk):
    """The beginning of every ask about rows that are predicted without themselves.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    theta : ndarray
        The hyperparameters.
    """

    kernel: str
    theta: Float64[np.ndarray, "p"]

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1}


@dataclass(frozen=True)
class Residuals(Payload, summed=True):
    """To the center: how far the site's outputs are from what its other rows predict.

    The center sees no residual, only how many there are of about each size, without sign and place. A count of 1 in a
    far bin says that one row is an outlier, and the size of its residual to an eighth. WITH CRAFTED HYPERPARAMETERS a
    residual is the row's output, and the counts are of the outputs by their distance from the origin of the units. So
    there is one such answer in a run, with the hyperparameters of its predictions.

    Attributes
    ----------
    counts : ndarray
        Number of standardized leave-one-out residuals by size (numerics/gp/calibration.py), summed over the site's
        experts.
    """

    counts: Int64[np.ndarray, "50"]


@dataclass(frozen=True)
class Calibrate(LeftOut, answer=Residuals):
    """To sites, once, with the last ask: asks for the sizes of the residuals that the hyperparameters leave."""


@dataclass(frozen=True)
class Losses(Payload, summed=True):
    """To the center: how surely the site's rows may be predicted, where outputs are classes.

    Sums over the site's rows. With crafted hyperparameters they are sums of log losses of made-up probabilities, which
    tell how many rows have which class at most; those numbers are in `Moments`.

    Attributes
    ----------
    losses : ndarray
        Sum of the log losses of rows that are predicted without themselves, for each of
        `numerics.gp.dirichlet.SHARPNESS`, to three digits.
    """

    losses: Float64[np.ndarray, "21"]


@dataclass(frozen=True)
class Sharpen(LeftOut, answer=Losses):
    """To sites, once, with the last ask, where outputs are classes: asks how sure probabilities may be."""


@dataclass(frozen=True)
class Slope(Payload, summed=True):
    """To the center: the gate's loss over the site's rows, and its gradient (Jalali and Kasneci 2022, Algorithm 3).

    Attributes
    ----------
    loss : float
        Sum over the rows of the cross-entropy.
    gradient : ndarray
        Its derivatives by the network's weights.
    """

    loss: float
    gradient: Float64[np.ndarray, "w"]


@dataclass(frozen=True)
class Train(ExpertAsk, answer=Slope):
    """To sites, several times, for a gate that is a network: asks how well it assigns the site's rows to their experts.

    Attributes
    ----------
    hidden : int
        Units of its hidden layer.
    n_experts : int
        Experts of all sites.
    experts : ndarray
        Numbers of the site's own experts.
    weights : ndarray
        Weights of the network (numerics/gp/gates/network.py).
    """

    hidden: int
    n_experts: int
    experts: Int64[np.ndarray, "m"]
    weights: Float64[np.ndarray, "w"]

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1}


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
