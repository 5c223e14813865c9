"""What the parties of a Gaussian process regression hold, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped


@dataclass(frozen=True, eq=False)
class Measurements:
    """One site's own rows, in the data's own units.

    Attributes
    ----------
    x : ndarray
        ``(n, d)`` inputs, finite.
    y : ndarray
        ``(n,)`` their outputs, finite.
    features : tuple of str
        Names of the d inputs.
    part : ndarray or None
        ``(n,)`` which of the site's experts has each row, numbered from 0 on and each with a row or more; None: the
        site is one expert, or splits its rows itself.
    """

    x: Float64[np.ndarray, "n d"]
    y: Float64[np.ndarray, "n"]
    features: tuple[str, ...]
    part: Int64[np.ndarray, "n"] | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Queries:
    """The points at which the fusion center wants to know the output, in the data's own units.

    Attributes
    ----------
    x : ndarray
        ``(t, d)`` inputs, finite.
    features : tuple of str
        Names of the d inputs.
    y : ndarray or None
        ``(t,)`` outputs that were measured there, to judge the answers by; None: nobody knows them.
    names : ndarray or None
        ``(t,)`` what the points are called; None: by their number.
    """

    x: Float64[np.ndarray, "t d"]
    features: tuple[str, ...]
    y: Float64[np.ndarray, "t"] | None = None
    names: Shaped[np.ndarray, "t"] | None = None
