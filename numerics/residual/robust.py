"""Agents that raise the error on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

import numpy as np
from jaxtyping import Float64

NOTABLE = 0.05
"""Relative increase of the error from which a report names an agent."""

_HARMFUL = 0.3
"""Relative increase of the error from which an agent is left out: honest trees that overfit often add a fifth."""

_STANDARD_ERRORS = 4.0
"""Standard errors of the mean difference that chance reaches at no agent in any iteration."""

_OF_A_PAIR, _OF_ONE_IN_IT = 6.0, 2.0
"""Standard errors that two agents together must exceed, and each without the other. Chance reaches 4.2 at one of the
many pairs in 240 honest runs."""

_FEWEST_FOR_PAIRS = 5
"""Fewest agents of which two are a minority."""


def raises_error(
    with_it: Float64[np.ndarray, "m"],
    without: Float64[np.ndarray, "m"],
    standard_errors: float = _STANDARD_ERRORS,
) -> bool:
    """Return whether something raises the mean squared error, by more than 30 % and more than chance.

    A run asks this of every agent in every iteration. So 5 % and two standard errors left honest agents out by chance,
    and an honest boosting with 65 validation rows reached 38 % and three.

    Parameters
    ----------
    with_it, without : ndarray
        ``(m,)`` residuals of the same validation rows.
    standard_errors : float
        Standard errors of the mean difference that chance may reach.

    Examples
    --------
    >>> residual = np.tile([1.0, -1.0, 0.5, -0.5], 5)
    >>> raises_error(3 * residual, residual), raises_error(1.1 * residual, residual)
    (True, False)
    """
    if len(without) < 2:
        return False
    differences = with_it**2 - without**2
    mean, scatter = float(differences.mean()), float(differences.std(ddof=1)) / np.sqrt(len(differences))
    return bool(mean > max(_HARMFUL * float(without @ without) / len(without), standard_errors * scatter))


def harmful_agents(
    residual_without: Callable[[frozenset[int]], Float64[np.ndarray, "m"]], present: Collection[int]
) -> frozenset[int]:
    """Return the agents that raise the error, by backward elimination; never all of them.

    Where no agent alone does, two may hide each other: without either one the other still errs. Of five agents or more
    such a pair is left out, if each raises the error without the other, too.

    Parameters
    ----------
    residual_without : Callable
        ``residual_without(left_out)``: residual of the validation rows with all other agents combined anew.
    present : collection of int
        The agents.

    Examples
    --------
    >>> parts = np.array([[1.0, -1.0, 1.0, -1.0], [-9.0, 9.0, 9.1, 9.0]]).repeat(2, axis=1)
    >>> harmful_agents(lambda out: parts[0] - sum(parts[j] for j in {0, 1} - set(out)), {0, 1})
    frozenset({1})
    """
    left_out: frozenset[int] = frozenset()
    residual_without = cache(residual_without)  # each combination solves for the weights anew
    while len(rest := sorted(set(present) - left_out)) > 1:
        residual, first = residual_without(left_out), _best_left_out(residual_without, left_out, rest)
        if raises_error(residual, residual_without(left_out | {first})):
            left_out |= {first}
            continue
        if len(rest) < _FEWEST_FOR_PAIRS:
            break
        second = _best_left_out(residual_without, left_out | {first}, [j for j in rest if j != first])
        pair = residual_without(left_out | {first, second})
        each = (residual_without(left_out | {j}) for j in (first, second))
        if not raises_error(residual, pair, _OF_A_PAIR) or not all(raises_error(r, pair, _OF_ONE_IN_IT) for r in each):
            break
        left_out |= {first, second}
    return left_out


def _best_left_out(
    residual_without: Callable[[frozenset[int]], Float64[np.ndarray, "m"]],
    left_out: frozenset[int],
    rest: Collection[int],
) -> int:
    """Return the agent without which the error is lowest."""

    def error(j: int) -> float:
        residual = residual_without(left_out | {j})
        return float(residual @ residual)

    return min(rest, key=error)
