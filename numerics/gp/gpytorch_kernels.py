"""Single GPyTorch kernels with logarithms as parameters and derivatives of all their equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import torch
from jaxtyping import Float64
from linear_operator import to_dense

from numerics.gp.kernels import LENGTH_BOUNDS, SCALE_BOUNDS

Curved = tuple[torch.Tensor, torch.Tensor]
"""Typical variance of a kernel, and the curvature 1 / length^2 of its correlation in each input."""


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a GPyTorch kernel.

    Attributes
    ----------
    raw_name, name : str
        Name in GPyTorch, and name here.
    bounds : tuple of float
        Bounds of the value.
    power : float
        GPyTorch's value is the value to this power: a variance is searched as a deviation, as in the closed forms.
    ard : bool
        Whether each input has its own value.
    inputs, output : float
        Powers of the factors of inputs and output by which the value is multiplied when the data are.
    start : float
        A search starts at d to this power: rows of d inputs are then as related as rows of one input at 1.
    """

    raw_name: str
    name: str
    bounds: tuple[float, float]
    power: float = 1.0
    ard: bool = True
    inputs: float = 0.0
    output: float = 0.0
    start: float = 0.0


@dataclass(frozen=True)
class _Kind:
    """A kind of kernel.

    Attributes
    ----------
    make : callable
        Constructor in GPyTorch.
    parameters : tuple
        Its parameters.
    curved : callable
        Computes its `Curved` from GPyTorch's values of the parameters.
    scalable : bool
        Whether it keeps its form when each input is multiplied by a factor of its own.
    """

    make: Callable[..., Any]
    parameters: tuple[_Parameter, ...]
    curved: Callable[..., Curved]
    scalable: bool = True


_LENGTH = _Parameter("lengthscale", "ell", LENGTH_BOUNDS, inputs=1.0, start=0.5)
_WIDTH = _Parameter("lengthscale", "ell", LENGTH_BOUNDS, start=1.0)
_SHAPE = _Parameter("alpha", "alpha", (1e-2, 1e3), ard=False)
_PERIOD = _Parameter("period_length", "period", (1e-2, 1e2), inputs=1.0)
_SLOPE = _Parameter("variance", "slope", SCALE_BOUNDS, power=2.0, inputs=-1.0, output=1.0, start=-0.5)
_OFFSET = _Parameter("offset", "offset", (1e-3, 1e3), ard=False)


def _radial_curved(ell: torch.Tensor, _alpha: torch.Tensor | None = None) -> Curved:
    return torch.ones(()), ell**-2


def _periodic_curved(ell: torch.Tensor, period: torch.Tensor) -> Curved:
    return torch.ones(()), (2.0 * math.pi / period) ** 2 / ell


def _linear_curved(variance: torch.Tensor) -> Curved:
    # A line has no curvature: each input counts by its share of the variance, and its deviation is the length.
    return variance.sum(), variance / variance.sum()


def _matern(nu: float) -> _Kind:
    return _Kind(lambda **options: gpytorch.kernels.MaternKernel(nu, **options), (_LENGTH,), _radial_curved)


def _polynomial(power: int) -> _Kind:
    def curved(offset: torch.Tensor) -> Curved:
        return (offset.squeeze() + 1.0) ** power, torch.ones(1)

    return _Kind(
        lambda **options: gpytorch.kernels.PolynomialKernel(power, **options), (_OFFSET,), curved, scalable=False
    )


_SE = _Kind(gpytorch.kernels.RBFKernel, (_LENGTH,), _radial_curved)
KINDS: dict[str, _Kind] = {
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
        constraints = {f"{parameter.raw_name}_constraint": logarithm for parameter in kind.parameters}
        self.kernel = kind.make(ard_num_dims=d, **constraints).to(torch.float64)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        # In trace mode GPyTorch evaluates plain equations; otherwise some derivatives do not accept batches.
        with gpytorch.settings.trace_mode(True):
            values: torch.Tensor = to_dense(self.kernel.forward(x, z))
        return values


class Leaf:
    """A single kernel, multiplied by s^2 if it is scaled.

    Attributes
    ----------
    names : list of str
        Names of the parameters, which are logarithms.
    bounds : list of tuple
        Bounds of the values themselves.
    start : list of float
        Parameters at the start of a search.
    """

    def __init__(self, name: str, d: int, scaled: bool) -> None:
        self._kind, self._dense, self._scaled = KINDS[name], _Dense(KINDS[name], d), scaled
        self.names: list[str] = []
        self.bounds: list[tuple[float, float]] = []
        self.start: list[float] = []
        self._sizes = [d if parameter.ard else 1 for parameter in self._kind.parameters] + [1] * scaled
        for parameter, size in zip(self._kind.parameters, self._sizes, strict=False):
            numbers = [f"_{j + 1}" for j in range(d)] if parameter.ard else [""]
            self.names += [f"log {parameter.name}{number} of {name}" for number in numbers]
            self.bounds += [parameter.bounds] * size
            self.start += [parameter.start * math.log(d)] * size
        if scaled:
            self.names.append(f"log s of {name}")
            self.bounds.append(SCALE_BOUNDS)
            self.start.append(0.0)

    def values(self, theta: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Compute the covariances of the rows of x and z, differentiable by theta; all may have batch dimensions."""
        raw, scale = self._raw(theta)
        named = {
            f"kernel.raw_{parameter.raw_name}": part[..., None, :] if parameter.ard else part
            for parameter, part in zip(self._kind.parameters, raw, strict=True)
        }
        self._dense.kernel.batch_shape = theta.shape[:-1]
        values: torch.Tensor = torch.func.functional_call(self._dense, named, (x, z))
        return values * scale[..., None]

    def curved(self, theta: torch.Tensor) -> Curved:
        """Compute the variance, and the curvature of the correlation."""
        raw, scale = self._raw(theta)
        variance, curvature = self._kind.curved(*map(torch.exp, raw))
        return variance * scale, curvature

    def shift(self, inputs: Float64[np.ndarray, "d"], output: float) -> Float64[np.ndarray, "q"] | None:
        """Return the change of theta for factors of inputs and output, all as logarithms; None if there is none."""
        if not self._kind.scalable:
            return None
        changes = [
            parameter.inputs * inputs + parameter.output * output if parameter.ard else np.zeros(1)
            for parameter in self._kind.parameters
        ]
        return np.concatenate([*changes, [output] * self._scaled])

    def _raw(self, theta: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the logarithms of GPyTorch's values by parameter, and s^2."""
        parts = torch.split(theta, self._sizes, dim=-1)
        raw = [part * parameter.power for parameter, part in zip(self._kind.parameters, parts, strict=False)]
        return raw, torch.exp(2.0 * parts[-1]) if self._scaled else torch.ones_like(theta[..., :1])
