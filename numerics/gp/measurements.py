"""Data of a Gaussian process regression: a site's rows, and the center's query points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped


@dataclass(frozen=True, eq=False)
class Measurements:
    """One site's rows, in the units of the data.

    Attributes
    ----------
    x : ndarray
        ``(n, d)`` inputs, finite.
    y : ndarray
        ``(n,)`` outputs, finite.
    features : tuple of str
        Names of the d inputs.
    part : ndarray or None
        ``(n,)`` number of each row's expert, from 0 on without gaps; None if the site is one expert, or splits its rows
        itself.

    Examples
    --------
    >>> Measurements(np.zeros((3, 1)), np.arange(3.0), ("depth",)).n
    3
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
    """Points at which the fusion center wants predictions, in the units of the data.

    Attributes
    ----------
    x : ndarray
        ``(t, d)`` inputs, finite.
    features : tuple of str
        Names of the d inputs.
    y : ndarray or None
        ``(t,)`` measured outputs, with which predictions are evaluated; None if they are unknown.
    names : ndarray or None
        ``(t,)`` names of the points; None for their numbers.

    Examples
    --------
    >>> Queries(np.array([[0.5], [1.5]]), ("depth",)).y is None
    True
    """

    x: Float64[np.ndarray, "t d"]
    features: tuple[str, ...]
    y: Float64[np.ndarray, "t"] | None = None
    names: Shaped[np.ndarray, "t"] | None = None
