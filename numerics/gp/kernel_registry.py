"""Kernels by the text that a run configuration names them with."""

from __future__ import annotations

from collections.abc import Callable

from numerics.gp.kernels import Kernel
from numerics.gp.radial_kernels import Matern, SquaredExponential

_CLOSED: dict[str, Callable[[int], Kernel]] = {
    "se": SquaredExponential,
    "rbf": SquaredExponential,
    "matern12": lambda d: Matern(d, 0.5),
    "matern32": lambda d: Matern(d, 1.5),
    "matern52": lambda d: Matern(d, 2.5),
}


def kernel_of(text: str, d: int) -> Kernel:
    """The kernel that a configuration names.

    Parameters
    ----------
    text : str
        ``se`` (also ``rbf``, or nothing), ``matern12``, ``matern32``, ``matern52``, or an expression of GPyTorch
        kernels such as ``se + linear`` or ``(matern52 + rq) * periodic``.
    d : int
        Number of inputs.

    Raises
    ------
    ValueError
        If the text is no such expression, or GPyTorch is needed and absent.
    """
    name = text.strip() or "se"
    if name in _CLOSED:
        return _CLOSED[name](d)
    try:
        from numerics.gp.kernel_expressions import expression
    except ImportError as error:
        raise ValueError(f"the kernel {name} needs GPyTorch, which is not installed") from error
    return expression(name, d)
