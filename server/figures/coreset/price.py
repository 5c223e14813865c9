"""What fairness costs, by the number of clusters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, VERMILION, explain, png, whole
from server.figures.wording import Arrays, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_FEWEST = 2
"""Numbers of clusters from which on there is a curve."""


def prices(arrays: Arrays) -> Float64[np.ndarray, "m"]:
    """By how much the fair clusters are dearer than plain ones (%), in the order of ``price_k``."""
    found: Float64[np.ndarray, "m"] = 100 * (arrays["price_fair"] / arrays["price_unfair"] - 1)
    return found


def draw_price(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """The figure by its name; none where it is not known at other numbers of clusters."""
    if len(arrays.get("price_k", ())) < _FEWEST or not np.all(arrays["price_unfair"] > 0):
        return {}
    return {"price": png(partial(_draw, report=report, arrays=arrays), height=3.6)}


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


def price_caption(report: Report) -> str:
    """What the figure draws."""
    of = "the first repetition" if several(report) else "this run"
    return sentences(
        "Price of fairness by number of clusters: how much dearer fair k-means++ is than plain k-means++, in % of the"
        f" latter's cost, on the coreset's points of {of}, the movement of their rows added to both costs;"
        f" {counted(len(report.sites), 'site')}",
        "Few starts were tried for each number, so that the curve need not be smooth; the diamond is what the run"
        " itself found, counted on all rows",
    )


def price_told(report: Report, arrays: Arrays) -> str:
    """Alternative text: the price at every number of clusters."""
    if "price_k" not in arrays:
        return "Price of fairness by number of clusters."
    told = [f"{price:.3g} % at {k}" for price, k in zip(prices(arrays), arrays["price_k"], strict=True)]
    own = 100 * report.metrics.get("price_of_fairness", np.nan)
    here = f"this run paid {own:.3g} % on all rows" if np.isfinite(own) and not several(report) else ""
    return sentences(f"Price of fairness by number of clusters: {', '.join(told)}", here)
