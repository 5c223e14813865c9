"""Payloads of fair clustering by coresets: what crosses the wire (docs/coreset.md, "What left my site").

Two asks: every site summarizes its rows in weighted points; then the center tells it how many of the rows behind each
point go to which cluster center, and it confirms the number of rows of each group in its clusters. Where all rows are
assigned exactly, and not the points, rounds of prices come between. Of their answers the center needs the sums over
sites only, so they can be masked (`strategies.secure_aggregation`); points are no sums, and every site sends its own.

A group is a value of the sensitive columns; the paper calls it a color.

What that reveals: a point is the centroid of rows of one group, of as many as its weight, at least
`Construction.min_weight`; the names of columns, and of groups with that many rows; and sums over all rows. Rounds of
prices reveal more: `Masses` and costs in `ClusterCosts` may be of one row, `Moments` has rounded sums of rows, and a
malicious center can choose prices and centers that isolate single rows; with masks, single rows of some site. A real
site answers them only with its own consent. No payload holds a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from protocols.budget import ASSIGNMENTS, MODELS
from protocols.wire.payload import Payload

MOST_ROWS = 10**10
"""Largest number of rows of a site."""
MOST_POINTS = 10**7
"""Largest number of points that a site sends."""
LARGEST, LARGEST_SUM = 1e50, 1e120
"""Largest coordinate and largest sum of squares: beyond them, squares and sums would overflow."""
LEAST_TEMPERATURE = 1e-7
"""Smallest temperature: below it the minimum is hardly softened."""
MOST_REFINED = 20
"""Largest number of rounds that move the centers."""
MOST_PRICED = 100
"""Largest number of clusters with prices: for every table of prices a site answers k^2 numbers for each group."""


@dataclass(frozen=True)
class Summary(Payload):
    """To the center, once: the site's rows as a coreset (Schmidt, Schwiegelshohn and Sohler 2018, Definition 4).

    Attributes
    ----------
    features : tuple of str
        Names of the d columns, in order.
    groups : tuple of str
        Names of the groups of its points.
    points : ndarray
        Centroids of the rows that they represent, in the units of the data.
    weights : ndarray
        Number of rows of each point.
    group : ndarray
        Group of each point, a place in `groups`.
    movement : ndarray
        For every column the sum, over all represented rows, of their squared distance to their point.
    n_rows : int
        Rows of the site.
    withheld : int
        Rows without a point: their group has fewer than `Construction.min_weight` rows.
    merged : int
        Points that were lighter than that and were merged into another.
    """

    features: tuple[str, ...]
    groups: tuple[str, ...]
    points: Float64[np.ndarray, "n d"]
    weights: Int64[np.ndarray, "n"]
    group: Int64[np.ndarray, "n"]
    movement: Float64[np.ndarray, "d"]
    n_rows: int
    withheld: int
    merged: int


@dataclass(frozen=True)
class Construction(Payload):
    """The beginning of every ask: how a site's rows become points.

    It is repeated, so that a site that has lost its memory between two asks computes the same points again.

    Attributes
    ----------
    size : int
        Largest number of locations; each has a point for every group of its rows.
    construction : str
        ``bico`` (one pass) or ``kmeans`` (locations improved by further passes).
    projection : int
        Dimensions of the random projection in which the locations are found (Algorithm 15); 0: no projection.
    min_weight : int
        Fewest rows of a point. A site may require more.
    scaled : bool
        Whether columns are in units of their standard deviation, or in their own.
    """

    size: int
    construction: str
    projection: int
    min_weight: int
    scaled: bool


@dataclass(frozen=True)
class Summarize(Construction, answer=Summary):
    """To sites, once: asks for a summary of the rows."""


@dataclass(frozen=True)
class ClusterCounts(Payload):
    """To the center, once: the site has assigned its rows as it was asked to.

    There is nothing in it that the center does not know. What the rows cost it computes from points and movement: a
    cost of the rows themselves would tell where a row lies that leaves its point for a center far away.

    Attributes
    ----------
    counts : ndarray
        Rows of each group in each cluster, groups as in the ask.
    """

    counts: Int64[np.ndarray, "k h"]


@dataclass(frozen=True)
class Assign(Construction, answer=ClusterCounts):
    """To sites, once: how many rows of each point go where.

    Attributes
    ----------
    groups : tuple of str
        Names of the site's groups, in its own order.
    centers : ndarray
        Centers of the clusters, in the units of the data.
    scale : ndarray
        Unit of each column: distances are between columns divided by it.
    point, center, mass : ndarray
        ``mass`` rows of the site's point ``point`` go to center ``center``; sorted by point.
    """

    groups: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]
    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {ASSIGNMENTS: 1}


@dataclass(frozen=True)
class CostsAlone(Payload, summed=True):
    """To the center, once: what rows cost that had no part in their centers, at the site's own and at the joint ones.

    Sums have three digits. The site's own centers are not of the center's choice. Joint costs are those of rows that go
    where their points go, which the center knows but for the movement in single clusters; with consent to prices, those
    of rows that go where prices say, of which `ClusterCosts` has a sum with all digits. A center that invents centers
    learns at most how far the rows of one point, `Construction.min_weight` or more, lie from each other, to three
    digits of a sum over many rows.

    Attributes
    ----------
    rows : int
        Rows that were compared; 0 if they are too few for so many clusters, and then nothing else is sent.
    alone : float
        Sum of the squared distances of rows from fair centers of other rows of the site, in units of `Assign.scale`.
    together : float
        Sum of the squared distances of the same rows from the joint centers, each without the row.
    squares : float
        Sum of the squares of the differences between the two.
    """

    rows: int
    alone: float
    together: float
    squares: float

    @classmethod
    def nothing(cls) -> CostsAlone:
        """Return the answer of a site that compares nothing."""
        return cls(0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Compare(Construction, answer=CostsAlone, alike=True):
    """To sites, once, with the ask to assign rows or the first prices: asks how well each would do alone.

    Attributes
    ----------
    groups, centers, scale
        As in `Assign`.
    point, center, mass : ndarray
        As in `Assign`; empty: rows go where prices say, which takes the site's consent to prices.
    shift : ndarray
        Prices of the groups at the centers.
    sizes : ndarray
        Rows of all sites in each cluster.
    alpha : float
        A share in the site's own clusters is between alpha times and 1/alpha times that of its rows.
    """

    groups: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]
    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]
    shift: Float64[np.ndarray, "h k"]
    sizes: Int64[np.ndarray, "k"]
    alpha: float

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1, ASSIGNMENTS: 1}


@dataclass(frozen=True)
class Masses(Payload, summed=True):
    """To the center, in every round of prices: sums over the site's rows, one set for every table of prices.

    Attributes
    ----------
    exact : ndarray
        Sum over the rows of ``min_c (d_pc + s_hc)``; d_pc is the squared distance to center c, s_hc the price of the
        row's group h there.
    masses : ndarray
        Rows of each group that go to each center, with a softened minimum:
        ``-T_p log sum_c exp(-(d_pc + s_hc) / T_p)`` (numerics/coreset/fairness/dual.py).
    curvature : ndarray
        Negative derivatives of `masses` by the prices, a block for every group.
    whole : ndarray
        `masses` in whole rows, as many of each group as the site has; from them it assigns its rows in the end.
    """

    exact: Float64[np.ndarray, "m"]
    masses: Float64[np.ndarray, "m h k"]
    curvature: Float64[np.ndarray, "m h k k"]
    whole: Int64[np.ndarray, "m h k"]


@dataclass(frozen=True)
class Price(Construction, answer=Masses, alike=True):
    """To sites, in every round of prices: asks where the rows would go at these prices.

    Rows without a point take no part.

    Attributes
    ----------
    groups : tuple of str
        Names of all sites' groups.
    centers, scale : ndarray
        As in `Assign`.
    shifts : ndarray
        m tables of prices, which are added to the squared distance of a row of group h from center c.
    temperatures : ndarray
        Softness of the minimum for each table, as a share of a row's median squared distance to the centers.
    """

    groups: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]
    shifts: Float64[np.ndarray, "m h k"]
    temperatures: Float64[np.ndarray, "m"]

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {ASSIGNMENTS: len(self.shifts)}


@dataclass(frozen=True)
class Moments(Payload, summed=True):
    """To the center, in every round that moves the centers: whole numbers of rows, and rounded sums of these rows.

    No cost is among them, and no softened number, from which a center that moves centers a little would compute single
    rows. The distance of a sum from as many times the mean of the site's rows is a multiple of ``min_weight`` standard
    deviations of these rows, in every column. So a single row changes a sum by nothing, mostly, and a sum of a few rows
    says only whether they lie far out. At worst, a center that asks for the same row in many combinations learns it
    roughly, within the limits of `clients.coreset.handlers` (docs/coreset.md, "A center that lies").

    Attributes
    ----------
    whole : ndarray
        As of `Masses`.
    sums : ndarray
        For every table of prices, the sum over the rows of their coordinates, times their share of each center, in
        units of `Price.scale`.
    plain_rows : ndarray
        Rows that are nearest to each of `Refine.plain`.
    plain_sums : ndarray
        Sums of their coordinates.
    """

    whole: Int64[np.ndarray, "m h k"]
    sums: Float64[np.ndarray, "m k d"]
    plain_rows: Int64[np.ndarray, "c"]
    plain_sums: Float64[np.ndarray, "c d"]


@dataclass(frozen=True)
class Refine(Price, answer=Moments, alike=True):
    """To sites, in every round that moves the centers: as `Price`, each time with other centers.

    Attributes
    ----------
    plain : ndarray
        Centers of the clustering without fairness, which move as well.
    """

    plain: Float64[np.ndarray, "c d"]


@dataclass(frozen=True)
class ClusterCosts(ClusterCounts, summed=True):
    """To the center, once, after the rounds of prices: counts and costs of the clustering of the site's rows.

    Attributes
    ----------
    cost : float
        Sum over the rows of the squared distance to their cluster's center.
    plain_cost : float
        Sum over the same rows of the squared distance to the nearest of `Settle.plain`.
    """

    cost: float
    plain_cost: float


@dataclass(frozen=True)
class Settle(Construction, answer=ClusterCosts, alike=True):
    """To sites, once, after the rounds of prices: asks them to assign every row.

    Each site rounds its own numbers of rows (`Masses.whole`). What their sums lack of whole, fair numbers is settled by
    corrections, a row here or there: the center needs no site's own numbers.

    Attributes
    ----------
    groups, centers, scale
        As in `Assign` and `Price`.
    plain : ndarray
        Centers of a clustering without fairness, for comparison.
    shift, temperature
        The final prices, and their softness.
    sites : tuple of str
        Sites with corrections.
    corrections : ndarray
        For each of them, how many rows of group h more than by its own numbers go to center c.
    """

    groups: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    plain: Float64[np.ndarray, "c d"]
    scale: Float64[np.ndarray, "d"]
    shift: Float64[np.ndarray, "h k"]
    temperature: float
    sites: tuple[str, ...]
    corrections: Int64[np.ndarray, "s h k"]

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {ASSIGNMENTS: 1}
