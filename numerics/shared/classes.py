"""Lists of classes: their order, the union of several sites' lists, and probabilities for a longer list.

A site knows the classes of its own rows. The class list of a run is the union over the sites. A site that lacks a class
uses its own list; its probabilities are moved to the places of its classes in the list of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float64, Int64

SMALLEST_PROBABILITY = 1e-6
"""Smallest probability in a logarithm: a row's log loss is 13.8 at most."""


def sort_classes(labels: Iterable[str]) -> tuple[str, ...]:
    """Return class labels in order, each once: by number if all are numbers, otherwise by text.

    Examples
    --------
    >>> sort_classes(["10", "9", "9"]), sort_classes(["yes", "no"])
    (('9', '10'), ('no', 'yes'))
    """
    distinct = sorted(set(labels))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)


def union_of_classes(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the class list of a run: every class that some site has, in order.

    Examples
    --------
    >>> union_of_classes([("b", "c"), ("a", "c")])
    ('a', 'b', 'c')
    """
    return sort_classes(label for each in lists for label in each)


def places_of(own: Sequence[str], agreed: Sequence[str]) -> Int64[np.ndarray, "own"]:
    """Return the place of each class in a longer list that has all of them.

    Raises
    ------
    ValueError
        If a class is not in the longer list.

    Examples
    --------
    >>> places_of(("a", "c"), ("a", "b", "c"))
    array([0, 2])
    """
    places = {label: place for place, label in enumerate(agreed)}
    if missing := [label for label in own if label not in places]:
        raise ValueError(f"the class {missing[0]!r} is not in the list of the run")
    return np.array([places[label] for label in own], np.int64)


def align_probabilities(
    probabilities: Float64[np.ndarray, "*rows own"], places: Int64[np.ndarray, "own"], n_classes: int, n_rows: float
) -> Float64[np.ndarray, "*rows k"]:
    """Extend probabilities to a longer class list, and smooth them by the model's number of rows.

    No model of n rows knows that a class is impossible. One imaginary row counts for all classes alike (Perks 1947), so
    the smallest probability is ``1 / k / (n + 1)``, also for a class without a row.

    Parameters
    ----------
    probabilities : ndarray
        ``(..., own)``, which sum to 1.
    places : ndarray
        ``(own,)`` from `places_of`.
    n_classes : int
        Length k of the longer list.
    n_rows : float
        Rows that the model learned from; infinity leaves the probabilities as they are.

    Examples
    --------
    >>> align_probabilities(np.array([[1.0, 0.0]]), np.array([0, 2]), 4, n_rows=9)
    array([[0.925, 0.025, 0.025, 0.025]])
    """
    aligned = np.zeros((*probabilities.shape[:-1], n_classes))
    aligned[..., places] = probabilities
    share = 1 / (n_rows + 1)
    return np.asarray((1 - share) * aligned + share / n_classes)


def one_hot(y: Int64[np.ndarray, "n"], n_classes: int) -> Float64[np.ndarray, "n k"]:
    """Return a column for every class: 1 where a row has it, 0 elsewhere.

    Examples
    --------
    >>> one_hot(np.array([1, 0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    return np.asarray(np.eye(n_classes)[y])


def balancing_weights(y: Int64[np.ndarray, "n"], n_fit: int, n_classes: int) -> Float64[np.ndarray, "n"]:
    """Return row weights by which all classes have the same total in the first `n_fit` rows; their mean there is 1.

    A class without a row among these counts as if it had one.

    Examples
    --------
    >>> balancing_weights(np.array([0, 0, 0, 1]), 4, 2).round(3)
    array([0.667, 0.667, 0.667, 2.   ])
    """
    counts = np.maximum(np.bincount(y[:n_fit], minlength=n_classes), 1)
    n_present = len(np.unique(y[:n_fit]))
    return np.asarray((n_fit / n_present / counts)[y])


def probabilities_of_scores(scores: Float64[np.ndarray, "c n"]) -> Float64[np.ndarray, "n k"]:
    """Return the class probabilities of n rows by softmax: two classes have one score (the log odds), k classes k.

    Examples
    --------
    >>> probabilities_of_scores(np.array([[0.0, np.log(3.0)]])).round(3)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    every = np.vstack([np.zeros_like(scores), scores]) if len(scores) == 1 else scores
    powers = np.exp(every - every.max(axis=0))
    return np.asarray((powers / powers.sum(axis=0)).T)


_ROUNDING = 1e-4
"""Tolerance for a sum of 1: probabilities may have crossed the wire in single precision."""


def are_probabilities(values: Float64[np.ndarray, "n k"]) -> bool:
    """Return whether every row has numbers from 0 to 1 with the sum 1.

    Examples
    --------
    >>> are_probabilities(np.array([[0.25, 0.75]])), are_probabilities(np.array([[0.5, 0.6]]))
    (True, False)
    """
    inside = bool(((values >= 0) & (values <= 1 + _ROUNDING)).all())
    return inside and bool((np.abs(values.sum(axis=1) - 1) <= _ROUNDING).all())
