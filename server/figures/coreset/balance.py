"""Figure of the groups in every cluster, beside their shares of all rows and the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from server.figures.drawing import BLUE, INK, VERMILION, explain, plain, png_panels
from server.figures.figure import Figure
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ABREAST, _FEW_PANELS = 3, 3
"""Panels in a row at most; panels up to which more clusters are drawn."""
_GROUPS = 8
"""Groups that are drawn at most: the most frequent."""
_ROUNDING = 2.0
"""Rows by which whole numbers of rows may miss a bound, since the group's and the cluster's rows are rounded."""
_NARROWEST = 0.02
"""Smallest reach of the axis of relative shares to either side of 1, so that rounding does not look large."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of groups in clusters, relative to their shares of all rows.

    Attributes
    ----------
    groups : ndarray
        ``(c,)`` names of the drawn groups, the most frequent first.
    clusters, sizes : ndarray
        ``(m,)`` numbers of the drawn clusters, and their rows.
    of_all : ndarray
        ``(c,)`` each group's share of all rows.
    ratio : ndarray
        ``(m, c)`` its share in the cluster divided by its share of all rows; NaN in an empty cluster.
    allowed : ndarray
        ``(2, c)`` smallest and largest ratio that is fair.
    outside : ndarray
        ``(m, c)`` whether the ratio is not fair, by more than rounding.
    """

    groups: Shaped[np.ndarray, "c"]
    clusters: Int64[np.ndarray, "m"]
    sizes: Int64[np.ndarray, "m"]
    of_all: Float64[np.ndarray, "c"]
    ratio: Float64[np.ndarray, "m c"]
    allowed: Float64[np.ndarray, "2 c"]
    outside: Bool[np.ndarray, "m c"]

    @classmethod
    def of(cls, arrays: Arrays) -> Shares:
        """Return the shares of the most frequent groups; of many clusters, those farthest from all rows."""
        totals, alpha, names, bounded = arrays["totals"], float(arrays["balance"]), arrays["groups"], arrays["counts"]
        sizes, n_rows = arrays["counts"].sum(axis=1), totals.sum()
        if "bounds" in arrays:
            names, bounded = arrays["bounded"], arrays["bounded_counts"]
            totals = bounded.sum(axis=0)
            n_rows = sizes.sum()
        frequent = np.argsort(-totals, kind="stable")[:_GROUPS]
        frequent = frequent[totals[frequent] > 0]
        of_all, counts = totals[frequent] / n_rows, bounded[:, frequent]
        fair = sizes[:, np.newaxis] * of_all
        ratio = np.divide(counts, fair, out=np.full(fair.shape, np.nan), where=fair > 0)
        low, high = np.full(len(of_all), alpha), np.minimum(1 / of_all, 1 / alpha)
        if "bounds" in arrays:
            low, high = arrays["bounds"][:, frequent] / of_all
        outside = np.maximum(low * fair - counts, counts - high * fair) > _ROUNDING
        far_first = np.argsort(-np.nan_to_num(np.abs(ratio - 1), nan=-1.0).max(axis=1), kind="stable")
        clusters = np.sort(far_first[: _most_clusters(len(frequent))])
        return cls(
            names[frequent],
            clusters,
            sizes[clusters],
            of_all,
            ratio[clusters],
            np.stack([low, high]),
            outside[clusters],
        )


def balance(report: Report, arrays: Arrays) -> Figure | None:
    """Draw a panel for each group; None with a single one."""
    counts = arrays.get("counts", np.zeros((0, 0)))
    if not counts.sum() or counts.shape[1] < 2:
        return None
    shares = Shares.of(arrays)
    n, height = len(shares.groups), 1.7 + 0.25 * len(shares.clusters)
    image = png_panels(partial(_draw, shares=shares), n, height, abreast=min(n, _ABREAST))
    return Figure("balance", image, _caption(report), _alt(report, shares))


def _most_clusters(n_groups: int) -> int:
    """Return how many clusters a panel shows, so that the figure does not get too tall."""
    return 30 if n_groups <= _FEW_PANELS else 12


def _draw(panels: Sequence[Axes], shares: Shares) -> None:
    handles: dict[str, Any] = {}
    for c, axes in enumerate(panels):
        handles["share of all rows"] = axes.axvline(1.0, color=INK, linewidth=1.0, zorder=1)
        low, high = shares.allowed[:, c]
        if low < high:
            handles["allowed"] = axes.axvspan(low, high, color=BLUE, alpha=0.15, linewidth=0, zorder=0)
        outside, known = shares.outside[:, c], np.isfinite(shares.ratio[:, c])
        for label, color, marker, chosen in (
            ("cluster", BLUE, "o", known & ~outside),
            ("cluster, not as fair as required", VERMILION, "^", known & outside),
        ):
            if chosen.any():
                x, y = shares.ratio[chosen, c], np.flatnonzero(chosen)
                handles[label] = axes.scatter(x, y, s=25, c=color, marker=marker, zorder=3)
        axes.set_title(f"{plain(shares.groups[c], 16)}:\n{100 * shares.of_all[c]:.3g} % of all rows")
        axes.tick_params(axis="y", labelsize=9)
        axes.locator_params(axis="x", nbins=5 if len(panels) < _ABREAST else 4)
    first = panels[0]
    every = [1 - _NARROWEST, 1 + _NARROWEST, *shares.allowed.flat, *shares.ratio[np.isfinite(shares.ratio)]]
    margin = 0.05 * (max(every) - min(every))
    first.set_xlim(min(every) - margin, max(every) + margin)
    named = [f"{number} ({size:,} rows)" for number, size in zip(shares.clusters, shares.sizes, strict=True)]
    first.set_yticks(range(len(named)), named)
    first.set_ylim(len(named) - 0.5, -0.5)
    first.figure.supylabel("cluster", fontsize=11)
    first.figure.supxlabel("share of the cluster's rows by share of all rows (ratio)", fontsize=11)
    explain(first, list(handles.values()), list(handles), abreast=2)


def _caption(report: Report) -> str:
    metrics, where = report.metrics, " in the first repetition" if several(report) else ""
    groups, clusters = metrics.get("n_groups", 0), metrics.get("n_clusters", 0)
    alpha, most = float(report.config.get("coreset.balance") or 1.0), _most_clusters(int(groups))
    return sentences(
        "Share of each group in each cluster divided by its share of all rows (ratio; 1: the same share)"
        f"{where}: {measured(report, n_rows='row')}",
        f"The {_GROUPS} most frequent of {counted(groups, 'group')}" if groups > _GROUPS else "",
        f"The {most} clusters farthest from all rows, of {clusters:.0f}" if clusters > most else "",
        "The shaded band is allowed (coreset.bounds)"
        if report.config.get("coreset.bounds")
        else f"The shaded band, {alpha:g} to {1 / alpha:.3g}, is allowed (coreset.balance {alpha:g})"
        if alpha < 1
        else "Required is 1, up to whole rows (coreset.balance 1)",
    )


def _alt(report: Report, shares: Shares) -> str:
    """Return the share that is farthest from that of all rows, and what misses its bound."""
    known = shares.ratio[np.isfinite(shares.ratio)]
    outside = int(shares.outside.any(axis=1).sum())
    parts = [
        _farthest(report),
        f"the ratios are from {known.min():.3g} to {known.max():.3g}",
        f"{counted(outside, 'cluster')} not as fair as required" if outside else "all are as fair as required",
    ]
    if "max_violation" in report.metrics and not several(report):
        parts.append(f"the largest violation of a bound is {report.metrics['max_violation']:.3g} rows")
    return sentences("; ".join(filter(None, parts)))


def _farthest(report: Report) -> str:
    """Return the group and cluster whose share is farthest from that of all rows; empty if the table has no shares."""
    of_all = next((row for row in report.table if row.get("cluster") == "all"), None)
    if of_all is None:
        return ""
    distances = [
        (abs(row[name] / share - 1), row["cluster"], name.removeprefix("share "), row[name], share)
        for row in report.table
        for name, share in of_all.items()
        if row is not of_all and name.startswith("share ") and name in row and share > 0
    ]
    if not distances:
        return ""
    _, cluster, group, own, share = max(distances, key=lambda each: each[0])
    return f"farthest from 1 is {group} in cluster {cluster}, {100 * own:.3g} % against {100 * share:.3g} % of all rows"
