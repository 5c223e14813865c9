"""Which prediction a learner should use, by its own held-out rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

_CHANCE = 0.025
"""Probability that a difference of this size arises by chance, in one direction."""
_HALF = 0.5
"""Relative error from which on a squared standard error is not reliable."""
_ROUNDING = 1e-9
"""Relative difference between equal losses that were summed in different ways."""
_ANSWERS = ("alone", "cluster", "personal")
"""The simplest one first."""
_LARGEST_SQUARE = 8.0
"""The largest squared difference of a row over their mean, of some ten to a hundred rows."""


def first_choice(ways: Collection[str]) -> str:
    """Return the way that is recommended unless held-out rows refute it: personal, else cluster, else alone.

    Examples
    --------
    >>> first_choice(("alone", "cluster", "personal")), first_choice(("alone", "all"))
    ('personal', 'alone')
    """
    return next((way for way in reversed(_ANSWERS) if way in ways), "")


def recommend(
    errors: Mapping[str, float],
    deviations: Mapping[str, float],
    n_test: int,
    noise: float = 0.0,
    *,
    squared: bool = True,
) -> str:
    """Return `first_choice`, or another way if that is better by more than chance explains.

    Clusters and personal weights were chosen by all rows that the learners fitted to, which are more than those held
    out. So the held-out rows can refute them, and need not confirm them.

    Parameters
    ----------
    errors : Mapping[str, float]
        Mean losses by name, ``cluster`` among them, infinite where a prediction was not finite.
    deviations : Mapping[str, float]
        Standard errors of the differences to the error of `first_choice`.
    n_test : int
        Rows held out, at least 1.
    noise : float
        Standard deviation of the noise in each error, in units of the influence of a row; 0: no noise. If it is large,
        standard errors are not reliable, and only ``alone``, whose error has no noise, can refute the first choice.
    squared : bool
        Whether losses are squared errors, whose ratio is tested as well as their difference.

    Examples
    --------
    >>> errors, deviations = {"alone": 1.0, "cluster": 1.5, "personal": 1.6}, {"alone": 0.2, "cluster": 0.1}
    >>> recommend(errors, deviations, 40), recommend(errors, deviations, 2)
    ('alone', 'personal')

    A learner that is a cluster of its own is alone, up to rounding:

    >>> recommend({"alone": 1.0, "cluster": 1.0 + 1e-15}, {"alone": 1e-16}, 40)
    'alone'
    """
    finite = {name: errors[name] for name in _ANSWERS if np.isfinite(errors.get(name, np.inf))}
    base = first_choice(finite)
    if not base:
        return "cluster"
    reliable = is_reliable(noise)
    spread = float(np.sqrt(noise_factor(n_test, noise)))
    apart = {name: deviations.get(name, 0.0) * (name != base) for name in finite}
    rivals = [name for name in finite if name != base and (reliable or name == "alone")]
    better = [
        name
        for name in rivals
        if _is_worse(finite[base], finite[name], apart[name] * spread, n_test, paired=reliable, squared=squared)
    ]
    if better:
        return min(better, key=finite.__getitem__)
    # The same model predicts by several ways, whose last digits differ.
    nearest = {name: max(abs(finite[name] - finite[base]), apart[name]) for name in finite}
    return next(name for name, distance in nearest.items() if distance <= _ROUNDING * finite[base])


def is_same(error: float, other: float) -> bool:
    """Return whether two mean losses of the same rows differ by rounding only.

    Examples
    --------
    >>> is_same(0.1 + 0.2, 0.3), is_same(0.3, 0.4)
    (True, False)
    """
    return abs(error - other) <= _ROUNDING * max(error, other)


def is_reliable(noise: float) -> bool:
    """Return whether standard errors are reliable in spite of the noise in each error.

    Examples
    --------
    >>> is_reliable(0.0), is_reliable(0.2)
    (True, False)
    """
    return noise * _LARGEST_SQUARE < _HALF


def noise_factor(n_test: int, noise: float) -> float:
    """Return the factor by which noise in each error raises the squared standard error of a difference.

    Examples
    --------
    >>> noise_factor(40, 0.0), noise_factor(100, 0.5)
    (1.0, 401.0)
    """
    return 1 + 2 * _LARGEST_SQUARE * n_test * noise**2


def _is_worse(error: float, other: float, deviation: float, n: int, *, paired: bool, squared: bool) -> bool:
    """Return whether an error is larger than another by more than chance explains.

    Either the difference is, by a t test, or the ratio, by an F test. The latter needs no differences row by row, which
    are very unequal where one of the two predictions is far off.
    """
    from scipy.special import fdtri, stdtrit  # importing it takes a while

    if n < 2:
        return False
    different = (paired or not squared) and error - other > float(stdtrit(n - 1, 1 - _CHANCE)) * deviation > 0
    return bool(different or (squared and error > float(fdtri(n, n, 1 - _CHANCE)) * other))
