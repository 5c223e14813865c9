"""The fusion center of fair clustering: merges the sites' coresets, clusters them fairly, and says what goes where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from numerics.coreset import WeightedPoints, reduce
from numerics.coreset.fairness.apportionment import PointMasses, distribute
from numerics.coreset.fairness.clustering import Clustering, fair_clustering, plain_clustering
from numerics.shared.threads import single_threaded
from protocols.coreset.payloads import (
    LARGEST,
    LARGEST_SUM,
    MOST_PRICED,
    MOST_ROWS,
    Assign,
    Counted,
    Summarise,
    Summary,
)
from protocols.coreset.settings import Settings
from protocols.wire.payload import PayloadError
from strategies.column_names import check_names
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.coreset.exact_assignment import check_counted, settled
from strategies.coreset.federation import Federation
from strategies.coreset.price_of_fairness import price_over_k
from strategies.coreset.report import Outcome, Plan, metrics_of, notes_on, table_of
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy

__all__ = ["Coreset", "Outcome", "Settings"]

_MOST_COLOURS = 1000


class Coreset(FusionStrategy):
    """Cluster all sites' rows, so that every cluster has its fair share of every colour.

    Parameters
    ----------
    settings : Settings
        How rows are summed up, clustered and assigned.
    **common
        Of `FusionStrategy`.
    """

    def __init__(self, *, settings: Settings | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()

    def conversation(self, repetition: int = 0) -> Conversation[Outcome]:
        """Gather the coresets, cluster them, and have every site put its rows where their points were put."""
        settings, how = self.settings, self.settings.how
        answers: dict[str, Summary] = yield Broadcast(Summarise(**asdict(how)), check=self._check_summary)
        if not answers:
            raise FusionError("no site has sent a coreset")
        federation = Federation.of(answers, scaled=how.scaled)
        federation.check_enough(self.min_sites)
        rng = np.random.default_rng([self.seed + repetition, 3])

        points, index = _within(federation, settings.center_size, rng)
        # The same centers to the last digit wherever the center runs: a site holds it to them when a run is resumed.
        with single_threaded():
            clustering = _cluster(federation, points, settings, rng)
            plain, _ = plain_clustering(
                federation.in_units(points),
                points.weights,
                settings.k,
                restarts=settings.restarts,
                # Its result is never dearer than what it starts from: a poor one must not hide the price of fairness.
                start=clustering.centers,
                rng=rng,
            )
        mean, scale = federation.units
        plan = Plan(how, clustering.centers * scale + mean, plain * scale + mean, scale)
        outcome = Outcome(federation, points, clustering, plan, settings.balance)
        if settings.assignment == "exact":
            return (yield from settled(outcome, settings.gap, settings.price_rounds, self.min_sites))

        shares = _shares(federation, points, index, clustering)
        asks = {site: _ask(plan, federation.shown[site], share) for site, share in shares.items()}
        counted: dict[str, Counted] = yield Tell(
            asks,
            check=check_counted({site: _told(ask, federation.shown[site]) for site, ask in asks.items()}),
            measure={"points": float(len(points.weights)), "cost_coreset": clustering.cost},
        )
        return outcome.concluded(counted, {site: federation.shown[site].colours for site in counted})

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_summary(self, site: str, answer: Summary) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        for field, names in (("features", answer.features), ("colours", answer.colours)):
            check_names(answer, field, names)
        H = len(answer.colours)
        if H > _MOST_COLOURS:
            refuse("colours", f"expected {_MOST_COLOURS} at most")
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
        if not np.array_equal(np.unique(answer.colour), np.arange(H)):
            refuse("colour", f"expected all places from 0 to {H - 1}, and no other")
        told = float(answer.weights.sum(dtype=np.float64)) + answer.withheld
        if not answer.n_rows <= MOST_ROWS or min(answer.withheld, answer.merged) < 0 or told != answer.n_rows:
            refuse("n_rows", "is not the number of rows behind the points and of those withheld")

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: Outcome) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        return metrics_of(outcome)

    def arrays(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Names and arrays of `arrays.npz` (docs/coreset.md)."""
        return outcome.arrays()

    def diagnostics(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Cost of fair and of plain clusters at other numbers of clusters (docs/coreset.md)."""
        return price_over_k(outcome)

    def table(self, metrics: Mapping[str, float], outcome: Outcome) -> list[dict[str, Any]]:
        """A row for every cluster: its rows, and the share of every colour."""
        return table_of(outcome)

    def excluded(self, outcome: Outcome) -> Mapping[str, str]:
        """Sites whose rows are not in the clustering."""
        return outcome.federation.excluded

    def notes(self, outcome: Outcome) -> list[str]:
        """What a reader should know before using the clusters."""
        return notes_on(outcome)


def from_config(config: Mapping[str, Any], **common: Any) -> Coreset:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    if settings.algorithm.endswith("cklv") and settings.balance < 1:
        raise FusionError(
            f"coreset.algorithm={settings.algorithm} makes pairs of one row of each of two colours, which are balanced"
            " exactly: set coreset.balance=1, or another algorithm"
        )
    if settings.assignment == "exact" and settings.k > MOST_PRICED:
        raise FusionError(f"coreset.assignment=exact prices {MOST_PRICED} clusters at most, not {settings.k}")
    if config["protocol"] and common.get("repetitions", 1) > 1:
        raise FusionError("a party's own rows are summed up once; leave repetitions out")
    return Coreset(settings=settings, **common)


def _within(
    federation: Federation, most: int, rng: np.random.Generator
) -> tuple[WeightedPoints, Int64[np.ndarray, "n"]]:
    """The union of the sites' points, summed up once more where they are more than `most`; which stands for which."""
    union = federation.union
    if len(union.weights) <= most:
        return union, np.arange(len(union.weights))
    locations = max(1, most // len(federation.colours))
    return reduce(union, locations, rng, federation.units[1])


def _cluster(
    federation: Federation, points: WeightedPoints, settings: Settings, rng: np.random.Generator
) -> Clustering:
    distinct = len(np.unique(points.points, axis=0))
    if settings.k > distinct:
        raise FusionError(
            f"coreset.k={settings.k} clusters cannot be made of {distinct} different points: set a smaller coreset.k or"
            " coreset.min-weight, or a larger coreset.size or coreset.center-size"
        )
    try:
        return fair_clustering(
            federation.in_units(points),
            points.weights,
            points.groups,
            federation.bounds(settings.balance),
            settings.k,
            algorithm=settings.algorithm,
            restarts=settings.restarts,
            rng=rng,
        )
    except (ValueError, ArithmeticError) as error:
        raise FusionError(f"coreset.algorithm={settings.algorithm}: {error}") from error


def _shares(
    federation: Federation, points: WeightedPoints, index: Int64[np.ndarray, "n"], clustering: Clustering
) -> dict[str, PointMasses]:
    """How many rows of each of its points every site puts where.

    Where a point that was clustered stands for several of the sites' points, its share is dealt out among these.
    """
    assigned = clustering.assignment
    union = federation.union
    shares = PointMasses(assigned.point, assigned.center, assigned.mass.astype(np.int64))
    if points is not union:
        shares = distribute(federation.in_units(union), union.weights, index, shares, clustering.centers)
    found = {}
    for site, place in federation.slices().items():
        own = slice(*np.searchsorted(shares.point, [place.start, place.stop]).tolist())
        found[site] = PointMasses(shares.point[own] - place.start, shares.center[own], shares.mass[own])
    return found


def _ask(plan: Plan, shown: Summary, shares: PointMasses) -> Assign:
    return Assign(
        **asdict(plan.how),
        colours=shown.colours,
        centers=plan.centers,
        plain=plan.plain,
        scale=plan.scale,
        point=shares.point,
        center=shares.center,
        mass=shares.mass,
    )


def _told(ask: Assign, shown: Summary) -> Int64[np.ndarray, "k h"]:
    """Rows of each of a site's colours that it puts into each cluster."""
    told = np.zeros((len(ask.centers), len(shown.colours)), np.int64)
    np.add.at(told, (ask.center, shown.colour[ask.point]), ask.mass)
    return told
