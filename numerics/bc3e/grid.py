"""Sums that do not depend on who adds them, or in which order.

Floating-point addition is not associative, so the same statistics summed over two sites or over seven differ in their
last bits. Every summand that crosses a site's border is therefore put on the grid of multiples of ``2**-bits`` and
carried as a 64-bit integer: integer sums are exact, so a federated computation equals the centralized one bit for bit
(docs/bc3e.md). The same integers are what secure aggregation needs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

MAX_BITS = 30
"""Finest grid in use: 2**-30 is 9.3e-10, below the tolerance 1e-8 of the E-step."""

MIN_BITS = 20
"""Coarsest grid that still gives six decimal digits in every summand."""


def choose_bits(n_summands: int, largest: float) -> int:
    """Return the finest grid on which `n_summands` summands of size up to `largest` cannot overflow 64 bits.

    Parameters
    ----------
    n_summands : int
        Number of summands over all sites.
    largest : float
        Bound on the absolute value of one summand.

    Returns
    -------
    int
        Number of fractional bits, between `MIN_BITS` and `MAX_BITS`.

    Raises
    ------
    ValueError
        If even `MIN_BITS` could overflow.

    Examples
    --------
    >>> choose_bits(1000, largest=1.0)
    30
    """
    room = 62 - int(np.ceil(np.log2(max(n_summands, 1) * max(largest, 1.0))))
    if room < MIN_BITS:
        raise ValueError(
            f"{n_summands} summands of size up to {largest:g} leave {room} fractional bits in 64, {MIN_BITS} are needed"
        )
    return min(MAX_BITS, room)


def to_grid(values: Float64[np.ndarray, "*shape"], bits: int) -> Int64[np.ndarray, "*shape"]:
    """Return the nearest integers to ``values * 2**bits`` (ties to even).

    Examples
    --------
    >>> to_grid(np.array([0.25, 0.3]), bits=2).tolist()
    [1, 1]
    """
    return np.asarray(np.rint(np.ldexp(values, bits)).astype(np.int64))


def add_up(
    integers: Int64[np.ndarray, "*shape n"], counts: Int64[np.ndarray, "n"] | None
) -> Int64[np.ndarray, "*shape"]:
    """Sum the last axis, each of its entries as many times as `counts` says (None: once).

    Examples
    --------
    >>> add_up(np.array([[1, 2], [3, 4]]), np.array([10, 1])).tolist()
    [12, 34]
    """
    return np.asarray(integers.sum(axis=-1) if counts is None else integers @ counts)


def one_to_grid(value: float, bits: int) -> int:
    """Apply `to_grid` to a single number."""
    return round(value * 2.0**bits)


def from_grid(integers: Int64[np.ndarray, "*shape"], bits: int) -> Float64[np.ndarray, "*shape"]:
    """Return the numbers that integers on the grid stand for."""
    return np.asarray(np.ldexp(integers.astype(np.float64), -bits))
