"""What crosses the wire in fair clustering from coresets (docs/coreset.md, "What left my site").

Two asks: every site sums up its rows in weighted points; every site is told how many of the rows behind each of its
points belong to which center, and answers how many rows of each colour its clusters have. Where the fair assignment is
to be that of all rows, and not of the points, rounds of prices come between.

What that reveals: a point is the centroid of as many rows of one colour as its weight says, `Construction.min_weight`
at least; the names of columns, and of colours that have so many rows; and sums over all rows. Rounds of prices reveal
more: `Masses` and `Settle.targets` are counts, which may be of one row, and a center that means ill can choose prices
with which they tell of single rows; a real site answers none without its own consent. No payload holds a row as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from protocols.wire.payload import Payload

MOST_ROWS = 10**10
"""Rows that a site may say it has."""
MOST_POINTS = 10**7
"""Points that a site may be asked for, or send."""
LARGEST, LARGEST_SUM = 1e50, 1e120
"""A coordinate, and a sum of squares, beyond these count as not finite: squares and sums of them would not be."""
LEAST_TEMPERATURE = 1e-7
"""Below it the softened minimum is hardly one."""
MOST_PRICED = 100
"""Centers with which rows are priced: for every table of prices a site answers k^2 numbers for each colour."""


@dataclass(frozen=True)
class Summary(Payload):
    """Up, once: the site's rows as a coreset (papers/fair_coresets.txt, Definition 4 and Theorem 7).

    Attributes
    ----------
    features : tuple of str
        Names of the d columns, in order.
    colours : tuple of str
        Names of the colours of its points.
    points : ndarray
        Each the centroid of the rows that it stands for, in the data's own units.
    weights : ndarray
        How many rows each stands for.
    colour : ndarray
        Which colour they have, a place in `colours`.
    movement : ndarray
        For every column the sum, over all rows that some point stands for, of their squared distance to it.
    n_rows : int
        Rows that the site has.
    withheld : int
        How many of them no point stands for: their colour is rarer than `Construction.min_weight` rows.
    merged : int
        Points that were lighter than that, and joined another.
    """

    features: tuple[str, ...]
    colours: tuple[str, ...]
    points: Float64[np.ndarray, "n d"]
    weights: Int64[np.ndarray, "n"]
    colour: Int64[np.ndarray, "n"]
    movement: Float64[np.ndarray, "d"]
    n_rows: int
    withheld: int
    merged: int


@dataclass(frozen=True)
class Construction(Payload):
    """What every ask begins with: how a site's rows become points.

    It is repeated, so that a site that has lost its memory between two asks finds the same points again.

    Attributes
    ----------
    size : int
        Locations at most; each has a point for every colour of its rows.
    construction : str
        ``bico`` (one pass) or ``kmeans`` (its locations improved by passes over the data).
    projection : int
        Dimensions of a random projection in which the locations are found (Algorithm 15); 0: in the columns' own.
    min_weight : int
        Fewest rows that a point may stand for. A site may insist on more.
    scaled : bool
        Whether the columns count in units of their standard deviation, or as they are.
    """

    size: int
    construction: str
    projection: int
    min_weight: int
    scaled: bool


@dataclass(frozen=True)
class Summarise(Construction, answer=Summary):
    """Down, once: sum up your rows."""


@dataclass(frozen=True)
class Counted(Payload):
    """Up, once: what the clustering of the site's rows comes to.

    Attributes
    ----------
    counts : ndarray
        Rows of each colour in each cluster, colours as in the ask.
    cost : float
        Sum over the rows of the squared distance to their cluster's center.
    plain_cost : float
        Sum over the same rows of the squared distance to the nearest of `Assign.plain`.
    """

    counts: Int64[np.ndarray, "k h"]
    cost: float
    plain_cost: float


@dataclass(frozen=True)
class Assign(Construction, answer=Counted):
    """Down, once: which of your points go where, in rows.

    Attributes
    ----------
    colours : tuple of str
        Names of the site's colours, in its own order.
    centers : ndarray
        Of the clusters, in the data's own units.
    plain : ndarray
        Centers of a clustering that is not fair, to compare with.
    scale : ndarray
        What a column counts in: distances are between columns divided by it.
    point, center, mass : ndarray
        ``mass`` rows of the site's point number ``point`` go to center number ``center``; sorted by point.
    """

    colours: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    plain: Float64[np.ndarray, "c d"]
    scale: Float64[np.ndarray, "d"]
    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]


@dataclass(frozen=True)
class Masses(Payload):
    """Up, in every round of prices: sums over the site's rows, one set for every table of prices.

    Attributes
    ----------
    exact : ndarray
        Sum over the rows of ``min_c (d_pc + s_hc)``, where d_pc is the squared distance to center c and s_hc the
        price for its colour there.
    value : ndarray
        The same with a softened minimum, ``-T_p log sum_c exp(-(d_pc + s_hc) / T_p)``
        (numerics/coreset/fairness/dual.py).
    masses : ndarray
        Rows of each colour that go to each center, softened in the same way.
    curvature : ndarray
        Second derivatives of `value` by the prices, a block for every colour; its sign turned.
    """

    exact: Float64[np.ndarray, "m"]
    value: Float64[np.ndarray, "m"]
    masses: Float64[np.ndarray, "m h k"]
    curvature: Float64[np.ndarray, "m h k k"]


@dataclass(frozen=True)
class Price(Construction, answer=Masses):
    """Down, in every round of prices: say where your rows would go at these prices.

    Rows that no point stands for take no part.

    Attributes
    ----------
    colours : tuple of str
        Names of all sites' colours.
    centers, scale : ndarray
        As in `Assign`.
    shifts : ndarray
        m tables of prices, added to the squared distance of a row of colour h from center c.
    temperatures : ndarray
        How much the minimum is softened with each, as a share of a row's median squared distance to the centers.
    """

    colours: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]
    shifts: Float64[np.ndarray, "m h k"]
    temperatures: Float64[np.ndarray, "m"]


@dataclass(frozen=True)
class Settle(Construction, answer=Counted):
    """Down, once, after the rounds of prices: how many of your rows of each colour go to each center.

    Attributes
    ----------
    colours, centers, plain, scale
        As in `Assign` and `Price`.
    shift : ndarray
        The prices found.
    targets : ndarray
        Rows of the site's colour h that go to center c.
    """

    colours: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    plain: Float64[np.ndarray, "c d"]
    scale: Float64[np.ndarray, "d"]
    shift: Float64[np.ndarray, "h k"]
    targets: Int64[np.ndarray, "h k"]
