"""Influence of each site on a result. Flower-free, so that a page can be read without Flower."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Shaped


@dataclass(frozen=True)
class Influence:
    """The result without each site, computed from the center's own knowledge; or the reason why it is unknown.

    Attributes
    ----------
    measure : str
        Name of a metric, or a measure in words.
    with_all : float or None
        The measure with all sites; None if it is a distance between the results with and without a site.
    without : Mapping[str, float]
        By site, the measure without it.
    unknown : str
        Reason why the influence is unknown, as part of a sentence; empty if it is known.
    numbers : Mapping
        By site, metrics of the verdict and their paired differences without its answer; of a run's first repetition.

    Examples
    --------
    >>> Influence("test_mse", 0.5, {"bank": 0.75, "shop": 0.45}).most
    'bank'
    >>> Influence("share of labels that change", None, {"bank": 0.01, "shop": 0.2}).changes
    {'bank': 0.01, 'shop': 0.2}
    >>> Influence.unknown_since("the sites' answers were masked").most
    ''
    """

    measure: str
    with_all: float | None
    without: Mapping[str, float]
    unknown: str = ""
    numbers: Mapping[str, Mapping[str, Shaped[np.ndarray, "..."]]] = field(default_factory=dict)

    @classmethod
    def unknown_since(cls, reason: str) -> Influence:
        """Return an unknown influence, with the reason."""
        return cls("", None, {}, reason)

    @property
    def changes(self) -> dict[str, float]:
        """By site, the measure without it minus the measure with all sites."""
        return {site: value - (self.with_all or 0.0) for site, value in self.without.items()}

    @property
    def most(self) -> str:
        """The site whose absence changes the measure most, the first of equal ones; empty if none is known."""
        sizes = {site: abs(change) if math.isfinite(change) else math.inf for site, change in self.changes.items()}
        return max(sorted(sizes), key=sizes.__getitem__, default="")
