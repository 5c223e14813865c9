"""All sites' points as one coreset (papers/fair_coresets.txt, Lemma 6), and what each site's own part of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset import WeightedPoints, spread, union
from numerics.coreset.fairness.bounds import Bounds
from protocols.coreset.payloads import Summary
from strategies.column_names import check_enough, columns_of_most


@dataclass(frozen=True, eq=False)
class Federation:
    """The sites whose points are clustered together.

    Attributes
    ----------
    shown : dict[str, Summary]
        What each of them sent, by site in an order that does not depend on the sites' names.
    features : tuple of str
        Names of the columns.
    colours : tuple of str
        Names of the H colours, sorted.
    scaled : bool
        Whether columns count in units of their standard deviation.
    excluded : dict[str, str]
        By site, why its points are not among them.
    """

    shown: dict[str, Summary]
    features: tuple[str, ...]
    colours: tuple[str, ...]
    scaled: bool
    excluded: dict[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Summary], *, scaled: bool) -> Federation:
        """Those with the columns that most sites have.

        Raises
        ------
        FusionError
            If as many sites have these columns as have those.
        """
        features, excluded = columns_of_most({site: answer.features for site, answer in answers.items()}, "columns")
        shown = {site: answer for site, answer in answers.items() if answer.features == features}
        # In an order of their content, so that what is drawn for a point does not depend on what its site is called.
        shown = dict(sorted(shown.items(), key=lambda each: (each[1].points.tobytes(), each[1].colour.tobytes())))
        colours = sorted({name for answer in shown.values() for name in answer.colours})
        return cls(shown, features, tuple(colours), scaled, excluded)

    def without(self, gone: Mapping[str, str]) -> Federation:
        """The federation that is left when some sites, by name, no longer answer; `gone` says why."""
        shown = {site: answer for site, answer in self.shown.items() if site not in gone}
        return Federation(shown, self.features, self.colours, self.scaled, {**self.excluded, **gone})

    def check_enough(self, min_sites: int) -> None:
        """Refuse to go on with fewer than `min_sites` sites."""
        check_enough(len(self.shown), min_sites, self.excluded, "cluster")

    @cached_property
    def union(self) -> WeightedPoints:
        """Their points, site by site; colours are places in `colours`."""
        place = {name: number for number, name in enumerate(self.colours)}
        return union(
            [
                WeightedPoints(
                    answer.points,
                    answer.weights,
                    np.array([place[name] for name in answer.colours], np.int64)[answer.colour],
                    answer.movement,
                )
                for answer in self.shown.values()
            ]
        )

    def slices(self) -> dict[str, slice]:
        """Where each site's points are among those of the union."""
        ends = np.cumsum([len(answer.weights) for answer in self.shown.values()]).tolist()
        return {site: slice(start, end) for site, start, end in zip(self.shown, [0, *ends], ends, strict=False)}

    @cached_property
    def totals_by_site(self) -> dict[str, Int64[np.ndarray, "H"]]:
        """Rows of each colour behind each site's points."""
        colours, weights, H = self.union.groups, self.union.weights, len(self.colours)
        return {
            site: np.bincount(colours[place], weights[place], minlength=H).astype(np.int64)
            for site, place in self.slices().items()
        }

    @cached_property
    def totals(self) -> Int64[np.ndarray, "H"]:
        """Rows of each colour."""
        return np.asarray(sum(self.totals_by_site.values(), np.zeros(len(self.colours), np.int64)))

    def bounds(self, balance: float) -> Bounds:
        """What share of a cluster each colour may have, for alpha = `balance`."""
        return Bounds.of(self.totals / self.totals.sum(), balance)

    @cached_property
    def units(self) -> tuple[Float64[np.ndarray, "d"], Float64[np.ndarray, "d"]]:
        """Mean, and what a column counts in: distances are those of ``(x - mean) / scale``.

        A column's total sum of squares is that between the points plus its movement, since every point is the centroid
        of its rows: the pooled variance is known exactly, at no round of its own.
        """
        mean, deviation = spread(self.union)
        return mean, np.where(deviation > 0, deviation, 1.0) if self.scaled else np.ones(len(mean))

    def in_units(self, coreset: WeightedPoints) -> Float64[np.ndarray, "n d"]:
        """The points as they are clustered."""
        mean, scale = self.units
        return np.asarray((coreset.points - mean) / scale)
