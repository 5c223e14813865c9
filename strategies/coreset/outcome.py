"""Outcome of a run of fair clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.coreset.fairness.apportionment import PointMasses
from numerics.coreset.fairness.assignment import Assignment
from numerics.coreset.fairness.clustering import Clustering
from numerics.coreset.weighted_points import WeightedPoints, moments
from numerics.shared.distances import squared_distances
from protocols.coreset.payloads import Construction, CostsAlone
from strategies.coreset.fairness import Fairness
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.secure_aggregation import Total

_ROUNDING = 1e-6
"""Largest relative rounding error of sums over many rows."""


@dataclass(frozen=True, eq=False)
class ClusterCenters:
    """Centers that every site gets, and the construction of its points.

    Attributes
    ----------
    how : Construction
        Construction of points from rows.
    fair : ndarray
        ``(k, d)`` centers of the fair clustering, in the units of the data.
    plain : ndarray
        ``(k, d)`` centers of a clustering that ignores groups.
    scale : ndarray
        ``(d,)`` unit of each column.
    """

    how: Construction
    fair: Float64[np.ndarray, "k d"]
    plain: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]


@dataclass(frozen=True, eq=False)
class CoresetOutcome:
    """A fair clustering of all rows.

    Attributes
    ----------
    pool : PooledCoreset
        The sites that took part, and their points.
    points : WeightedPoints
        The points that were clustered, in the units of the data.
    clustering : Clustering
        Their clustering, in units of `ClusterCenters.scale`.
    centers : ClusterCenters
        The centers that sites got.
    fairness : Fairness
        Which clusters are fair.
    total : ndarray
        ``(k, H)`` numbers of rows of each group in each cluster, over the sites that counted.
    counted : tuple of str
        The sites that counted their rows.
    cost, plain_cost : float
        Costs of these rows at the fair and at the plain centers: as their points are assigned, or as exact assignment
        assigns the rows themselves.
    bound : float or None
        Lower bound of the cost of every fair assignment of all rows to these centers; None without exact assignment.
    bound_gain : float
        Increase of `bound` that better prices are expected to bring.
    lost : tuple of str
        Sites whose points were clustered, and which stopped answering.
    compared : Total of CostsAlone
        Costs of left-out rows, alone and together; of no rows if nobody was asked.
    """

    pool: PooledCoreset
    points: WeightedPoints
    clustering: Clustering
    centers: ClusterCenters
    fairness: Fairness
    total: Int64[np.ndarray, "k H"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    counted: tuple[str, ...] = ()
    cost: float = 0.0
    plain_cost: float = 0.0
    bound: float | None = None
    bound_gain: float = 0.0
    lost: tuple[str, ...] = ()
    compared: Total[CostsAlone] = field(default_factory=lambda: Total(CostsAlone.nothing(), ()))

    def with_counts(
        self,
        counts: Mapping[str, Int64[np.ndarray, "k h"]],
        groups: Mapping[str, tuple[str, ...]],
        costs: Mapping[str, tuple[float, float]],
    ) -> CoresetOutcome:
        """Return the outcome with the counts of the sites.

        By site, `groups` names the columns of its counts, and `costs` has its costs at the fair and at the plain
        centers.
        """
        place = {name: number for number, name in enumerate(self.pool.groups)}
        # The pool's order does not depend on the sites' names, so neither do the sums.
        sites = tuple(site for site in self.pool.summaries if site in counts)
        total = np.zeros((len(self.centers.fair), len(place)), np.int64)
        for site in sites:
            total[:, [place[name] for name in groups[site]]] += counts[site]
        cost, plain_cost = (sum(costs[site][which] for site in sites) for which in (0, 1))
        return replace(self, total=total, counted=sites, cost=cost, plain_cost=plain_cost)

    def costs_by_points(self, masses: Mapping[str, PointMasses]) -> dict[str, tuple[float, float]]:
        """Return, by site, its costs at the fair and at the plain centers, computed from points and movement.

        Parameters
        ----------
        masses : Mapping
            Numbers of rows of each of the site's points at each center.

        Notes ----- With the movement, these are the costs of the rows, exactly if whole points go to one center. The
        rows of a divided point may cost less, because its site knows which row is nearer to which center.
        """
        pool, (mean, scale), fair = self.pool, self.pool.units, self.clustering.centers
        plain = (self.centers.plain - mean) / scale
        union, costs = pool.in_units(pool.union), {}
        for site, place in pool.slices().items():
            x, own, summary = union[place], masses[site], pool.summaries[site]
            movement = float((summary.movement / scale**2).sum())
            squared = ((x[own.point] - fair[own.center]) ** 2).sum(axis=1)
            nearest = squared_distances(x, plain).min(axis=1)
            costs[site] = float(own.mass @ squared) + movement, float(summary.weights @ nearest) + movement
        return costs

    def possible_costs(self) -> dict[str, Float64[np.ndarray, "2 2"]]:
        """Return, by site, bounds of the cost of its rows: in any fair clusters, and at their nearest plain centers.

        The root of a cost is a distance. Moving all rows to their points changes it by the root of the movement at
        most.
        """
        pool, mean, scale = self.pool, self.pool.units[0], self.centers.scale
        fair, plain = (self.centers.fair - mean) / scale, (self.centers.plain - mean) / scale
        union, bounds = (pool.union.points - mean) / scale, {}
        for site, place in pool.slices().items():
            summary = pool.summaries[site]
            squared, nearest = squared_distances(union[place], fair), squared_distances(union[place], plain).min(axis=1)
            ends = np.stack([squared.min(axis=1), squared.max(axis=1), nearest, nearest]) @ summary.weights
            moved = np.sqrt((summary.movement / scale**2).sum())
            size = np.sqrt(summary.weights @ (summary.points / scale) ** 2).sum()
            slack = moved + _ROUNDING * (moved + size + np.sqrt(ends.max()))
            roots = np.maximum(np.sqrt(ends) + slack * np.array([-1, 1, -1, 1]), 0.0)
            bounds[site] = (roots**2).reshape(2, 2)
        return bounds

    def squares_by_site(self) -> dict[str, float]:
        """Return, by site, the sum of its rows' squared distances from their mean, in units of the centers' scale."""
        squares = {}
        for site, summary in self.pool.summaries.items():
            rows = WeightedPoints(summary.points, summary.weights, summary.group, summary.movement)
            squares[site] = float((moments(rows)[1] / self.centers.scale**2).sum() * summary.weights.sum())
        return squares

    @property
    def bounded(self) -> tuple[tuple[str, ...], Int64[np.ndarray, "k G"]]:
        """Names of the groups that have bounds, and their ``(k, G)`` numbers of rows in each cluster."""
        names, members = self.fairness.bounded(self.pool.groups)
        return names, self.total @ members.T.astype(np.int64)

    @property
    def unconfirmed(self) -> list[str]:
        """Sites whose points were clustered, and which did not count their rows."""
        return sorted(site for site in self.pool.summaries if site not in self.counted)

    @property
    def measure(self) -> dict[str, float]:
        """Numbers for the progress line of the last round."""
        return {"cost": self.cost, "max_violation": self.violation}

    @property
    def gap(self) -> float:
        """Distance of the cost from its lower bound, relative to the cost; 0 without a bound.

        Numbers of rows are fair up to rounding only. So the cost may be a little less than the bound.
        """
        return max(0.0, (self.cost - self.bound) / self.cost) if self.bound is not None and self.cost > 0 else 0.0

    @property
    def violation(self) -> float:
        """Largest distance of a group's number of rows in a cluster from its bounds."""
        bounds = self.pool.bounds(self.fairness)
        return 0.0 if bounds.admits(self.total) else bounds.violation(self.total)

    @property
    def upper_bound(self) -> float:
        """Cost of the rows as their points are assigned, which no lower bound exceeds; infinite if a site was lost."""
        return np.inf if self.lost else self.clustering.cost + self.movement

    @property
    def movement(self) -> float:
        """Squared distance of the rows from the points that were clustered, summed in units of the centers' scale."""
        return float((self.points.movement / self.centers.scale**2).sum())

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` by name (docs/coreset.md)."""
        shares: dict[str, Shaped[np.ndarray, "..."]] = {}
        if not self.fairness.by_group:
            bounds = self.pool.bounds(self.fairness)
            names, counts = self.bounded
            shares = {
                "bounded": np.array(names),
                "bounded_counts": counts,
                "bounds": np.stack([bounds.low, bounds.high]),
            }
        return shares | {
            "centers": self.centers.fair,
            "counts": self.total,
            "groups": np.array(self.pool.groups),
            "features": np.array(self.pool.features),
            "mean": self.pool.units[0],
            "scale": self.centers.scale,
            "totals": self.pool.totals,
            "balance": np.array(self.fairness.alpha),
            "points": self.points.points,
            "weights": self.points.weights,
            "point_groups": self.points.groups,
            "point_clusters": _largest(self.clustering.assignment, len(self.points.weights)),
            "centers_unfair": self.centers.plain,
        }


def _largest(assignment: Assignment, n: int) -> Int64[np.ndarray, "n"]:
    """Return the center of the largest part of each point; of equal parts, the first."""
    order = np.lexsort((assignment.center, -assignment.mass, assignment.point))
    first = order[np.unique(assignment.point[order], return_index=True)[1]]
    largest = np.zeros(n, np.int64)
    largest[assignment.point[first]] = assignment.center[first]
    return largest
