"""Kernels as text: names, joined by ``+`` and ``*``. No numerical library is needed to read it."""

from __future__ import annotations

import ast
import math

NAMES = (
    "linear",
    "matern12",
    "matern32",
    "matern52",
    "periodic",
    "polynomial2",
    "polynomial3",
    "rbf",
    "rq",
    "se",
)
"""Kernels that an expression may name."""

SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "rbf": math.inf, "se": math.inf}
"""Smoothness nu of the kernels that, alone, are computed without GPyTorch; infinite: the squared exponential."""

AUTO = "auto"
"""The kernel of `COMPARED` that the sites' rows favor."""
COMPARED = ("se", "matern52", "matern32")
"""Kernels from smooth to rough, with the same parameters (docs/gp-evidence.md)."""

LONGEST = 200
"""Largest length of an expression in characters: it may come from another site."""

_FORM = "a kernel is written with names, + and * alone"


def parse(text: str) -> ast.expr:
    """Parse an expression of kernels; empty text is ``se``.

    Raises
    ------
    ValueError
        If the text holds anything but known names, sums and products.

    Examples
    --------
    >>> ast.unparse(parse("se + (matern52+rq) * periodic"))
    'se + (matern52 + rq) * periodic'
    """
    if len(text) > LONGEST:
        raise ValueError(f"a kernel is written in at most {LONGEST} characters")
    try:
        node = ast.parse(text.strip() or "se", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(_FORM) from error
    _check(node)
    return node


def kernels_of(text: str) -> tuple[str, ...]:
    """Return the texts of the kernels to compare: one, but for `AUTO`.

    Examples
    --------
    >>> kernels_of("auto"), kernels_of("matern12")
    (('se', 'matern52', 'matern32'), ('matern12',))
    """
    return COMPARED if text == AUTO else (text,)


def libraries_of(text: str) -> dict[str, str]:
    """Return the optional libraries that a kernel needs, each with its purpose.

    Examples
    --------
    >>> libraries_of("matern52")
    {}
    >>> sorted(libraries_of("se + linear"))
    ['gpytorch', 'torch']
    """
    name = text.strip() or "se"
    return {} if name in SMOOTHNESS or name == AUTO else dict.fromkeys(("torch", "gpytorch"), f"the kernel {name}")


def is_kernel(text: str) -> bool:
    """Whether `parse` accepts a text.

    Examples
    --------
    >>> is_kernel("matern32"), is_kernel("matern25")
    (True, False)
    """
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _check(node: ast.expr) -> None:
    match node:
        case ast.Name(id=name):
            if name not in NAMES:
                raise ValueError(f"no kernel is named {name}; there are {', '.join(NAMES)}")
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            _check(left)
            _check(right)
        case _:
            raise ValueError(_FORM)
