"""Metrics that the parts of a table show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric that a part of the table shows.

    Attributes
    ----------
    name : str
        Name in the table.
    axis : str
        Label of the axis, with the unit.
    words : str
        Name in an alternative text.
    percent : bool
        Whether it is a share, drawn in percent.
    reference : tuple of (float, str) or None
        Value and name of a line across.
    """

    name: str
    axis: str
    words: str
    percent: bool = False
    reference: tuple[float, str] | None = None

    def scaled(self, value: float) -> float:
        """Return a value in the unit of the axis."""
        return 100 * value if self.percent else value

    def text(self, value: float) -> str:
        """Return a value in words."""
        return f"{self.scaled(value):.3g}{' %' if self.percent else ''}"


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
"""A part shows the first of these that its rows have, unless `PARTS` names others."""
PARTS = {"quality": ("relative", "fairlet_share"), "colors": ("price_of_fairness",)}
"""Metrics of a part, each with its own figure: Figure 4 left and right, and the price of fairness."""
