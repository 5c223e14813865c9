"""Figures of SEC: who resembles whom, how many clusters that makes, and the metrics of a table as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_COMPARED = {
    "mse_alone": ("alone", ORANGE),
    "mse_cluster": ("with its cluster", BLUE),
    "mse_all": ("with all", VERMILION),
    "mse_oracle": ("oracle", GREEN),
}
_NAMED = 30
"""Learners up to which their names are written along the matrix."""
_EIGENVALUES = 12


def draw(report: Report, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if "cells_n_clusters" in arrays and len(report.table) > 1:
        x = _varied(report.table)
        for name, metrics in (("correct", ["clusters_correct"]), ("errors", list(_COMPARED))):
            shown = [metric for metric in metrics if any(row.get(metric) is not None for row in report.table)]
            if x and shown:
                drawn[name] = png(partial(_draw_curves, table=report.table, x=x, metrics=shown), height=3.6)
        return drawn
    if "similarity" in arrays and len(arrays["similarity"]) > 1:
        drawn["similarity"] = png(lambda axes: _draw_similarity(axes, arrays), height=4.8, width=5.6)
    if len(arrays.get("eigenvalues", ())) > 1:
        drawn["eigenvalues"] = png(lambda axes: _draw_spectrum(axes, arrays["eigenvalues"]), height=3.0)
    if len(arrays.get("gap", ())):
        drawn["gap"] = png(lambda axes: _draw_gap(axes, arrays["gap"], arrays["gap_error"]), height=3.0)
    return drawn


def alt_text(report: Report, name: str) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    clusters = f"{report.metrics.get('n_clusters', 0):g}"
    return {
        "similarity": f"Similarity of the learners, ordered by their {clusters} clusters: dark blocks on the diagonal.",
        "eigenvalues": f"Largest eigenvalues of the normalised similarity; {clusters} clusters were found.",
        "gap": f"Gap statistic by number of clusters, with standard errors; {clusters} clusters were found.",
        "correct": "Share of the runs whose clusters are all correct, row by row of the table above.",
        "errors": "Mean squared error alone, with the cluster and with all, row by row of the table above.",
    }.get(name, "")


def _varied(table: Sequence[Mapping[str, Any]]) -> str:
    """The last of the leading columns that are numbers and differ between the rows: what the curves run over."""
    found = ""
    for name in table[0]:
        values = [row.get(name) for row in table]
        if name in _COMPARED or name in ("n_clusters", "clusters_correct") or name.endswith(("_se", " published")):
            break
        if all(isinstance(value, int | float) for value in values) and len(set(values)) > 1:
            found = name
    return found


def _draw_curves(axes: Axes, table: Sequence[Mapping[str, Any]], x: str, metrics: Sequence[str]) -> None:
    """A curve for every metric and every value of the other leading columns."""
    others = [name for name in list(table[0])[: list(table[0]).index(x)] if len({row[name] for row in table}) > 1]
    groups = list(dict.fromkeys(tuple(row[name] for name in others) for row in table))
    colours = [BLUE, VERMILION, GREEN, ORANGE]
    for metric in metrics:
        for place, group in enumerate(groups):
            rows = [row for row in table if tuple(row[name] for name in others) == group and metric in row]
            label, colour = _COMPARED.get(metric, (metric.replace("_", " "), colours[place % 4]))
            values, errors = [row[metric] for row in rows], [row.get(f"{metric}_se", 0.0) for row in rows]
            told = ", ".join(f"{name} {value}" for name, value in zip(others, group, strict=True))
            axes.errorbar(
                [row[x] for row in rows], values, yerr=errors, marker="o", markersize=3, linewidth=1.2, capsize=2,
                color=colour, label=told or label,
            )  # fmt: skip
    values = sorted({float(row[x]) for row in table})
    if values[0] > 0 and values[-1] / values[0] > 30:
        axes.set_xscale("log", base=2)
    axes.set_xlabel(x)
    axes.set_ylabel("mean squared error" if metrics[0] in _COMPARED else "share of runs that are correct")
    axes.legend(frameon=False, fontsize=8)


def _draw_similarity(axes: Axes, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    labels: Int64[np.ndarray, "L"] = arrays["labels"]
    order = np.argsort(np.where(labels < 0, labels.max() + 1, labels), kind="stable")
    image = axes.imshow(arrays["similarity"][np.ix_(order, order)], cmap="cividis_r", vmin=0, vmax=1)
    ends = np.flatnonzero(np.diff(labels[order])) + 0.5
    for end in ends:
        axes.axhline(end, color="white", linewidth=1)
        axes.axvline(end, color="white", linewidth=1)
    if len(order) <= _NAMED and "learners" in arrays:
        names = [str(name).replace("$", r"\$") for name in arrays["learners"][order]]
        axes.set_yticks(range(len(order)), names, fontsize=7)
        axes.set_xticks([])
    axes.grid(visible=False)
    axes.set_xlabel("learners, by cluster")
    axes.figure.colorbar(image, ax=axes, label="similarity (1: the same relation)", shrink=0.8)


def _draw_spectrum(axes: Axes, eigenvalues: Float64[np.ndarray, "L"]) -> None:
    shown = eigenvalues[:_EIGENVALUES]
    axes.plot(np.arange(1, len(shown) + 1), shown, color=BLUE, marker="o", markersize=4, linewidth=1.0)
    axes.set_xticks(np.arange(1, len(shown) + 1))
    axes.set_xlabel("number, largest first")
    axes.set_ylabel("eigenvalue")


def _draw_gap(axes: Axes, gap: Float64[np.ndarray, "c"], error: Float64[np.ndarray, "c"]) -> None:
    k = np.arange(2, len(gap) + 2)
    axes.errorbar(k, gap, yerr=error, color=BLUE, marker="o", markersize=4, linewidth=1.0, capsize=3)
    axes.set_xticks(k)
    axes.set_xlabel("number of clusters K")
    axes.set_ylabel("gap (log of squared distance)")
