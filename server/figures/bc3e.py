"""Figures of BC3E: bound and changed classes over the fit, accuracy by method, how well clusterings predict classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, INK, VERMILION, explain, plain, png, whole
from server.figures.figure import Figure
from server.figures.wording import BARS, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST, _MOST_IN_WORDS = 30, 6
"""Clusterings, or classifiers, that are drawn (the best), and that an alternative text names."""
_METHODS = {
    "accuracy": "together (BC3E)",
    "accuracy_majority": "majority vote",
    "accuracy_best_component": "best single classifier",
}


def figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the accuracies, the clusterings, changed classes and the bound, as far as the run has them."""
    images = []
    methods = _accuracies(report)
    if len(methods) > 1:
        images.append(_accuracy(report, methods))
    coverage = arrays.get("coverage", np.empty((0, 3)))
    if len(coverage) > 1:
        images.append(_coverage(report, coverage))
    if clusterings := _predictive_shares(arrays):
        images.append(_clusterings(report, clusterings, float(_prior(arrays).max())))
    changed = arrays.get("changed", np.empty(0))
    if len(changed) > 1:
        images.append(_changed(report, changed))
    bounds = arrays.get("bounds", np.empty(0))
    if len(bounds) > 0:
        images.append(_bound(report, bounds))
    return images


# -- the bound --------------------------------------------------------------------------------------------------------


def _bound(report: Report, bounds: Float64[np.ndarray, "t"]) -> Figure:
    first = " in the first repetition" if several(report) else ""
    caption = sentences(
        "Variational bound on the log-likelihood (nats, the sum over all instances) after every counted step of the"
        f" fit{first}, at most one a round: {counted(len(report.sites), 'site')}, {counted(report.rounds, 'round')}"
    )
    alt = f"Bound over the steps of the fit: {bounds[0]:.6g} after the first, {bounds[-1]:.6g} after {len(bounds)}."
    return Figure("bound", png(lambda axes: _draw_bound(axes, bounds), height=3.4), caption, alt)


def _draw_bound(axes: Axes, bounds: Float64[np.ndarray, "t"]) -> None:
    axes.plot(np.arange(1, len(bounds) + 1), bounds, color=BLUE, marker="o", markersize=3, linewidth=1.2)
    whole(axes)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_xlabel("step of the fit (count)")
    axes.set_ylabel("bound (nats, all instances)")


# -- changed classes --------------------------------------------------------------------------------------------------


def _changed(report: Report, changed: Float64[np.ndarray, "t"]) -> Figure:
    first = " in the first repetition" if several(report) else ""
    caption = sentences(
        "Share of the instances (%) whose likeliest class is another one than after the step before, for every counted"
        f" step of the fit but the first{first}: {counted(len(report.sites), 'site')}",
        "Where it stays at 0 the classes have settled",
    )
    alt = sentences(
        f"Changed classes over the steps of the fit: {100 * changed[1]:.3g} % in step 2, {100 * changed[-1]:.3g} % in"
        f" step {len(changed)}, the last"
    )
    return Figure("changed", png(lambda axes: _draw_changed(axes, changed), height=3.0), caption, alt)


def _draw_changed(axes: Axes, changed: Float64[np.ndarray, "t"]) -> None:
    steps = np.arange(2, len(changed) + 1)
    axes.plot(steps, 100 * changed[1:], color=BLUE, marker="o", markersize=3, linewidth=1.2)
    whole(axes)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step of the fit (count)")
    axes.set_ylabel("changed classes\n(% of the instances)")


# -- accuracy ---------------------------------------------------------------------------------------------------------


class _Method(NamedTuple):
    """A way to classify, with its accuracy and the standard error of that (0: unknown)."""

    label: str
    accuracy: float
    error: float


def _accuracies(report: Report) -> list[_Method]:
    """Return the run's own accuracy first, then its rivals."""
    metrics = report.metrics
    if "accuracy" not in metrics:
        return []
    single = sorted(
        name
        for name in metrics
        if name.startswith("accuracy_")
        and name not in _METHODS
        and not (name.endswith("_se") and name.removesuffix("_se") in metrics)
    )
    best = sorted(single, key=lambda name: -metrics[name])[:_MOST]
    names = [name for name in _METHODS if name in metrics] + sorted(best)
    return [
        _Method(_METHODS.get(name, name.removeprefix("accuracy_")), metrics[name], metrics.get(f"{name}_se", 0.0))
        for name in names
    ]


def _accuracy(report: Report, methods: list[_Method]) -> Figure:
    means = f", means of {report.config['repetitions']} repetitions" if several(report) else ""
    caption = sentences(
        "Accuracy (% of the instances with known class) of all together, of the majority vote, and of each"
        f" classifier alone (of many, the {_MOST} best): {counted(len(report.sites), 'site')}{means}",
        BARS if "accuracy_se" in report.metrics else "",
    )
    alt = "Accuracy by method: " + ", ".join(f"{each.label} {100 * each.accuracy:.1f} %" for each in methods) + "."
    image = png(lambda axes: _draw_accuracies(axes, methods), height=1.2 + 0.35 * len(methods))
    return Figure("accuracy", image, caption, alt)


