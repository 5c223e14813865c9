"""What a run of fair clustering found, in numbers and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.coreset import WeightedPoints
from numerics.coreset.fairness.assignment import Assignment
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import Clustering
from protocols.coreset.payloads import Construction, Counted
from strategies.coreset.federation import Federation

_MANY_WITHHELD = 0.01
"""Share of the rows that no point stands for from which on the reader is told."""
_COARSE = 1.0
"""How many times the points' own cost their rows' movement is when the reader is told."""
_WIDE_GAP = 1e-3
"""Relative distance from the bound below, and part of it due to prices, from which on the reader is told."""
_ROUNDING = 1e-9
"""A cost that is smaller than such a share of another may be a rounding error of none."""
_SHOWN_COLOURS = 8
"""Colours that have a column of their own in the table."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What every site is told alike.

    Attributes
    ----------
    how : Construction
        How rows become points.
    centers : ndarray
        ``(k, d)``, in the data's own units.
    plain : ndarray
        ``(k, d)``, of a clustering that is not fair.
    scale : ndarray
        ``(d,)`` what a column counts in.
    """

    how: Construction
    centers: Float64[np.ndarray, "k d"]
    plain: Float64[np.ndarray, "k d"]
    scale: Float64[np.ndarray, "d"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fair clustering of all rows.

    Attributes
    ----------
    federation : Federation
        Who took part, and what they sent.
    points : WeightedPoints
        The weighted points that were clustered, in the data's own units.
    clustering : Clustering
        Of these, in units of `Plan.scale`.
    plan : Plan
        What the sites were told.
    balance : float
        alpha.
    counts : dict[str, ndarray]
        By site ``(k, H)``, rows of each colour in each cluster, as the site counted them.
    costs, plain_costs : dict[str, float]
        By site, of these rows.
    bound : float or None
        A lower bound of the cost of every fair assignment of all rows to these centers, where prices gave one.
    bound_gain : float
        By how much better prices are expected to raise `bound`.
    lost : tuple of str
        Sites whose points were clustered, and which are not in `federation` any more.
    """

    federation: Federation
    points: WeightedPoints
    clustering: Clustering
    plan: Plan
    balance: float
    counts: dict[str, Int64[np.ndarray, "k H"]] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    plain_costs: dict[str, float] = field(default_factory=dict)
    bound: float | None = None
    bound_gain: float = 0.0
    lost: tuple[str, ...] = ()

    def concluded(self, counted: Mapping[str, Counted], colours: Mapping[str, tuple[str, ...]]) -> Outcome:
        """With what the sites counted; `colours`: in which order each of them did."""
        place = {name: number for number, name in enumerate(self.federation.colours)}
        # In the federation's order: sums must not depend on what the sites are called.
        counted = {site: counted[site] for site in self.federation.shown if site in counted}
        counts = {}
        for site, answer in counted.items():
            counts[site] = np.zeros((len(self.plan.centers), len(place)), np.int64)
            counts[site][:, [place[name] for name in colours[site]]] = answer.counts
        return replace(
            self,
            counts=counts,
            costs={site: answer.cost for site, answer in counted.items()},
            plain_costs={site: answer.plain_cost for site, answer in counted.items()},
        )

    @cached_property
    def total(self) -> Int64[np.ndarray, "k H"]:
        """Rows of each colour in each cluster, of the sites that counted."""
        H = len(self.federation.colours)
        none = np.zeros((len(self.plan.centers), H), np.int64)
        return np.asarray(sum(self.counts.values(), none))

    @property
    def unconfirmed(self) -> list[str]:
        """Sites whose points were clustered, and which did not count their rows."""
        return sorted(site for site in self.federation.shown if site not in self.counts)

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
        """How much dearer than the bound below, relative to the cost; 0 where there is no bound.

        Whole rows may be fair only up to rounding, and then cost a little less than what is fair to the last digit.
        """
        return max(0.0, (self.cost - self.bound) / self.cost) if self.bound is not None and self.cost > 0 else 0.0

    @property
    def violation(self) -> float:
        """The largest distance of a colour's rows in a cluster from their bounds, in rows."""
        bounds = self.federation.bounds(self.balance)
        return 0.0 if bounds.admits(self.total) else bounds.violation(self.total)

    @property
    def movement(self) -> float:
        """Squared distance of the rows from the points that were clustered, summed in units of `Plan.scale`."""
        return float((self.points.movement / self.plan.scale**2).sum())

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """The outcome by documented names (docs/coreset.md)."""
        federation = self.federation
        return {
            "centers": self.plan.centers,
            "counts": self.total,
            "colours": np.array(federation.colours),
            "features": np.array(federation.features),
            "mean": federation.units[0],
            "scale": self.plan.scale,
            "totals": federation.totals,
            "balance": np.array(self.balance),
            "points": self.points.points,
            "weights": self.points.weights,
            "point_colours": self.points.groups,
            "point_clusters": _largest(self.clustering.assignment, len(self.points.weights)),
            "centers_unfair": self.plan.plain,
        }


