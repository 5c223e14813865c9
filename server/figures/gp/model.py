"""Figures of what a run has learnt: where the experts' rows lie, the fit, and how far each input goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from server.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, explain, plain, png, png_panels, scale
from server.figures.gp.shown import Arrays, points_told, sample, several

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_PALETTE = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", "#666666")
"""Of Okabe and Ito's palette."""
_SHAPES = (("o", "-"), ("^", "--"), ("s", ":"), ("D", "-."))
"""Markers and lines by which experts of the same colour are told apart."""
_FEW, _NUMBERED = 30, 100
"""Experts up to which their numbers are large, and are there at all."""
_DEVIATIONS = 2.0
"""How far an ellipse or a bar reaches from its centroid."""
_CLOSE = 1e-3
"""Nats a row: nearer to the last value the predictions change no more (specs/gp.md)."""
_HARDLY = 100.0
"""Length of an input, in its standard deviations, from which on it hardly matters."""
_MOST_INPUTS = 40
_TALLEST = 14.0
"""Inches."""
_LENGTH = re.compile(r"log ell_(\d+)(?: of (.+))?")
"""A length-scale among the names of the hyperparameters: its input from 1 on, and which of several kernels has it."""


def draw_model(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if len(arrays.get("centroids", ())):
        if arrays["centroids"].shape[1] == 1:
            height = min(1.5 + 0.2 * len(arrays["centroids"]), _TALLEST)
            drawn["reach"] = png(partial(_draw_reach, arrays=arrays), height)
        else:
            drawn["experts"] = png(partial(_draw_experts, arrays=arrays), height=5.2)
    if curves := _curves(report):
        wide = 9.0 if len(curves) > 1 else 6.4
        drawn["fit"] = png_panels(partial(_draw_fit, curves=curves), len(curves), 3.4, wide, same_x=False, same_y=False)
    if len(arrays.get("features", ())) > 1 and (lengths := lengths_of(arrays)):
        height = 1.6 + 0.24 * min(len(arrays["features"]), _MOST_INPUTS)
        names = [plain(name) for name in arrays["features"].tolist()]
        drawn["inputs"] = png(partial(_draw_lengths, names=names, lengths=lengths), height)
    return drawn


def model_told(report: Report, name: str) -> str:
    """Alternative text of a figure of what was learnt; empty for one that is not ours."""
    if name in ("experts", "reach"):
        return _experts_told(report, name)
    if name == "fit":
        return _fit_told(report)
    return _lengths_told(report) if name == "inputs" else ""


# -- experts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plane:
    """The first two principal components of all experts' rows, in standardised units, from their moments alone.

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
        """Of experts with so many rows about these centroids."""
        share = rows / rows.sum()
        middle = share @ centroids
        apart = centroids - middle
        covariance = np.einsum("m,mij->ij", share, covariances) + (apart * share[:, np.newaxis]).T @ apart
        values, vectors = np.linalg.eigh(covariance)
        axes = vectors[:, :-3:-1]
        # Either sign of a direction is as good: the one whose largest part is positive is the same everywhere.
        axes = axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[np.newaxis], axis=0))
        total = values.sum()
        return cls(middle, axes, np.maximum(values[:-3:-1], 0) / total if total > 0 else np.zeros(2))

    def put(self, points: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n 2"]:
        """Where points in standardised units lie."""
        placed: Float64[np.ndarray, "n 2"] = (points - self.middle) @ self.axes
        return placed

    def ellipses(
        self, covariances: Float64[np.ndarray, "M d d"]
    ) -> tuple[Float64[np.ndarray, "M 2"], Float64[np.ndarray, "M"]]:
        """Deviations along each ellipse's axes, and how the longer one is turned, in degrees."""
        flat = np.einsum("ia,mij,jb->mab", self.axes, covariances, self.axes)
        values, vectors = np.linalg.eigh(flat)
        turned = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
        return np.sqrt(np.maximum(values[:, ::-1], 0)), turned


def _draw_experts(axes: Axes, arrays: Arrays) -> None:
    from matplotlib.patches import Ellipse

    rows, centroids, covariances = (arrays[name] for name in ("expert_rows", "centroids", "covariances"))
    plane = Plane.of(rows, centroids, covariances)
    handles = _draw_points(axes, plane, arrays)
    centers, (deviations, turned) = plane.put(centroids), plane.ellipses(covariances)
    few = len(rows) <= _FEW
    pen = {"linewidth": 1.1 if few else 0.7, "alpha": 1.0 if few else 0.6}
    for expert, (center, size, angle) in enumerate(zip(centers, 2 * _DEVIATIONS * deviations, turned, strict=True)):
        colour, _, line = _style(expert)
        outline = Ellipse(tuple(center), *size, angle=angle, fill=False, color=colour, linestyle=line, zorder=3, **pen)
        axes.add_patch(outline)
    area = np.clip((260 if few else 120) * rows / rows.max(), 70 if few else 30, None)  # room for the number
    colours = [_style(expert)[0] for expert in range(len(rows))]
    x, y = centers.T
    axes.scatter(x, y, s=area, c=colours, edgecolors="white", linewidths=0.8, zorder=4)
    font: dict[str, Any] = {"fontsize": 7 if few else 5, "color": "white", "fontweight": "bold"}
    for number, center in enumerate(centers if len(rows) <= _NUMBERED else ()):
        axes.annotate(str(number), center, ha="center", va="center", zorder=5, **font)
    handles["expert, larger with more rows"] = axes.scatter([], [], s=60, c="#666666")
    handles[f"{_DEVIATIONS:g} standard deviations of its rows"] = axes.plot([], [], color="#666666", linewidth=1.1)[0]
    axes.autoscale_view()
    for which, share in zip(("x", "y"), plane.explained, strict=True):
        order = "first" if which == "x" else "second"
        told = f"{100 * share:.3g} % of the variance of all rows, " if share > 0 else ""
        axes.set(**{f"{which}label": f"{order} principal component\n({told}in standard deviations)"})
    explain(axes, list(handles.values()), list(handles), abreast=2)


def _draw_points(axes: Axes, plane: Plane, arrays: Arrays) -> dict[str, Any]:
    """Query points in the colour of the expert that suits them best; grey where there was none."""
    if not len(arrays.get("queries", ())):
        return {}
    rows = sample(len(arrays["queries"]))
    placed = plane.put((arrays["queries"][rows] - arrays["input_mean"]) / arrays["input_scale"])
    first, area = arrays["selected"][rows, 0], float(np.clip(6000 / len(rows), 5, 14))
    for expert in np.unique(first).tolist():
        colour, marker, _ = _style(expert) if expert >= 0 else ("#bbbbbb", "x", "")
        x, y = placed[first == expert].T
        axes.scatter(x, y, s=area, c=colour, marker=marker, alpha=0.5, linewidths=0 if expert >= 0 else 0.8, zorder=2)
    return {"query point, colour of its first expert": axes.scatter([], [], s=14, c="#666666", alpha=0.5)}


def _style(expert: int) -> tuple[str, str, str]:
    """Colour, marker and line of an expert."""
    return (_PALETTE[expert % len(_PALETTE)], *_SHAPES[expert // len(_PALETTE) % len(_SHAPES)])


def _draw_reach(axes: Axes, arrays: Arrays) -> None:
    """One input: a line for every expert, with the points that it answered above where its rows lie."""
    unit, origin = arrays["input_scale"][0], arrays["input_mean"][0]
    centroids = arrays["centroids"][:, 0] * unit + origin
    half = _DEVIATIONS * np.sqrt(arrays["covariances"][:, 0, 0]) * unit
    order = np.argsort(centroids, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    handles: dict[str, Any] = {}
    if len(arrays.get("queries", ())):
        drawn = sample(len(arrays["queries"]))
        x, selected = arrays["queries"][drawn, 0], arrays["selected"][drawn]
        for label, colour, chosen in (
            ("query point that chose it first", BLUE, selected[:, :1]),
            ("later", ORANGE, selected[:, 1:]),
        ):
            point, column = np.nonzero(chosen >= 0)
            if len(point):
                y = places[chosen[point, column]]
                handles[label] = axes.scatter(x[point], y, s=14, marker="|", c=colour, linewidths=0.8, zorder=3)
    lies = f"its rows: mean and {_DEVIATIONS:g} standard deviations"
    handles[lies] = axes.errorbar(
        centroids, places - 0.28, xerr=half, color="#333333", marker="o", markersize=3, linewidth=1.2,
        linestyle="none", zorder=4,
    )  # fmt: skip
    counts = arrays["expert_rows"][order]
    named = [f"{expert} ({n:,} rows)" for expert, n in zip(order, counts, strict=True)]
    axes.set_yticks(range(len(named)), named, fontsize=8)
    axes.set_ylim(len(named) - 0.5, -0.6)
    axes.set_ylabel("expert")
    axes.set_xlabel(f"{plain(arrays['features'][0])} (data's unit)")
    explain(axes, list(handles.values()), list(handles), abreast=2)


def _experts_told(report: Report, name: str) -> str:
    experts = [row for row in report.table if {"expert", "rows"} <= row.keys()]
    first = " of the first repetition" if several(report) else ""
    if name == "experts":
        told = [f"Where the rows of the experts{first} lie, in the first two principal components of the inputs"]
        told.append(f"ellipses reach {_DEVIATIONS:g} standard deviations from an expert's mean")
        if "n_queries" in report.metrics:
            told.append(f"dots are {points_told(report)} in the colour of the expert that suits them best")
    else:
        told = [f"Where the rows of the experts{first} lie over the one input, experts in the order of their means"]
        if "n_queries" in report.metrics:
            told.append(f"ticks are {points_told(report)} at the experts that were chosen for them")
    if experts:
        told.append(f"{_range(experts, 'rows')} rows an expert")
        if all("queries" in row for row in experts):
            told.append(f"{_range(experts, 'queries')} points answered by each")
    return f"{'; '.join(told)}."


def _range(rows: Sequence[dict[str, Any]], name: str) -> str:
    values = [int(row[name]) for row in rows]
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"


# -- the fit ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """A measure after each ask, and what its axis says."""

    axis: str
    values: tuple[float, ...]

    @property
    def close(self) -> int:
        """The first ask, from 1 on, from which on all are within `_CLOSE` of the last."""
        far = np.flatnonzero(np.abs(np.array(self.values) - self.values[-1]) > _CLOSE)
        return int(far[-1]) + 2 if len(far) else 1


def _curves(report: Report) -> dict[str, _Curve]:
    """The likelihood, and the loss of the gate's network if it is one, where there is more than one value.

    Of several repetitions the rounds tell one at a time, so that none can be drawn as a whole.
    """
    if several(report):
        return {}
    found = {}
    for name, axis in (
        ("log_likelihood", "log likelihood (nats a row)"),
        ("gate_loss", "loss of the gate's network\n(cross-entropy, nats a row)"),
    ):
        values = [float(row[name]) for row in report.convergence if isinstance(row.get(name), int | float)]
        if name == "log_likelihood" and values and name in report.metrics:
            values.append(report.metrics[name])  # the rounds tell what was reached before the last ask
        if len(values) > 1:
            found[name] = _Curve(axis, tuple(values))
    return found


def _draw_fit(panels: Sequence[Axes], curves: dict[str, _Curve]) -> None:
    from matplotlib.ticker import MaxNLocator

    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        asks = np.arange(1, len(curve.values) + 1)
        axes.plot(asks, curve.values, color=BLUE, marker="o", markersize=3.5, linewidth=1.2)
        axes.ticklabel_format(axis="y", useOffset=False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("ask (count)")
        axes.set_ylabel(curve.axis)
        if name == "log_likelihood":
            line = axes.axvline(curve.close, color=GREEN, linestyle="--", linewidth=1.2, zorder=1)
            axes.legend([line], [f"from here on within {_CLOSE:g} of the last"], frameon=False, loc="lower right")
        else:
            scale(axes, "y", curve.values)


def _fit_told(report: Report) -> str:
    curves, told = _curves(report), []
    if curve := curves.get("log_likelihood"):
        told.append(
            f"Log likelihood of the experts' outputs after each ask: {curve.values[0]:.4g} to {curve.values[-1]:.4g}"
            f" nats a row after {len(curve.values)} asks, within {_CLOSE:g} of that from ask {curve.close} on"
        )
    if curve := curves.get("gate_loss"):
        told.append(
            f"Cross-entropy of the gate's network: {curve.values[0]:.3g} to {curve.values[-1]:.3g} nats a row after"
            f" {len(curve.values)} steps"
        )
    return f"{'. '.join(told)}." if told else ""


# -- how far each input goes ------------------------------------------------------------------------------------------


def lengths_of(arrays: Arrays) -> dict[str, Float64[np.ndarray, "d"]]:
    """Length-scale of each input by kernel, in the input's standard deviations; none of a kernel without them."""
    d = len(arrays["features"])
    found: dict[str, Float64[np.ndarray, "d"]] = {}
    for name, value in zip(arrays["theta_names"].tolist(), arrays["theta"].tolist(), strict=True):
        if match := _LENGTH.fullmatch(name):
            found.setdefault(match[2] or "", np.full(d, np.nan))[int(match[1]) - 1] = np.exp(value)
    return found


def _draw_lengths(axes: Axes, names: Sequence[str], lengths: dict[str, Float64[np.ndarray, "d"]]) -> None:
    """The inputs that matter most first."""
    order = np.argsort(np.nanmin(np.stack(list(lengths.values())), axis=0), kind="stable")[:_MOST_INPUTS]
    handles: dict[str, Any] = {}
    for place, (kernel, values) in enumerate(lengths.items()):
        colour, marker = _PALETTE[place % len(_PALETTE)], _SHAPES[place % len(_SHAPES)][0]
        handles[plain(kernel)] = axes.scatter(values[order], range(len(order)), s=30, c=colour, marker=marker, zorder=3)
    scale(axes, "x", [float(value) for values in lengths.values() for value in values[order]])
    if max(values[order].max() for values in lengths.values()) >= _HARDLY:
        label = f"{_HARDLY:g}: hardly matters beyond"
        handles[label] = axes.axvline(_HARDLY, color="#666666", linestyle=":", linewidth=1.3)
    axes.set_yticks(range(len(order)), [names[j] for j in order], fontsize=8)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("length-scale (standard deviations of the input)\nshorter: the output changes faster along it")
    named = {label: handle for label, handle in handles.items() if label}
    if named:
        explain(axes, list(named.values()), list(named))


def _lengths_told(report: Report) -> str:
    told = [
        "Length-scale of each input in its standard deviations, the shortest first: along it the output changes most"
    ]
    told.append(f"an input whose length is beyond {_HARDLY:g} hardly matters")
    if "noise" in report.metrics:
        told.append(f"the noise has a deviation of {report.metrics['noise']:.3g} standard deviations of the output")
    return f"{'; '.join(told)}."
