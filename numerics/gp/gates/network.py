"""A gate by a neural network that classifies points by expert, trained by gradients summed over sites.

A site holds rows of its own experts only, so an average of networks that the sites train alone learns nothing. The
cross-entropy is a sum over rows, and so is its gradient: a step of Adam at the center with the sum of the sites'
gradients equals the step of the same optimizer on all rows in one place.

Source: Jalali and Kasneci 2022, Algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import log_softmax

from numerics.gp.moments import ExpertMoments

HIDDEN = 50
"""Units of the hidden layer (Jalali and Kasneci 2022, section V)."""
RATE = 5e-2
"""Step of Adam."""
_REHEARSALS, _SAMPLE = 100, 2000
"""Steps of `from_moments`, and sampled points."""
_DECAY, _SQUARE_DECAY, _SMALL = 0.9, 0.999, 1e-8

_Parameters = Float64[np.ndarray, "P"]


@dataclass(frozen=True)
class Network:
    """A network with one hidden layer of ReLU units and a softmax over the experts; parameters are one flat vector.

    Attributes
    ----------
    d : int
        Number of inputs.
    experts : int
        Number M of experts, which are the classes.
    hidden : int
        Number of hidden units.

    Examples
    --------
    >>> network = Network(d=2, experts=3, hidden=4)
    >>> network.size
    27
    >>> np.exp(network.log_probabilities(np.zeros(27), np.zeros((1, 2)))).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    d: int
    experts: int
    hidden: int = HIDDEN

    @property
    def size(self) -> int:
        """Number of parameters."""
        return (self.d + 1) * self.hidden + (self.hidden + 1) * self.experts

    def start(self, seed: int) -> _Parameters:
        """Draw initial parameters, uniform within 1 over the square root of a unit's inputs (LeCun et al. 1998)."""
        rng = np.random.default_rng(seed)
        first = rng.uniform(-1, 1, (self.d + 1) * self.hidden) / np.sqrt(self.d)
        second = rng.uniform(-1, 1, (self.hidden + 1) * self.experts) / np.sqrt(self.hidden)
        return np.concatenate([first, second])

    def log_probabilities(self, parameters: _Parameters, x: Float64[np.ndarray, "N d"]) -> Float64[np.ndarray, "N M"]:
        """Score every expert at every point by the logarithm of its probability.

        Parameters
        ----------
        parameters : ndarray
            ``(size,)``.
        x : ndarray
            ``(N, d)``, standardized units.

        Returns
        -------
        ndarray
            ``(N, M)``, the larger the better.
        """
        V, a, W, b = self._layers(parameters)
        return np.asarray(log_softmax(np.maximum(x @ V + a, 0.0) @ W + b, axis=1))

    def gradient(
        self, parameters: _Parameters, x: Float64[np.ndarray, "n d"], label: Int64[np.ndarray, "n"]
    ) -> tuple[float, _Parameters]:
        """Compute the cross-entropy and its gradient, both summed over rows, so that those of several sites add up.

        Parameters
        ----------
        parameters : ndarray
            ``(size,)``.
        x : ndarray
            ``(n, d)`` rows, standardized units.
        label : ndarray
            ``(n,)`` expert of each row, from 0 to below M.

        Returns
        -------
        loss : float
            Cross-entropy, natural logarithm.
        gradient : ndarray
            ``(size,)``.
        """
        V, a, W, b = self._layers(parameters)
        hidden = np.maximum(x @ V + a, 0.0)
        log_p = log_softmax(hidden @ W + b, axis=1)
        rows = np.arange(len(x))
        loss = -float(log_p[rows, label].sum())
        by_output = np.exp(log_p)
        by_output[rows, label] -= 1.0
        by_hidden = by_output @ W.T
        by_hidden[hidden <= 0] = 0.0
        parts = (x.T @ by_hidden, by_hidden.sum(axis=0), hidden.T @ by_output, by_output.sum(axis=0))
        return loss, np.concatenate([part.ravel() for part in parts])

    def _layers(
        self, parameters: _Parameters
    ) -> tuple[
        Float64[np.ndarray, "d H"], Float64[np.ndarray, "H"], Float64[np.ndarray, "H M"], Float64[np.ndarray, "M"]
    ]:
        """Return weights and offsets of both layers."""
        shapes = ((self.d, self.hidden), (self.hidden,), (self.hidden, self.experts), (self.experts,))
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        V, a, W, b = (part.reshape(shape) for part, shape in zip(np.split(parameters, ends[:-1]), shapes, strict=True))
        return V, a, W, b


