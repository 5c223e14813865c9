"""The weighted points of a run and the centers, in their first two principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from server.figures.drawing import PALETTE, QUIET, SHAPES, component, explain, plain
from server.figures.wording import Arrays, measured, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_MARKERS = SHAPES[:4]
"""Of sensitive colours; more of these than markers are all drawn alike."""
_NUMBERED = 30
"""Clusters up to which every center has its number."""
_COLOURS = 8
"""Sensitive colours up to which each has a strip of its own where there is one component alone."""
_MOST_POINTS = 20_000
"""Points that are drawn: the heaviest."""
_INK = 20_000.0
"""Area of all points together, in square points of typography."""


@dataclass(frozen=True, eq=False)
class Plane:
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
    ) -> Plane:
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


def draw_clusters(axes: Axes, arrays: Arrays) -> None:
    """Draw them."""
    plane = Plane.of(arrays["points"], arrays["weights"], arrays["scale"])
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
    for which, share in zip("xy", plane.explained.tolist(), strict=False):
        axes.set(**{f"{which}label": component(which, share, unit)})
    explain(axes, list(handles.values()), list(handles), abreast=3)


def _draw_points(axes: Axes, points: Float64[np.ndarray, "n 2"], arrays: Arrays) -> dict[str, Any]:
    """The area of a point is its rows', its marker its sensitive colour's where there are few; says which."""
    weights, colours, names = arrays["weights"], arrays["point_colours"], arrays["colours"]
    heavy_first = np.argsort(-weights, kind="stable")[:_MOST_POINTS]
    area = np.clip(_INK * weights / weights.sum(), 1.0, 150.0)
    palette = np.array(PALETTE)[arrays["point_clusters"] % len(PALETTE)]
    told = 1 < len(names) <= len(_MARKERS)
    handles = {}
    for place, marker in enumerate(_MARKERS[: len(names) if told else 1]):
        mine = heavy_first[colours[heavy_first] == place] if told else heavy_first
        x, y = points[mine].T
        axes.scatter(x, y, s=area[mine], c=palette[mine].tolist(), marker=marker, alpha=0.6, linewidths=0)
        if told:
            handles[plain(names[place])] = axes.scatter([], [], s=25, c=QUIET, marker=marker)
    return handles


def _draw_centers(axes: Axes, centers: Float64[np.ndarray, "k 2"]) -> Any:
    """Numbered where there are few; returns what stands for them in a legend."""
    few = len(centers) <= _NUMBERED
    for number, center in enumerate(centers if few else ()):
        edge = PALETTE[number % len(PALETTE)]  # as its points
        ring = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": edge, "linewidth": 2.2}
        axes.annotate(str(number), center, ha="center", va="center", fontsize=8, zorder=6, bbox=ring)
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


def clusters_caption(report: Report) -> str:
    """What the figure draws."""
    of = " of the first repetition" if several(report) else ""
    told = not of and "n_coreset" in report.metrics
    points = f"{counted(report.metrics['n_coreset'], 'point')} that stand for " if told else ""
    sizes = points + (measured(report, n_rows="row") if told else measured(report))
    return sentences(
        f"The weighted points{of} and the centers in the points' first two principal components: {sizes}; the axes say"
        " in which unit, and how much of the variance they show",
        f"Of more than {_MOST_POINTS:,} points the heaviest are drawn"
        if told and report.metrics["n_coreset"] > _MOST_POINTS
        else "",
        "A point's area is the number of rows that it stands for, its hue the cluster that most of these are in, its"
        f" marker their sensitive colour where there are {len(_MARKERS)} or fewer; circles are the fair centers, with"
        f" their numbers up to {_NUMBERED} of them, diamonds those of plain k-means",
    )


def clusters_told(report: Report, arrays: Arrays) -> str:
    """Alternative text: sizes of the clusters, how much the axes show, what the clusters cost."""
    metrics, told = report.metrics, list[str]()
    if "counts" in arrays and len(arrays.get("points", ())):
        sizes = arrays["counts"].sum(axis=1)
        told.append(f"{counted(len(sizes), 'cluster')} of {sizes.min():,} to {sizes.max():,} rows")
        shown = Plane.of(arrays["points"], arrays["weights"], arrays["scale"]).explained.sum()
        told.append(f"the axes show {100 * shown:.3g} % of the variance of the points")
    elif "n_clusters" in metrics:
        told.append(f"{counted(metrics['n_clusters'], 'cluster')} of weighted points")
    if {"cost", "cost_unfair", "price_of_fairness"} <= metrics.keys():
        price = 100 * metrics["price_of_fairness"]
        told.append(
            f"the fair clusters cost {metrics['cost']:.4g}, {abs(price):.3g} % {'below' if price < 0 else 'above'} the"
            f" {metrics['cost_unfair']:.4g} of plain k-means"
            + (", on average over the repetitions" if several(report) else "")
        )
    return sentences(*(told or ["weighted points and centers in a plane"]))
