"""Figures of one clustering: who resembles whom, and how many clusters the spectrum and the gap statistic say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, Int64

from server.figures.drawing import BLUE, VERMILION, explain, plain, png, whole
from server.figures.sec.embedding import draw_embedding, embedding_caption, embedding_told
from server.figures.sec.styles import n_clusters, which
from server.figures.wording import Arrays, finite, measured, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_NAMED = 30
"""Learners up to which their names are written along the matrix."""
_EIGENVALUES = 12
_SIZES = 8
"""Clusters whose sizes an alternative text tells."""


def draw_run(arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if len(arrays.get("similarity", ())) > 1:
        drawn["similarity"] = png(partial(_draw_similarity, arrays=arrays), height=5.2)
        drawn |= draw_embedding(arrays)
    if len(arrays.get("gap", ())):
        drawn["gap"] = png(partial(_draw_gap, arrays=arrays), height=3.2)
    if len(arrays.get("eigenvalues", ())) > 1:
        drawn["eigenvalues"] = png(partial(_draw_spectrum, arrays=arrays), height=3.2)
    return drawn


def run_told(report: Report, name: str, arrays: Arrays) -> str:
    """Alternative text of a figure of a clustering; empty for one that is not ours."""
    tell = {"similarity": _similarity_told, "eigenvalues": _spectrum_told, "gap": _gap_told}
    if name == "embedding":
        return sentences(embedding_told(arrays), _clusters_told(report, arrays))
    return tell[name](report, arrays) if name in tell else ""


def run_caption(report: Report, name: str) -> str:
    """What a figure of a clustering draws; empty for one that is not ours."""
    if name == "embedding":
        return embedding_caption(report)
    return {
        "similarity": sentences(
            f"Similarity of each two learners{which(report)} (no unit; 1: the same relation), ordered by cluster:"
            f" {measured(report, n_learners='learner')}",
            "The darker, the more alike; white where two were not compared; white lines part the clusters",
        ),
        "eigenvalues": sentences(
            f"Largest eigenvalues (no unit, at most 1) of the normalised similarity{which(report)}, in order:"
            f" {measured(report, n_learners='learner')}",
            "Left of the dashed line are as many as there are clusters; the clusters are as clear as the drop there is"
            " deep",
        ),
        "gap": sentences(
            f"Gap statistic (natural logarithm) by number of clusters{which(report)}:"
            f" {measured(report, n_learners='learner')}",
            "Bars are the standard errors of its references; the dashed line marks the number that was chosen, from"
            " which on more clusters gain too little",
        ),
    }.get(name, "")


# -- similarity -------------------------------------------------------------------------------------------------------


def _draw_similarity(axes: Axes, arrays: Arrays) -> None:
    import matplotlib as mpl

    labels: Int64[np.ndarray, "L"] = arrays["labels"]
    order = np.argsort(np.where(labels < 0, labels.max() + 1, labels), kind="stable")
    colours = mpl.colormaps["cividis_r"].with_extremes(bad="white")
    image = axes.imshow(arrays["similarity"][np.ix_(order, order)], cmap=colours, vmin=0, vmax=1)
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    for end in ends:
        axes.axhline(end - 0.5, color="white", linewidth=1.5)
        axes.axvline(end - 0.5, color="white", linewidth=1.5)
    blocks = [each for each in np.split(np.arange(len(order)), ends) if len(each) * 25 >= len(order)]
    told = ["none" if labels[order[each[0]]] < 0 else str(labels[order[each[0]]]) for each in blocks]
    places = [float(each.mean()) for each in blocks]
    axes.set_xticks(places, told)
    axes.set_xlabel("cluster")
    if len(order) <= _NAMED and "learners" in arrays:
        letters = 9 if len(order) <= _NAMED * 2 // 3 else 8
        axes.set_yticks(range(len(order)), [plain(name) for name in arrays["learners"][order]], fontsize=letters)
    else:
        axes.set_yticks(places, told)
        axes.set_ylabel("cluster")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, label="similarity (1: the same relation)", shrink=0.8)


def _similarity_told(report: Report, arrays: Arrays) -> str:
    told = [f"Matrix of the similarity of each two learners{which(report)}, ordered by cluster"]
    if "similarity" in arrays:
        labels, s = arrays["labels"], arrays["similarity"]
        same: Bool[np.ndarray, "L L"] = np.equal.outer(labels, labels)
        apart = ~np.eye(len(labels), dtype=bool) & np.isfinite(s) & (labels >= 0) & (labels >= 0)[:, np.newaxis]
        means = [
            f"{s[chosen].mean():.3g} {where} clusters"
            for chosen, where in ((same & apart, "within"), (~same & apart, "between"))
            if chosen.any()
        ]
        told += [f"Its mean is {' and '.join(means)}"] if means else []
    return sentences(told, _clusters_told(report, arrays))


def _clusters_told(report: Report, arrays: Arrays) -> str:
    """How many learners are in each cluster of what is drawn; empty where it is not known."""
    rows: list[tuple[object, int]] = []
    if "labels" in arrays:
        found, sizes = np.unique(arrays["labels"], return_counts=True)
        rows = [("none" if label < 0 else label, size) for label, size in zip(found, sizes.tolist(), strict=True)]
    elif not several(report):
        rows = [(row["cluster"], row["learners"]) for row in report.table if {"cluster", "learners"} <= row.keys()]
    told = [f"{counted(size, 'learner')} in cluster {label}" for label, size in rows if label != "none"]
    more = [f"and {counted(len(told) - _SIZES, 'cluster')} more"] if len(told) > _SIZES else []
    none = [f"{counted(size, 'learner')} in none" for label, size in rows if label == "none"]
    return ", ".join([*told[:_SIZES], *more, *none])


# -- the number of clusters -------------------------------------------------------------------------------------------


def _draw_spectrum(axes: Axes, arrays: Arrays) -> None:
    k = n_clusters(arrays)
    shown: Float64[np.ndarray, "e"] = arrays["eigenvalues"][: max(_EIGENVALUES, k + 2)]
    places = np.arange(1, len(shown) + 1)
    axes.plot(places, shown, color=BLUE, marker="o", markersize=4, linewidth=1.0)
    _mark(axes, k + 0.5, counted(k, "cluster"))
    whole(axes)
    axes.set_xlabel("rank of the eigenvalue (largest first)")
    axes.set_ylabel("eigenvalue (no unit)")


def _spectrum_told(report: Report, arrays: Arrays) -> str:
    if "eigenvalues" in arrays and "labels" in arrays:
        values, k = arrays["eigenvalues"], n_clusters(arrays)
        told = f"The largest eigenvalues{which(report)} fall from {values[0]:.3g} to {values[k - 1]:.3g} at"
        told += f" {counted(k, 'cluster')}, the number that was taken"
        return sentences(told + (f", and then to {values[k]:.3g}" if k < len(values) else ""))
    return sentences(f"Falling eigenvalues{which(report)}; {_number_told(report)}")


def _draw_gap(axes: Axes, arrays: Arrays) -> None:
    gap: Float64[np.ndarray, "c"] = arrays["gap"]
    places = np.arange(2, len(gap) + 2)
    axes.errorbar(places, gap, yerr=arrays["gap_error"], color=BLUE, marker="o", markersize=4, linewidth=1, capsize=3)
    k = n_clusters(arrays)
    _mark(axes, k, f"chosen: {k}")
    whole(axes)
    axes.set_xlabel("number of clusters K (count)")
    axes.set_ylabel("gap (natural logarithm)")


def _gap_told(report: Report, arrays: Arrays) -> str:
    if len(arrays.get("gap", ())) and "labels" in arrays:
        gap, k = arrays["gap"], n_clusters(arrays)
        ends = ", ".join(f"{gap[K - 2]:.3g} at {K}" for K in sorted({2, k, len(gap) + 1}) if 2 <= K <= len(gap) + 1)
        return sentences(f"Gap by number of clusters{which(report)}: {ends}; {k} was taken")
    return sentences(f"Gap by number of clusters{which(report)}; {_number_told(report)}")


def _number_told(report: Report) -> str:
    """How many clusters were taken, where the metric is that of what is drawn."""
    k = finite(report.metrics.get("n_clusters"), 0)
    return "a dashed line marks the number that was taken" if several(report) or not k else f"{k:.0f} were taken"


def _mark(axes: Axes, x: float, label: str) -> None:
    """A dashed line, explained above the axes."""
    line = axes.axvline(x, color=VERMILION, linestyle="--", linewidth=1.2, zorder=1)
    explain(axes, [line], [label])
