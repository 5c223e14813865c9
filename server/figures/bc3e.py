"""Figures of BC3E: the bound over the steps of the fit, accuracy against the components, what each clustering tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, INK, VERMILION, explain, plain, png, whole
from server.figures.wording import BARS, Arrays, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_MOST, _TOLD = 30, 6
"""Clusterings, or classifiers, that are shown: the best; those that an alternative text tells."""
_KNOWN_METHODS = {
    "accuracy": "together (BC3E)",
    "accuracy_majority": "majority vote",
    "accuracy_best_component": "best single component",
}


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    bounds = arrays.get("bounds", np.empty(0))
    if len(bounds) > 0:
        drawn["bound"] = png(lambda axes: _draw_bound(axes, bounds), height=3.4)
    methods = _accuracies(report)
    if len(methods) > 1:
        drawn["accuracy"] = png(lambda axes: _draw_accuracies(axes, methods), height=1.2 + 0.35 * len(methods))
    if clusterings := _believed(arrays):
        base = _commonest(arrays)
        height = 1.5 + 0.3 * len(clusterings)
        drawn["clusterings"] = png(lambda axes: _draw_clusterings(axes, clusterings, base), height)
    return drawn


def alt_text(report: Report, name: str, arrays: Arrays) -> str:
    """What a reader who cannot see the figure needs to know; empty for one that is not ours."""
    if name == "bound":
        bounds = arrays.get("bounds", np.empty(0))
        told = f": {bounds[0]:.6g} after the first, {bounds[-1]:.6g} after {len(bounds)}" if len(bounds) > 0 else ""
        return f"Bound over the steps of the fit{told}."
    if name == "accuracy" and (methods := _accuracies(report)):
        return "Accuracy by method: " + ", ".join(f"{label} {value:.3f}" for label, value, _ in methods) + "."
    return _clusterings_told(arrays) if name == "clusterings" else ""


def _clusterings_told(arrays: Arrays) -> str:
    told = [f"{each.name} {100 * each.share:.3g} %" for each in _believed(arrays)]
    if not told:
        return "Share of instances whose class the cluster alone tells, by clustering."
    more = [f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []
    return sentences(
        f"Share of instances whose class the cluster tells: {', '.join(told[:_TOLD] + more)}; always the"
        f" commonest class {100 * _commonest(arrays):.3g} %"
    )


class _Clustering(NamedTuple):
    """A clustering of which the center has a table of classes by clusters."""

    name: str
    n_clusters: int
    share: float


def _believed(arrays: Arrays) -> list[_Clustering]:
    """By clustering, the share of instances whose class is the likeliest of their cluster; most first."""
    found = []
    prior = _prior(arrays)
    for place, name in enumerate(arrays.get("clusterings", ())):
        beta = arrays[f"beta_{place}"]
        joint = prior[:, np.newaxis] * beta / beta.sum(axis=1, keepdims=True)
        found.append(_Clustering(str(name), beta.shape[1], float(joint.max(axis=0).sum())))
    return sorted(found, key=lambda each: -each.share)[:_MOST]


def _prior(arrays: Arrays) -> Float64[np.ndarray, "k"]:
    """Share of each class among the instances, as the center believes."""
    alpha = arrays.get("alpha", np.ones(1))
    return np.asarray(alpha / alpha.sum())


def _commonest(arrays: Arrays) -> float:
    return float(_prior(arrays).max())


def _draw_clusterings(axes: Axes, clusterings: list[_Clustering], base: float) -> None:
    places = np.arange(len(clusterings))
    line = axes.axvline(100 * base, color=INK, linestyle="--", linewidth=1.2)
    axes.hlines(places, 100 * base, [100 * each.share for each in clusterings], color=BLUE, linewidth=1.2)
    dots = axes.scatter([100 * each.share for each in clusterings], places, s=40, c=BLUE, zorder=3)
    axes.set_yticks(places, [f"{plain(each.name, 20)} ({each.n_clusters} clusters)" for each in clusterings])
    axes.set_ylim(len(clusterings) - 0.5, -0.5)
    axes.margins(x=0.1)
    axes.set_xlabel("class told by the cluster alone, as believed\n(% of the instances)")
    explain(axes, [dots, line], ["this clustering", "always the commonest class"])


def _accuracies(report: Report) -> list[tuple[str, float, float]]:
    """Label, accuracy and standard error (0 where unknown) by method: the run's own first, then its rivals."""
    metrics = report.metrics
    if "accuracy" not in metrics:
        return []
    single = sorted(
        name
        for name in metrics
        if name.startswith("accuracy_")
        and name not in _KNOWN_METHODS
        and not (name.endswith("_se") and name.removesuffix("_se") in metrics)
    )
    best = sorted(single, key=lambda name: -metrics[name])[:_MOST]
    names = [name for name in _KNOWN_METHODS if name in metrics] + sorted(best)
    return [
        (_KNOWN_METHODS.get(name, name.removeprefix("accuracy_")), metrics[name], metrics.get(f"{name}_se", 0.0))
        for name in names
    ]


def _draw_bound(axes: Axes, bounds: Float64[np.ndarray, "t"]) -> None:
    axes.plot(np.arange(1, len(bounds) + 1), bounds, color=BLUE, marker="o", markersize=3, linewidth=1.2)
    whole(axes)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_xlabel("step of the fit (count)")
    axes.set_ylabel("bound (nats, all instances)")


def _draw_accuracies(axes: Axes, methods: list[tuple[str, float, float]]) -> None:
    places = np.arange(len(methods))
    for place, (_, value, error) in zip(places, methods, strict=True):
        colour, marker = (VERMILION, "s") if place else (BLUE, "o")
        axes.errorbar(value, place, xerr=error or None, fmt=marker, color=colour, capsize=3)
        axes.annotate(f"{value:.3f}", (value, place), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(places, [plain(label) for label, _, _ in methods])
    axes.set_ylim(len(methods) - 0.5, -0.7)
    axes.margins(x=0.12)
    axes.set_xlabel("accuracy (share of the instances with known class)")


def caption(report: Report, name: str) -> str:
    """What a figure draws, with units and sizes; empty for one that is not ours."""
    mean = f", means of {report.config['repetitions']} repetitions" if several(report) else ""
    sites, first = counted(len(report.sites), "site"), " in the first repetition" if several(report) else ""
    return {
        "bound": sentences(
            "Variational bound on the log-likelihood (nats, the sum over all instances) after every step of the fit"
            f" that counts{first}, at most one a round: {sites}, {counted(report.rounds, 'round')}"
        ),
        "accuracy": sentences(
            f"Accuracy (share of the instances whose class is known) of all together, of the majority vote, and of"
            f" each classifier alone (of many, the {_MOST} best): {sites}{mean}",
            BARS if "accuracy_se" in report.metrics else "",
        ),
        "clusterings": sentences(
            "What the fusion center has learnt to expect of each clustering: the share of instances (%) whose class is"
            f" the likeliest one of their cluster{first}; {sites}",
            "The dashed line is the share of the commonest class: a clustering on it tells nothing; the center believes"
            f" so, and whether it is right shows in the accuracy. Of many clusterings the {_MOST} that tell most are"
            " shown; those that a site alone holds are not known here",
        ),
    }.get(name, "")
