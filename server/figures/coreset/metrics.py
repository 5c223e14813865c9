"""What the parts of a table may be about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric that a part of the table may be about.

    Attributes
    ----------
    name : str
        In the table.
    axis : str
        What its axis says, with the unit.
    words : str
        What an alternative text calls it.
    percent : bool
        Whether it is a share that is shown in percent.
    reference : tuple of (float, str) or None
        A line across, and what it is.
    """

    name: str
    axis: str
    words: str
    percent: bool = False
    reference: tuple[float, str] | None = None

    def shown(self, value: float) -> float:
        """A value in the unit of the axis."""
        return 100 * value if self.percent else value

    def told(self, value: float) -> str:
        """A value in words."""
        return f"{self.shown(value):.3g}{' %' if self.percent else ''}"


METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "error",
            "error of the coreset's solution\n(% of the cost of clustering all rows)",
            "How much dearer the coreset's solution is than that of clustering all rows",
            True,
            (0.035, "the paper's largest (bank)"),
        ),
        Metric(
            "relative", "cost (1: CKLV k-means++)", "Cost relative to CKLV k-means++", False, (1.0, "CKLV on all rows")
        ),
        Metric(
            "fairlet_share",
            "cost of the fairlets\n(1: cost of CKLV k-means++)",
            "Cost of the fairlets, a lower bound of every fair clustering's, relative to CKLV k-means++",
        ),
        Metric(
            "price_of_fairness",
            "price of fairness\n(% of the cost of plain k-means)",
            "How much dearer the fair clusters are than those of plain k-means",
            True,
        ),
        Metric(
            "excess",
            "excess over the planted clusters\n(% of their cost)",
            "How much dearer the clusters are than the planted ones",
            True,
        ),
        Metric("cost", "cost (sum of squared distances)", "Sum of squared distances of all rows to their centers"),
    )
}
"""What a part is about is the first of these that its rows have, unless `ABOUT` says otherwise."""
ABOUT = {"quality": ("relative", "fairlet_share"), "colours": ("price_of_fairness",)}
"""Metrics of a part, each with a figure: Figure 4 left and right, and the price of fairness."""
