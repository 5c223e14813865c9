"""Sums and products of GPyTorch kernels, such as ``se + linear`` or ``(matern52 + rq) * periodic``.

Sums and products are computed here from whole matrices: GPyTorch's own operators approximate large products.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64

from numerics.gp.gpytorch_kernels import Curved, Leaf
from numerics.gp.kernel_names import parse
from numerics.gp.kernels import LENGTH_BOUNDS, Gram, Kernel

_BLOCK = 2**18
"""Most entries of an array for a block of rows, which fits into the cache; a row has d entries for each column."""

_Params = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]
_Square = Float64[np.ndarray, "n n"]


class _Composition:
    """The sum or product of two kernels, with the attributes of `Leaf`.

    The parameters of the second kernel follow those of the first. The first kernel has the scale of a product.
    """

    def __init__(self, first: Leaf | _Composition, second: Leaf | _Composition, product: bool) -> None:
        self._first, self._second, self._product = first, second, product
        self.names: list[str] = first.names + second.names
        self.bounds: list[tuple[float, float]] = first.bounds + second.bounds
        self.start: list[float] = first.start + second.start

    def values(self, theta: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Compute the covariances, as `Leaf.values` does."""
        before, after = self._parts(theta)
        first, second = self._first.values(before, x, z), self._second.values(after, x, z)
        return first * second if self._product else first + second

    def curved(self, theta: torch.Tensor) -> Curved:
        """Compute variance and curvature: factors add their curvatures; summands average them, weighted by variance."""
        before, after = self._parts(theta)
        (v, first), (w, second) = self._first.curved(before), self._second.curved(after)
        return (v * w, first + second) if self._product else (v + w, (v * first + w * second) / (v + w))

    def shift(self, inputs: Float64[np.ndarray, "d"], output: float) -> Float64[np.ndarray, "q"] | None:
        """Return the change of theta, as `Leaf.shift` does."""
        first = self._first.shift(inputs, output)
        second = self._second.shift(inputs, 0.0 if self._product else output)
        return None if first is None or second is None else np.concatenate([first, second])

    def _parts(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = len(self._first.names)
        return theta[..., :q], theta[..., q:]


def _build(node: ast.expr, d: int, scaled: bool = True) -> Leaf | _Composition:
    """Build the kernel of a parsed expression. Each summand has one scale: a second one would be redundant.

    A linear kernel and its products have no scale, because their slopes are scales.
    """
    match node:
        case ast.Name(id=name):
            return Leaf(name, d, scaled and name != "linear")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _Composition(_build(left, d, scaled), _build(right, d), product=False)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = (right, left) if _linear(right) else (left, right)
            return _Composition(_build(first, d, scaled), _build(second, d, scaled=False), product=True)
    raise AssertionError(ast.dump(node))  # `parse` lets nothing else pass


def _linear(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "linear"


def expression(text: str, d: int) -> Kernel:
    """Build a kernel from an expression of kernels.

    Its parameters are logarithms of GPyTorch's values; scales and slopes are deviations.

    Parameters
    ----------
    text : str
        Names joined by ``+`` and ``*``, with parentheses: linear, matern12, matern32, matern52, periodic, polynomial2,
        polynomial3, rq, se (or rbf).
    d : int
        Number of inputs.

    Raises
    ------
    ValueError
        If the text is not such an expression.

    Examples
    --------
    >>> kernel = expression("se + linear", d=2)
    >>> len(kernel.names) == len(kernel.start())
    True
    """
    return _Expression(_build(parse(text), d), d)


class _Expression(Kernel):
    """The kernel of a tree of kernels."""

    def __init__(self, root: Leaf | _Composition, d: int) -> None:
        self.d = d
        self.names = tuple(root.names)
        self._root = root

    def start(self) -> _Params:
        return np.array(self._root.start)

    def bounds(self) -> Float64[np.ndarray, "p 2"]:
        return np.log(self._root.bounds)

    def matrix(self, params: _Params, x: _Rows, z: Float64[np.ndarray, "m d"]) -> Float64[np.ndarray, "n m"]:
        theta, columns = _tensor(params), _tensor(z)
        with _one_thread(), torch.no_grad():
            blocks = [self._root.values(theta, rows, columns) for rows in _blocks(x, z.size)]
            values: Float64[np.ndarray, "n m"] = torch.cat(blocks).numpy()
        return values

    def diagonal(self, params: _Params, x: _Rows) -> Float64[np.ndarray, "n"]:
        points = _tensor(x)[:, None, :]
        with _one_thread(), torch.no_grad():
            values: Float64[np.ndarray, "n"] = self._root.values(_tensor(params), points, points)[:, 0, 0].numpy()
        return values

    def gram(self, params: _Params, x: _Rows) -> Gram:
        matrix = _settle(self.matrix(params, x, x), self.diagonal(params, x))
        return _ExpressionGram(matrix, self._root, params, x)

    def lengths(self, params: _Params) -> Float64[np.ndarray, "d"]:
        """Compute the lengths from the curvature of the correlation; a line counts by the deviation of its inputs."""
        with torch.no_grad():
            _, curvature = self._root.curved(_tensor(params))
        return np.broadcast_to(np.clip(curvature.numpy() ** -0.5, *LENGTH_BOUNDS), self.d)

    def rescaled(self, params: _Params, inputs: Float64[np.ndarray, "d"], output: float) -> _Params | None:
        change = self._root.shift(np.log(inputs), math.log(output))
        return None if change is None else params + change

    def batch(self, params: _Params, z: Float64[np.ndarray, "B D d"]) -> Float64[np.ndarray, "B D D"]:
        sets = _tensor(z)
        with _one_thread(), torch.no_grad():
            values = self._root.values(_tensor(params), sets, sets).numpy()
        return _settle(values, self.diagonal(params, z.reshape(-1, self.d)).reshape(z.shape[:2]))


@dataclass(frozen=True, eq=False)
class _ExpressionGram(Gram):
    """The matrix at the rows `x`; its derivatives evaluate the kernel again, one block of rows at a time."""

    matrix: _Square
    root: Leaf | _Composition
    params: _Params
    x: _Rows

    def contract(self, weights: _Square) -> _Params:
        theta, columns = _tensor(self.params).requires_grad_(), _tensor(self.x)
        total = torch.zeros_like(theta)
        with _one_thread():
            for rows, part in zip(_blocks(self.x, self.x.size), _blocks(weights, self.x.size), strict=True):
                total += torch.autograd.grad((part * self.root.values(theta, rows, columns)).sum(), theta)[0]
        return total.numpy()

    def tangent(self, v: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n p"]:
        # Every row gets its own copy of theta: one backward pass then separates the derivatives of the rows.
        theta, columns, by = _tensor(self.params), _tensor(self.x), _tensor(v)
        moved = []
        with _one_thread():
            for rows in _blocks(self.x, self.x.size):
                own = theta.repeat(len(rows), 1).requires_grad_()
                products = self.root.values(own, rows[:, None, :], columns) @ by
                moved.append(torch.autograd.grad(products.sum(), own)[0])
        return torch.cat(moved).numpy()


def _tensor(array: Float64[np.ndarray, "..."]) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64)


def _blocks(x: _Rows, size: int) -> Iterator[torch.Tensor]:
    """Cut rows into blocks, each of which meets columns of `size` entries."""
    return iter(torch.split(_tensor(x), max(1, _BLOCK // max(1, size))))


def _settle(
    values: Float64[np.ndarray, "... n n"], diagonal: Float64[np.ndarray, "... n"]
) -> Float64[np.ndarray, "... n n"]:
    """Make matrices symmetric to the bit, with their exact diagonal: distances from products have errors of 1e-8."""
    settled: Float64[np.ndarray, "... n n"] = 0.5 * (values + np.swapaxes(values, -1, -2))
    itself = np.arange(values.shape[-1])
    settled[..., itself, itself] = diagonal
    return settled


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch to one thread: the rounding of its sums depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
