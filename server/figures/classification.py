"""Figures of predicted classes, for any protocol: reliability diagram, and confusion matrix."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64

from numerics.shared.classification import BINS, Reliability
from server.figures.drawing import BLUE, INK, plain, png, png_panels
from server.figures.figure import Figure
from server.figures.wording import sentences
from server.report.classification import class_table, reliability_of
from server.report.data import Arrays
from server.report.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_MOST_NAMED = 12
"""Classes whose names and counts are drawn, and that an alternative text describes."""
_LEAST_ROWS = 5
"""Rows of a bin that are drawn as a point: of fewer, the share says little."""


def classification_figures(arrays: Arrays, where: str, who: str) -> list[Figure]:
    """Return the reliability diagram and the confusion matrix of a run; none if no predictions were compared.

    Parameters
    ----------
    arrays : Arrays
        Arrays of the run (`server.report.classification`).
    where : str
        The rows in words, such as "on held-out rows".
    who : str
        Author of the predictions, such as "every learner with its cluster".
    """
    if "confusion" not in arrays or not arrays["confusion"].sum():
        return []
    return [_reliability(reliability_of(arrays), where, who), _confusion(arrays, where, who)]


# -- reliability ------------------------------------------------------------------------------------------------------


def _reliability(points: Reliability, where: str, who: str) -> Figure:
    used = points.counts >= _LEAST_ROWS
    n = int(points.counts.sum())
    predicted, right = (np.divide(each, points.counts, where=used, out=np.zeros(BINS)) for each in points[1:])
    caption = sentences(
        f"Of {counted(n, 'row')} {where}, {who}: how often the predicted class is right, by its predicted probability;"
        f" on the line they agree. Bars are standard errors; bins of fewer than {_LEAST_ROWS} rows have no point",
        "Below, the rows of each bin",
    )
    words = [
        f"{100 * right[at]:.0f} % right at a probability of {100 * predicted[at]:.0f} % ({int(points.counts[at])} rows)"
        for at in np.flatnonzero(used)
    ]
    alt = sentences(f"expected calibration error {100 * points.error():.3g} %", "; ".join(words))
    draw = partial(_draw_reliability, points=points, predicted=predicted, right=right, used=used)
    return Figure("reliability", png_panels(draw, 2, 2.6, same_y=False, abreast=1), caption, alt)


def _draw_reliability(
    panels: Sequence[Axes],
    points: Reliability,
    predicted: Float64[np.ndarray, "bins"],
    right: Float64[np.ndarray, "bins"],
    used: np.ndarray,
) -> None:
    above, below = panels
    above.plot([0, 100], [0, 100], color=INK, linewidth=1.0)
    n = np.maximum(points.counts, 1)
    above.errorbar(
        100 * predicted[used], 100 * right[used], yerr=100 * np.sqrt(right * (1 - right) / n)[used], color=BLUE,
        marker="o", markersize=5, linewidth=1.4, capsize=3,
    )  # fmt: skip
    above.set(xlim=(0, 100), ylim=(0, 105), ylabel="predicted class is right (%)")
    width = 100 / BINS
    below.bar(width * (np.arange(BINS) + 0.5), points.counts, width=0.9 * width, color=BLUE, alpha=0.5)
    below.set(xlabel="probability of the predicted class (%)", ylabel="rows")


# -- confusion --------------------------------------------------------------------------------------------------------


def _confusion(arrays: Arrays, where: str, who: str) -> Figure:
    classes, counts = [str(each) for each in arrays["classes"]], np.asarray(arrays["confusion"])
    named = len(classes) <= _MOST_NAMED
    image = png(partial(_draw_confusion, classes=classes, counts=counts), height=min(1.6 + 0.42 * len(classes), 6.4))
    rows = class_table(classes, counts)
    words = [
        f"{row['class']}: {row['rows']} rows, {row['predicted']} predicted, {counts[place, place]} of both"
        for place, row in enumerate(rows[:_MOST_NAMED])
    ]
    right = int(np.trace(counts))
    caption = sentences(
        f"Rows {where} by true class (line) and predicted class (column), {who}; the color is the share of the line",
        "" if named else "numbers and names are left out, since there are many classes",
    )
    alt = sentences(f"{right} of {counted(int(counts.sum()), 'row')} in the predicted class", "; ".join(words))
    return Figure("confusion", image, caption, alt)


def _draw_confusion(axes: Axes, classes: Sequence[str], counts: Int64[np.ndarray, "k k"]) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.grid(visible=False)
    axes.set(xlabel="predicted class", ylabel="true class")
    if len(classes) > _MOST_NAMED:
        return
    names = [plain(each, 14) for each in classes]
    axes.set_xticks(range(len(names)), names, rotation=30 if max(map(len, names)) > 6 else 0)
    axes.set_yticks(range(len(names)), names)
    for line, row in enumerate(counts):
        for column, count in enumerate(row):
            color = "white" if shares[line, column] > 0.6 else INK
            axes.text(column, line, str(int(count)), ha="center", va="center", color=color)
