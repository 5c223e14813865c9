"""What crosses the wire in Gaussian process regression by experts (docs/gp.md, "What left my site").

One ask takes stock of every site's experts; some more, of which each tries several values of the hyperparameters, find
those that all experts share; a last one sends every query point to the experts that were chosen for it.

What that reveals: of every expert the number of its rows, the mean and the covariance of their inputs, and of their
outputs; sums over a site's rows at each value tried; and its predictions where it was asked for them. An expert of few
rows tells of single ones: a real site with fewer than its ``min-rows`` rows takes no part. PREDICTIONS TELL OF SINGLE
ROWS, too: a center that means ill can choose hyperparameters under which a few well-placed points give a row away,
inputs and output. A real site predicts with one value of the hyperparameters in a run, for ``max-queries`` points at
most, and says D + 2 numbers of each: that bounds how much can be told, and no more. Take part only with a center that
you trust that far.

Rows cross in two payloads, which a real site answers with its own consent alone: `Inputs` (``allow-inputs``) and `Rows`
(``allow-rows``). `Slope` can be made to tell of rows by a center that means ill (``allow-gate-training``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float16, Float64, Int64

from numerics.shared.exact_sum import LARGEST_TERM
from protocols.wire.payload import Payload

MOST_ROWS = 10**9
"""Rows that an expert may say it has."""
MOST_EXPERTS = 10_000
"""Experts that a site may say it has."""
MOST_CANDIDATES = 64
"""Values of the hyperparameters in one ask."""
MOST_LANDMARKS = 256
"""Landmarks of a query point: what is said of it is so many numbers, and two more."""
MOST_TRIED = 5_000
"""Values of the hyperparameters that a real site tries in one run: each says sums over its rows."""
MOST_SHARED = 20_000
"""Rows of a communication expert."""
MOST_HIDDEN = 10_000
"""Hidden units of a gate's network."""
LARGEST = 1e50
"""A coordinate or an output beyond this counts as not finite: squares and sums of squares would not be."""
CONSENTS = ("allow-gate-training", "allow-inputs", "allow-rows")
"""What a site may allow in its own configuration: `Train`, `Disclose` and `Share`."""
NO_VALUE = -LARGEST_TERM
"""Stands for the log likelihood of hyperparameters at which it cannot be computed. So small that a sum with it is known
by its size from any without: see `numerics.shared.exact_sum`."""


@dataclass(frozen=True)
class Moments(Payload):
    """Up, once: the site's experts, in the data's own units.

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
        What hyperparameters the site would choose for itself, its own rows standardised; empty: it has not tried.
    information : ndarray
        How well it knows them: the upper triangle, row by row, of the average information matrix there.
    consents : tuple of str
        What the site is willing to do beyond this: some of `CONSENTS`.
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


@dataclass(frozen=True)
class Survey(Payload, answer=Moments):
    """Down, once: say which experts you have.

    Attributes
    ----------
    max_rows : int
        A site with more rows than this splits itself into several experts.
    kernel : str
        Which the experts will have (numerics/gp/kernel_registry.py).
    fit : bool
        Whether the site is to say which hyperparameters it would choose for itself.
    """

    max_rows: int
    kernel: str
    fit: bool


@dataclass(frozen=True)
class Agreed(Payload):
    """What every later ask begins with.

    A site keeps nothing between two asks: it splits its rows in the same way again, and knows by `counts` whether they
    are as many as before.

    Attributes
    ----------
    max_rows : int
        As in `Survey`.
    counts : ndarray
        Rows of each of the site's experts.
    mean, scale : ndarray
        What an input counts from and in: inputs are ``(x - mean) / scale`` in all that follows.
    y_mean, y_scale : float
        The same of the output.
    """

    max_rows: int
    counts: Int64[np.ndarray, "m"]
    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
    y_mean: float
    y_scale: float


@dataclass(frozen=True)
class Likelihood(Payload, summed=True):
    """Up: of each candidate, sums over the site's experts (papers/gp_experts.txt, eq. 1).

    Attributes
    ----------
    values : ndarray
        Log marginal likelihood; `NO_VALUE` where it cannot be computed.
    gradients : ndarray
        Its derivatives by theta.
    informations : ndarray
        The upper triangle, row by row, of the average information matrix (numerics/gp/likelihood.py).
    """

    values: Float64[np.ndarray, "c"]
    gradients: Float64[np.ndarray, "c p"]
    informations: Float64[np.ndarray, "c q"]


@dataclass(frozen=True)
class Evaluate(Agreed, answer=Likelihood):
    """Down, some times: say how likely your outputs are with each of these hyperparameters.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    thetas : ndarray
        Candidates: the kernel's parameters, and the logarithm of the noise's standard deviation.
    """

    kernel: str
    thetas: Float64[np.ndarray, "c p"]


@dataclass(frozen=True)
class Slope(Payload, summed=True):
    """Up: the gate's loss over the site's rows, and its gradient (papers/gp_experts.txt, Algorithm 3).

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
class Train(Agreed, answer=Slope):
    """Down, some times, for a gate that is a network: say how well it tells whose your rows are.

    Attributes
    ----------
    hidden : int
        Units of its hidden layer.
    n_experts : int
        Experts of all sites.
    experts : ndarray
        Numbers of the site's own among them.
    weights : ndarray
        Of the network (numerics/gp/gates/network.py).
    """

    hidden: int
    n_experts: int
    experts: Int64[np.ndarray, "m"]
    weights: Float64[np.ndarray, "w"]


