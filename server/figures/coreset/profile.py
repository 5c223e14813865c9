"""Figure of the profile of every cluster: how far the mean of each column lies from that of all rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import plain, png
from server.figures.figure import Figure
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLUSTERS, _COLUMNS = 30, 12
"""Clusters and columns that are drawn at most: those farthest from all rows."""
_DARKEST = 2.0
"""Distance, in units of the columns, from which the colors are the same."""


def profile(report: Report, arrays: Arrays) -> Figure | None:
    """Draw a field for every cluster and column; None where a run has no profile."""
    if "profile_mean" not in arrays or len(arrays["profile_mean"]) < 2:
        return None
    apart = (arrays["profile_mean"] - arrays["mean"]) / arrays["scale"]
    clusters = _farthest(apart, 1, _CLUSTERS)
    columns = _farthest(apart.T, 1, _COLUMNS)
    image = png(
        partial(_draw, arrays=arrays, apart=apart, clusters=clusters, columns=columns), 1.8 + 0.3 * len(clusters)
    )
    return Figure("profile", image, _caption(report, apart), _alt(arrays, apart))


def _farthest(apart: Float64[np.ndarray, "n m"], axis: int, most: int) -> np.ndarray:
    """Return the places of the lines that are farthest from 0, in order."""
    reach = np.nan_to_num(np.abs(apart)).max(axis=axis)
    return np.sort(np.argsort(-reach, kind="stable")[:most])


def _draw(
    axes: Axes, arrays: Arrays, apart: Float64[np.ndarray, "k d"], clusters: np.ndarray, columns: np.ndarray
) -> None:
    cells = apart[np.ix_(clusters, columns)]
    axes.grid(visible=False)
    image = axes.imshow(cells, cmap="PuOr_r", vmin=-_DARKEST, vmax=_DARKEST, aspect="auto")
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            mean = arrays["profile_mean"][clusters[row], columns[column]]
            color = "white" if abs(value) > 0.7 * _DARKEST else "black"
            axes.text(column, row, short(mean, digits=3), ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks(range(len(columns)), [plain(arrays["features"][j], 14) for j in columns], rotation=30, ha="right")
    sizes = arrays["counts"].sum(axis=1)
    axes.set_yticks(range(len(clusters)), [f"{number} ({sizes[number]:,} rows)" for number in clusters])
    axes.set_ylabel("cluster")
    axes.figure.colorbar(image, ax=axes, label="from the mean of all rows\n(standard deviations)")


def _caption(report: Report, apart: Float64[np.ndarray, "k d"]) -> str:
    where = " in the first repetition" if several(report) else ""
    k, d = apart.shape
    return sentences(
        f"Mean of each column in each cluster{where}, from the weighted points: {measured(report, n_rows='row')}",
        "Colors: its distance from the mean of all rows, in units of the column",
        f"The {_CLUSTERS} clusters farthest from all rows, of {k}" if k > _CLUSTERS else "",
        f"The {_COLUMNS} columns that differ most, of {d}" if d > _COLUMNS else "",
    )


def _alt(arrays: Arrays, apart: Float64[np.ndarray, "k d"]) -> str:
    """Return the field that is farthest from the mean of all rows."""
    cluster, column = np.unravel_index(np.nan_to_num(np.abs(apart)).argmax(), apart.shape)
    value = apart[cluster, column]
    return sentences(
        f"farthest from all rows is {plain(arrays['features'][column])} in cluster {cluster}: its mean is"
        f" {arrays['profile_mean'][cluster, column]:.3g}, {abs(value):.2g} standard deviations"
        f" {'above' if value > 0 else 'below'} that of all rows"
    )
