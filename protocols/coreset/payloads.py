"""Payloads of fair clustering by coresets: what crosses the wire (docs/coreset.md, "What left my site").

Two asks: every site summarizes its rows in weighted points; then the center sends how many rows of each point go to
each cluster, and the site confirms the number of rows of each group in each cluster. Exact assignment of rows, instead
of points, has rounds of prices in between. The center needs only sums of their answers over sites, so they can be
masked (`strategies.secure_aggregation`). Points cannot: every site sends its own.

A group is a value of the sensitive columns; the paper calls it a color.

What that reveals: points, each the centroid of as many rows of one group as its weight, at least
`Construction.min_weight`; the names of columns, and of groups with that many rows; and sums over all rows. Rounds of
prices reveal more: `Masses` and costs in `ClusterCosts` may be of one row, `Moments` has rounded sums of rows, and a
malicious center can choose prices and centers that isolate single rows; with masks, of an unknown site. A real site
answers rounds of prices only with its own consent. No payload holds a row.
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
"""Smallest temperature: below it, the softened minimum is nearly exact."""
MOST_REFINED = 20
"""Largest number of rounds that move the centers."""


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
        For every column, the sum over all represented rows of their squared distance to their point.
    n_rows : int
        Number of rows of the site.
    withheld : int
        Number of rows without a point, because their group has fewer than `Construction.min_weight` rows.
    merged : int
        Number of points that had a smaller weight and were merged into others.
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
    """Fields of every ask: how a site's rows become points.

    Every ask repeats them, so that a site that has lost its memory computes the same points again.

    Attributes
    ----------
    size : int
        Largest number of locations. Each location has a point for every group of its rows.
    construction : str
        ``bico`` (one pass) or ``kmeans`` (locations improved by further passes).
    projection : int
        Dimensions of the random projection in which the locations are found (Algorithm 15); 0: no projection.
    min_weight : int
        Fewest rows of a point. A site may require more.
    scaled : bool
        Whether columns are divided by their standard deviations.
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
    """To the center, once: confirms that the site has assigned its rows.

    The center knows these counts already. It computes costs from points and movement: an exact cost would reveal where
    a row lies whose center is far from its point.

    Attributes
    ----------
    counts : ndarray
        Number of rows of each group in each cluster, groups as in the ask.
    """

    counts: Int64[np.ndarray, "k h"]


@dataclass(frozen=True)
class ClusteringAsk(Construction):
    """Fields of every ask about clusters.

    Attributes
    ----------
    groups : tuple of str
        Names of the groups: the site's own in its own order, or in asks of prices those of all sites.
    centers : ndarray
        Centers of the clusters, in the units of the data.
    scale : ndarray
        Unit of each column: distances are between columns divided by it.
    """

    groups: tuple[str, ...]
    centers: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]


@dataclass(frozen=True)
class Assign(ClusteringAsk, answer=ClusterCounts, spends={ASSIGNMENTS: 1}):
    """To sites, once: asks to assign numbers of rows of each point to the centers.

    Attributes
    ----------
    point, center, mass : ndarray
        ``mass`` rows of the site's point ``point`` go to center ``center``; sorted by point.
    """

    point: Int64[np.ndarray, "s"]
    center: Int64[np.ndarray, "s"]
    mass: Int64[np.ndarray, "s"]