def _draw_accuracies(axes: Axes, methods: list[_Method]) -> None:
    places = np.arange(len(methods))
    for place, (_, value, error) in zip(places, methods, strict=True):
        color, marker = (VERMILION, "s") if place else (BLUE, "o")
        axes.errorbar(100 * value, place, xerr=100 * error or None, fmt=marker, color=color, capsize=3)
        where = (100 * value, place)
        axes.annotate(f"{100 * value:.1f}", where, (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(places, [plain(each.label) for each in methods])
    axes.set_ylim(len(methods) - 0.5, -0.7)
    axes.margins(x=0.12)
    axes.set_xlabel("accuracy (% of the instances with known class)")


# -- coverage ---------------------------------------------------------------------------------------------------------


def _coverage(report: Report, coverage: Float64[np.ndarray, "levels 3"]) -> Figure:
    first = " in the first repetition" if several(report) else ""
    caption = sentences(
        "Accuracy (% of the counted instances) without the instances whose likeliest class has a smaller probability"
        f" than the number beside a point{first}: {counted(len(report.sites), 'site')}"
    )
    points = [f"{level:g}: {100 * right:.3g} % of {100 * share:.3g} %" for level, share, right in coverage.tolist()]
    alt = sentences(f"Accuracy and coverage by least class probability: {'; '.join(points)}")
    return Figure("coverage", png(lambda axes: _draw_coverage(axes, coverage), height=3.4), caption, alt)


def _draw_coverage(axes: Axes, coverage: Float64[np.ndarray, "levels 3"]) -> None:
    axes.plot(100 * coverage[:, 1], 100 * coverage[:, 2], color=BLUE, marker="o", markersize=4, linewidth=1.2)
    levels: dict[tuple[float, float], list[float]] = {}  # those at the same point stand beside it once
    for level, share, right in coverage.tolist():
        levels.setdefault((100 * share, 100 * right), []).append(level)
    for point, of_point in levels.items():
        words = f"{of_point[0]:g}" if len(of_point) == 1 else f"{min(of_point):g} to {max(of_point):g}"
        axes.annotate(words, point, (0, 5), textcoords="offset points", fontsize=8)
    axes.set_xlabel("instances that get a class (% of the counted)")
    axes.set_ylabel("of these right (%)")


# -- clusterings ------------------------------------------------------------------------------------------------------


class _Clustering(NamedTuple):
    """A clustering of which the center has a table of classes by clusters."""

    name: str
    n_clusters: int
    share: float


def _predictive_shares(arrays: Arrays) -> list[_Clustering]:
    """Return the share of instances whose class is the likeliest of their cluster, the best clusterings first."""
    clusterings = []
    prior = _prior(arrays)
    for place, name in enumerate(arrays.get("clusterings", ())):
        beta = arrays[f"beta_{place}"]
        joint = prior[:, np.newaxis] * beta / beta.sum(axis=1, keepdims=True)
        clusterings.append(_Clustering(str(name), beta.shape[1], float(joint.max(axis=0).sum())))
    return sorted(clusterings, key=lambda each: -each.share)[:_MOST]


def _prior(arrays: Arrays) -> Float64[np.ndarray, "k"]:
    """Return the share of each class among the instances, under the fitted model."""
    alpha = arrays.get("alpha", np.ones(1))
    return np.asarray(alpha / alpha.sum())


def _clusterings(report: Report, clusterings: list[_Clustering], commonest: float) -> Figure:
    first = " in the first repetition" if several(report) else ""
    caption = sentences(
        "Estimate of how well each clustering predicts the class: the share of instances (%) whose class is the"
        f" likeliest one of their cluster{first}; {counted(len(report.sites), 'site')}",
        "The dashed line is the share of the commonest class: a clustering on it says nothing about the class. The"
        " shares are estimates of the fusion center; the accuracy shows whether they are right. Of many clusterings"
        f" the {_MOST} best are drawn; those that only one site holds are not known here",
    )
    words = [f"{each.name} {100 * each.share:.3g} %" for each in clusterings]
    more = [f"and {len(words) - _MOST_IN_WORDS} more"] if len(words) > _MOST_IN_WORDS else []
    alt = sentences(
        f"Share of instances whose class the cluster predicts: {', '.join(words[:_MOST_IN_WORDS] + more)}; always the"
        f" commonest class {100 * commonest:.3g} %"
    )
    image = png(lambda axes: _draw_clusterings(axes, clusterings, commonest), 1.5 + 0.3 * len(clusterings))
    return Figure("clusterings", image, caption, alt)


def _draw_clusterings(axes: Axes, clusterings: list[_Clustering], commonest: float) -> None:
    places = np.arange(len(clusterings))
    line = axes.axvline(100 * commonest, color=INK, linestyle="--", linewidth=1.2)
    axes.hlines(places, 100 * commonest, [100 * each.share for each in clusterings], color=BLUE, linewidth=1.2)
    dots = axes.scatter([100 * each.share for each in clusterings], places, s=40, c=BLUE, zorder=3)
    axes.set_yticks(places, [f"{plain(each.name, 20)} ({each.n_clusters} clusters)" for each in clusterings])
    axes.set_ylim(len(clusterings) - 0.5, -0.5)
    axes.margins(x=0.1)
    axes.set_xlabel("class predicted by the cluster alone, estimated\n(% of the instances)")
    explain(axes, [dots, line], ["this clustering", "always the commonest class"])
