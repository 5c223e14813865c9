"""The outcome of a run of fair clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.coreset.fairness.assignment import Assignment
from numerics.coreset.fairness.clustering import Clustering
from numerics.coreset.weighted_points import WeightedPoints
from protocols.coreset.payloads import Construction, Counted
from strategies.coreset.pooled_coreset import PooledCoreset


@dataclass(frozen=True, eq=False)
class ClusterCenters:
    """The centers that every site is sent, and how its rows became points.

    Attributes
    ----------
    how : Construction
        How rows become points.
    fair : ndarray
        ``(k, d)`` centers of the fair clustering, in the data's own units.
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
        The points that were clustered, in the data's own units.
    clustering : Clustering
        Of these, in units of `ClusterCenters.scale`.
    centers : ClusterCenters
        What the sites were sent.
    balance : float
        alpha.
    counts : dict[str, ndarray]
        By site ``(k, H)``, rows of each group in each cluster, as the site counted them.
    costs, plain_costs : dict[str, float]
        By site, of these rows.
    bound : float or None
        A lower bound of the cost of every fair assignment of all rows to these centers, where prices gave one.
    bound_gain : float
        By how much better prices are expected to raise `bound`.
    lost : tuple of str
        Sites whose points were clustered, and which are not in `pool` any more.
    """

    pool: PooledCoreset
    points: WeightedPoints
    clustering: Clustering
    centers: ClusterCenters
    balance: float
    counts: dict[str, Int64[np.ndarray, "k H"]] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    plain_costs: dict[str, float] = field(default_factory=dict)
    bound: float | None = None
    bound_gain: float = 0.0
    lost: tuple[str, ...] = ()

    def with_counts(self, answers: Mapping[str, Counted], groups: Mapping[str, tuple[str, ...]]) -> CoresetOutcome:
        """Return the outcome with what the sites counted; `groups`: by site, the order of its columns."""
        place = {name: number for number, name in enumerate(self.pool.groups)}
        # In the pool's order: sums must not depend on what the sites are called.
        answers = {site: answers[site] for site in self.pool.summaries if site in answers}
        counts = {}
        for site, answer in answers.items():
            counts[site] = np.zeros((len(self.centers.fair), len(place)), np.int64)
            counts[site][:, [place[name] for name in groups[site]]] = answer.counts
        return replace(
            self,
            counts=counts,
            costs={site: answer.cost for site, answer in answers.items()},
            plain_costs={site: answer.plain_cost for site, answer in answers.items()},
        )

    @cached_property
    def total(self) -> Int64[np.ndarray, "k H"]:
        """Rows of each group in each cluster, of the sites that counted."""
        H = len(self.pool.groups)
        none = np.zeros((len(self.centers.fair), H), np.int64)
        return np.asarray(sum(self.counts.values(), none))

    @property
    def unconfirmed(self) -> list[str]:
        """Sites whose points were clustered, and which did not count their rows."""
        return sorted(site for site in self.pool.summaries if site not in self.counts)

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {"cost": self.cost, "max_violation": self.violation}

    @property
    def cost(self) -> float:
        """Of the rows of the sites that counted."""
        return sum(self.costs.values())

    @property
    def gap(self) -> float:
        """Distance of the cost from its lower bound, relative to the cost; 0 where there is no bound.

        Whole rows may be fair only up to rounding, and then cost a little less than what is fair to the last digit.
        """
        return max(0.0, (self.cost - self.bound) / self.cost) if self.bound is not None and self.cost > 0 else 0.0

    @property
    def violation(self) -> float:
        """The largest distance of a group's rows in a cluster from their bounds, in rows."""
        bounds = self.pool.bounds(self.balance)
        return 0.0 if bounds.admits(self.total) else bounds.violation(self.total)

    @property
    def movement(self) -> float:
        """Squared distance of the rows from the points that were clustered, summed in units of the centers' scale."""
        return float((self.points.movement / self.centers.scale**2).sum())

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the outcome by documented names (docs/coreset.md)."""
        return {
            "centers": self.centers.fair,
            "counts": self.total,
            "colours": np.array(self.pool.groups),
            "features": np.array(self.pool.features),
            "mean": self.pool.units[0],
            "scale": self.centers.scale,
            "totals": self.pool.totals,
            "balance": np.array(self.balance),
            "points": self.points.points,
            "weights": self.points.weights,
            "point_colours": self.points.groups,
            "point_clusters": _largest(self.clustering.assignment, len(self.points.weights)),
            "centers_unfair": self.centers.plain,
        }


def _largest(assignment: Assignment, n: int) -> Int64[np.ndarray, "n"]:
    """Return the center to which the largest part of each point goes; of equal parts the first."""
    order = np.lexsort((assignment.center, -assignment.mass, assignment.point))
    first = order[np.unique(assignment.point[order], return_index=True)[1]]
    largest = np.zeros(n, np.int64)
    largest[assignment.point[first]] = assignment.center[first]
    return largest
