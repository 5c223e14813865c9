"""Pooled coreset: the points of all sites (Schmidt, Schwiegelshohn and Sohler 2018, Lemma 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.reduction import union
from numerics.coreset.weighted_points import WeightedPoints, spread
from protocols.coreset.payloads import Summary
from strategies.column_names import check_enough, columns_of_most
from strategies.coreset.fairness import Fairness


@dataclass(frozen=True, eq=False)
class PooledCoreset:
    """Sites whose points are clustered together, and their points.

    Attributes
    ----------
    summaries : dict[str, Summary]
        Coresets by site; the order does not depend on the sites' names.
    features : tuple of str
        Names of the d columns.
    groups : tuple of str
        Names of the H groups, sorted.
    scaled : bool
        Whether columns are measured in their standard deviations.
    excluded : dict[str, str]
        Sites that were left out, and why.

    Examples
    --------
    Two sites send one point each, the means of 2 and of 6 rows:

    >>> def summary(x, weight, group):
    ...     points, weights = np.array([[x]]), np.array([weight])
    ...     return Summary(("age",), (group,), points, weights, np.zeros(1, int), np.zeros(1), weight, 0, 0)
    >>> pool = PooledCoreset.of({"a": summary(30.0, 2, "F"), "b": summary(50.0, 6, "M")}, scaled=False)
    >>> pool.groups, pool.totals, pool.units[0]
    (('F', 'M'), array([2, 6]), array([45.]))
    """

    summaries: dict[str, Summary]
    features: tuple[str, ...]
    groups: tuple[str, ...]
    scaled: bool
    excluded: dict[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Summary], *, scaled: bool) -> PooledCoreset:
        """Pool the coresets of the sites that have the same columns as most sites.

        Raises
        ------
        FusionError
            If two sets of columns are equally common.
        """
        features, excluded = columns_of_most({site: answer.features for site, answer in answers.items()}, "columns")
        summaries = {site: answer for site, answer in answers.items() if answer.features == features}
        # Sites are ordered by content, so that random draws for a point do not depend on the name of its site.
        summaries = dict(
            sorted(summaries.items(), key=lambda each: (each[1].points.tobytes(), each[1].group.tobytes()))
        )
        groups = sorted({name for answer in summaries.values() for name in answer.groups})
        return cls(summaries, features, tuple(groups), scaled, excluded)

    def without(self, reasons: Mapping[str, str]) -> PooledCoreset:
        """Return the coreset without the sites in `reasons`, which says why each is left out."""
        summaries = {site: answer for site, answer in self.summaries.items() if site not in reasons}
        return PooledCoreset(summaries, self.features, self.groups, self.scaled, {**self.excluded, **reasons})

    def check_enough(self, min_sites: int) -> None:
        """Refuse to go on with fewer than `min_sites` sites."""
        check_enough(len(self.summaries), min_sites, self.excluded, "cluster")

    @cached_property
    def union(self) -> WeightedPoints:
        """All points, site by site; their groups are indices of `groups`."""
        place = {name: number for number, name in enumerate(self.groups)}
        return union(
            [
                WeightedPoints(
                    answer.points,
                    answer.weights,
                    np.array([place[name] for name in answer.groups], np.int64)[answer.group],
                    answer.movement,
                )
                for answer in self.summaries.values()
            ]
        )

    def slices(self) -> dict[str, slice]:
        """Return the slice of each site's points in the union."""
        ends = np.cumsum([len(answer.weights) for answer in self.summaries.values()]).tolist()
        return {site: slice(start, end) for site, start, end in zip(self.summaries, [0, *ends], ends, strict=False)}

    @cached_property
    def totals_by_site(self) -> dict[str, Int64[np.ndarray, "H"]]:
        """``(H,)`` numbers of rows of each group that the site's points represent, by site."""
        groups, weights, H = self.union.groups, self.union.weights, len(self.groups)
        return {
            site: np.bincount(groups[place], weights[place], minlength=H).astype(np.int64)
            for site, place in self.slices().items()
        }

    def rows_of(self, sites: Iterable[str]) -> Int64[np.ndarray, "H"]:
        """Return the ``(H,)`` numbers of rows of each group over these sites."""
        none = np.zeros(len(self.groups), np.int64)
        return np.asarray(sum((self.totals_by_site[site] for site in sites), none))

    @cached_property
    def totals(self) -> Int64[np.ndarray, "H"]:
        """``(H,)`` numbers of rows of each group over all sites."""
        return self.rows_of(self.summaries)

    def bounds(self, fairness: Fairness) -> Bounds:
        """Return the bounds of every cluster's shares."""
        return fairness.bounds(self.groups, self.totals)

    @cached_property
    def units(self) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
        """``(d,)`` mean and ``(d,)`` unit of every column; distances are those of ``(x - mean) / unit``.

        Every point is the centroid of its rows. So a column's sum of squares over all rows is that of the points plus
        the movement: the pooled variance is exact, and needs no further round.
        """
        mean, deviation = spread(self.union)
        return mean, np.where(deviation > 0, deviation, 1.0) if self.scaled else np.ones(len(mean))

    def in_units(self, coreset: WeightedPoints) -> Float64[np.ndarray, "n d"]:
        """Return the ``(n, d)`` points relative to the mean, in the units of the columns."""
        mean, unit = self.units
        return np.asarray((coreset.points - mean) / unit)
