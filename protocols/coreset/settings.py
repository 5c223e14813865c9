"""Settings of fair clustering by coresets, a site's consents, and where predictions are made."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from common import settings
from common.settings import ConfigError, setting
from common.value_ranges import ValueRange, at_least, between
from protocols.prediction import Prediction
from protocols.settings import ProtocolSettings

if TYPE_CHECKING:
    from protocols.coreset.payloads import Construction

LOCATIONS = 200
"""Locations of a coreset for each cluster (Schmidt, Schwiegelshohn and Sohler 2018, section 4)."""
ALL_EQUAL = "all rows of all sites are equal in the features, so there are no clusters: name other columns in features"
"""Message of the refusal to cluster equal rows."""
MOST_PRICED = 100
"""Largest number of clusters with prices: an answer has k^2 numbers for each table of prices and group."""


_BOUNDS = re.compile(r"\s*(.+?)\s*:\s*([\d.]+?)\.\.([\d.]+)\s*")


def parse_bounds(text: str) -> dict[str, tuple[float, float]]:
    """Return lower and upper bounds of a group's share by its name.

    Raises
    ------
    ValueError
        If a part is not a name with two shares, the lower one first.

    Examples
    --------
    >>> parse_bounds("sex=F: 0.4..0.6; M: 0..0.5")
    {'sex=F': (0.4, 0.6), 'M': (0.0, 0.5)}
    """
    bounds = {}
    for part in filter(str.strip, text.split(";")):
        match = _BOUNDS.fullmatch(part)
        if not match:
            raise ValueError(part)
        low, high = float(match[2]), float(match[3])
        if not 0 <= low <= high <= 1:
            raise ValueError(part)
        bounds[match[1]] = low, high
    return bounds


def _are_bounds(text: str) -> bool:
    try:
        parse_bounds(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Settings(ProtocolSettings, prefix="coreset"):
    """Settings of summary, clustering and assignment, and of a scenario's rows."""

    summed: ClassVar[str] = "coreset (coreset.assignment=exact)"

    k: int = setting(10, "number of clusters", between(1, 10_000), unset=0)
    size: int = setting(
        0,
        "locations of a site's coreset, each with a point for every group",
        between(0, 1_000_000),
        words=f"{LOCATIONS} for each cluster, or what the scenario sets",
    )
    construction: Literal["bico", "kmeans"] = setting(
        "bico", "how a site finds them: one pass (bico), or improved by further passes (kmeans)"
    )
    projection: int = setting(
        0,
        "dimensions of the random projection for locations (Algorithm 15)",
        between(0, 10_000),
        words="none",
    )
    min_weight: int = setting(5, "fewest rows of a point that leaves its site", between(1, 1_000_000), unset=0)
    scale: Literal["variance", "none"] = setting(
        "variance", "unit of a column: its standard deviation over all sites (variance), or its own (none)", unset=""
    )
    algorithm: Literal["fair-kmeans++", "fair-lloyd", "cklv", "reassigned-cklv"] = setting(
        "fair-kmeans++", "how the center clusters the points", unset=""
    )
    balance: float = setting(
        1.0,
        "alpha: a group's share of a cluster is between alpha times and 1/alpha times its share of the data",
        ValueRange("greater than 0, at most 1", lambda value: 0 < value <= 1),
        unset=0,
    )
    overlapping: bool = setting(
        False, "several sensitive columns: each value of each has bounds (true), or each combination of values"
    )
    bounds: str = setting(
        "",
        "bounds of single groups' shares in place of those by balance, e.g. 'F: 0.4..0.6; M: 0.3..0.7'",
        ValueRange("NAME: LOW..HIGH, from 0 to 1, separated by semicolons", _are_bounds),
    )
    restarts: int = setting(5, "clusterings from different starts; the cheapest is taken", between(1, 1000), unset=0)
    center_size: int = setting(
        20_000, "points above which the center summarizes the sites' points again", at_least(1), unset=0
    )
    assignment: Literal["coreset", "exact"] = setting(
        "coreset", "fair assignment of the points (coreset), or of all rows by rounds of prices (exact)", unset=""
    )
    refine: int = setting(10, "exact: most rounds that move the centers, before rounds of prices", between(0, 20))
    gap: float = setting(1e-4, "exact: relative expected gain at which the rounds of prices stop", between(1e-9, 1))
    price_rounds: int = setting(60, "exact: most rounds of prices", at_least(1))
    alone: bool = setting(True, "compare with fair clusters of each site's rows alone; not in tables of a scenario")
    robust: bool = setting(False, "leave out sites whose rows lie far from those of all others")
    rows: int = setting(0, "scenario: number of rows of all sites", at_least(0), words="the scenario's own", data=True)
    split: Literal["random", "column", "group"] = setting(
        "random", "scenario: rows of a site: random, sorted along a column, or of one group", unset="", data=True
    )
    balanced: Literal["", "yes", "no"] = setting(
        "", "scenario: subsample the larger groups to equal numbers", words="the scenario's own", data=True
    )
    groups: int = setting(2, "scenario: number of groups", between(1, 100), data=True)
    dimension: int = setting(10, "scenario: number of columns", between(2, 1000), data=True)
    planted: int = setting(0, "scenario: number of true clusters", at_least(0), words="as many as k", data=True)

    @property
    def libraries(self) -> Mapping[str, str]:
        """As of `ProtocolSettings`."""
        return dict.fromkeys(("numba", "ortools"), "fair clustering")

    def check_together(self, config: Mapping[str, Any], files: Collection[str]) -> None:
        """As of `ProtocolSettings`."""
        if self.algorithm.endswith("cklv") and (self.balance < 1 or self.overlapping or self.bounds):
            raise ConfigError(
                f"coreset.algorithm={self.algorithm} pairs one row of each of two groups, so clusters are balanced"
                " exactly: set coreset.balance=1 and no other bounds, or another algorithm"
            )
        if self.assignment == "exact" and self.k > MOST_PRICED:
            raise ConfigError(f"coreset.assignment=exact prices {MOST_PRICED} clusters at most, not {self.k}")
        if config["secure-aggregation"] and self.assignment != "exact":
            raise ConfigError(
                "secure-aggregation=true masks the sums of coreset.assignment=exact; without them sites send points,"
                " which are no sums: set coreset.assignment=exact, or leave secure-aggregation out"
            )
        if config["protocol"] and config["repetitions"] > 1:
            raise ConfigError("a site summarizes its own rows once; leave repetitions out")

    @property
    def how(self) -> Construction:
        """How a site summarizes its rows."""
        from protocols.coreset.payloads import Construction  # not for scenarios, which need no Flower

        size = self.size or LOCATIONS * self.k
        return Construction(size, self.construction, self.projection, self.min_weight, self.scale == "variance")


@dataclass(frozen=True)
class Consents(settings.Settings):
    """Keys of a site's node configuration."""

    min_weight: int = setting(5, "fewest rows of a point that leaves the site", at_least(1))
    allow_prices: bool = setting(
        False, "answer rounds of prices (coreset.assignment=exact), which reveal more of the site's rows"
    )


PREDICTION = Prediction(at_center=True)
