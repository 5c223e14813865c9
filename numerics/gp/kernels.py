"""The interface of a covariance function: its values, and the derivatives that the likelihood needs.

Parameters are logarithms, so that a step is a factor and bounds are the only constraint. `numerics.gp.radial_kernels`
has the squared exponential and the Matern family in closed form; sums and products of other kernels use GPyTorch
(`numerics.gp.kernel_expressions`). `numerics.gp.kernel_registry` finds a kernel by its text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float64

LENGTH_BOUNDS = (1e-3, 1e4)
"""Of a length, in standardised units; an input that does not matter runs to the upper one."""
SCALE_BOUNDS = (1e-3, 1e3)
"""Of s, the deviation of the latent function."""

_Params = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]
_Square = Float64[np.ndarray, "n n"]


class Gram(ABC):
    """A kernel's matrix of some rows with themselves, and its derivatives by the parameters.

    Attributes
    ----------
    matrix : ndarray
        ``(n, n)`` the kernel's values, symmetric to the bit.
    """

    matrix: _Square

    @abstractmethod
    def contract(self, weights: _Square) -> _Params:
        """``sum_ij W_ij dK_ij / dparam`` of every parameter, ``(p,)``, for a symmetric W."""

    @abstractmethod
    def tangent(self, v: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n p"]:
        """``(dK / dparam) v`` of every parameter, ``(n, p)``."""


class Kernel(ABC):
    """A covariance function of d inputs and its parameters, without the noise.

    Attributes
    ----------
    d : int
        Number of inputs.
    names : tuple of str
        One of each parameter.
    """

    d: int
    names: tuple[str, ...]

    @abstractmethod
    def start(self) -> _Params:
        """``(p,)`` parameters to begin a search with."""

    def starts(self) -> Float64[np.ndarray, "s p"]:
        """``(s, p)`` where else to begin, with `start` as the first: the likelihood may have several maxima."""
        return self.start()[np.newaxis]

    @abstractmethod
    def bounds(self) -> Float64[np.ndarray, "p 2"]:
        """``(p, 2)`` the least and the largest value of each parameter."""

    @abstractmethod
    def matrix(self, params: _Params, x: _Rows, z: Float64[np.ndarray, "m d"]) -> Float64[np.ndarray, "n m"]:
        """Covariances ``(n, m)`` of the rows of x and those of z."""

    @abstractmethod
    def diagonal(self, params: _Params, x: _Rows) -> Float64[np.ndarray, "n"]:
        """Variance ``(n,)`` at each row of x."""

    @abstractmethod
    def gram(self, params: _Params, x: _Rows) -> Gram:
        """``matrix(params, x, x)`` with its derivatives, which share the work."""

    @abstractmethod
    def lengths(self, params: _Params) -> Float64[np.ndarray, "d"]:
        """``(d,)`` how far each input goes before the function changes; very far for one that does not matter."""

    @abstractmethod
    def batch(self, params: _Params, z: Float64[np.ndarray, "B D d"]) -> Float64[np.ndarray, "B D D"]:
        """Covariance matrices ``(B, D, D)`` of B sets of D points each."""

    def rescaled(self, params: _Params, inputs: Float64[np.ndarray, "d"], output: float) -> _Params | None:
        """``(p,)`` the parameters of the same function where inputs and output are multiplied by these factors.

        None where a kernel of this form has none, or nobody has worked them out.
        """
        return None
