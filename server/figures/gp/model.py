"""Figures of the hyperparameters, which all experts share: their fit, and the length-scales of the inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.drawing import BLUE, GREEN, PALETTE, SHAPES, explain, plain, png, png_panels, scale, whole
from server.figures.figure import Figure
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLOSE = 1e-3
"""Nats a row: closer than this to the last value, predictions no longer change."""
_HARDLY = 100.0
"""Length-scale, in standard deviations of the input, beyond which the input hardly matters."""
_MOST_INPUTS = 40
"""Inputs that are drawn at most: those that matter most."""
_MOST_IN_WORDS = 6
"""Inputs that an alternative text names."""
_LENGTH = re.compile(r"log ell_(\d+)(?: of (.+))?")
"""Name of a length-scale: the number of its input, from 1, and the kernel if there are several."""


# -- the fit ----------------------------------------------------------------------------------------------------------


def fit(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the likelihood, and the loss of the gate's network, over the asks; None with a single value each."""
    curves = _curves(report)
    if not curves:
        return None
    image = png_panels(partial(_draw_fit, curves=curves), len(curves), 3.4, same_x=False, same_y=False, abreast=1)
    gate = ", and cross-entropy of the gate's network (nats a row)" if "gate_loss" in curves else ""
    caption = sentences(
        f"Log likelihood of the experts' outputs (nats a row) after each ask{gate}:"
        f" {measured(report, n_experts='expert', n_rows='row')}"
    )
    return Figure("fit", image, caption, _fit_alt(curves))


@dataclass(frozen=True)
class _Curve:
    """A measure after each ask, and the label of its axis."""

    axis: str
    values: tuple[float, ...]

    @property
    def close(self) -> int:
        """The first ask (from 1) after which all values are within `_CLOSE` of the last."""
        far = np.flatnonzero(np.abs(np.array(self.values) - self.values[-1]) > _CLOSE)
        return int(far[-1]) + 2 if len(far) else 1


def _curves(report: Report) -> dict[str, _Curve]:
    """Return the likelihood, and the loss of the gate's network, if they have more than one value.

    With several repetitions a round has the measures of one of them only, so there is no complete curve.
    """
    if several(report):
        return {}
    curves = {}
    for name, axis in (
        ("log_likelihood", "log likelihood (nats a row)"),
        ("gate_loss", "loss of the gate's network\n(cross-entropy, nats a row)"),
    ):
        values = [float(row[name]) for row in report.convergence if isinstance(row.get(name), int | float)]
        if name == "log_likelihood" and values and name in report.metrics:
            values.append(report.metrics[name])  # a round has the value before its ask
        if len(values) > 1:
            curves[name] = _Curve(axis, tuple(values))
    return curves


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


def _fit_alt(curves: dict[str, _Curve]) -> str:
    parts = []
    if curve := curves.get("log_likelihood"):
        parts.append(
            f"Log likelihood of the experts' outputs after each ask: {curve.values[0]:.4g} to {curve.values[-1]:.4g}"
            f" nats a row after {len(curve.values)} asks, within {_CLOSE:g} of that from ask {curve.close} on"
        )
    if curve := curves.get("gate_loss"):
        parts.append(
            f"Cross-entropy of the gate's network: {curve.values[0]:.3g} to {curve.values[-1]:.3g} nats a row after"
            f" {len(curve.values)} steps"
        )
    return sentences(*parts)


# -- length-scales of the inputs --------------------------------------------------------------------------------------


def inputs(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the length-scale of each input; None with a single input, or a kernel without length-scales."""
    if len(arrays.get("features", ())) < 2 or not (lengths := lengths_of(arrays)):
        return None
    height = 1.6 + 0.24 * min(len(arrays["features"]), _MOST_INPUTS)
    names = [plain(name) for name in arrays["features"].tolist()]
    caption = sentences(
        "Length-scale of each input in its standard deviations, the shortest first (along it the output changes most):"
        f" {measured(report, n_experts='expert', n_rows='row')}",
        f"Of more than {_MOST_INPUTS} inputs the first {_MOST_INPUTS} are drawn; beyond {_HARDLY:g} one hardly matters",
    )
    image = png(partial(_draw_lengths, names=names, lengths=lengths), height)
    return Figure("inputs", image, caption, _lengths_alt(report, arrays, lengths))


def lengths_of(arrays: Arrays) -> dict[str, Float64[np.ndarray, "d"]]:
    """Return by kernel the length-scale of each input, in the input's standard deviations."""
    d = len(arrays["features"])
    lengths: dict[str, Float64[np.ndarray, "d"]] = {}
    for name, value in zip(arrays["theta_names"].tolist(), arrays["theta"].tolist(), strict=True):
        if match := _LENGTH.fullmatch(name):
            lengths.setdefault(match[2] or "", np.full(d, np.nan))[int(match[1]) - 1] = np.exp(value)
    return lengths


def _draw_lengths(axes: Axes, names: Sequence[str], lengths: dict[str, Float64[np.ndarray, "d"]]) -> None:
    """Draw the inputs, those that matter most first."""
    order = np.argsort(np.nanmin(np.stack(list(lengths.values())), axis=0), kind="stable")[:_MOST_INPUTS]
    handles: dict[str, Any] = {}
    for place, (kernel, values) in enumerate(lengths.items()):
        color, marker = PALETTE[place % len(PALETTE)], SHAPES[place % len(SHAPES)]
        handles[plain(kernel)] = axes.scatter(values[order], range(len(order)), s=30, c=color, marker=marker, zorder=3)
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


def _lengths_alt(report: Report, arrays: Arrays, lengths: dict[str, Float64[np.ndarray, "d"]]) -> str:
    shortest = np.nanmin(np.stack(list(lengths.values())), axis=0)
    order = np.argsort(shortest, kind="stable")[:_MOST_IN_WORDS]
    named = ", ".join(f"{plain(arrays['features'][j])} {shortest[j]:.3g}" for j in order)
    more = f", and {counted(len(shortest) - _MOST_IN_WORDS, 'input')} more" if len(shortest) > _MOST_IN_WORDS else ""
    parts = [f"lengths, the shortest first: {named}{more}"]
    if "noise" in report.metrics:
        parts.append(f"the noise has a deviation of {report.metrics['noise']:.3g} standard deviations of the output")
    return sentences("; ".join(parts))