@dataclass(frozen=True)
class CostsAlone(Payload, summed=True):
    """To the center, once: costs of rows at the site's own and at the joint centers, each computed without the row.

    Sums are rounded to three digits. The fusion center cannot choose the site's own centers. For joint costs, rows go
    where their points go, and the center knows these costs except for the movement in single clusters; with consent to
    prices, rows go where prices send them, and `ClusterCosts` has the exact sum. A fusion center that invents cluster
    centers learns at most how far the rows of one point, `Construction.min_weight` or more, lie from each other, to
    three digits of a sum over many rows.

    Attributes
    ----------
    rows : int
        Number of rows compared; 0, like all other numbers, if the site has too few rows for so many clusters.
    alone : float
        Sum of the squared distances of rows from fair centers of other rows of the site, in units of `Assign.scale`.
    together : float
        Sum of the squared distances of the same rows from the joint centers, without the row.
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
class Compare(Assign, answer=CostsAlone, alike=True, spends={MODELS: 1, ASSIGNMENTS: 1}):
    """To sites, once, with the ask to assign rows: asks for costs of own and of joint clusters.

    If `Assign.point` is empty, rows go where prices send them, which needs the site's consent to prices.

    Attributes
    ----------
    shift : ndarray
        Prices of the groups at the centers.
    sizes : ndarray
        Number of rows of all sites in each cluster.
    alpha : float
        Bound on the site's own clusters: a group's share of each is alpha to 1/alpha times its share of the site's
        rows.
    """

    shift: Float64[np.ndarray, "h k"]
    sizes: Int64[np.ndarray, "k"]
    alpha: float


@dataclass(frozen=True)
class Masses(Payload, summed=True):
    """To the center, in every round of prices: sums over the site's rows for every table of prices.

    Attributes
    ----------
    exact : ndarray
        Sum over the rows of ``min_c (d_pc + s_hc)``; d_pc is the squared distance to center c, s_hc the price of the
        row's group h there.
    masses : ndarray
        Number of rows of each group at each center, with a softened minimum:
        ``-T_p log sum_c exp(-(d_pc + s_hc) / T_p)`` (numerics/coreset/fairness/dual.py).
    curvature : ndarray
        Negative derivatives of `masses` by the prices, a block for every group.
    whole : ndarray
        `masses` rounded to whole numbers that keep the size of each group. `Settle` corrects them.
    """

    exact: Float64[np.ndarray, "m"]
    masses: Float64[np.ndarray, "m h k"]
    curvature: Float64[np.ndarray, "m h k k"]
    whole: Int64[np.ndarray, "m h k"]


@dataclass(frozen=True)
class Price(ClusteringAsk, answer=Masses, alike=True):
    """To sites, in every round of prices: asks for the numbers of rows at each center with these prices.

    Rows without a point take no part.

    Attributes
    ----------
    shifts : ndarray
        m tables of prices. A price is added to the squared distance of a row of group h from center c.
    temperatures : ndarray
        Softness of the minimum for each table, as a share of a row's median squared distance to the centers.
    """

    shifts: Float64[np.ndarray, "m h k"]
    temperatures: Float64[np.ndarray, "m"]

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {ASSIGNMENTS: len(self.shifts)}


@dataclass(frozen=True)
class Moments(Payload, summed=True):
    """To the center, in every round that moves the centers: whole numbers of rows, and rounded sums of these rows.

    Costs and softened numbers are not sent: a fusion center that moves cluster centers a little would compute single
    rows from their changes. A sum of m rows, minus m times the mean of the site's rows, is rounded in every column to a
    multiple of ``min_weight`` standard deviations of the site's rows. So a single row rarely changes a sum, and a sum
    of a few rows tells only whether they lie far out. At worst, a center that asks for the same row in many
    combinations learns it roughly, within the limits of `clients.coreset.handlers` (docs/coreset.md, "A center that
    lies").

    Attributes
    ----------
    whole : ndarray
        As in `Masses`.
    sums : ndarray
        For every table of prices and each center, the sum of the rows' coordinates, weighted by their shares of the
        center, in units of `ClusteringAsk.scale`.
    plain_rows : ndarray
        Number of rows nearest to each of `Refine.plain`.
    plain_sums : ndarray
        Sums of their coordinates.
    """

    whole: Int64[np.ndarray, "m h k"]
    sums: Float64[np.ndarray, "m k d"]
    plain_rows: Int64[np.ndarray, "c"]
    plain_sums: Float64[np.ndarray, "c d"]


@dataclass(frozen=True)
class Refine(Price, answer=Moments, alike=True):
    """To sites, in every round that moves the centers: as `Price`, with new centers each time.

    In the first rounds two sets of centers move, and a site gets two such asks of one table each; later it gets one ask
    of three tables.

    Attributes
    ----------
    plain : ndarray
        Centers of the clustering without fairness, which move, too.
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
class Settle(ClusteringAsk, answer=ClusterCosts, alike=True, spends={ASSIGNMENTS: 1}):
    """To sites, once, after the rounds of prices: asks them to assign every row.

    Each site rounds its own numbers of rows (`Masses.whole`). Corrections of single rows make the sums over sites fair,
    so the center does not need the numbers of single sites.

    Attributes
    ----------
    plain : ndarray
        Centers of a clustering without fairness, for comparison.
    shift, temperature
        The final prices, and their softness.
    sites : tuple of str
        Sites with corrections.
    corrections : ndarray
        For each of them, the number of rows of group h to add to its own number at center c.
    """

    plain: Float64[np.ndarray, "c d"]
    shift: Float64[np.ndarray, "h k"]
    temperature: float
    sites: tuple[str, ...]
    corrections: Int64[np.ndarray, "s h k"]
