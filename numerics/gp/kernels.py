"""The interface of a covariance function: its values, and the derivatives that the likelihood needs.

Parameters are logarithms: a step is a factor, and bounds are the only constraint. `numerics.gp.radial_kernels` contains
the squared exponential and the Matern family in closed form; sums and products of other kernels use GPyTorch
(`numerics.gp.kernel_expressions`). `numerics.gp.kernel_registry` finds a kernel by its text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float64

LENGTH_BOUNDS = (1e-3, 1e4)
"""Bounds of a length, in standardized units; that of an irrelevant input goes to the upper one."""
SCALE_BOUNDS = (1e-3, 1e3)
"""Bounds of s, the standard deviation of the latent function."""

_Params = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]
_Square = Float64[np.ndarray, "n n"]


class Gram(ABC):
    """The matrix of a kernel at some rows, and its derivatives by the parameters.

    Attributes
    ----------
    matrix : ndarray
        ``(n, n)`` the kernel's values, symmetric to the bit.
    """

    matrix: _Square

    @abstractmethod
    def contract(self, weights: _Square) -> _Params:
        """Compute ``sum_ij W_ij dK_ij / dparam`` for every parameter, ``(p,)``; W is symmetric."""

    @abstractmethod
    def tangent(self, v: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n p"]:
        """Compute ``(dK / dparam) v`` for every parameter, ``(n, p)``."""


class Kernel(ABC):
    """A covariance function of d inputs and its parameters, without the noise.

    Attributes
    ----------
    d : int
        Number of inputs.
    names : tuple of str
        Names of the parameters.
    """

    d: int
    names: tuple[str, ...]

    @abstractmethod
    def start(self) -> _Params:
        """Return the parameters at the start of a search, ``(p,)``."""

    def starts(self) -> Float64[np.ndarray, "s p"]:
        """Return several starts, ``(s, p)``, of which `start` is the first: the likelihood may have several maxima."""
        return self.start()[np.newaxis]

    @abstractmethod
    def bounds(self) -> Float64[np.ndarray, "p 2"]:
        """Return the smallest and the largest value of each parameter, ``(p, 2)``."""

    @abstractmethod
    def matrix(self, params: _Params, x: _Rows, z: Float64[np.ndarray, "m d"]) -> Float64[np.ndarray, "n m"]:
        """Compute the covariances ``(n, m)`` of the rows of x and those of z."""

    @abstractmethod
    def diagonal(self, params: _Params, x: _Rows) -> Float64[np.ndarray, "n"]:
        """Compute the variance ``(n,)`` at each row of x."""

    @abstractmethod
    def gram(self, params: _Params, x: _Rows) -> Gram:
        """Compute ``matrix(params, x, x)`` with its derivatives, which share intermediate results."""

    @abstractmethod
    def lengths(self, params: _Params) -> Float64[np.ndarray, "d"]:
        """Return the distance in each input over which the function changes, ``(d,)``; large for an irrelevant one."""

    @abstractmethod
    def batch(self, params: _Params, z: Float64[np.ndarray, "B D d"]) -> Float64[np.ndarray, "B D D"]:
        """Compute the covariance matrices ``(B, D, D)`` of B sets of D points each."""

    def rescaled(self, params: _Params, inputs: Float64[np.ndarray, "d"], output: float) -> _Params | None:
        """Return the parameters ``(p,)`` of the same function of inputs and output multiplied by these factors.

        None if a kernel of this form has no such parameters, or they are not implemented.
        """
        return None
