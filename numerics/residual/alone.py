"""Errors of the agents alone, beside that of their combination, on the same test rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True, eq=False)
class Alone:
    """Errors of agents that predict the test rows by their own columns alone.

    Attributes
    ----------
    names : tuple of str
        The k agents whose predictions are known.
    values : ndarray
        ``(k, 3)`` mean squared error on the test rows; that of the combination less it; standard error of this
        difference, in which every test row is a pair.
    """

    names: tuple[str, ...]
    values: Float64[np.ndarray, "k 3"]

    @property
    def best(self) -> str:
        """The agent with the smallest error, the first by name if equal."""
        return self.names[int(np.argmin(self.values[:, 0]))]

    def of(self, name: str) -> Float64[np.ndarray, "3"]:
        """Return error, difference and standard error of one agent."""
        return np.asarray(self.values[self.names.index(name)])


_SHARES = (0.0, 0.5, 1.0)
"""Shares of a site's own prediction in the result: none, the mean of both, all."""


def best_share(together: Float64[np.ndarray, "n"], own: Float64[np.ndarray, "n"]) -> float:
    """Return the share of a site's own prediction that leaves least of some rows: 0, a half, or 1; the least if equal.

    With few rows the combination of steps may do worse than one site alone; their mean is often better than both.

    Parameters
    ----------
    together, own : ndarray
        ``(n,)`` what the combination leaves of the rows, and what the site's own prediction leaves; from models that
        have not learned from these rows.

    Examples
    --------
    >>> best_share(np.array([1.0, 1.0]), np.array([-1.0, 0.5])), best_share(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    (0.5, 0.0)
    """
    errors = [float(np.mean(((1 - share) * together + share * own) ** 2)) for share in _SHARES]
    return _SHARES[int(np.argmin(errors))]


def errors_alone(
    predictions: Mapping[str, Float64[np.ndarray, "m"]], y: Float64[np.ndarray, "m"], left: Float64[np.ndarray, "m"]
) -> Alone:
    """Compare agents alone with their combination.

    Parameters
    ----------
    predictions : Mapping[str, ndarray]
        By agent, ``(m,)`` predictions of the m test rows by its own columns alone; one agent at least.
    y : ndarray
        ``(m,)`` outcomes of these rows.
    left : ndarray
        ``(m,)`` what the combination leaves of them.

    Examples
    --------
    >>> alone = errors_alone({"shop": np.zeros(4)}, np.array([2.0, 2.0, -2.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0]))
    >>> alone.of("shop").round(3)
    array([ 3.   , -2.25 ,  1.109])
    """
    names = tuple(sorted(predictions))
    squares = np.square(y - np.array([predictions[name] for name in names]))
    pairs = np.square(left) - squares
    m = len(y)
    scatter = pairs.std(axis=1, ddof=1) / np.sqrt(m) if m > 1 else np.zeros(len(names))
    return Alone(names, np.stack([squares.mean(axis=1), pairs.mean(axis=1), scatter], axis=1))
