"""Figure of the weighted points of a run and the centers, in their first two principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from server.figures.drawing import PALETTE, QUIET, SHAPES, component, explain, plain, png
from server.figures.figure import Figure
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = SHAPES[:4]
"""Markers of groups; with more groups than markers all have the same."""
_NUMBERED = 30
"""Clusters up to which every center has its number."""
_GROUPS = 8
"""Groups up to which each has its own strip, where there is only one component."""
_MOST_POINTS = 20_000
"""Points that are drawn at most: the heaviest."""
_INK = 20_000.0
"""Area of all points together, in square typographic points."""


@dataclass(frozen=True, eq=False)
class Plane:
    """The first two principal components of weighted points.

    Attributes
    ----------
    mean, scale : ndarray
        ``(d,)`` origin and unit of each column.
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
        """Return the plane of points in the data's own units that stand for `weights` rows each."""
        from sklearn.utils.extmath import randomized_svd  # fast for thousands of columns

        mean = np.average(points, axis=0, weights=weights)
        rows = np.sqrt(weights)[:, np.newaxis] * (points - mean) / scale
        _, values, axes = randomized_svd(rows, min(2, *rows.shape), random_state=0)
        total = float((rows**2).sum())
        return cls(mean, scale, axes.T, values**2 / total if total > 0 else np.zeros(len(values)))

    def project(self, points: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n c"]:
        """Return the coordinates of points in the data's own units."""
        coordinates: Float64[np.ndarray, "n c"] = (points - self.mean) / self.scale @ self.axes
        return coordinates


def clusters(report: Report, arrays: Arrays) -> Figure | None:
    """Draw points and centers in the plane of the points' first two principal components; None without points."""
    if not len(arrays.get("points", ())) or not len(arrays.get("centers", ())):
        return None
    plane = Plane.of(arrays["points"], arrays["weights"], arrays["scale"])
    image = png(partial(_draw, plane=plane, arrays=arrays), height=5.2)
    return Figure("clusters", image, _caption(report), _alt(report, plane, arrays))


def _draw(axes: Axes, plane: Plane, arrays: Arrays) -> None:
    placed = [plane.project(arrays[name]) for name in ("points", "centers", "centers_unfair")]
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
    """Draw points with the area of their rows and, if there are few groups, the marker of their group."""
    weights, groups, names = arrays["weights"], arrays["point_groups"], arrays["groups"]
    heavy_first = np.argsort(-weights, kind="stable")[:_MOST_POINTS]
    area = np.clip(_INK * weights / weights.sum(), 1.0, 150.0)
    palette = np.array(PALETTE)[arrays["point_clusters"] % len(PALETTE)]
    marked = 1 < len(names) <= len(_MARKERS)
    handles = {}
    for place, marker in enumerate(_MARKERS[: len(names) if marked else 1]):
        mine = heavy_first[groups[heavy_first] == place] if marked else heavy_first
        x, y = points[mine].T
        axes.scatter(x, y, s=area[mine], c=palette[mine].tolist(), marker=marker, alpha=0.6, linewidths=0)
        if marked:
            handles[plain(names[place])] = axes.scatter([], [], s=25, c=QUIET, marker=marker)
    return handles


def _draw_centers(axes: Axes, centers: Float64[np.ndarray, "k 2"]) -> Any:
    """Draw centers, with their numbers if there are few; return their entry in the legend."""
    few = len(centers) <= _NUMBERED
    for number, center in enumerate(centers if few else ()):
        edge = PALETTE[number % len(PALETTE)]  # the color of its points
        ring = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": edge, "linewidth": 2.2}
        axes.annotate(str(number), center, ha="center", va="center", fontsize=8, zorder=6, bbox=ring)
    x, y = centers.T
    return axes.scatter(x, y, s=60 if few else 25, facecolors="white", edgecolors="black", linewidths=1.0, zorder=5)


def _strips(
    axes: Axes, placed: Sequence[Float64[np.ndarray, "n 1"]], arrays: Arrays
) -> list[Float64[np.ndarray, "n 2"]]:
    """Return points, fair and plain centers along one axis, each kind in its own strip, points by group."""
    names = [plain(name) for name in arrays["groups"]] if len(arrays["groups"]) <= _GROUPS else ["all groups"]
    strips = (arrays["point_groups"] if len(names) > 1 else 0, -1, -2)
    axes.set_yticks(range(-2, len(names)), ["plain k-means", "fair centers", *names])
    return [
        np.column_stack([each[:, 0], np.broadcast_to(y, len(each))]) for each, y in zip(placed, strips, strict=True)
    ]


def _caption(report: Report) -> str:
    of = " of the first repetition" if several(report) else ""
    sized = not of and "n_coreset" in report.metrics
    points = f"{counted(report.metrics['n_coreset'], 'point')} that stand for " if sized else ""
    sizes = points + (measured(report, n_rows="row") if sized else measured(report))
    return sentences(
        f"The weighted points{of} and the centers in the points' first two principal components: {sizes}; the axes say"
        " in which unit, and how much of the variance they show",
        f"Of more than {_MOST_POINTS:,} points the heaviest are drawn"
        if sized and report.metrics["n_coreset"] > _MOST_POINTS
        else "",
        "A point's area is the number of rows that it stands for, its hue the cluster that most of these are in, its"
        f" marker their group where there are at most {len(_MARKERS)} groups; circles are the fair centers, with their"
        f" numbers if there are at most {_NUMBERED}, diamonds those of plain k-means",
    )


def _alt(report: Report, plane: Plane, arrays: Arrays) -> str:
    """Return the sizes of the clusters, how much of the variance is visible, and what the clusters cost."""
    metrics, parts = report.metrics, list[str]()
    if "counts" in arrays:
        sizes = arrays["counts"].sum(axis=1)
        parts.append(f"{counted(len(sizes), 'cluster')} of {sizes.min():,} to {sizes.max():,} rows")
        parts.append(f"the axes show {100 * plane.explained.sum():.3g} % of the variance of the points")
    elif "n_clusters" in metrics:
        parts.append(f"{counted(metrics['n_clusters'], 'cluster')} of weighted points")
    if {"cost", "cost_unfair", "price_of_fairness"} <= metrics.keys():
        price = 100 * metrics["price_of_fairness"]
        parts.append(
            f"the fair clusters cost {metrics['cost']:.4g}, {abs(price):.3g} % {'below' if price < 0 else 'above'} the"
            f" {metrics['cost_unfair']:.4g} of plain k-means"
            + (", on average over the repetitions" if several(report) else "")
        )
    return sentences(*(parts or ["weighted points and centers in a plane"]))
