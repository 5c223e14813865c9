"""The fusion center of coreset: it pools the sites' coresets, clusters them fairly, and asks sites to assign rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.coreset.fairness.apportionment import PointMasses, distribute
from numerics.coreset.fairness.clustering import Clustering, fair_clustering, plain_clustering
from numerics.coreset.reduction import reduce
from numerics.coreset.weighted_points import WeightedPoints
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import (
    LARGEST,
    LARGEST_SUM,
    MOST_ROWS,
    Assign,
    CostsAlone,
    Summarize,
    Summary,
)
from protocols.coreset.settings import ALL_EQUAL, Settings
from protocols.wire.payload import PayloadError
from strategies.column_names import check_names
from strategies.conversation import Broadcast, Conversation, Tell, in_step, no_asks
from strategies.coreset.alone import ask_alone, paired_difference, without_each
from strategies.coreset.exact_assignment import BestPrices, check_counts, search_prices, settle_rows
from strategies.coreset.fairness import Fairness
from strategies.coreset.influence import influence_in
from strategies.coreset.outcome import ClusterCenters, CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.price_of_fairness import price_over_k
from strategies.coreset.profile import profile_of
from strategies.coreset.refinement import refine_centers
from strategies.coreset.report import metrics_of, notes_on, table_of
from strategies.coreset.robust import FARTHEST, NOTABLE, far_sites
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.influence import Influence
from strategies.secure_aggregation import Masking, Total

__all__ = ["Coreset", "CoresetOutcome", "Settings"]

_MOST_GROUPS = 1000
"""Largest number of groups of a site."""


class Coreset(FusionStrategy):
    """Cluster all sites' rows so that every cluster has its fair share of every group.

    Source: Schmidt, Schwiegelshohn and Sohler (2018); docs/coreset.md.

    Parameters
    ----------
    settings : Settings
        Settings of the summaries, the clustering and the assignment of rows.
    **common
        Parameters of `FusionStrategy`.

    Examples
    --------
    >>> strategy = Coreset(settings=Settings(k=3))
    >>> strategy.settings.how.size
    600
    """

    def __init__(self, *, settings: Settings | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()

    def conversation(self, repetition: int = 0) -> Conversation[CoresetOutcome]:
        """Ask for the coresets, cluster them, and ask every site to assign its rows as their points were assigned."""
        settings, how = self.settings, self.settings.how
        summaries: dict[str, Summary] = yield Broadcast(Summarize(**asdict(how)), check=self._check_summary)
        if not summaries:
            raise FusionError("no site sent a coreset")
        pool = PooledCoreset.of(summaries, scaled=how.scaled)
        if settings.robust:
            far = far_sites(pool, FARTHEST)
            pool = pool.without({site: f"left out by coreset.robust: {why}" for site, why in far.items()})
        pool.check_enough(self.min_sites)
        rng = np.random.default_rng([self.seed + repetition, 3])

        points, index = _reduce(pool, settings.center_size, rng)
        # One thread: a resumed run computes the same centers on any number of cores.
        with single_threaded():
            clustering = _cluster(pool, points, settings, rng)
            plain, _ = plain_clustering(
                pool.in_units(points),
                points.weights,
                settings.k,
                restarts=settings.restarts,
                # Starting from the fair centers, it never costs more than they do: fairness has no negative price.
                start=clustering.centers,
                rng=rng,
            )
        mean, scale = pool.units
        centers = ClusterCenters(how, clustering.centers * scale + mean, plain * scale + mean, scale)
        outcome = CoresetOutcome(pool, points, clustering, centers, Fairness.of(settings))
        joint: BestPrices | dict[str, PointMasses]
        judged = settings.alone and outcome.fairness.by_group and not self.in_table
        if settings.assignment == "exact":
            masking, second, other = (
                Masking(name, self.min_sites) if self.masked else None for name in ("rows", "far", "alone")
            )
            if settings.refine:
                outcome = yield from refine_centers(
                    outcome, settings.refine, settings.min_weight, self.min_sites, (masking, second)
                )
            outcome, best = yield from search_prices(
                outcome, settings.gap, settings.price_rounds, self.min_sites, masking
            )
            assigned, joint = settle_rows(outcome, best, masking), best
        else:
            joint, other = _masses_by_site(pool, points, index, clustering), None
            assigned = _assign(outcome, joint)
        alone = ask_alone(outcome, joint, other) if judged else no_asks(Total(CostsAlone.nothing(), ()))
        result: CoresetOutcome
        result, compared = yield from in_step(assigned, alone)
        return replace(result, compared=compared)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_summary(self, site: str, answer: Summary) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        for field, names in (("features", answer.features), ("groups", answer.groups)):
            check_names(answer, field, names)
        H = len(answer.groups)
        if H > _MOST_GROUPS:
            refuse("groups", f"expected {_MOST_GROUPS} at most")
        if answer.points.shape[1] != len(answer.features):
            refuse("points", f"expected {len(answer.features)} columns, got {answer.points.shape[1]}")
        if not len(answer.points) or len(answer.points) > self.settings.how.size * H:
            refuse("points", f"expected 1 to {self.settings.how.size * H} points, got {len(answer.points)}")
        if np.abs(answer.points).max() > LARGEST:
            refuse("points", f"expected coordinates up to {LARGEST:g}")
        if not 0 <= answer.movement.min() <= answer.movement.max() <= LARGEST_SUM:
            refuse("movement", f"expected sums of squares from 0 to {LARGEST_SUM:g}")
        if answer.weights.min() < self.settings.min_weight:
            refuse("weights", f"expected points of {self.settings.min_weight} rows or more")
        if not np.array_equal(np.unique(answer.group), np.arange(H)):
            refuse("group", f"expected all places from 0 to {H - 1}, and no other")
        n_rows = float(answer.weights.sum(dtype=np.float64)) + answer.withheld
        if not answer.n_rows <= MOST_ROWS or min(answer.withheld, answer.merged) < 0 or n_rows != answer.n_rows:
            refuse("n_rows", "is not the number of rows of the points and of those withheld")

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: CoresetOutcome) -> dict[str, float]:
        """Return the metrics of `report.json` by name (docs/coreset.md)."""
        return metrics_of(outcome)

    def arrays(self, outcome: CoresetOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` by name (docs/coreset.md)."""
        profile = profile_of(outcome)
        arrays = outcome.arrays() | paired_difference(outcome.compared.sum)
        return arrays | {"profile_mean": profile.mean, "profile_spread": profile.spread}

    def diagnostics(self, outcome: CoresetOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Compute the cost of fair and of plain clusters at other numbers of clusters (docs/coreset.md)."""
        return price_over_k(outcome)

    def influence(self, outcome: CoresetOutcome) -> Influence:
        """Return the influence of each site on the clusters of the others."""
        return replace(influence_in(outcome), numbers=without_each(outcome.compared))

    def table(self, metrics: Mapping[str, float], outcome: CoresetOutcome) -> list[dict[str, Any]]:
        """Return a row for every cluster: its number of rows, and the share of every group."""
        return table_of(outcome)

    def excluded(self, outcome: CoresetOutcome) -> Mapping[str, str]:
        """Return the sites that were left out, and why."""
        return outcome.pool.excluded

    def notes(self, outcome: CoresetOutcome) -> list[str]:
        """Return sentences on the sites and on the quality of the clusters, for users of the result."""
        far = {} if self.settings.robust else far_sites(outcome.pool, NOTABLE)
        own = [
            f"{site}: {reason}; look at its data (coreset.robust=true leaves it out)" for site, reason in far.items()
        ]
        return own + notes_on(outcome)


def from_config(config: Mapping[str, Any], **common: Any) -> Coreset:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    return Coreset(settings=settings, **common)


def _reduce(pool: PooledCoreset, most: int, rng: np.random.Generator) -> tuple[WeightedPoints, Int64[np.ndarray, "n"]]:
    """Reduce the union of the sites' points to at most `most` points.

    Return the points to cluster, and for every point of the union the index of the point that contains it.
    """
    union = pool.union
    if len(union.weights) <= most:
        return union, np.arange(len(union.weights))
    locations = max(1, most // len(pool.groups))
    return reduce(union, locations, rng, pool.units[1])


def _cluster(pool: PooledCoreset, points: WeightedPoints, settings: Settings, rng: np.random.Generator) -> Clustering:
    distinct = len(np.unique(points.points, axis=0))
    if settings.k > distinct == 1:
        raise FusionError(ALL_EQUAL)
    if settings.k > distinct:
        raise FusionError(
            f"{distinct} different points cannot form coreset.k={settings.k} clusters: set a smaller coreset.k or"
            " coreset.min-weight, or a larger coreset.size or coreset.center-size"
        )
    try:
        return fair_clustering(
            pool.in_units(points),
            points.weights,
            points.groups,
            pool.bounds(Fairness.of(settings)),
            settings.k,
            algorithm=settings.algorithm,
            restarts=settings.restarts,
            rng=rng,
        )
    except (ValueError, ArithmeticError) as error:
        raise FusionError(f"coreset.algorithm={settings.algorithm}: {error}") from error


def _masses_by_site(
    pool: PooledCoreset, points: WeightedPoints, index: Int64[np.ndarray, "n"], clustering: Clustering
) -> dict[str, PointMasses]:
    """Return, by site, the number of rows of each of its points at each center.

    If a clustered point contains several of the sites' points, its masses are distributed among them.
    """
    assignment, union = clustering.assignment, pool.union
    masses = PointMasses(assignment.point, assignment.center, assignment.mass.astype(np.int64))
    if points is not union:
        masses = distribute(pool.in_units(union), union.weights, index, masses, clustering.centers)
    by_site = {}
    for site, place in pool.slices().items():
        own = slice(*np.searchsorted(masses.point, [place.start, place.stop]).tolist())
        by_site[site] = PointMasses(masses.point[own] - place.start, masses.center[own], masses.mass[own])
    return by_site


def _assign(outcome: CoresetOutcome, masses: Mapping[str, PointMasses]) -> Conversation[CoresetOutcome]:
    """Ask every site to assign its rows as its points are assigned."""
    summaries = outcome.pool.summaries
    asks = {site: _ask(outcome.centers, summaries[site], own) for site, own in masses.items()}
    answers = yield Tell(
        asks,
        check=check_counts({site: _rows_of(ask, summaries[site]) for site, ask in asks.items()}),
        measure={"points": float(len(outcome.points.weights)), "cost_coreset": outcome.clustering.cost},
    )
    counts: dict[str, Int64[np.ndarray, "k h"]] = {site: answer.counts for site, answer in answers.items()}
    groups = {site: summaries[site].groups for site in counts}
    return outcome.with_counts(counts, groups, outcome.costs_by_points(masses))


def _ask(centers: ClusterCenters, summary: Summary, masses: PointMasses) -> Assign:
    return Assign(
        **asdict(centers.how),
        groups=summary.groups,
        centers=centers.fair,
        scale=centers.scale,
        point=masses.point,
        center=masses.center,
        mass=masses.mass,
    )


def _rows_of(ask: Assign, summary: Summary) -> Int64[np.ndarray, "k h"]:
    """Return the number of rows of each of a site's groups in each cluster, as the ask demands."""
    rows = np.zeros((len(ask.centers), len(summary.groups)), np.int64)
    np.add.at(rows, (ask.center, summary.group[ask.point]), ask.mass)
    return rows
