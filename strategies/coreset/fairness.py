"""Definition of fair clusters in a run: bounds of the shares of groups, which may overlap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Int64

from numerics.coreset.fairness.bounds import Bounds
from protocols.coreset.settings import Settings, parse_bounds
from strategies.errors import FusionError

_COLUMN = re.compile(r"([^=]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Fairness:
    """Bounds of every cluster's shares.

    Attributes
    ----------
    alpha : float
        A share is between alpha times and 1/alpha times that of all rows.
    overlapping : bool
        Whether each value of each sensitive column has bounds, or each combination of values.
    own : dict[str, tuple of float]
        Lower and upper bound by name, which replace those by `alpha`.
    """

    alpha: float
    overlapping: bool
    own: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the definition that a run's settings have."""
        return cls(settings.balance, settings.overlapping, parse_bounds(settings.bounds))

    @property
    def by_group(self) -> bool:
        """Whether every combination of values has the bounds that `alpha` gives."""
        return not self.overlapping and not self.own

    def bounded(self, groups: Sequence[str]) -> tuple[tuple[str, ...], Bool[np.ndarray, "G H"]]:
        """Return the names of the sets of groups that have bounds, and which groups belong to each.

        Raises
        ------
        FusionError
            If values of sensitive columns cannot be told apart in the groups' names.

        Examples
        --------
        >>> names, members = Fairness(1.0, True, {}).bounded(("old=no, sex=f", "old=yes, sex=f", "old=yes, sex=m"))
        >>> names, members[2].tolist()
        (('old=no', 'old=yes', 'sex=f', 'sex=m'), [True, True, False])
        """
        if not self.overlapping:
            return tuple(groups), np.eye(len(groups), dtype=bool)
        values = [group.split(", ") for group in groups]
        columns = {tuple(match[1] if (match := _COLUMN.fullmatch(each)) else "" for each in own) for own in values}
        if len(columns) > 1 or any("" in each for each in columns):
            raise FusionError(
                "coreset.overlapping needs several sensitive columns, the same at every site, whose values have neither"
                " a comma nor an equals sign"
            )
        names = tuple(sorted({each for own in values for each in own}))
        return names, np.array([[name in own for own in values] for name in names])

    def bounds(self, groups: Sequence[str], totals: Int64[np.ndarray, "H"]) -> Bounds:
        """Return the bounds, given the numbers of rows of each group.

        Raises
        ------
        FusionError
            If no group has the name of a bound, or if no clusters keep the bounds.
        """
        if self.by_group:
            return Bounds.of(totals / totals.sum(), self.alpha)
        names, members = self.bounded(groups)
        unknown = sorted(set(self.own) - set(names))
        if unknown:
            raise FusionError(
                f"coreset.bounds: no group is called {unknown[0]!r}; there are {', '.join(map(repr, names[:20]))}"
            )
        shares = np.minimum(members @ totals / totals.sum(), 1.0)
        low, high = self.alpha * shares, np.minimum(1.0, shares / self.alpha)
        for name, (least, most) in self.own.items():
            place = names.index(name)
            low[place], high[place] = least, most
            if not least <= shares[place] <= most:
                raise FusionError(
                    f"coreset.bounds: {name!r} is {shares[place]:.4g} of all rows, so not every cluster can have a"
                    f" share from {least:g} to {most:g}"
                )
        return Bounds(low, high, members if self.overlapping else None)
