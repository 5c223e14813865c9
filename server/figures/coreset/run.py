"""Figures of one run: points and centers, the colours of every cluster, the price of fairness."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from server.figures.coreset.balance import balance_caption, balance_told, draw_balance
from server.figures.coreset.clusters import clusters_caption, clusters_told, draw_clusters
from server.figures.coreset.price import draw_price, price_caption, price_told
from server.figures.drawing import png
from server.figures.wording import Arrays

if TYPE_CHECKING:
    from server.results import Report


def draw_run(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if len(arrays.get("points", ())) and len(arrays.get("centers", ())):
        drawn["clusters"] = png(partial(draw_clusters, arrays=arrays), height=5.2)
    counts = arrays.get("counts", np.zeros((0, 0)))
    if counts.sum() and counts.shape[1] > 1:
        drawn["balance"] = draw_balance(arrays)
    return drawn | draw_price(report, arrays)


def run_told(report: Report, name: str, arrays: Arrays) -> str:
    """Alternative text of a figure of a run; empty for one that is not ours."""
    tell = {"clusters": clusters_told, "balance": balance_told, "price": price_told}
    return tell[name](report, arrays) if name in tell else ""


def run_caption(report: Report, name: str) -> str:
    """What a figure of a run draws; empty for one that is not ours."""
    tell = {"clusters": clusters_caption, "balance": balance_caption, "price": price_caption}
    return tell[name](report) if name in tell else ""
