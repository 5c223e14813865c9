"""Sums and products of GPyTorch kernels, written as in ``se + linear`` or ``(matern52 + rq) * periodic``.

GPyTorch gives the equations of the single kernels. Sums and products are formed here, of whole matrices: its own
operators put an approximation in the place of a large product.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.gp.kernels import LENGTH_BOUNDS, SCALE_BOUNDS, Gram, Kernel

try:
    import gpytorch
    import torch
    from linear_operator import to_dense
except ImportError as error:
    raise ValueError("a kernel other than se and matern needs GPyTorch, which is not installed") from error

_LONGEST = 200
"""Characters of an expression at most: it may come from another party."""
_BLOCK = 2**18
"""Numbers in the largest array of a block of rows, as many as stay in the cache; a row takes d a column."""

_Params = Float64[np.ndarray, "p"]
_Rows = Float64[np.ndarray, "n d"]
_Square = Float64[np.ndarray, "n n"]
_Curved = tuple[torch.Tensor, torch.Tensor]
"""A kernel's typical variance and, of each input, the curvature of its correlation: 1 / length^2."""


# --- single kernels -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a GPyTorch kernel: its name there and here, and the bounds of the value that is searched.

    GPyTorch's value is that to the power: a variance is searched as the deviation, like s of the closed forms. There is
    one of each input (`ard`) or one alone. `inputs` and `output` are the powers of the factors it takes to be the same
    where inputs and output are multiplied by factors.
    """

    there: str
    here: str
    bounds: tuple[float, float]
    power: float = 1.0
    ard: bool = True
    inputs: float = 0.0
    output: float = 0.0


@dataclass(frozen=True)
class _Kind:
    """A kernel by its name: what makes it, its parameters, and its `_Curved` from their values as GPyTorch has them.

    It is `scalable` if it keeps its form where each input is multiplied by a factor of its own.
    """

    make: Callable[..., Any]
    parameters: tuple[_Parameter, ...]
    curved: Callable[..., _Curved]
    scalable: bool = True


_LENGTH = _Parameter("lengthscale", "ell", LENGTH_BOUNDS, inputs=1.0)
_WIDTH = _Parameter("lengthscale", "ell", LENGTH_BOUNDS)
_SHAPE = _Parameter("alpha", "alpha", (1e-2, 1e3), ard=False)
_PERIOD = _Parameter("period_length", "period", (1e-2, 1e2), inputs=1.0)
_SLOPE = _Parameter("variance", "slope", SCALE_BOUNDS, power=2.0, inputs=-1.0, output=1.0)
_OFFSET = _Parameter("offset", "offset", (1e-3, 1e3), ard=False)


def _radial_curved(ell: torch.Tensor, _alpha: torch.Tensor | None = None) -> _Curved:
    return torch.ones(()), ell**-2


def _periodic_curved(ell: torch.Tensor, period: torch.Tensor) -> _Curved:
    return torch.ones(()), (2.0 * math.pi / period) ** 2 / ell


def _linear_curved(variance: torch.Tensor) -> _Curved:
    # Nothing bends: each input counts by its share, and its deviation is the length.
    return variance.sum(), variance / variance.sum()


def _matern(nu: float) -> _Kind:
    return _Kind(lambda **given: gpytorch.kernels.MaternKernel(nu, **given), (_LENGTH,), _radial_curved)


def _polynomial(power: int) -> _Kind:
    def curved(offset: torch.Tensor) -> _Curved:
        return (offset.squeeze() + 1.0) ** power, torch.ones(1)

    return _Kind(lambda **given: gpytorch.kernels.PolynomialKernel(power, **given), (_OFFSET,), curved, scalable=False)


_SE = _Kind(gpytorch.kernels.RBFKernel, (_LENGTH,), _radial_curved)
_KINDS: dict[str, _Kind] = {
    "linear": _Kind(gpytorch.kernels.LinearKernel, (_SLOPE,), _linear_curved),
    "matern12": _matern(0.5),
    "matern32": _matern(1.5),
    "matern52": _matern(2.5),
    "periodic": _Kind(gpytorch.kernels.PeriodicKernel, (_WIDTH, _PERIOD), _periodic_curved),
    "polynomial2": _polynomial(2),
    "polynomial3": _polynomial(3),
    "rbf": _SE,
    "rq": _Kind(gpytorch.kernels.RQKernel, (_LENGTH, _SHAPE), _radial_curved),
    "se": _SE,
}


class _Dense(torch.nn.Module):
    """A GPyTorch kernel whose parameters are logarithms and whose values are a plain tensor."""

    def __init__(self, kind: _Kind, d: int) -> None:
        super().__init__()
        logarithm = gpytorch.constraints.Positive(transform=torch.exp, inv_transform=torch.log)
        constraints = {f"{parameter.there}_constraint": logarithm for parameter in kind.parameters}
        self.kernel = kind.make(ard_num_dims=d, **constraints).to(torch.float64)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        # For a trace GPyTorch writes all its equations out; otherwise some have a derivative that knows no sets.
        with gpytorch.settings.trace_mode(True):
            values: torch.Tensor = to_dense(self.kernel.forward(x, z))
        return values


# --- expressions --------------------------------------------------------------------------------------------------


class _Leaf:
    """A single kernel, times s^2 if it is scaled.

    Attributes
    ----------
    names : list of str
        Of its parameters, which are logarithms.
    bounds : list of tuple
        Of the values themselves.
    """

    def __init__(self, name: str, d: int, scaled: bool) -> None:
        self._kind, self._dense, self._scaled = _KINDS[name], _Dense(_KINDS[name], d), scaled
        self.names: list[str] = []
        self.bounds: list[tuple[float, float]] = []
        self._sizes = [d if parameter.ard else 1 for parameter in self._kind.parameters] + [1] * scaled
        for parameter, size in zip(self._kind.parameters, self._sizes, strict=False):
            numbers = [f"_{j + 1}" for j in range(d)] if parameter.ard else [""]
            self.names += [f"log {parameter.here}{number} of {name}" for number in numbers]
            self.bounds += [parameter.bounds] * size
        if scaled:
            self.names.append(f"log s of {name}")
            self.bounds.append(SCALE_BOUNDS)

    def values(self, theta: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Covariances of the rows of x and z, differentiable by theta; each of the three may have sets in front."""
        raw, scale = self._raw(theta)
        named = {
            f"kernel.raw_{parameter.there}": part[..., None, :] if parameter.ard else part
            for parameter, part in zip(self._kind.parameters, raw, strict=True)
        }
        self._dense.kernel.batch_shape = theta.shape[:-1]
        values: torch.Tensor = torch.func.functional_call(self._dense, named, (x, z))
        return values * scale[..., None]

    def curved(self, theta: torch.Tensor) -> _Curved:
        """Variance and curvature of the correlation."""
        raw, scale = self._raw(theta)
        variance, curvature = self._kind.curved(*map(torch.exp, raw))
        return variance * scale, curvature

    def shift(self, inputs: Float64[np.ndarray, "d"], output: float) -> Float64[np.ndarray, "q"] | None:
        """What theta gains where the inputs and the output gain these logarithms; None where no theta will do."""
        if not self._kind.scalable:
            return None
        gained = [
            parameter.inputs * inputs + parameter.output * output if parameter.ard else np.zeros(1)
            for parameter in self._kind.parameters
        ]
        return np.concatenate([*gained, [output] * self._scaled])

    def _raw(self, theta: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Logarithms of GPyTorch's values, parameter by parameter, and s^2."""
        parts = torch.split(theta, self._sizes, dim=-1)
        raw = [part * parameter.power for parameter, part in zip(self._kind.parameters, parts, strict=False)]
        return raw, torch.exp(2.0 * parts[-1]) if self._scaled else torch.ones_like(theta[..., :1])


class _Joined:
    """The sum or the product of two kernels, of which the first has a product's scale; attributes as those of `_Leaf`.

    The parameters of the second follow those of the first.
    """

    def __init__(self, first: _Leaf | _Joined, second: _Leaf | _Joined, product: bool) -> None:
        self._first, self._second, self._product = first, second, product
        self.names: list[str] = first.names + second.names
        self.bounds: list[tuple[float, float]] = first.bounds + second.bounds

    def values(self, theta: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """As `_Leaf.values`."""
        before, after = self._parts(theta)
        first, second = self._first.values(before, x, z), self._second.values(after, x, z)
        return first * second if self._product else first + second

    def curved(self, theta: torch.Tensor) -> _Curved:
        """As `_Leaf.curved`: the curvatures of factors add up, those of summands by their share of the variance."""
        before, after = self._parts(theta)
        (v, first), (w, second) = self._first.curved(before), self._second.curved(after)
        return (v * w, first + second) if self._product else (v + w, (v * first + w * second) / (v + w))

    def shift(self, inputs: Float64[np.ndarray, "d"], output: float) -> Float64[np.ndarray, "q"] | None:
        """As `_Leaf.shift`."""
        first = self._first.shift(inputs, output)
        second = self._second.shift(inputs, 0.0 if self._product else output)
        return None if first is None or second is None else np.concatenate([first, second])

    def _parts(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = len(self._first.names)
        return theta[..., :q], theta[..., q:]


def _build(node: ast.expr, d: int, scaled: bool = True) -> _Leaf | _Joined:
    """The kernel that a parsed expression means, with one scale a summand: a second one would change nothing.

    A linear kernel has none at all and leaves its product none, because its slopes are scales.

    Raises
    ------
    ValueError
        If the expression holds anything but known names, sums and products.
    """
    match node:
        case ast.Name(id=name) if name in _KINDS:
            return _Leaf(name, d, scaled and name != "linear")
        case ast.Name(id=name):
            raise ValueError(f"no kernel is named {name}; there are {', '.join(_KINDS)}")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _Joined(_build(left, d, scaled), _build(right, d), product=False)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = (right, left) if _linear(right) else (left, right)
            return _Joined(_build(first, d, scaled), _build(second, d, scaled=False), product=True)
    raise ValueError("a kernel is written with names, + and * alone")


def _linear(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "linear"


def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ValueError(f"a kernel is written in at most {_LONGEST} characters")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError("a kernel is written with names, + and * alone") from error


def expression(text: str, d: int) -> Kernel:
    """Sums and products of kernels.

    Parameters of the kernel are logarithms of GPyTorch's values; of scales and slopes, those of the deviation.

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
        If the text is no such expression.
    """
    return _Expression(_build(_parse(text), d), d)


class _Expression(Kernel):
    """The kernel that the root of a tree of kernels stands for."""

    def __init__(self, root: _Leaf | _Joined, d: int) -> None:
        self.d = d
        self.names = tuple(root.names)
        self._root = root

    def start(self) -> _Params:
        return np.zeros(len(self.names))

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
        matrix = _settled(self.matrix(params, x, x), self.diagonal(params, x))
        return _ExpressionGram(matrix, self._root, params, x)

    def lengths(self, params: _Params) -> Float64[np.ndarray, "d"]:
        """By how the correlation bends about a point; what does not bend counts by the deviation of its inputs."""
        with torch.no_grad():
            _, curvature = self._root.curved(_tensor(params))
        return np.broadcast_to(np.clip(curvature.numpy() ** -0.5, *LENGTH_BOUNDS), self.d)

    def rescaled(self, params: _Params, inputs: Float64[np.ndarray, "d"], output: float) -> _Params | None:
        gained = self._root.shift(np.log(inputs), math.log(output))
        return None if gained is None else params + gained

    def batch(self, params: _Params, z: Float64[np.ndarray, "B D d"]) -> Float64[np.ndarray, "B D D"]:
        sets = _tensor(z)
        with _one_thread(), torch.no_grad():
            values = self._root.values(_tensor(params), sets, sets).numpy()
        return _settled(values, self.diagonal(params, z.reshape(-1, self.d)).reshape(z.shape[:2]))


@dataclass(frozen=True, eq=False)
class _ExpressionGram(Gram):
    """The matrix at the rows `x`; derivatives go through the equations again, block of rows by block of rows."""

    matrix: _Square
    root: _Leaf | _Joined
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
        # Every row is given a theta of its own: one pass backwards then tells the rows' derivatives apart.
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
    """Blocks of rows, of which each meets columns of that many numbers."""
    return iter(torch.split(_tensor(x), max(1, _BLOCK // max(1, size))))


def _settled(
    values: Float64[np.ndarray, "... n n"], diagonal: Float64[np.ndarray, "... n"]
) -> Float64[np.ndarray, "... n n"]:
    """The matrices, symmetric to the bit and with their exact diagonal: distances by products leave it 1e-8 off."""
    settled: Float64[np.ndarray, "... n n"] = 0.5 * (values + np.swapaxes(values, -1, -2))
    itself = np.arange(values.shape[-1])
    settled[..., itself, itself] = diagonal
    return settled


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch's sums round by how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
