"""Anderson acceleration of a fixed-point map whose parameters are spread over several holders.

EM is a map x -> G(x). Anderson's method takes as next point the combination ``sum_j w_j G(x_j)`` of the last few images
whose residuals ``f_j = G(x_j) - x_j`` nearly cancel: w minimizes ``|sum_j w_j f_j|`` under ``sum_j w_j = 1``. Only
inner products of residuals are needed to find w, and those add up over blocks of parameters. So every holder of a block
keeps its own history, sends a few inner products and receives w: no block has to leave its holder. (Walker and Ni 2011;
for EM, with the fall-back to the plain step that keeps the bound monotone, Henderson and Varadhan 2019.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from numerics.bc3e.grid import to_grid
from numerics.bc3e.m_step import ALPHA_MAX, ALPHA_MIN

DEPTH = 3
"""Earlier steps that are combined; on the paper's data more than three did not save a round."""

PRODUCT_BITS = 50
"""Grid of the inner products: residuals of 1e-7 still count, and sums up to 8192 fit in 64 bits."""

_FLOOR = 0.1
"""No probability is extrapolated below a tenth of its plain EM value: none can reach 0, which EM never leaves."""

_MAX_LOG_STEP = np.log(10.0)

Array = Float64[np.ndarray, "..."]


def project_rows(mixed: Float64[np.ndarray, "k k_m"], plain: Float64[np.ndarray, "k k_m"]) -> Array:
    """Make a combination of probability tables a probability table again: floor it and normalize its rows."""
    table = np.maximum(mixed, _FLOOR * plain)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def project_log_alpha(mixed: Float64[np.ndarray, "k"], plain: Float64[np.ndarray, "k"]) -> Array:
    """Keep a combination of log alphas within a factor 10 of the plain step and inside the box."""
    near = np.clip(mixed, plain - _MAX_LOG_STEP, plain + _MAX_LOG_STEP)
    return np.asarray(np.clip(near, np.log(ALPHA_MIN), np.log(ALPHA_MAX)))


@dataclass
class ParameterBlock:
    """One block of parameters at its holder, with its last points and their images.

    Attributes
    ----------
    x : ndarray
        The current point.
    project : Callable
        ``project(mixed, plain)``: back into the parameters' domain.
    points, images : list of ndarray
        Accepted x_j and G(x_j), oldest first, at most `DEPTH` + 1.
    """

    x: Array
    project: Callable[[Array, Array], Array] = project_rows
    points: list[Array] = field(default_factory=list)
    images: list[Array] = field(default_factory=list)

    def products(self, image: Array) -> Int64[np.ndarray, "h"]:
        """Compute inner products, on the grid, of the residual ``image - x`` with earlier ones and with itself."""
        residuals = [g - p for g, p in zip(self.images, self.points, strict=True)][-DEPTH:]
        newest = image - self.x
        return np.array([to_grid(newest * other, PRODUCT_BITS).sum() for other in [*residuals, newest]], dtype=np.int64)

    def accept(self, image: Array) -> None:
        """Keep the current point and its image."""
        self.points = [*self.points, self.x][-(DEPTH + 1) :]
        self.images = [*self.images, image][-(DEPTH + 1) :]

    def forget(self) -> None:
        """Keep only the newest image: after a failed step, the older ones mislead."""
        self.points, self.images = self.points[-1:], self.images[-1:]

    def move(self, weights: Float64[np.ndarray, "h"]) -> None:
        """Move x to a combination of the newest ``len(weights)`` images, oldest first; one weight: the plain step."""
        self.x = _combined(self.images, weights, self.project)


def _combined(
    images: list[Array], weights: Float64[np.ndarray, "h"], project: Callable[[Array, Array], Array]
) -> Array:
    plain = images[-1]
    if len(weights) <= 1:
        return plain
    mixed = np.zeros_like(plain)
    for weight, image in zip(weights, images[-len(weights) :], strict=True):
        mixed = mixed + weight * image
    return project(mixed, plain)


PLAIN = np.ones(1)
"""The weights of a plain EM step."""

