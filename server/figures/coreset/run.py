"""Figures of one run: the weighted points and the centers, and the colours of every cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, explain, plain, png, png_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

Arrays = Mapping[str, Shaped[np.ndarray, "..."]]

_PALETTE = (BLUE, ORANGE, GREEN, VERMILION, "#CC79A7", "#56B4E9", "#666666")
"""Of Okabe and Ito's palette (grey for its black, in which centers are drawn, and without its yellow)."""
_SHAPES = ("o", "^", "s", "D")
"""Markers of sensitive colours; more of these than markers are all drawn alike."""
_NUMBERED = 30
"""Clusters up to which every center has its number, and whose colours are shown."""
_COLOURS = 8
"""Sensitive colours whose shares are shown: the most frequent."""
_ROUNDING = 2.0
"""Rows by which whole numbers of rows may miss a bound: its own rounded, and those of its cluster."""
_NARROWEST = 0.02
"""How far the axis of relative shares reaches from 1 to either side at least, that rounding does not look large."""
_INK = 20_000.0
"""Area of all points together, in square points of typography."""
_SIZES = {"n_coreset": "points", "n_rows": "rows"}


def draw_run(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if len(arrays.get("points", ())) and len(arrays.get("centers", ())):
        drawn["clusters"] = png(partial(_draw_clusters, arrays=arrays), height=4.8)
    counts = arrays.get("counts", np.zeros((0, 0)))
    if counts.sum() and counts.shape[1] > 1:
        shares = _Shares.of(arrays)
        n, width = len(shares.colours), 9.0 if len(shares.colours) > 2 else 6.4
        height = 1.3 + 0.24 * len(shares.clusters)
        drawn["balance"] = png_panels(partial(_draw_balance, shares=shares), n, height, width)
    return drawn


def run_told(report: Report, name: str) -> str:
    """Alternative text of a figure of a run; empty for one that is not ours."""
    if name == "clusters":
        return _clusters_told(report)
    return _balance_told(report) if name == "balance" else ""


def _several(report: Report) -> bool:
    """Whether what is drawn is the first repetition's, and the metrics are means over them."""
    return int(report.config.get("repetitions", 1)) > 1


# -- points and centers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Plane:
    """The first two principal components of weighted points.

    Attributes
    ----------
    mean, scale : ndarray
        ``(d,)`` what is subtracted from a column, and what it is divided by then.
    axes : ndarray
        ``(d, 2)`` directions of the components, or ``(d, 1)`` where there are not two.
    explained : ndarray
        Share of the variance along each; 0 where all points are the same.
    """

    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
    axes: Float64[np.ndarray, "d c"]
    explained: Float64[np.ndarray, "c"]

    @classmethod
    def of(
        cls, points: Float64[np.ndarray, "n d"], weights: Int64[np.ndarray, "n"], scale: Float64[np.ndarray, "d"]
    ) -> _Plane:
        """Of points in the data's own units that stand for `weights` rows each."""
        from sklearn.utils.extmath import randomized_svd  # takes thousands of columns in a second

        mean = np.average(points, axis=0, weights=weights)
        rows = np.sqrt(weights)[:, np.newaxis] * (points - mean) / scale
        _, values, axes = randomized_svd(rows, min(2, *rows.shape), random_state=0)
        total = float((rows**2).sum())
        return cls(mean, scale, axes.T, values**2 / total if total > 0 else np.zeros(len(values)))

    def put(self, points: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n c"]:
        """Coordinates of points in the data's own units."""
        found: Float64[np.ndarray, "n c"] = (points - self.mean) / self.scale @ self.axes
        return found


def _draw_clusters(axes: Axes, arrays: Arrays) -> None:
    plane = _Plane.of(arrays["points"], arrays["weights"], arrays["scale"])
    placed = [plane.put(arrays[name]) for name in ("points", "centers", "centers_unfair")]
    if len(plane.explained) < 2:
        placed = _strips(axes, placed, arrays)
    handles = _draw_points(axes, placed[0], arrays)
    handles["fair center"] = _draw_centers(axes, placed[1])
    x, y = placed[2].T
    hollow: dict[str, Any] = {"marker": "D", "facecolors": "none", "edgecolors": "black", "linewidths": 1.0}
    area = 130 if len(x) <= _NUMBERED else 30
    handles["center of plain k-means"] = axes.scatter(x, y, s=area, zorder=4, **hollow)
    unit = "in standard deviations" if np.any(plane.scale != 1) else "in units of the columns"
    kept = [f"{100 * share:.3g} % of the variance, " if share > 0 else "" for share in plane.explained]
    axes.set_xlabel(f"first principal component\n({kept[0]}{unit})")
    if len(kept) > 1:
        axes.set_ylabel(f"second principal component\n({kept[1]}{unit})")
    explain(axes, list(handles.values()), list(handles), abreast=3)


def _draw_points(axes: Axes, points: Float64[np.ndarray, "n 2"], arrays: Arrays) -> dict[str, Any]:
    """The area of a point is its rows', its marker its sensitive colour's where there are few; says which."""
    weights, colours, names = arrays["weights"], arrays["point_colours"], arrays["colours"]
    heavy_first = np.argsort(-weights, kind="stable")
    area = np.clip(_INK * weights / weights.sum(), 1.0, 150.0)
    palette = np.array(_PALETTE)[arrays["point_clusters"] % len(_PALETTE)]
    told = 1 < len(names) <= len(_SHAPES)
    handles = {}
    for place, marker in enumerate(_SHAPES[: len(names) if told else 1]):
        mine = heavy_first[colours[heavy_first] == place] if told else heavy_first
        x, y = points[mine].T
        axes.scatter(x, y, s=area[mine], c=palette[mine].tolist(), marker=marker, alpha=0.6, linewidths=0)
        if told:
            handles[plain(names[place])] = axes.scatter([], [], s=25, c="#666666", marker=marker)
    return handles


def _draw_centers(axes: Axes, centers: Float64[np.ndarray, "k 2"]) -> Any:
    """Numbered where there are few; returns what stands for them in a legend."""
    few = len(centers) <= _NUMBERED
    ring = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "black"}
    for number, center in enumerate(centers if few else ()):
        axes.annotate(str(number), center, ha="center", va="center", fontsize=7, zorder=6, bbox=ring)
    x, y = centers.T
    return axes.scatter(x, y, s=60 if few else 25, facecolors="white", edgecolors="black", linewidths=1.0, zorder=5)


def _strips(
    axes: Axes, placed: Sequence[Float64[np.ndarray, "n 1"]], arrays: Arrays
) -> list[Float64[np.ndarray, "n 2"]]:
    """Points, fair and plain centers along one axis: each in a strip of its own, points in one for every colour."""
    names = [plain(name) for name in arrays["colours"]] if len(arrays["colours"]) <= _COLOURS else ["all colours"]
    strips = (arrays["point_colours"] if len(names) > 1 else 0, -1, -2)
    axes.set_yticks(range(-2, len(names)), ["plain k-means", "fair centers", *names])
    return [
        np.column_stack([each[:, 0], np.broadcast_to(y, len(each))]) for each, y in zip(placed, strips, strict=True)
    ]


def _clusters_told(report: Report) -> str:
    metrics, of = report.metrics, " of the first repetition" if _several(report) else ""
    sizes = [f"{metrics[name]:,.0f} {what}" for name, what in _SIZES.items() if name in metrics and not of]
    told = [
        f"The weighted points{of} in their first two principal components"
        + (f": {' that stand for '.join(sizes)}" if sizes else "")
        + "; the axes say how much of the variance they show",
        "area by the rows that a point stands for, hue by the cluster that most of these are in",
        f"circles are the fair centers, with their numbers up to {_NUMBERED} of them, diamonds those of plain k-means",
    ]
    if {"cost", "cost_unfair", "price_of_fairness"} <= metrics.keys():
        price = 100 * metrics["price_of_fairness"]
        told.append(
            f"the fair clusters cost {metrics['cost']:.4g}, {abs(price):.3g} % {'below' if price < 0 else 'above'} the"
            f" {metrics['cost_unfair']:.4g} of plain k-means{', on average over the repetitions' if of else ''}"
        )
    return f"{'; '.join(told)}."


# -- colours of every cluster -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Shares:
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
    def of(cls, arrays: Arrays) -> _Shares:
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
        kept = np.sort(far_first[:_NUMBERED])
        names = arrays["colours"][frequent]
        return cls(names, kept, sizes[kept], of_all, ratio[kept], np.stack([low, high]), outside[kept])


def _draw_balance(panels: Sequence[Axes], shares: _Shares) -> None:
    handles: dict[str, Any] = {}
    for c, axes in enumerate(panels):
        handles["share of all rows"] = axes.axvline(1.0, color="#333333", linewidth=1.0, zorder=1)
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
        axes.set_title(f"{plain(shares.colours[c])}: {100 * shares.of_all[c]:.3g} % of all rows", fontsize=9)
        axes.tick_params(axis="y", labelsize=8)
    first = panels[0]
    every = [1 - _NARROWEST, 1 + _NARROWEST, *shares.allowed.flat, *shares.ratio[np.isfinite(shares.ratio)]]
    margin = 0.05 * (max(every) - min(every))
    first.set_xlim(min(every) - margin, max(every) + margin)
    named = [f"{number} ({size:,} rows)" for number, size in zip(shares.clusters, shares.sizes, strict=True)]
    first.set_yticks(range(len(named)), named)
    first.set_ylim(len(named) - 0.5, -0.5)
    first.figure.supylabel("cluster", fontsize=10)
    first.figure.supxlabel("share of the cluster's rows by share of all rows (ratio)", fontsize=10)
    explain(first, list(handles.values()), list(handles), abreast=4 if len(panels) > 2 else 2)


def _balance_told(report: Report) -> str:
    metrics, where = report.metrics, " in the first repetition" if _several(report) else ""
    told = [f"Share of each sensitive colour in each cluster by its share of all rows{where}"]
    if metrics.get("n_colours", 0) > _COLOURS:
        told.append(f"the {_COLOURS} most frequent of {metrics['n_colours']:.0f} colours")
    if metrics.get("n_clusters", 0) > _NUMBERED:
        told.append(f"the {_NUMBERED} clusters farthest from all rows, of {metrics['n_clusters']:.0f}")
    if farthest := _farthest(report):
        told.append(farthest)
    alpha = float(report.config.get("coreset.balance", 1.0))
    told.append(
        f"the shaded band, {alpha:g} to {1 / alpha:.3g}, is what coreset.balance {alpha:g} allows"
        if alpha < 1
        else "coreset.balance 1 asks for 1, up to whole rows"
    )
    if "max_violation" in metrics and not where:
        told.append(f"the farthest outside what is asked is so by {metrics['max_violation']:.3g} rows")
    return f"{'; '.join(told)}."


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
