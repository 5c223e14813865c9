"""Figures of what all experts share: the fit of the hyperparameters, and how far each input goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, GREEN, PALETTE, SHAPES, explain, plain, png, png_panels, scale, whole
from server.figures.wording import Arrays, measured, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

_CLOSE = 1e-3
"""Nats a row: nearer to the last value the predictions change no more (specs/gp.md)."""
_HARDLY = 100.0
"""Length of an input, in its standard deviations, from which on it hardly matters."""
_MOST_INPUTS = 40
"""Inputs that are shown: those that matter most."""
_TOLD = 6
"""Inputs that an alternative text tells."""
_LENGTH = re.compile(r"log ell_(\d+)(?: of (.+))?")
"""A length-scale among the names of the hyperparameters: its input from 1 on, and which of several kernels has it."""


def draw_model(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    drawn = {}
    if curves := _curves(report):
        draw = partial(_draw_fit, curves=curves)
        drawn["fit"] = png_panels(draw, len(curves), 3.4, same_x=False, same_y=False, abreast=1)
    if len(arrays.get("features", ())) > 1 and (lengths := lengths_of(arrays)):
        height = 1.6 + 0.24 * min(len(arrays["features"]), _MOST_INPUTS)
        names = [plain(name) for name in arrays["features"].tolist()]
        drawn["inputs"] = png(partial(_draw_lengths, names=names, lengths=lengths), height)
    return drawn


def model_caption(report: Report, name: str) -> str:
    """What a figure of what was learnt draws; empty for one that is not ours."""
    sizes = measured(report, n_experts="expert", n_rows="row")
    if name == "fit":
        gate = ", and cross-entropy of the gate's network (nats a row)" if "gate_loss" in _curves(report) else ""
        return sentences(f"Log likelihood of the experts' outputs (nats a row) after each ask{gate}: {sizes}")
    if name != "inputs":
        return ""
    return sentences(
        "Length-scale of each input in its standard deviations, the shortest first (along it the output changes most):"
        f" {sizes}",
        f"Of more than {_MOST_INPUTS} inputs the first {_MOST_INPUTS} are shown; beyond {_HARDLY:g} one hardly matters",
    )


def model_told(report: Report, name: str, arrays: Arrays) -> str:
    """Alternative text of a figure of what was learnt; empty for one that is not ours."""
    if name == "fit":
        return _fit_told(report)
    return _lengths_told(report, arrays) if name == "inputs" else ""


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
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        asks = np.arange(1, len(curve.values) + 1)
        axes.plot(asks, curve.values, color=BLUE, marker="o", markersize=3.5, linewidth=1.2)
        axes.ticklabel_format(axis="y", useOffset=False)
        whole(axes)
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
        colour, marker = PALETTE[place % len(PALETTE)], SHAPES[place % len(SHAPES)]
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


def _lengths_told(report: Report, arrays: Arrays) -> str:
    told = []
    if {"features", "theta", "theta_names"} <= arrays.keys() and (lengths := lengths_of(arrays)):
        shortest = np.nanmin(np.stack(list(lengths.values())), axis=0)
        order = np.argsort(shortest, kind="stable")[:_TOLD]
        named = ", ".join(f"{plain(arrays['features'][j])} {shortest[j]:.3g}" for j in order)
        more = f", and {counted(len(shortest) - _TOLD, 'input')} more" if len(shortest) > _TOLD else ""
        told.append(f"lengths, the shortest first: {named}{more}")
    if "noise" in report.metrics:
        told.append(f"the noise has a deviation of {report.metrics['noise']:.3g} standard deviations of the output")
    return sentences("; ".join(told) or "length-scale of each input")
