"""Figure of the experts of a run: where their rows lie, and which query points chose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from server.figures.drawing import BLUE, INK, ORANGE, PALETTE, QUIET, SHAPES, component, explain, plain, png
from server.figures.figure import Figure
from server.figures.gp.columns import LINES, points_text, sample
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW, _NUMBERED = 30, 100
"""Experts up to which numbers are large, and up to which there are any."""
_DEVIATIONS = 2.0
"""Reach of an ellipse or a bar from its centroid."""
_TALLEST = 14.0
"""Greatest height of the figure in inches."""


def experts(report: Report, arrays: Arrays) -> Figure | None:
    """Draw where the experts' rows lie: in a plane, or over a single input; None without experts."""
    if not len(arrays.get("centroids", ())):
        return None
    if arrays["centroids"].shape[1] == 1:
        return _reach(report, arrays)
    plane = Plane.of(arrays["expert_rows"], arrays["centroids"], arrays["covariances"])
    first = " of the first repetition" if several(report) else ""
    caption = sentences(
        f"Where the rows of the experts{first} lie, in the first two principal components of the inputs (standard"
        f" deviations): {measured(report, n_experts='expert', n_rows='row')}",
        f"Ellipses reach {_DEVIATIONS:g} standard deviations from an expert's mean",
        f"Dots are {points_text(report)} in the color of the expert that suits them best"
        if "n_queries" in report.metrics
        else "",
    )
    variance = f"the axes show {100 * plane.explained.sum():.3g} % of the variance of all rows"
    alt = sentences("; ".join([*_sizes(report), variance]))
    return Figure("experts", png(partial(_draw_experts, plane=plane, arrays=arrays), height=5.2), caption, alt)


def _reach(report: Report, arrays: Arrays) -> Figure:
    """Draw where the experts' rows lie over a single input."""
    first = " of the first repetition" if several(report) else ""
    caption = sentences(
        f"Where the rows of the experts{first} lie over the one input (data's unit), experts in the order of their"
        f" means: {measured(report, n_experts='expert', n_rows='row')}",
        f"Bars reach {_DEVIATIONS:g} standard deviations from an expert's mean",
        f"Ticks are {points_text(report)} at the experts that were chosen for them"
        if "n_queries" in report.metrics
        else "",
    )
    middles = arrays["centroids"][:, 0] * arrays["input_scale"][0] + arrays["input_mean"][0]
    sizes = _sizes(report)
    whose = "their" if sizes else "the experts'"
    alt = sentences("; ".join([*sizes, f"{whose} means are from {middles.min():.4g} to {middles.max():.4g}"]))
    height = min(1.5 + 0.2 * len(arrays["centroids"]), _TALLEST)
    return Figure("reach", png(partial(_draw_reach, arrays=arrays), height), caption, alt)


def _sizes(report: Report) -> list[str]:
    """Return how many rows the experts have, and how many query points they answered, by the report's table."""
    rows = [row for row in report.table if {"expert", "rows"} <= row.keys()]
    if not rows:
        return []
    parts = [f"{counted(len(rows), 'expert')} of {_range(rows, 'rows')} rows"]
    if all("queries" in row for row in rows):
        parts.append(f"each answered {_range(rows, 'queries')} of the query points")
    return parts


