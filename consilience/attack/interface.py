"""Interface of a protocol's ``attack`` module: attacks of a lying fusion center, and the rows that they try to read.

``ATTACKS``
    A mapping from a name to an attack: a function that takes an `AttackedSite` (consilience/attack/site.py) and
    returns `Claims`. The first line of its docstring describes it. `consilience.attack.playing` calls each with a fresh
    site on the same data. An attack knows only the site's answers and the range of each column, which is often common
    knowledge.
``true_rows(shard) -> ndarray``
    ``(n, q)`` the site's true rows, from the shard of ``open_shard``: every value that the attacks claim to know.
    `playing` compares the claims with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from consilience.attack.site import AttackedSite


@dataclass(frozen=True)
class Claims:
    """Claims of an attack: numbers of rows in boxes.

    Attributes
    ----------
    low, high : ndarray
        ``(boxes, q)`` bounds, in the columns of `true_rows`; infinite: no claim about this column.
    counts : ndarray
        ``(boxes,)`` number of rows from `low`, inclusive, to `high`, exclusive.
    notes : list of str
        Further findings, a line each.

    Examples
    --------
    >>> Claims(np.array([[0.0]]), np.array([[1.0]]), np.array([2])).counts
    array([2])
    """

    low: Float64[np.ndarray, "boxes q"]
    high: Float64[np.ndarray, "boxes q"]
    counts: Int64[np.ndarray, "boxes"]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def points(
        cls,
        rows: Float64[np.ndarray, "boxes q"],
        tolerance: Float64[np.ndarray, "q"] | float,
        notes: Sequence[str] = (),
    ) -> Claims:
        """Claim that each of these points is one of the rows, up to a tolerance.

        Examples
        --------
        >>> Claims.points(np.array([[1.0, 2.0]]), 0.5).low
        array([[0.5, 1.5]])
        """
        rows = rows.reshape(len(rows), -1)
        return cls(rows - tolerance, rows + tolerance, np.ones(len(rows), np.int64), list(notes))

    @classmethod
    def none(cls, n_columns: int, *notes: str) -> Claims:
        """Claim nothing.

        Examples
        --------
        >>> Claims.none(2, "the site refuses").notes
        ['the site refuses']
        """
        nothing = np.zeros((0, n_columns))
        return cls(nothing, nothing, np.zeros(0, np.int64), list(notes))


Attack = Callable[[AttackedSite], Claims]
