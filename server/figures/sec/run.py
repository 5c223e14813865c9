"""Figures of one clustering: similarity of the learners, eigenvalues, and the gap statistic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, Int64

from server.figures.drawing import BLUE, VERMILION, explain, plain, png, whole
from server.figures.figure import Figure
from server.figures.sec.styles import cluster_sizes, n_clusters, which
from server.figures.wording import measured, sentences
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 30
"""Learners up to which their names stand beside the matrix."""
_EIGENVALUES = 12


# -- similarity -------------------------------------------------------------------------------------------------------


def similarity(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the matrix of similarities; None with fewer than two learners."""
    if len(arrays.get("similarity", ())) < 2:
        return None
    caption = sentences(
        f"Similarity of each two learners{which(report)} (no unit; 1: the same relation), ordered by cluster:"
        f" {measured(report, n_learners='learner')}",
        "The darker, the more alike; white where two were not compared; white lines separate the clusters",
    )
    image = png(partial(_draw_similarity, arrays=arrays), height=5.2)
    return Figure("similarity", image, caption, _similarity_alt(report, arrays), shades=True)


def _draw_similarity(axes: Axes, arrays: Arrays) -> None:
    import matplotlib as mpl

    labels: Int64[np.ndarray, "L"] = arrays["labels"]
    order = np.argsort(np.where(labels < 0, labels.max() + 1, labels), kind="stable")
    colors = mpl.colormaps["cividis_r"].with_extremes(bad="white")
    # With square cells the layout leaves too little room for names at the left.
    image = axes.imshow(arrays["similarity"][np.ix_(order, order)], cmap=colors, vmin=0, vmax=1, aspect="auto")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    for end in ends:
        axes.axhline(end - 0.5, color="white", linewidth=1.5)
        axes.axvline(end - 0.5, color="white", linewidth=1.5)
    blocks = [each for each in np.split(np.arange(len(order)), ends) if len(each) * 25 >= len(order)]
    names = ["none" if labels[order[each[0]]] < 0 else str(labels[order[each[0]]]) for each in blocks]
    places = [float(each.mean()) for each in blocks]
    axes.set_xticks(places, names)
    axes.set_xlabel("cluster")
    if len(order) <= _NAMED and "learners" in arrays:
        letters = 9 if len(order) <= _NAMED * 2 // 3 else 8
        axes.set_yticks(range(len(order)), [plain(name) for name in arrays["learners"][order]], fontsize=letters)
    else:
        axes.set_yticks(places, names)
        axes.set_ylabel("cluster")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, label="similarity (1: the same relation)", shrink=0.8)


def _similarity_alt(report: Report, arrays: Arrays) -> str:
    labels, s = arrays["labels"], arrays["similarity"]
    same: Bool[np.ndarray, "L L"] = np.equal.outer(labels, labels)
    apart = ~np.eye(len(labels), dtype=bool) & np.isfinite(s) & (labels >= 0) & (labels >= 0)[:, np.newaxis]
    means = [
        f"{s[chosen].mean():.3g} {where} clusters"
        for chosen, where in ((same & apart, "within"), (~same & apart, "between"))
        if chosen.any()
    ]
    return sentences(
        f"Matrix of the similarity of each two learners{which(report)}, ordered by cluster",
        f"Its mean is {' and '.join(means)}" if means else "",
        cluster_sizes(arrays),
    )


# -- the number of clusters -------------------------------------------------------------------------------------------


def eigenvalues(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the spectrum of the normalized similarity; None with fewer than two eigenvalues."""
    values: Float64[np.ndarray, "e"] = arrays.get("eigenvalues", np.empty(0))
    if len(values) < 2:
        return None
    caption = sentences(
        f"Largest eigenvalues (no unit, at most 1) of the normalized similarity{which(report)}, in order:"
        f" {measured(report, n_learners='learner')}",
        "One for each cluster lies left of the dashed line; the deeper the drop there, the clearer the clusters",
    )
    k = n_clusters(arrays)
    alt = sentences(
        f"The largest eigenvalues{which(report)} fall from {values[0]:.3g} to {values[k - 1]:.3g} at"
        f" {counted(k, 'cluster')}, the chosen number{f', and then to {values[k]:.3g}' if k < len(values) else ''}"
    )
    return Figure("eigenvalues", png(partial(_draw_spectrum, arrays=arrays), height=3.2), caption, alt)


def _draw_spectrum(axes: Axes, arrays: Arrays) -> None:
    k = n_clusters(arrays)
    values: Float64[np.ndarray, "e"] = arrays["eigenvalues"][: max(_EIGENVALUES, k + 2)]
    places = np.arange(1, len(values) + 1)
    axes.plot(places, values, color=BLUE, marker="o", markersize=4, linewidth=1.0)
    _mark(axes, k + 0.5, counted(k, "cluster"))
    whole(axes)
    axes.set_xlabel("rank of the eigenvalue (largest first)")
    axes.set_ylabel("eigenvalue (no unit)")


def gap(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the gap statistic over the number of clusters; None if the number was chosen in another way."""
    values: Float64[np.ndarray, "c"] = arrays.get("gap", np.empty(0))
    if not len(values):
        return None
    caption = sentences(
        f"Gap statistic (natural logarithm) by number of clusters{which(report)}:"
        f" {measured(report, n_learners='learner')}",
        "Bars are the standard errors of its references; the dashed line marks the chosen number, beyond which more"
        " clusters gain too little",
    )
    k = n_clusters(arrays)
    ends = ", ".join(
        f"{values[K - 2]:.3g} at {K}" for K in sorted({2, k, len(values) + 1}) if 2 <= K <= len(values) + 1
    )
    alt = sentences(f"Gap by number of clusters{which(report)}: {ends}; {k} was chosen")
    return Figure("gap", png(partial(_draw_gap, arrays=arrays), height=3.2), caption, alt)


def _draw_gap(axes: Axes, arrays: Arrays) -> None:
    values: Float64[np.ndarray, "c"] = arrays["gap"]
    places = np.arange(2, len(values) + 2)
    axes.errorbar(
        places, values, yerr=arrays["gap_error"], color=BLUE, marker="o", markersize=4, linewidth=1, capsize=3
    )
    k = n_clusters(arrays)
    _mark(axes, k, f"chosen: {k}")
    whole(axes)
    axes.set_xlabel("number of clusters K (count)")
    axes.set_ylabel("gap (natural logarithm)")


def _mark(axes: Axes, x: float, label: str) -> None:
    """Draw a dashed line that the legend explains."""
    line = axes.axvline(x, color=VERMILION, linestyle="--", linewidth=1.2, zorder=1)
    explain(axes, [line], [label])