GAMMA_TOLERANCE = 1e-8
"""Change of gamma at which an instance's E-step ends."""
SWEEPS = 500
"""Sweeps from which on an E-step counts as one that runs to convergence; on the paper's data it takes 5 to 60."""


def kept_gammas(max_sweeps: int) -> int:
    """Return how many gammas `gamma_start` may combine: 1 where E-steps converge."""
    return DEPTH + 1 if max_sweeps < SWEEPS else 1


def gamma_start(
    gammas: list[Float64[np.ndarray, "k n"]], weights: Float64[np.ndarray, "h"], max_sweeps: int
) -> Float64[np.ndarray, "k n"]:
    """Return the gamma at which an E-step starts: the last one, combined with earlier ones if E-steps are short.

    After few sweeps gamma lags behind its limit, as the parameters do, and the same combination accelerates it. With
    one sweep an E-step, it halves the number of E-steps.

    Parameters
    ----------
    gammas : list of ndarray
        Gamma of the last accepted E-steps, oldest first.
    weights : ndarray
        Weights of the parameters' last images; a site that joined late has fewer gammas than weights.
    max_sweeps : int
        Most sweeps of the E-step.

    Examples
    --------
    >>> gammas = [np.array([[2.0], [4.0]]), np.array([[1.0], [5.0]])]
    >>> gamma_start(gammas, np.array([-1.0, 2.0]), max_sweeps=1).ravel().tolist()
    [0.1, 6.0]
    """
    if max_sweeps >= SWEEPS or len(weights) > len(gammas):
        return gammas[-1]
    return _combined(gammas, weights, lambda mixed, plain: np.maximum(mixed, _FLOOR * plain))


@dataclass
class Weights:
    """The weights by which the last images are combined; held by the fusion center.

    EM leaves a saddle at a slowly growing pace. Residuals grow there, and the combination that cancels them leads back
    to the saddle: the newest image gets no positive weight. The step then goes forward instead, `reach` times as far as
    the last one.

    Attributes
    ----------
    gram : ndarray
        Inner products of the kept residuals, summed over all blocks, oldest first.
    reach : float
        Length of a forward step; doubled when one succeeded, cut to a third when one failed.
    forward : bool
        Whether the last step was a forward step.
    """

    gram: Float64[np.ndarray, "h h"] = field(default_factory=lambda: np.zeros((0, 0)))
    reach: float = 8.0
    forward: bool = False

    def accept(self, products: Int64[np.ndarray, "h"]) -> None:
        """Accept the last step: add the newest residual's inner products with earlier ones and itself."""
        if self.forward:
            self.reach = min(2 * self.reach, 100.0)
        self.forward = False
        # After `forget` there are fewer residuals here than images in the blocks.
        n_last = min(len(products) - 1, len(self.gram))
        row = products[-(n_last + 1) :].astype(np.float64)
        gram = np.empty((n_last + 1, n_last + 1))
        gram[:n_last, :n_last] = self.gram[len(self.gram) - n_last :, len(self.gram) - n_last :]
        gram[n_last, :] = gram[:, n_last] = row
        self.gram = gram

    def reject(self) -> None:
        """Reject the last step: keep the newest residual only."""
        if self.forward:
            self.reach = max(self.reach / 3, 0.5)
        self.forget()

    def forget(self) -> None:
        """Keep only the newest residual."""
        self.forward = False
        self.gram = self.gram[-1:, -1:]

    def solve(self) -> Float64[np.ndarray, "h"]:
        """Return the weights of the last images, oldest first; a plain step when there is nothing to combine.

        The tiny ridge (1e-10 of the mean squared residual) decides between residuals that are nearly dependent.
        """
        size = len(self.gram)
        scale = np.trace(self.gram) / max(size, 1)
        if size < 2 or scale <= 0:
            return PLAIN
        try:
            weights = np.linalg.solve(self.gram / scale + 1e-10 * np.eye(size), np.ones(size))
        except np.linalg.LinAlgError:
            return PLAIN
        total = weights.sum()
        if not np.isfinite(total) or total == 0:
            return PLAIN
        weights = weights / total
        if weights[-1] > 0:
            return np.asarray(weights)
        self.forward = True
        return np.array([-self.reach, 1.0 + self.reach])
