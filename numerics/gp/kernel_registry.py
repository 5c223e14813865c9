"""Kernels by their text in a run configuration."""

from __future__ import annotations

import math

from common.extras import require
from numerics.gp.kernel_names import SMOOTHNESS, libraries_of, parse
from numerics.gp.kernels import Kernel
from numerics.gp.radial_kernels import Matern, SquaredExponential


def kernel_of(text: str, d: int) -> Kernel:
    """Build the kernel that a configuration names.

    Parameters
    ----------
    text : str
        ``se`` (also ``rbf``, or empty), ``matern12``, ``matern32``, ``matern52``, or an expression of GPyTorch
        kernels such as ``se + linear`` or ``(matern52 + rq) * periodic``.
    d : int
        Number of inputs.

    Raises
    ------
    ValueError
        If the text is not such an expression.
    MissingLibraryError
        If GPyTorch is needed and not installed.

    Examples
    --------
    >>> kernel_of("matern32", d=2).names
    ('log ell_1', 'log ell_2', 'log s')
    """
    name = text.strip() or "se"
    if (nu := SMOOTHNESS.get(name)) is not None:
        return Matern(d, nu) if math.isfinite(nu) else SquaredExponential(d)
    parse(name)  # before the libraries, which a wrong name does not need
    for library, purpose in libraries_of(name).items():
        require(library, purpose)
    from numerics.gp.kernel_expressions import expression

    return expression(name, d)