@dataclass(frozen=True, eq=False)
class Plane:
    """The first two principal components of all experts' rows, in standardized units, from their moments alone.

    Attributes
    ----------
    middle : ndarray
        ``(d,)`` the mean of all rows.
    axes : ndarray
        ``(d, 2)`` directions of the components.
    explained : ndarray
        ``(2,)`` share of the rows' variance along each; 0 where no row differs from another.
    """

    middle: Float64[np.ndarray, "d"]
    axes: Float64[np.ndarray, "d 2"]
    explained: Float64[np.ndarray, "2"]

    @classmethod
    def of(
        cls,
        rows: Int64[np.ndarray, "M"],
        centroids: Float64[np.ndarray, "M d"],
        covariances: Float64[np.ndarray, "M d d"],
    ) -> Plane:
        """Return the plane of experts with this many rows about these centroids."""
        share = rows / rows.sum()
        middle = share @ centroids
        apart = centroids - middle
        covariance = np.einsum("m,mij->ij", share, covariances) + (apart * share[:, np.newaxis]).T @ apart
        values, vectors = np.linalg.eigh(covariance)
        axes = vectors[:, :-3:-1]
        # Signs are arbitrary; these, with a positive largest part, are the same everywhere.
        axes = axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[np.newaxis], axis=0))
        total = values.sum()
        return cls(middle, axes, np.maximum(values[:-3:-1], 0) / total if total > 0 else np.zeros(2))

    def project(self, points: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n 2"]:
        """Return the coordinates of points in standardized units."""
        placed: Float64[np.ndarray, "n 2"] = (points - self.middle) @ self.axes
        return placed

    def ellipses(
        self, covariances: Float64[np.ndarray, "M d d"]
    ) -> tuple[Float64[np.ndarray, "M 2"], Float64[np.ndarray, "M"]]:
        """Return the deviations along each ellipse's axes, and the angle of the longer one in degrees."""
        flat = np.einsum("ia,mij,jb->mab", self.axes, covariances, self.axes)
        values, vectors = np.linalg.eigh(flat)
        turned = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
        return np.sqrt(np.maximum(values[:, ::-1], 0)), turned


def _draw_experts(axes: Axes, plane: Plane, arrays: Arrays) -> None:
    from matplotlib.patches import Ellipse

    rows, centroids, covariances = (arrays[name] for name in ("expert_rows", "centroids", "covariances"))
    handles = _draw_points(axes, plane, arrays)
    centers, (deviations, turned) = plane.project(centroids), plane.ellipses(covariances)
    few = len(rows) <= _FEW
    pen = {"linewidth": 1.1 if few else 0.7, "alpha": 1.0 if few else 0.6}
    for expert, (center, size, angle) in enumerate(zip(centers, 2 * _DEVIATIONS * deviations, turned, strict=True)):
        color, _, line = _style(expert)
        outline = Ellipse(tuple(center), *size, angle=angle, fill=False, color=color, linestyle=line, zorder=3, **pen)
        axes.add_patch(outline)
    area = np.clip((260 if few else 120) * rows / rows.max(), 70 if few else 30, None)  # room for the number
    colors = [_style(expert)[0] for expert in range(len(rows))]
    x, y = centers.T
    axes.scatter(x, y, s=area, c=colors, edgecolors="white", linewidths=0.8, zorder=4)
    font: dict[str, Any] = {"fontsize": 7 if few else 5, "color": "white", "fontweight": "bold"}
    for number, center in enumerate(centers if len(rows) <= _NUMBERED else ()):
        axes.annotate(str(number), center, ha="center", va="center", zorder=5, **font)
    handles["expert, larger with more rows"] = axes.scatter([], [], s=60, c=QUIET)
    handles[f"{_DEVIATIONS:g} standard deviations of its rows"] = axes.plot([], [], color=QUIET, linewidth=1.1)[0]
    axes.autoscale_view()
    for which, share in zip(("x", "y"), plane.explained, strict=True):
        axes.set(**{f"{which}label": component(which, share, "in standard deviations")})
    explain(axes, list(handles.values()), list(handles), abreast=2)


def _draw_points(axes: Axes, plane: Plane, arrays: Arrays) -> dict[str, Any]:
    """Draw query points in the color of their best expert; gray if they have none."""
    if not len(arrays.get("queries", ())):
        return {}
    rows = sample(len(arrays["queries"]))
    placed = plane.project((arrays["queries"][rows] - arrays["input_mean"]) / arrays["input_scale"])
    first, area = arrays["selected"][rows, 0], float(np.clip(6000 / len(rows), 5, 14))
    for expert in np.unique(first).tolist():
        color, marker, _ = _style(expert) if expert >= 0 else ("#bbbbbb", "x", "")
        x, y = placed[first == expert].T
        axes.scatter(x, y, s=area, c=color, marker=marker, alpha=0.5, linewidths=0 if expert >= 0 else 0.8, zorder=2)
    return {"query point, color of its first expert": axes.scatter([], [], s=14, c=QUIET, alpha=0.5)}


def _style(expert: int) -> tuple[str, str, str]:
    """Return color, marker and line of an expert."""
    alike = expert // len(PALETTE)  # earlier experts with the same color
    return PALETTE[expert % len(PALETTE)], SHAPES[alike % len(SHAPES)], LINES[alike % len(LINES)]


def _draw_reach(axes: Axes, arrays: Arrays) -> None:
    """Draw a line for every expert: where its rows lie, and above the query points that it answered."""
    unit, origin = arrays["input_scale"][0], arrays["input_mean"][0]
    centroids = arrays["centroids"][:, 0] * unit + origin
    half = _DEVIATIONS * np.sqrt(arrays["covariances"][:, 0, 0]) * unit
    order = np.argsort(centroids, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    handles: dict[str, Any] = {}
    if len(arrays.get("queries", ())):
        sampled = sample(len(arrays["queries"]))
        x, selected = arrays["queries"][sampled, 0], arrays["selected"][sampled]
        for label, color, chosen in (
            ("query point that chose it first", BLUE, selected[:, :1]),
            ("later", ORANGE, selected[:, 1:]),
        ):
            point, column = np.nonzero(chosen >= 0)
            if len(point):
                y = places[chosen[point, column]]
                handles[label] = axes.scatter(x[point], y, s=14, marker="|", c=color, linewidths=0.8, zorder=3)
    lies = f"its rows: mean and {_DEVIATIONS:g} standard deviations"
    handles[lies] = axes.errorbar(
        centroids, places - 0.28, xerr=half, color=INK, marker="o", markersize=3, linewidth=1.2,
        linestyle="none", zorder=4,
    )  # fmt: skip
    counts = arrays["expert_rows"][order]
    named = [f"{expert} ({n:,} rows)" for expert, n in zip(order, counts, strict=True)]
    axes.set_yticks(range(len(named)), named, fontsize=8)
    axes.set_ylim(len(named) - 0.5, -0.6)
    axes.set_ylabel("expert")
    axes.set_xlabel(f"{plain(arrays['features'][0])} (data's unit)")
    explain(axes, list(handles.values()), list(handles), abreast=2)


def _range(rows: Sequence[dict[str, Any]], name: str) -> str:
    values = [int(row[name]) for row in rows]
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"
