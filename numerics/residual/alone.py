"""Errors of the agents alone, beside that of their combination, on the same test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.residual.chosen_boosting import is_notable


@dataclass(frozen=True, eq=False)
class Alone:
    """Errors of agents that predict the test rows by their own columns alone.

    Attributes
    ----------
    names : tuple of str
        The k agents whose predictions are known.
    values : ndarray
        ``(k, 3)`` an agent's mean loss on the test rows (squared error, or log loss); the combination's mean loss minus
        that; the paired standard error of this difference.
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


SURE = 2.0
"""Standard errors by which the share 1 of a site's own probabilities must beat the share 1/2, and trees on steps the
steps' sum."""


def best_share(losses: Callable[[float], Float64[np.ndarray, "m"]], gate: float, sure: float = 0.0) -> float:
    """Return the share of a site's own prediction in the result: the best of 0, a half, and 1.

    With few rows the combination of steps may do worse than one site alone; their mean is often better than both. The
    share is 0 unless the gain is more than chance explains: of many sites one is the best by chance, and its trees have
    been chosen by the same rows.

    Parameters
    ----------
    losses : Callable
        ``losses(share)`` of rows that the models have not learned from.
    gate : float
        Standard errors that the gain must exceed.
    sure : float
        Standard errors by which the share 1 must be better than a half. For classes it is `SURE`: few rows dominate a
        log loss, and a mean of probabilities is safe where one of them is confident and wrong.

    Examples
    --------
    >>> losses = {0.0: np.ones(3), 0.5: np.array([0.5, 0.4, 0.6]), 1.0: np.array([0.1, 0.1, 0.9])}
    >>> best_share(losses.__getitem__, gate=1.0), best_share(losses.__getitem__, gate=1.0, sure=2.0)
    (1.0, 0.5)
    """
    share = min(_SHARES, key=lambda each: losses(each).mean())
    if share == 1 and not is_notable(losses(0.5) - losses(1.0), sure):
        share = 0.5
    return share if is_notable(losses(0.0) - losses(share), gate) else 0.0


def errors_alone(alone: Mapping[str, Float64[np.ndarray, "m"]], together: Float64[np.ndarray, "m"]) -> Alone:
    """Compare agents alone with their combination.

    Parameters
    ----------
    alone : Mapping[str, ndarray]
        By agent, ``(m,)`` losses of the m test rows, predicted by its own columns alone; one agent at least.
    together : ndarray
        ``(m,)`` losses of these rows, predicted by the combination.

    Examples
    --------
    >>> alone = errors_alone({"shop": np.array([4.0, 4.0, 4.0, 0.0])}, np.array([1.0, 1.0, 0.0, 1.0]))
    >>> alone.of("shop").round(3)
    array([ 3.   , -2.25 ,  1.109])
    """
    names = tuple(sorted(alone))
    losses = np.array([alone[name] for name in names])
    pairs = together - losses
    m = len(together)
    scatter = pairs.std(axis=1, ddof=1) / np.sqrt(m) if m > 1 else np.zeros(len(names))
    return Alone(names, np.stack([losses.mean(axis=1), pairs.mean(axis=1), scatter], axis=1))
