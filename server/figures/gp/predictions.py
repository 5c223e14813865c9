"""Figures of a run's predictions: beside the measured outputs, and their calibration."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.calibration import Calibration
from server.figures.drawing import BLUE, GREEN, INK, VERMILION, explain, plain, png, png_panels
from server.figures.figure import Figure
from server.figures.gp.columns import measured_text, output_of, points_text, sample
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE_LEVEL, _BAR_LEVEL = 0.99, 0.95
"""Levels of the band about the curve of one input (Figure 9), and of the bars of predictions."""
_LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Levels of the intervals whose coverage is marked; the metrics have the same."""
_GRID = np.arange(1, 100) / 100
"""Levels of the intervals whose coverage is a curve."""
_BY_CHANCE = 0.95
"""Probability of the band of the coverage of calibrated predictions."""
_FARTHEST = 5.0
"""Distance from 0 at which all larger standardized residuals are drawn."""
_MOST_BINS = 40
_KEY = 20
"""Area of a dot in a legend."""


def predictions(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the predictions: over one input, by measured output, or by predicted mean; None without query points."""
    if not len(arrays.get("mean", ())):
        return None
    output, points, sizes = output_of(report), points_text(report), measured(report, n_experts="expert")
    if arrays["queries"].shape[1] == 1:
        name, draw, height = "curve", _draw_curve, 4.2
        caption = sentences(
            f"Predicted mean over the one input and the {100 * _CURVE_LEVEL:g} % interval of an observation (data's"
            f" units) at {points}: {sizes}",
            "Dots are measured outputs, which the fusion center knows" if "rmse" in report.metrics else "",
            "Ticks on the axis are the centroids of the experts",
        )
    elif "outputs" in arrays:
        name, draw, height = "predictions", _draw_predictions, 5.4
        caption = sentences(
            f"Predicted by measured output (data's unit) at {measured_text(report)}: {sizes}",
            f"Bars are {100 * _BAR_LEVEL:g} % intervals of an observation; on the line the prediction is exact",
        )
    else:
        name, draw, height = "deviations", _draw_deviations, 4.0
        caption = sentences(
            f"Standard deviation of an observation by predicted mean (data's unit) at {points}: {sizes}",
            "Nothing was measured there; the dashed line is the noise alone, the least that a deviation can be",
        )
    level = _BAR_LEVEL if name == "predictions" else _CURVE_LEVEL
    half = calibration_of(report, arrays).reach(level) * arrays["std"]
    image = png(partial(draw, arrays=arrays, half=half, output=output), height=height)
    return Figure(name, image, caption, _alt(report, arrays, level))


def _alt(report: Report, arrays: Arrays, level: float) -> str:
    """Return ranges of the predictions, how many outputs are in their intervals, and the error."""
    mean, std = arrays["mean"], arrays["std"]
    parts = [
        f"Predictions from {mean.min():.4g} to {mean.max():.4g}, with deviations from {std.min():.3g} to"
        f" {std.max():.3g}, at {points_text(report)}"
    ]
    if (name := f"coverage_{100 * level:g}") in report.metrics:
        share, average = 100 * report.metrics[name], ", on average over the repetitions" if several(report) else ""
        parts.append(f"{share:.3g} % of the measured outputs are in their {100 * level:g} % interval{average}")
    if "rmse" in report.metrics:
        parts.append(f"root mean squared error {report.metrics['rmse']:.4g} in the output's unit")
    return sentences("; ".join(parts))


def calibration(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the coverage of prediction intervals, and the residuals; None if the outputs are unknown."""
    if not len(arrays.get("mean", ())) or "outputs" not in arrays:
        return None
    residuals = standardized(arrays)
    n = report.metrics.get("n_measured", 0)
    outputs = counted(n, "measured output") if n else "the measured outputs"
    caption = sentences(
        f"Above, the share of {outputs} (%) inside prediction intervals of every level; the gray band holds"
        f" {100 * _BY_CHANCE:g} % of the shares of calibrated predictions at each level:"
        f" {measured(report, n_experts='expert')}",
        "Below, residuals in standard deviations of their predictions beside the normal density; those beyond"
        f" {_FARTHEST:g} are in the outermost bars",
    )
    levels = [
        f"{100 * report.metrics[name]:.3g} % in the {name.removeprefix('coverage_')} % intervals"
        for name in (f"coverage_{100 * level:g}" for level in _LEVELS)
        if name in report.metrics
    ]
    average = " on average over the repetitions" if several(report) else ""
    alt = sentences(
        f"of {outputs}, {', '.join(levels)}{average}" if levels else f"calibration on {outputs}",
        f"residuals have mean {residuals.mean():.2g} and deviation {residuals.std():.2g}",
    )
    draw = partial(_draw_calibration, residuals=residuals, intervals=calibration_of(report, arrays))
    image = png_panels(draw, 2, 3.3, same_x=False, same_y=False, abreast=1)
    return Figure("calibration", image, caption, alt)


def calibration_of(report: Report, arrays: Arrays) -> Calibration:
    """Return the distribution of errors that the run's intervals take: for NPAE that of residuals, if there are any."""
    npae = (report.config.get("gp.aggregation") or "npae") == "npae"
    return Calibration(arrays["residual_counts"] * npae, len(arrays["theta"]))


def standardized(arrays: Arrays) -> Float64[np.ndarray, "m"]:
    """Return the residual of each measured output in standard deviations, which is N(0, 1) if calibrated."""
    residuals: Float64[np.ndarray, "N"] = (arrays["outputs"] - arrays["mean"]) / arrays["std"]
    return np.asarray(residuals[~np.isnan(residuals)])


def observed(
    residuals: Float64[np.ndarray, "N"], levels: Float64[np.ndarray, "l"], intervals: Calibration
) -> Float64[np.ndarray, "l"]:
    """Return the share of the residuals inside the central interval of each level."""
    needed = np.sort(intervals.share_within(np.abs(residuals)))
    held: Float64[np.ndarray, "l"] = np.searchsorted(needed, levels, side="right") / len(residuals)
    return held


# -- one input --------------------------------------------------------------------------------------------------------


def _draw_curve(axes: Axes, arrays: Arrays, half: Float64[np.ndarray, "N"], output: str) -> None:
    x = arrays["queries"][:, 0]
    order = np.argsort(x, kind="stable")
    order = order[sample(len(order))]
    x, mean, half = x[order], arrays["mean"][order], half[order]
    mark = "o" if len(x) == 1 else ""
    handles: dict[str, Any] = {}
    if "outputs" in arrays:
        axes.scatter(x, arrays["outputs"][order], s=_dot(len(x)), c=INK, linewidths=0)
        handles["measured"] = axes.scatter([], [], s=_KEY, c=INK, linewidths=0)
    handles["predicted mean"] = axes.plot(x, mean, color=BLUE, linewidth=1.4, marker=mark)[0]
    band = f"{100 * _CURVE_LEVEL:g} % interval of an observation"
    if len(x) > 1:
        handles[band] = axes.fill_between(x, mean - half, mean + half, color=BLUE, alpha=0.2, linewidth=0)
    else:
        handles[band] = axes.errorbar(x, mean, yerr=half, color=BLUE, capsize=3)
    centroids = arrays["centroids"][:, 0] * arrays["input_scale"] + arrays["input_mean"]
    low = np.zeros(len(centroids))
    handles["centroid of an expert"] = axes.plot(
        centroids, low, color=VERMILION, marker="|", markersize=10, markeredgewidth=1.6, linestyle="none",
        transform=axes.get_xaxis_transform(), clip_on=False,
    )[0]  # fmt: skip
    axes.set_xlabel(f"{plain(arrays['features'][0])} (data's unit)")
    axes.set_ylabel(f"{output} (data's unit)")
    explain(axes, list(handles.values()), list(handles), abreast=2)


def _dot(n: int) -> float:
    """Return the area of a dot in square typographic points, smaller for many dots."""
    return float(np.clip(4000 / n, 3, 16))


# -- several inputs ---------------------------------------------------------------------------------------------------


def _draw_predictions(axes: Axes, arrays: Arrays, half: Float64[np.ndarray, "N"], output: str) -> None:
    measured_rows = np.flatnonzero(~np.isnan(arrays["outputs"]))
    rows = measured_rows[sample(len(measured_rows))]
    mean, y, half = arrays["mean"][rows], arrays["outputs"][rows], half[rows]
    inside: Bool[np.ndarray, "m"] = np.abs(y - mean) <= half
    faint = float(np.clip(60 / len(rows), 0.12, 0.6))
    handles: dict[str, Any] = {}
    for label, color, marker, chosen in (
        (f"in its {100 * _BAR_LEVEL:g} % interval (bar)", BLUE, "o", inside),
        ("outside", VERMILION, "^", ~inside),
    ):
        if chosen.any():
            axes.vlines(
                y[chosen], (mean - half)[chosen], (mean + half)[chosen], color=color, alpha=faint, linewidth=0.8
            )
            area = _dot(len(rows))
            axes.scatter(y[chosen], mean[chosen], s=area, c=color, marker=marker, linewidths=0)
            handles[label] = axes.scatter([], [], s=_KEY, c=color, marker=marker, linewidths=0)
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    handles["predicted as measured"] = axes.plot(ends, ends, color=INK, linewidth=1.0, zorder=1)[0]
    axes.set_xlabel(f"measured {output} (data's unit)")
    axes.set_ylabel(f"predicted {output} (data's unit)")
    explain(axes, list(handles.values()), list(handles))


def _draw_deviations(axes: Axes, arrays: Arrays, half: Float64[np.ndarray, "N"], output: str) -> None:
    rows = sample(len(arrays["mean"]))
    axes.scatter(
        arrays["mean"][rows], arrays["std"][rows], s=_dot(len(rows)), c=BLUE, alpha=0.6, linewidths=0,
    )  # fmt: skip
    noise = float(np.exp(arrays["theta"][-1]) * arrays["output_scale"])
    line = axes.axhline(noise, color=GREEN, linestyle="--", linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"predicted {output} (data's unit)")
    axes.set_ylabel(f"standard deviation of an observation\n({output}, data's unit)")
    explain(axes, [line], ["noise alone: as sure as a prediction can be"])


# -- calibration ------------------------------------------------------------------------------------------------------


def _draw_calibration(panels: Sequence[Axes], residuals: Float64[np.ndarray, "N"], intervals: Calibration) -> None:
    _draw_coverage(panels[0], residuals, intervals)
    _draw_residuals(panels[1], residuals)


def _draw_coverage(axes: Axes, residuals: Float64[np.ndarray, "N"], intervals: Calibration) -> None:
    from scipy.stats import binom

    n, marked = len(residuals), np.array(_LEVELS)
    low, high = (binom.ppf(tail, n, _GRID) / n for tail in ((1 - _BY_CHANCE) / 2, (1 + _BY_CHANCE) / 2))
    chance = axes.fill_between(100 * _GRID, 100 * low, 100 * high, color="#999999", alpha=0.3, linewidth=0)
    ideal = axes.plot([0, 100], [0, 100], color=INK, linewidth=1.0)[0]
    axes.plot(100 * _GRID, 100 * observed(residuals, _GRID, intervals), color=BLUE, linewidth=1.4)
    dots = axes.plot(100 * marked, 100 * observed(residuals, marked, intervals), color=BLUE, marker="o", markersize=5)[
        0
    ]
    dots.set_linestyle("none")
    axes.set(xlim=(0, 100), ylim=(0, 112), xlabel="level of the interval (%)")
    axes.set_ylabel("measured outputs in it (%)")
    for level, held in zip(_LEVELS, observed(residuals, marked, intervals).tolist(), strict=True):
        above = level == _LEVELS[-1]  # its neighbor's label is below
        axes.annotate(
            f"{100 * level:g} %", (100 * level, 100 * held), (-4, 5) if above else (4, -12),
            textcoords="offset points", ha="right" if above else "left", fontsize=9,
        )  # fmt: skip
    labels = ["this run", "calibrated", "calibrated, by chance"]
    axes.legend([dots, ideal, chance], labels, frameon=False, fontsize=9, loc="upper left")


def _draw_residuals(axes: Axes, residuals: Float64[np.ndarray, "N"]) -> None:
    bins = int(np.clip(2 * np.sqrt(len(residuals)), 10, _MOST_BINS))
    edges = np.linspace(-_FARTHEST, _FARTHEST, bins + 1)
    axes.hist(np.clip(residuals, -_FARTHEST, _FARTHEST), edges.tolist(), density=True, color=BLUE, alpha=0.5)
    z = np.linspace(-_FARTHEST, _FARTHEST, 201)
    line = axes.plot(z, np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), color=INK, linewidth=1.2)[0]
    axes.set_xlabel("residual (standard deviations of the prediction)")
    axes.set_ylabel("density\n(points per standard deviation)")
    axes.legend([line], ["calibrated: N(0, 1)"], frameon=False, fontsize=9, loc="upper left")