def _largest(assignment: Assignment, n: int) -> Int64[np.ndarray, "n"]:
    """The center to which the largest part of each point goes; of equal parts the first."""
    order = np.lexsort((assignment.center, -assignment.mass, assignment.point))
    first = order[np.unique(assignment.point[order], return_index=True)[1]]
    largest = np.zeros(n, np.int64)
    largest[assignment.point[first]] = assignment.center[first]
    return largest


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Names and numbers of `report.json` (docs/coreset.md)."""
    federation, clustering = outcome.federation, outcome.clustering
    shown = federation.shown.values()
    cost, unfair = outcome.cost, sum(outcome.plain_costs.values())
    found = {
        "cost": cost,
        "cost_coreset": clustering.cost,
        "cost_unfair": unfair,
        "max_violation": outcome.violation,
        "balance": Bounds.balance(outcome.total, federation.totals / federation.totals.sum()),
        "n_clusters": float((outcome.total.sum(axis=1) > 0).sum()),
        "n_colours": float(len(federation.colours)),
        "n_rows": float(sum(answer.n_rows for answer in shown)),
        "n_coreset": float(len(outcome.points.weights)),
        "n_sent": float(len(federation.union.weights)),
        "n_merged": float(sum(answer.merged for answer in shown)),
        "n_withheld": float(sum(answer.withheld for answer in shown)),
    }
    if not outcome.lost:
        found["cost_bound"] = clustering.cost + outcome.movement
    if unfair > _ROUNDING * cost:
        found["price_of_fairness"] = cost / unfair - 1
    if np.isfinite(clustering.fairlet_cost):
        found["cost_fairlets"] = clustering.fairlet_cost
    if outcome.bound is not None:
        found["cost_lower"] = outcome.bound
        found["gap"] = outcome.gap
    return found


def table_of(outcome: Outcome) -> list[dict[str, Any]]:
    """A row for every cluster: how many rows, and the share of every colour; the last row has those of all."""
    colours = outcome.federation.colours
    shown = np.argsort(-outcome.total.sum(axis=0), kind="stable")[:_SHOWN_COLOURS]
    rows = []
    for label, counts in [*enumerate(outcome.total), ("all", outcome.total.sum(axis=0))]:
        size = int(counts.sum())
        row: dict[str, Any] = {"cluster": label, "rows": size}
        row |= {f"share {colours[h]}": float(counts[h]) / size for h in sorted(shown) if size}
        rows.append(row)
    return rows


def notes_on(outcome: Outcome) -> list[str]:
    """Sentences for the reader: who did not confirm, which rows are in no cluster, how coarse the coreset was."""
    federation = outcome.federation
    found = []
    if outcome.unconfirmed:
        found.append(
            f"{', '.join(outcome.unconfirmed)}: sent a coreset and did not confirm the clusters of its rows; cost,"
            " counts and fairness are those of the others, with centers that its points helped to find"
        )
    if outcome.lost:
        found.append(
            f"{', '.join(outcome.lost)}: no longer answered; centers, n_coreset and cost_coreset are with its points,"
            " all else is of the others"
        )
    bare = [name for name, total in zip(federation.colours, federation.totals, strict=True) if not total]
    if bare:
        found.append(f"{', '.join(bare)}: no row of this colour is left, so that nothing is said of its share")
    n_rows = sum(answer.n_rows for answer in federation.shown.values())
    withheld = {site: answer.withheld for site, answer in sorted(federation.shown.items()) if answer.withheld}
    if sum(withheld.values()) > _MANY_WITHHELD * n_rows:
        found.append(
            f"{sum(withheld.values())} of {n_rows} rows, at {', '.join(withheld)}, have a colour that is too rare there"
            " to be sent; their site puts them to the nearest center, and they are not counted"
        )
    if outcome.movement > _COARSE * outcome.clustering.cost:
        found.append(
            "the rows lie farther from their points than the points from their centers: a larger coreset.size, or"
            " coreset.construction=kmeans, may find better centers"
        )
    if len(federation.colours) == 1:
        found.append("all rows have one colour: this is plain k-means, and fair to nobody in particular")
    # Whole rows leave a gap, too: of few rows, one more or less in a cluster. No price closes that.
    if outcome.gap > _WIDE_GAP and outcome.bound_gain > _WIDE_GAP * outcome.cost:
        found.append(
            f"the fair assignment of all rows may be up to {outcome.gap:.2%} dearer than the best: more"
            " coreset.price-rounds, or a smaller coreset.gap, may find a better one"
        )
    told = [set(answer.colours) for answer in federation.shown.values()]
    if len(told) > 1 and sum(map(len, told)) == len(federation.colours):
        found.append("no colour is at two sites: are they spelled alike everywhere?")
    empty = int((outcome.total.sum(axis=1) == 0).sum())
    if empty and not outcome.unconfirmed:
        found.append(
            f"{empty} of {len(outcome.total)} clusters have no rows: a smaller coreset.k describes the data as well"
        )
    return found
