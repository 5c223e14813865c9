"""The sensitive colours of every cluster, against the data's and the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from server.figures.drawing import BLUE, INK, VERMILION, explain, plain, png_panels
from server.figures.wording import Arrays, measured, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_ABREAST, _FEW_PANELS = 3, 3
"""Panels in a row, where there are more than two; panels up to which more clusters are shown."""
_COLOURS = 8
"""Sensitive colours whose shares are shown: the most frequent."""
_ROUNDING = 2.0
"""Rows by which whole numbers of rows may miss a bound: its own rounded, and those of its cluster."""
_NARROWEST = 0.02
"""How far the axis of relative shares reaches from 1 to either side at least, that rounding does not look large."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of colours in clusters, relative to their shares in all rows.

    Attributes
    ----------
    colours : ndarray
        ``(c,)`` names of the colours that are shown, the most frequent first.
    clusters, sizes : ndarray
        ``(m,)`` numbers of the clusters that are shown, and their rows.
    of_all : ndarray
        ``(c,)`` each colour's share of all rows.
    ratio : ndarray
        ``(m, c)`` its share in the cluster by its share of all rows; NaN in an empty cluster.
    allowed : ndarray
        ``(2, c)`` what that may be, from and to.
    outside : ndarray
        ``(m, c)`` whether it is not, by more than rounding.
    """

    colours: Shaped[np.ndarray, "c"]
    clusters: Int64[np.ndarray, "m"]
    sizes: Int64[np.ndarray, "m"]
    of_all: Float64[np.ndarray, "c"]
    ratio: Float64[np.ndarray, "m c"]
    allowed: Float64[np.ndarray, "2 c"]
    outside: Bool[np.ndarray, "m c"]

    @classmethod
    def of(cls, arrays: Arrays) -> Shares:
        """Of the most frequent colours, and where there are many clusters, of those farthest from all rows."""
        totals, alpha = arrays["totals"], float(arrays["balance"])
        frequent = np.argsort(-totals, kind="stable")[:_COLOURS]
        frequent = frequent[totals[frequent] > 0]
        of_all = totals[frequent] / totals.sum()
        counts, sizes = arrays["counts"][:, frequent], arrays["counts"].sum(axis=1)
        fair = sizes[:, np.newaxis] * of_all
        ratio = np.divide(counts, fair, out=np.full(fair.shape, np.nan), where=fair > 0)
        low, high = np.full(len(of_all), alpha), np.minimum(1 / of_all, 1 / alpha)  # specs/coreset.md, Definitions
        outside = np.maximum(low * fair - counts, counts - high * fair) > _ROUNDING
        far_first = np.argsort(-np.nan_to_num(np.abs(ratio - 1), nan=-1.0).max(axis=1), kind="stable")
        kept = np.sort(far_first[: _most_clusters(len(frequent))])
        names = arrays["colours"][frequent]
        return cls(names, kept, sizes[kept], of_all, ratio[kept], np.stack([low, high]), outside[kept])


def draw_balance(arrays: Arrays) -> bytes:
    """The figure: a panel for each colour."""
    shares = Shares.of(arrays)
    n, height = len(shares.colours), 1.7 + 0.25 * len(shares.clusters)
    return png_panels(partial(_draw, shares=shares), n, height, abreast=min(n, _ABREAST))


def _most_clusters(n_colours: int) -> int:
    """That are shown in each panel, lest the figure is too tall."""
    return 30 if n_colours <= _FEW_PANELS else 12


def _draw(panels: Sequence[Axes], shares: Shares) -> None:
    handles: dict[str, Any] = {}
    for c, axes in enumerate(panels):
        handles["share of all rows"] = axes.axvline(1.0, color=INK, linewidth=1.0, zorder=1)
        low, high = shares.allowed[:, c]
        if low < high:
            handles["allowed"] = axes.axvspan(low, high, color=BLUE, alpha=0.15, linewidth=0, zorder=0)
        outside, known = shares.outside[:, c], np.isfinite(shares.ratio[:, c])
        for label, colour, marker, chosen in (
            ("cluster", BLUE, "o", known & ~outside),
            ("cluster, not as fair as asked", VERMILION, "^", known & outside),
        ):
            if chosen.any():
                x, y = shares.ratio[chosen, c], np.flatnonzero(chosen)
                handles[label] = axes.scatter(x, y, s=25, c=colour, marker=marker, zorder=3)
        axes.set_title(f"{plain(shares.colours[c], 16)}:\n{100 * shares.of_all[c]:.3g} % of all rows")
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


def balance_caption(report: Report) -> str:
    """What the figure draws."""
    metrics, where = report.metrics, " in the first repetition" if several(report) else ""
    colours, clusters = metrics.get("n_colours", 0), metrics.get("n_clusters", 0)
    alpha, most = float(report.config.get("coreset.balance") or 1.0), _most_clusters(int(colours))
    return sentences(
        "Share of each sensitive colour in each cluster by its share of all rows (ratio; 1: the same share)"
        f"{where}: {measured(report, n_rows='row')}",
        f"The {_COLOURS} most frequent of {counted(colours, 'colour')}" if colours > _COLOURS else "",
        f"The {most} clusters farthest from all rows, of {clusters:.0f}" if clusters > most else "",
        f"The shaded band, {alpha:g} to {1 / alpha:.3g}, is what is allowed (coreset.balance {alpha:g})"
        if alpha < 1
        else "Asked for is 1, up to whole rows (coreset.balance 1)",
    )


def balance_told(report: Report, arrays: Arrays) -> str:
    """Alternative text: the share that is farthest from that of all rows, and what misses its bound."""
    metrics, told = report.metrics, [_farthest(report)]
    if "counts" in arrays:
        shares = Shares.of(arrays)
        known = shares.ratio[np.isfinite(shares.ratio)]
        told.append(f"the ratios are from {known.min():.3g} to {known.max():.3g}")
        outside = int(shares.outside.any(axis=1).sum())
        told.append(f"{counted(outside, 'cluster')} not as fair as asked" if outside else "all are as fair as asked")
    if "max_violation" in metrics and not several(report):
        told.append(f"the farthest outside what is asked is so by {metrics['max_violation']:.3g} rows")
    return sentences("; ".join(filter(None, told)) or "shares of colours by cluster")


def _farthest(report: Report) -> str:
    """Of the clusters in the report's table, which colour's share is farthest from that of all rows; empty: unknown."""
    of_all = next((row for row in report.table if row.get("cluster") == "all"), None)
    if of_all is None:
        return ""
    found = [
        (abs(row[name] / share - 1), row["cluster"], name.removeprefix("share "), row[name], share)
        for row in report.table
        for name, share in of_all.items()
        if row is not of_all and name.startswith("share ") and name in row and share > 0
    ]
    if not found:
        return ""
    _, cluster, colour, here, share = max(found, key=lambda each: each[0])
    return (
        f"farthest from 1 is {colour} in cluster {cluster}, {100 * here:.3g} % against {100 * share:.3g} % of all rows"
    )
