"""Data of a Gaussian process regression: a site's rows, and the center's query points."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from numerics.shared.folds import OPTIONAL, Persons, of_rows

LIMIT = 8.0
"""Deviations from the median beyond which an output counts as an outlier."""
WRONG_LIMIT = 1000.0
"""Deviations from the median beyond which a cell counts as wrong: a shifted decimal point, another unit, a code."""
_FEW = 0.01
"""Largest share of rows with a wrong cell in one column. If more cells lie that far off, none counts as wrong."""
_NORMAL = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """One site's rows, in the units of the data.

    Attributes
    ----------
    x : ndarray
        ``(n, d)`` inputs, finite.
    y : ndarray
        ``(n,)`` outputs, finite; the places of classes in `classes`.
    features : tuple of str
        Names of the d inputs.
    part : ndarray or None
        ``(n,)`` number of each row's expert, from 0 on without gaps; None if the site is one expert, or splits its rows
        itself.
    person : ndarray or None
        ``(n,)`` numbers of the persons that the rows are about; None: every row is about another one.
    classes : tuple of str
        Classes that the outputs have, in order; none: they are amounts.

    Examples
    --------
    >>> Measurements(np.zeros((3, 1)), np.arange(3.0), ("depth",)).n
    3
    """

    x: Float64[np.ndarray, "n d"]
    y: Float64[np.ndarray, "n"]
    features: tuple[str, ...]
    part: Int64[np.ndarray, "n"] | None = None
    person: Persons = field(default=None, metadata=OPTIONAL)
    classes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    def cells_beyond(self, limit: float) -> Bool[np.ndarray, "n columns"]:
        """``(n, d + 1)`` mask of outputs beyond `limit` deviations from their median, and of wrong cells.

        The deviation is 1.4826 times the median absolute deviation from the median, which no wrong cell changes much.
        No cell is outlying in a column of mostly equal cells, and no class is.
        """
        cells = np.zeros((self.n, len(self.features) + 1), bool)
        for column, values in enumerate(self.x.T):
            cells[:, column] = _are_wrong(_deviations(values))
        if not self.classes:
            deviations = _deviations(self.y)
            cells[:, -1] = _are_wrong(deviations) | (deviations > limit)
        return cells

    def without_outliers(self, limit: float, least: int, rng: np.random.Generator) -> Measurements:
        """Return the rows without those that have an outlying cell.

        A row that is left out costs its information; one whose output is moved to the limit still misleads
        (docs/gp.md).

        Parameters
        ----------
        limit : float
            As in `cells_beyond`: `LIMIT`, or infinity for wrong cells only.
        least : int
            Fewest rows that are left out, if any are; the others are drawn at random. Whoever knows the moments with
            and without these rows then learns the moments of no fewer rows.
        rng : Generator
            Source of this draw.

        Examples
        --------
        >>> rows = Measurements(np.zeros((5, 1)), np.array([1.0, 2.0, 3.0, 4.0, 1e6]), ("depth",))
        >>> rows.without_outliers(LIMIT, 1, np.random.default_rng(0)).y.tolist()
        [1.0, 2.0, 3.0, 4.0]
        >>> rows.without_outliers(LIMIT, 3, np.random.default_rng(0)).n
        2
        """
        usual = self.usual(limit, least, rng)
        if usual.all():
            return self
        # An expert may lose all its rows; numbers stay without gaps.
        part = None if self.part is None else np.unique(self.part[usual], return_inverse=True)[1].astype(np.int64)
        person = of_rows(self.person, usual)
        return Measurements(self.x[usual], self.y[usual], self.features, part, person, self.classes)

    def usual(self, limit: float, least: int, rng: np.random.Generator) -> Bool[np.ndarray, "n"]:
        """``(n,)`` mask of the rows that `without_outliers` keeps."""
        usual: Bool[np.ndarray, "n"] = np.asarray(~self.cells_beyond(limit).any(axis=1))
        more = 0 if usual.all() else max(0, least - int((~usual).sum()))
        usual[rng.permutation(np.flatnonzero(usual))[:more]] = False
        return usual

    def with_common_outputs(self, fewest: int) -> Measurements:
        """Return the rows with outputs moved to `LIMIT` deviations from the median, on a side with too few beyond it.

        The center knows a sum of squares, and a single far output would be nearly all of it. The sum then reveals only
        that there are such outputs.

        Parameters
        ----------
        fewest : int
            Fewest outputs beyond the limit on one side that stay as they are.

        Examples
        --------
        >>> rows = Measurements(np.zeros((5, 1)), np.array([1.0, 2.0, 3.0, 4.0, 100.0]), ("depth",))
        >>> rows.with_common_outputs(2).y.round(3).tolist()
        [1.0, 2.0, 3.0, 4.0, 14.861]
        >>> rows.with_common_outputs(1) is rows
        True
        """
        middle, y = np.median(self.y), self.y.copy()
        distance = np.abs(y - middle)
        usual = LIMIT * _NORMAL * np.median(distance)
        for side in (-1, 1):
            beyond = (distance > usual) & ((y > middle) == (side > 0))
            if 0 < beyond.sum() < fewest and usual > 0:
                y[beyond] = middle + side * usual
        return self if self.classes or np.array_equal(y, self.y) else replace(self, y=y)


def _deviations(values: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """Return how many deviations values lie from their median; 0 where most are equal."""
    distance = np.abs(values - np.median(values))
    usual = _NORMAL * np.median(distance)
    return distance / usual if usual > 0 else np.zeros(len(values))


def _are_wrong(deviations: Float64[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Return which cells of a column count as wrong: those far off, if they are very few."""
    wrong = deviations > WRONG_LIMIT
    return np.asarray(wrong & (wrong.sum() <= max(1.0, _FEW * len(wrong))))


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
        ``(t,)`` measured outputs, with which predictions are evaluated; the places of classes in `classes`; NaN where
        none was measured. None if all are unknown.
    names : ndarray or None
        ``(t,)`` names of the points; None for their numbers.
    classes : tuple of str
        Classes that the outputs may have, in order; none: they are amounts, or unknown.

    Examples
    --------
    >>> Queries(np.array([[0.5], [1.5]]), ("depth",)).y is None
    True
    >>> Queries(np.array([[0.5], [1.5]]), ("depth",), np.array([np.nan, 3.0])).measured
    array([1])
    """

    x: Float64[np.ndarray, "t d"]
    features: tuple[str, ...]
    y: Float64[np.ndarray, "t"] | None = None
    names: Shaped[np.ndarray, "t"] | None = None
    classes: tuple[str, ...] = ()

    @property
    def measured(self) -> Int64[np.ndarray, "m"]:
        """``(m,)`` places of the points with a measured output."""
        return np.zeros(0, np.int64) if self.y is None else np.flatnonzero(~np.isnan(self.y))
