"""Figure of the price of fairness by the number of clusters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, VERMILION, explain, png, whole
from server.figures.figure import Figure
from server.figures.wording import sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST = 2
"""Fewest numbers of clusters that make a curve."""


def price(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the price of fairness over k; None if it was not computed for several k."""
    if len(arrays.get("price_k", ())) < _FEWEST or not np.all(arrays["price_unfair"] > 0):
        return None
    of = "the first repetition" if several(report) else "this run"
    caption = sentences(
        "Price of fairness by number of clusters: by how much fair k-means++ costs more than plain k-means++, in % of"
        f" the latter's cost, on the coreset's points of {of}, with the movement of their rows added to both costs;"
        f" {counted(len(report.sites), 'site')}",
        "Few starts were tried for each number, so the curve need not be smooth; the diamond is the price of the run"
        " itself, counted on all rows",
    )
    curve = [f"{each:.3g} % at {k}" for each, k in zip(prices(arrays), arrays["price_k"], strict=True)]
    own = 100 * report.metrics.get("price_of_fairness", np.nan)
    alt = sentences(
        f"Price of fairness by number of clusters: {', '.join(curve)}",
        f"this run paid {own:.3g} % on all rows" if np.isfinite(own) and not several(report) else "",
    )
    return Figure("price", png(partial(_draw, report=report, arrays=arrays), height=3.6), caption, alt)


def prices(arrays: Arrays) -> Float64[np.ndarray, "m"]:
    """Return by how many percent fair clusters cost more than plain ones, in the order of ``price_k``."""
    percent: Float64[np.ndarray, "m"] = 100 * (arrays["price_fair"] / arrays["price_unfair"] - 1)
    return percent


def _draw(axes: Axes, report: Report, arrays: Arrays) -> None:
    k = arrays["price_k"]
    handles: dict[str, Any] = {
        "on the coreset's points": axes.plot(k, prices(arrays), color=BLUE, marker="o", markersize=5, linewidth=1.3)[0]
    }
    if "price_of_fairness" in report.metrics and not several(report):
        at, own = len(arrays["centers"]), 100 * report.metrics["price_of_fairness"]
        handles["this run, on all rows"] = axes.plot(
            [at], [own], color=VERMILION, marker="D", markersize=9, fillstyle="none", linestyle="none"
        )[0]
    axes.margins(y=0.12)
    axes.set_ylim(bottom=min(0.0, *axes.get_ylim()))
    whole(axes)
    axes.set_xlabel("clusters k (count)")
    axes.set_ylabel("price of fairness\n(% of the cost of plain k-means)")
    explain(axes, list(handles.values()), list(handles))