@dataclass(frozen=True)
class Rows(Payload):
    """Up, once, on consent: rows that all sites will see.

    Attributes
    ----------
    x, y : ndarray
        Inputs and outputs, in the agreed units.
    """

    x: Float64[np.ndarray, "r d"]
    y: Float64[np.ndarray, "r"]


@dataclass(frozen=True)
class Share(Agreed, answer=Rows):
    """Down, once, for the communication expert of GRBCM: give rows, drawn at random.

    Attributes
    ----------
    rows : int
        How many, at most.
    """

    rows: int


@dataclass(frozen=True)
class Inputs(Payload):
    """Up, once, on consent: the inputs of every row, for exact covariances between experts.

    Attributes
    ----------
    x : tuple of ndarray
        Those of each expert, in the agreed units.
    """

    x: tuple[Float64[np.ndarray, "_ d"], ...]


@dataclass(frozen=True)
class Disclose(Agreed, answer=Inputs):
    """Down, once: give the inputs of all your rows."""


@dataclass(frozen=True)
class Predictions(Payload):
    """Up: what each of the site's experts says of the points it was asked for, in the agreed units.

    Attributes
    ----------
    mean : tuple of ndarray
        Of the latent function (papers/gp_experts.txt, eq. 2).
    explained : tuple of ndarray
        By how much the expert's rows reduce the prior variance: ``k** `` less the variance of eq. (3).
    features : tuple of ndarray
        What the covariance with other experts' predictions follows from (numerics/gp/sketch.py).
    """

    mean: tuple[Float64[np.ndarray, "_"], ...]
    explained: tuple[Float64[np.ndarray, "_"], ...]
    features: tuple[Float16[np.ndarray, "_ D"], ...]


@dataclass(frozen=True)
class Predict(Agreed, answer=Predictions):
    """Down, once as a rule: predict the output at these points.

    Attributes
    ----------
    kernel : str
        As in `Survey`.
    theta : ndarray
        The hyperparameters found.
    points : tuple of ndarray
        In the agreed units, those for each of the site's experts; none for an expert that was not chosen.
    landmarks, seed : int
        D and what draws the landmarks about every point, which the features are over (numerics/gp/landmarks.py); 0: no
        features.
    varies : ndarray
        Whether an input is not the same in all rows of all sites.
    shared_rows : int
        How many rows the site was asked to share: those it gave are among the shared ones, and count once.
    shared_x, shared_y : ndarray
        Rows that every expert has beside its own (GRBCM); none: no such rows.
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
