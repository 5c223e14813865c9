"""Kernels of the distance: the squared exponential and the Matern family, with one length for each input (ARD)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial.distance import cdist, pdist, squareform

from numerics.gp.kernels import LENGTH_BOUNDS, SCALE_BOUNDS, Gram, Kernel

_NEAR = 1e-8
"""Distance below which the rounding error of a Matern 1/2 derivative exceeds the derivative."""

_Params = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]
_Square = Float64[np.ndarray, "n n"]
_Array = Float64[np.ndarray, "..."]
_Profile = Callable[[_Array], tuple[_Array, _Array]]
"""Computes k and g from squared distances, which it may overwrite; g may be the array k."""


class _Radial(Kernel):
    """``s^2 k(r)`` with ``r^2 = sum_j (x_j - x'_j)^2 / ell_j^2``; parameters (log ell_1..log ell_d, log s).

    The derivative by ``log ell_j`` is ``s^2 g(r) (x_j - x'_j)^2 / ell_j^2`` with ``g(r) = -k'(r) / r``.
    """

    def __init__(self, d: int, profile: _Profile) -> None:
        self.d = d
        self.names = (*(f"log ell_{j + 1}" for j in range(d)), "log s")
        self._profile = profile

    def start(self) -> _Params:
        # Distances grow with sqrt(d): at length 1, rows of many inputs are uncorrelated, and the likelihood is flat.
        return np.append(np.full(self.d, 0.5 * np.log(self.d)), 0.0)

    def starts(self) -> Float64[np.ndarray, "s p"]:
        # With few inputs, lengths of 1 sometimes lead to the higher of two maxima.
        return self.start()[np.newaxis] if self.d == 1 else np.stack([self.start(), np.zeros(self.d + 1)])

    def bounds(self) -> Float64[np.ndarray, "p 2"]:
        return np.log([LENGTH_BOUNDS] * self.d + [SCALE_BOUNDS])

    def matrix(self, params: _Params, x: _Rows, z: Float64[np.ndarray, "m d"]) -> Float64[np.ndarray, "n m"]:
        ell, variance = _split(params)
        values, _ = self._profile(cdist(x / ell, z / ell, "sqeuclidean"))
        values *= variance
        return values

    def diagonal(self, params: _Params, x: _Rows) -> Float64[np.ndarray, "n"]:
        return np.full(len(x), _split(params)[1])

    def gram(self, params: _Params, x: _Rows) -> Gram:
        ell, variance = _split(params)
        u = (x - x.mean(axis=0)) / ell
        values, slopes = self._profile(squareform(pdist(u, "sqeuclidean")))
        values *= variance
        if slopes is not values:
            slopes *= variance
        return _RadialGram(values, slopes, u)

    def lengths(self, params: _Params) -> Float64[np.ndarray, "d"]:
        return _split(params)[0]

    def rescaled(self, params: _Params, inputs: Float64[np.ndarray, "d"], output: float) -> _Params:
        moved: _Params = params + np.log(np.append(inputs, output))
        return moved

    def batch(self, params: _Params, z: Float64[np.ndarray, "B D d"]) -> Float64[np.ndarray, "B D D"]:
        ell, variance = _split(params)
        # Distances by products, since a matrix of differences would be d times as large. The loss of precision is
        # smallest around the center of the set.
        u = (z - z.mean(axis=1, keepdims=True)) / ell
        squared = -2.0 * (u @ u.transpose(0, 2, 1))
        lengths = np.einsum("bij,bij->bi", u, u)
        squared += lengths[:, :, None]
        squared += lengths[:, None, :]
        np.maximum(squared, 0.0, out=squared)
        itself = np.arange(z.shape[1])
        squared[:, itself, itself] = 0.0
        values, _ = self._profile(squared)
        values *= variance
        return values


@dataclass(frozen=True, eq=False)
class _RadialGram(Gram):
    """`matrix` and ``slopes = s^2 g``, ``(n, n)``, of the rows `u` ``(n, d)``, centered and divided by their lengths.

    ``(u_ij - u_kj)^2`` is expanded, so that sums over it are matrix products of n x n and n x d.
    """

    matrix: _Square
    slopes: _Square
    u: _Rows

    def contract(self, weights: _Square) -> _Params:
        inner = weights * self.slopes
        by_length = 2.0 * (inner.sum(axis=1) @ self.u**2 - np.einsum("ij,ij->j", self.u, inner @ self.u))
        return np.append(by_length, 2.0 * np.einsum("ij,ij->", weights, self.matrix))

    def tangent(self, v: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n p"]:
        u, d = self.u, self.u.shape[1]
        products = self.slopes @ np.column_stack([v, u * v[:, None], u**2 * v[:, None]])
        alone, once, twice = products[:, :1], products[:, 1 : d + 1], products[:, d + 1 :]
        return np.column_stack([u**2 * alone - 2.0 * u * once + twice, 2.0 * (self.matrix @ v)])


class SquaredExponential(_Radial):
    """The squared exponential kernel ``s^2 exp(-1/2 sum_j (x_j - x'_j)^2 / ell_j^2)``.

    It is the kernel of Jalali and Kasneci (2022), whose T_j is ell_j^2.

    Parameters
    ----------
    d : int
        Number of inputs.

    Examples
    --------
    >>> kernel = SquaredExponential(1)
    >>> kernel.matrix(np.log([2.0, 1.0]), np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.607]])
    """

    def __init__(self, d: int) -> None:
        super().__init__(d, _squared_exponential)


class Matern(_Radial):
    """The Matern kernel with nu = 1/2, 3/2 or 5/2, for functions with no, one or two derivatives.

    Parameters
    ----------
    d : int
        Number of inputs.
    nu : float
        0.5, 1.5 or 2.5.

    Raises
    ------
    ValueError
        If nu is another number.

    Examples
    --------
    >>> Matern(1, 0.5).matrix(np.zeros(2), np.array([[0.0]]), np.array([[1.0]])).round(3)
    array([[0.368]])
    """

    def __init__(self, d: int, nu: float) -> None:
        if nu not in _MATERN:
            raise ValueError(f"a Matern kernel has nu 0.5, 1.5 or 2.5, not {nu}")
        super().__init__(d, _MATERN[nu])


def _squared_exponential(squared: _Array) -> tuple[_Array, _Array]:
    squared *= -0.5
    values = np.exp(squared, out=squared)
    return values, values


def _matern12(squared: _Array) -> tuple[_Array, _Array]:
    r = np.sqrt(squared, out=squared)
    values = np.exp(-r)
    return values, np.divide(values, r, out=np.zeros_like(r), where=r > _NEAR)


def _matern32(squared: _Array) -> tuple[_Array, _Array]:
    t = np.sqrt(3.0 * squared)
    decay = np.exp(-t)
    return (1.0 + t) * decay, 3.0 * decay


def _matern52(squared: _Array) -> tuple[_Array, _Array]:
    t = np.sqrt(5.0 * squared)
    decay = np.exp(-t)
    return (1.0 + t + t**2 / 3.0) * decay, 5.0 / 3.0 * (1.0 + t) * decay


_MATERN: dict[float, _Profile] = {0.5: _matern12, 1.5: _matern32, 2.5: _matern52}


def _split(params: _Params) -> tuple[Float64[np.ndarray, "d"], float]:
    """Return lengths and variance from the parameters."""
    return np.exp(params[:-1]), float(np.exp(2.0 * params[-1]))
