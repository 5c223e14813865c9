"""Parts of rows for hold-outs and folds; rows of one person lie in one part."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64, UInt8

Split = tuple[Int64[np.ndarray, "a"], Int64[np.ndarray, "b"]]
"""Rows to fit to, and rows to predict."""
OPTIONAL = {"optional": True}
"""Metadata of a field that digests leave out where it is None (clients/digest.py)."""
Persons = Int64[np.ndarray, "n"] | None
"""``(n,)`` number of the person that each row is about; None: each row is another person."""


def draw_folds(n: int, rng: np.random.Generator, n_parts: int, person: Persons = None) -> list[Split]:
    """Divide rows, or persons, at random into `n_parts` parts or as many as there are; return (other rows, part) each.

    Examples
    --------
    >>> [len(part) for _, part in draw_folds(12, np.random.default_rng(0), 5)]
    [3, 3, 2, 2, 2]
    >>> sorted(part.tolist() for _, part in draw_folds(4, np.random.default_rng(0), 5, np.array([0, 0, 7, 0])))
    [[0, 1, 3], [2]]
    """
    rows = np.arange(n)
    numbers = persons_in(rows, person)
    parts = np.array_split(rng.permutation(len(numbers)), min(n_parts, len(numbers)))
    own = parts if person is None else [np.flatnonzero(np.isin(person, numbers[part])) for part in parts]
    return [(np.setdiff1d(rows, part), part) for part in own]


def draw_halves(n: int, rng: np.random.Generator, person: Persons = None) -> Split:
    """Draw two halves of the rows, or of the persons; of an odd number, the second half has one more.

    Examples
    --------
    >>> first, second = draw_halves(5, np.random.default_rng(0), np.array([3, 3, 3, 3, 8]))
    >>> sorted((len(first), len(second)))
    [1, 4]
    """
    numbers = persons_in(np.arange(n), person)
    order = rng.permutation(len(numbers))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    if person is None:
        return halves
    first, second = (np.flatnonzero(np.isin(person, numbers[half])) for half in halves)
    return first, second


def draw_kinds(
    person: Int64[np.ndarray, "n"], test: float, validation: float, rng: np.random.Generator
) -> UInt8[np.ndarray, "n"]:
    """Draw each person's rows for training (0), validation (1) or test (2).

    Parameters
    ----------
    person : ndarray
        ``(n,)`` persons of the rows.
    test, validation : float
        Share of the test persons among all, and of the validation persons among the others.
    rng : Generator
        Source of the draw.

    Examples
    --------
    >>> kinds = draw_kinds(np.array([0, 0, 1, 2, 3]), 0.25, 0.3, np.random.default_rng(0))
    >>> bool(kinds[0] == kinds[1]), sorted(kinds[1:].tolist())
    (True, [0, 0, 1, 2])
    """
    place = np.unique(person, return_inverse=True)[1]
    n = int(place.max(initial=-1)) + 1
    n_test = round(test * n)
    n_validation = round(validation * (n - n_test))
    kinds = np.zeros(n, np.uint8)
    order = rng.permutation(n)
    kinds[order[:n_test]] = 2
    kinds[order[n_test : n_test + n_validation]] = 1
    return kinds[place]


def persons_in(rows: Int64[np.ndarray, "m"], person: Persons) -> Int64[np.ndarray, "persons"]:
    """Return the numbers of the persons of some rows, each once; without persons, the rows.

    Examples
    --------
    >>> persons_in(np.array([1, 2, 3]), np.array([5, 4, 4, 9]))
    array([4, 9])
    """
    return rows if person is None else np.unique(person[rows])


def of_rows(person: Persons, rows: Int64[np.ndarray, "m"]) -> Persons:
    """Return the persons of some rows; None without persons."""
    return None if person is None else person[rows]


def rows_that_hold(n_persons: int, person: Persons) -> int:
    """Return the least m for which any m rows belong to `n_persons` persons or more.

    Examples
    --------
    >>> rows_that_hold(3, None), rows_that_hold(3, np.array([0, 0, 0, 0, 1, 1, 2, 3]))
    (3, 7)
    """
    if person is None or n_persons <= 1:
        return n_persons
    sizes = np.sort(np.unique(person, return_counts=True)[1])
    return int(sizes[-(n_persons - 1) :].sum()) + 1 + max(0, n_persons - 1 - len(sizes))