@dataclass(frozen=True, eq=False)
class Adam:
    """State of the center's optimizer Adam (Kingma and Ba 2015, Algorithm 1).

    Attributes
    ----------
    mean, square : ndarray
        ``(P,)`` decaying means of the gradients and of their squares.
    steps : int
        Number of steps so far.

    Examples
    --------
    The first step has the length `rate` in every parameter, whatever the gradient's size:

    >>> parameters, adam = Adam.start(2).step(np.zeros(2), np.array([4.0, -0.1]), rate=0.5)
    >>> parameters.round(3)
    array([-0.5,  0.5])
    """

    mean: _Parameters
    square: _Parameters
    steps: int = 0

    @classmethod
    def start(cls, size: int) -> Adam:
        """Return the state before the first step."""
        return cls(np.zeros(size), np.zeros(size))

    def step(self, parameters: _Parameters, gradient: _Parameters, rate: float = RATE) -> tuple[_Parameters, Adam]:
        """Take one step against the gradient of the mean loss of a row.

        Parameters
        ----------
        parameters, gradient : ndarray
            ``(P,)``.
        rate : float
            Step size.

        Returns
        -------
        parameters : ndarray
            ``(P,)`` after the step.
        optimizer : Adam
            State for the next step.
        """
        steps = self.steps + 1
        mean = _DECAY * self.mean + (1 - _DECAY) * gradient
        square = _SQUARE_DECAY * self.square + (1 - _SQUARE_DECAY) * gradient**2
        direction = mean / (1 - _DECAY**steps) / (np.sqrt(square / (1 - _SQUARE_DECAY**steps)) + _SMALL)
        return parameters - rate * direction, Adam(mean, square, steps)


def from_moments(network: Network, experts: ExpertMoments, seed: int) -> tuple[_Parameters, Adam]:
    """Train the network at the center, without an ask, on points sampled from the Gaussians of the experts' moments.

    Training at the sites continues with the same optimizer: a new one would begin with steps of full length in every
    parameter and undo the training. Accuracy on the training rows after 0, 5, 10 and 25 asks, k-means parts:

    =============== ========================= =========================
    data            start here                start with `Network.start`
    =============== ========================= =========================
    concrete, M 10  .956 .990 .997 .999       .103 .913 .991 1.00
    =============== ========================= =========================

    Parameters
    ----------
    network : Network
        Network to be trained.
    experts : ExpertMoments
        Moments of its M experts, standardized units.
    seed : int
        Seed of the points and of the initial parameters.

    Returns
    -------
    parameters : ndarray
        ``(size,)``.
    optimizer : Adam
        State for the steps that follow.
    """
    x, label = sample_rows(experts, seed)
    parameters, optimizer = network.start(seed), Adam.start(network.size)
    for _ in range(_REHEARSALS):
        _, gradient = network.gradient(parameters, x, label)
        parameters, optimizer = optimizer.step(parameters, gradient / len(x))
    return parameters, optimizer


def sample_rows(experts: ExpertMoments, seed: int) -> tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]:
    """Sample points from the Gaussians of the experts' moments, about in proportion to the experts' rows.

    Parameters
    ----------
    experts : ExpertMoments
        Moments of the M experts, standardized units.
    seed : int
        Seed of the points.

    Returns
    -------
    x : ndarray
        ``(n, d)`` points.
    label : ndarray
        ``(n,)`` expert of each point, ascending; every expert has at least one point.

    Examples
    --------
    >>> from numerics.gp.moments import moments_of
    >>> experts = moments_of(np.array([[0.0], [1.0], [5.0], [6.0]]), np.zeros(4), np.array([0, 0, 0, 1]))
    >>> x, label = sample_rows(experts, seed=0)
    >>> x.shape, np.bincount(label)
    ((2000, 1), array([1500,  500]))
    """
    rng = np.random.default_rng(seed)
    share = experts.counts / experts.counts.sum()
    label = np.repeat(np.arange(len(share)), np.maximum(1, np.rint(_SAMPLE * share).astype(np.int64)))
    variances, axes = np.linalg.eigh(experts.covariances)
    # Rounding may leave an expert of few rows, which vary along few axes, a variance slightly below 0.
    roots = axes * np.sqrt(np.maximum(variances, 0.0))[:, None, :]
    draws = rng.standard_normal((len(label), experts.means.shape[1]))
    # The labels ascend, so the experts' parts follow one another in their order.
    x = experts.means[label] + np.concatenate([draws[label == i] @ root.T for i, root in enumerate(roots)])
    return x, label
