"""All sites' points as one coreset (Schmidt, Schwiegelshohn and Sohler 2018, Lemma 6), and each site's part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.reduction import union
from numerics.coreset.weighted_points import WeightedPoints, spread
from protocols.coreset.payloads import Summary
from strategies.column_names import check_enough, columns_of_most


@dataclass(frozen=True, eq=False)
class PooledCoreset:
    """The sites whose points are clustered together, and their points.

    Attributes
    ----------
    summaries : dict[str, Summary]
        The sites' coresets, by site in an order that does not depend on the sites' names.
    features : tuple of str
        Names of the d columns.
    groups : tuple of str
        Names of the H groups, sorted.
    scaled : bool
        Whether columns count in units of their standard deviation.
    excluded : dict[str, str]
        By site, why its points are not among them.
    """

    summaries: dict[str, Summary]
    features: tuple[str, ...]
    groups: tuple[str, ...]
    scaled: bool
    excluded: dict[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Summary], *, scaled: bool) -> PooledCoreset:
        """Pool the coresets of the sites with the columns that most sites have.

        Raises
        ------
        FusionError
            If two sets of columns are equally common.
        """
        features, excluded = columns_of_most({site: answer.features for site, answer in answers.items()}, "columns")
        summaries = {site: answer for site, answer in answers.items() if answer.features == features}
        # In an order of their content, so that what is drawn for a point does not depend on what its site is called.
        summaries = dict(
            sorted(summaries.items(), key=lambda each: (each[1].points.tobytes(), each[1].colour.tobytes()))
        )
        groups = sorted({name for answer in summaries.values() for name in answer.colours})
        return cls(summaries, features, tuple(groups), scaled, excluded)

    def without(self, reasons: Mapping[str, str]) -> PooledCoreset:
        """Return the coreset of the remaining sites when some no longer answer; `reasons` says why, by site."""
        summaries = {site: answer for site, answer in self.summaries.items() if site not in reasons}
        return PooledCoreset(summaries, self.features, self.groups, self.scaled, {**self.excluded, **reasons})

    def check_enough(self, min_sites: int) -> None:
        """Refuse to go on with fewer than `min_sites` sites."""
        check_enough(len(self.summaries), min_sites, self.excluded, "cluster")

    @cached_property
    def union(self) -> WeightedPoints:
        """All points, site by site; their groups are places in `groups`."""
        place = {name: number for number, name in enumerate(self.groups)}
        return union(
            [
                WeightedPoints(
                    answer.points,
                    answer.weights,
                    np.array([place[name] for name in answer.colours], np.int64)[answer.colour],
                    answer.movement,
                )
                for answer in self.summaries.values()
            ]
        )

    def slices(self) -> dict[str, slice]:
        """Return where each site's points are in the union."""
        ends = np.cumsum([len(answer.weights) for answer in self.summaries.values()]).tolist()
        return {site: slice(start, end) for site, start, end in zip(self.summaries, [0, *ends], ends, strict=False)}

    @cached_property
    def totals_by_site(self) -> dict[str, Int64[np.ndarray, "H"]]:
        """Rows of each group behind each site's points."""
        groups, weights, H = self.union.groups, self.union.weights, len(self.groups)
        return {
            site: np.bincount(groups[place], weights[place], minlength=H).astype(np.int64)
            for site, place in self.slices().items()
        }

    @cached_property
    def totals(self) -> Int64[np.ndarray, "H"]:
        """Rows of each group."""
        return np.asarray(sum(self.totals_by_site.values(), np.zeros(len(self.groups), np.int64)))

    def bounds(self, balance: float) -> Bounds:
        """Return each group's bounds on its share of a cluster, for alpha = `balance`."""
        return Bounds.of(self.totals / self.totals.sum(), balance)

    @cached_property
    def units(self) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
        """Mean and unit of every column: distances are those of ``(x - mean) / unit``.

        A column's total sum of squares is that between the points plus its movement, since every point is the centroid
        of its rows: the pooled variance is exact, at no round of its own.
        """
        mean, deviation = spread(self.union)
        return mean, np.where(deviation > 0, deviation, 1.0) if self.scaled else np.ones(len(mean))

    def in_units(self, coreset: WeightedPoints) -> Float64[np.ndarray, "n d"]:
        """Return points as they are clustered."""
        mean, unit = self.units
        return np.asarray((coreset.points - mean) / unit)
