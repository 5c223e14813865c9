"""A lying fusion center that sends models of its own making, and reads what their losses say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64, UInt8

from consilience.attack.sec.crafted_models import (
    LARGEST,
    Boxes,
    digits_of,
    shares_of,
    smallest_excess,
    values_of,
)
from consilience.attack.site import AttackedSite
from protocols.sec.payloads import MOST_ROWS, Exchange, FittedModel, Losses, Select


class Center:
    """A lying center in its run with the site: it asks for the site's model, then sends models of its own making."""

    def __init__(self, site: AttackedSite) -> None:
        self.site = site
        low, high = site.ranges[:, :-1]
        margin = np.where(high > low, 0.01 * (high - low), 1.0)
        self.boxes = Boxes(low - margin, high + margin)
        self.n_models, self.holdout, self.refusal = 0, 0.0, "the site takes no part"
        self.fitted: FittedModel | None = None

    def start(self, holdout: float = 0.0) -> bool:
        """Start a run in which the site holds this share of its rows out."""
        self.holdout = holdout
        select = Select("lr", "half-half", "model", 5, "fitted", moments=False)
        if not self.site.start_run({"sec.holdout": holdout}):
            return False
        self.fitted = self.site.ask(select)
        return self.fitted is not None

    @property
    def classes(self) -> tuple[str, ...]:
        """The site's classes."""
        return self.fitted.classes if self.fitted else ()

    @property
    def n(self) -> int:
        """Rows that the site learned from."""
        return self.fitted.n if self.fitted else 0

    def sums(self, models: Sequence[UInt8[np.ndarray, "_"]], *, keep: bool = False) -> Float64[np.ndarray, "models"]:
        """Return the sum of the losses of each model; NaN if the site sends none."""
        self.n_models += len(models)
        names = tuple(f"m{self.n_models}-{place}" for place in range(len(models)))
        ask = Exchange(names, tuple(models), "model", keep=keep)
        if k := len(self.classes):
            everything, rows = tuple(np.arange(k) for _ in models), np.full(len(models), MOST_ROWS)
            ask = replace(ask, classes=self.classes, places=everything, rows=rows)
        answer = self.site.ask(ask)
        if answer is None and self.start(self.holdout):  # another run may get an answer
            answer = self.site.ask(ask)
        if not isinstance(answer, Losses):
            return np.full(len(models), np.nan)
        return np.asarray(np.where(answer.finite, answer.losses, np.nan) * self.n)

    def counting_models(self, group: Sequence[int]) -> list[UInt8[np.ndarray, "_"]]:
        """Return models the sum of whose losses has a digit for each of these boxes, the number of rows in it.

        For amounts it is one model. For classes it is one for each class, sure of it in the boxes to a degree: the sum
        of a row's k losses is the same whatever its class is.
        """
        if not (k := len(self.classes)):
            return [self.boxes.model(dict(zip(group, values_of(self.n), strict=False)))]
        shares = dict(zip(group, shares_of(self.n, k), strict=False))
        return [self.boxes.classifier(shares, place, k) for place in range(k)]

    def read_counts(
        self, groups: Sequence[Sequence[int]], sums: Float64[np.ndarray, "models"], n_rows: int
    ) -> list[list[int]]:
        """Return the numbers of rows in boxes from the sums over `n_rows` rows that `counting_models` have."""
        k = len(self.classes)
        totals = sums.reshape(len(groups), -1).sum(axis=1) - n_rows * (k * np.log(k) if k else 0.0)
        unit = smallest_excess(self.n) if k else LARGEST**2
        return [digits_of(total, unit, self.n, len(group)) for group, total in zip(groups, totals, strict=True)]

    @property
    def note(self) -> str:
        """What the center had to send."""
        return f"models sent: {self.n_models}"
