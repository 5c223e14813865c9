"""Figures of the agents' parts of one run's prediction: power over the iterations, coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from server.figures.drawing import BLUE, INK, PALETTE, VERMILION, explain, plain, png, png_panels
from server.figures.figure import Figure
from server.figures.residual.common import chosen, over_iterations, unit, where
from server.figures.wording import sentences
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED, GREY = 8, "#bbbbbb"
"""Agents with a color and a name, and the color of the others."""
_MOST = 20
"""Agents whose coefficients are drawn: those with the largest parts."""
_MOST_IN_WORDS = 6
_KINDS = {True: ("relevant attribute", BLUE, ""), False: ("irrelevant attributes alone", VERMILION, "////")}
"""Label, color and hatching of agents with and without a relevant attribute, if the scenario knows them."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of the agents in the chosen prediction, in the order of the run's arrays.

    Attributes
    ----------
    names : ndarray
        ``(D,)`` names of the agents.
    beta : ndarray
        ``(D,)`` coefficients.
    share : ndarray
        ``(D,)`` mean square of each agent's part divided by the sum over all; 0 if all are 0.
    relevant : ndarray or None
        ``(D,)`` which agents have a relevant attribute; None if unknown.
    """

    names: Shaped[np.ndarray, "D"]
    beta: Float64[np.ndarray, "D"]
    share: Float64[np.ndarray, "D"]
    relevant: Bool[np.ndarray, "D"] | None

    @classmethod
    def of(cls, report: Report, arrays: Arrays) -> Parts | None:
        """Return the parts at the chosen iteration; None if the arrays lack the power."""
        power = arrays.get("power", np.empty((0, 0)))
        if power.ndim != 2 or not power.size:
            return None
        at = power[min(chosen(report, arrays), len(power) - 1)]
        total = at.sum()
        names = arrays.get("agents", np.arange(len(at)))
        share = at / total if total > 0 else np.zeros(len(at))
        return cls(names, arrays.get("beta", np.zeros(len(at))), share, arrays.get("relevant"))

    @property
    def order(self) -> Int64[np.ndarray, "D"]:
        """Indices of the agents, the largest part first."""
        return np.argsort(-self.share, kind="stable")

    @property
    def weighted(self) -> bool:
        """Whether coefficients differ; sip and greedy add parts as they are, meta-boosting has none."""
        return bool(np.ptp(self.beta))


def agents_figures(report: Report, arrays: Arrays) -> list[Figure]:
    """Draw the power of the agents over the iterations, and their parts of the chosen prediction."""
    parts = Parts.of(report, arrays)
    if parts is None:
        return []
    n = report.metrics.get("n_agents")
    who = counted(n, "agent") if n else counted(len(report.sites), "site")
    cut = f", the {_MOST} with the largest parts" if n and n > _MOST else ""
    figures = []
    if len(arrays["power"]) > 1:
        caption = sentences(
            f"Power (mean square about its mean, {unit(report)}) of each agent's part of the prediction"
            f" over the iterations{where(report)}: {who}",
            f"The {NAMED} largest at the end have names, the others are gray; agents whose attributes are all"
            " irrelevant are dotted, if the scenario knows them",
        )
        draw_power = partial(_draw_power, power=arrays["power"], parts=parts, unit=unit(report))
        image = png(draw_power, height=4.2)
        figures.append(Figure("power", image, caption, _power_alt(report, parts)))
    caption = sentences(
        f"Part of each agent in the chosen prediction{where(report)}: the power of the part as a share of the sum over"
        f" all parts (%), and its coefficient (no unit) if coefficients differ; {who}{cut}",
        "Parts overlap: a share is not the loss without that agent",
    )
    draw = partial(_draw_parts, parts=parts)
    height = 1.5 + 0.25 * min(len(parts.names), _MOST)
    image = png_panels(draw, 2 if parts.weighted else 1, height, same_x=False)
    alt = sentences(f"What each agent adds{where(report)}; {_shares(parts, coefficients=parts.weighted)}")
    return [*figures, Figure("coefficients", image, caption, alt)]


def _power_alt(report: Report, parts: Parts) -> str:
    irrelevant = ""
    if parts.relevant is not None:
        share = 100 * float(parts.share[~parts.relevant.astype(bool)].sum())
        irrelevant = f"agents with irrelevant attributes alone have {share:.3g} % together"
    return sentences(f"Power over the iterations{where(report)}; {_shares(parts)}", irrelevant)


def _shares(parts: Parts, *, coefficients: bool = False) -> str:
    """Return the largest shares of power at the chosen iteration, in words."""
    words = [
        f"{plain(parts.names[agent])} {100 * parts.share[agent]:.3g} %"
        + (f" (coefficient {parts.beta[agent]:.3g})" if coefficients else "")
        for agent in parts.order[:_MOST_IN_WORDS]
    ]
    words += [f"and {len(parts.names) - _MOST_IN_WORDS} more"] if len(parts.names) > _MOST_IN_WORDS else []
    return f"shares of all power at the chosen one: {', '.join(words)}"


def _draw_power(axes: Axes, power: Float64[np.ndarray, "iterations D"], parts: Parts, unit: str) -> None:
    order = np.argsort(-power[-1], kind="stable")
    handles: dict[str, Any] = {}
    for place, agent in enumerate(order[:NAMED]):
        line, label = ("-", "--")[place >= len(PALETTE)], plain(parts.names[agent], 16)
        if parts.relevant is not None and not parts.relevant[agent]:
            line, label = ":", f"{label} (irrelevant)"
        handles[label] = over_iterations(axes, power[:, agent], color=PALETTE[place % 7], linestyle=line, linewidth=1.4)
    for agent in order[NAMED:]:
        others = over_iterations(axes, power[:, agent], color=GREY, linewidth=0.9, zorder=1, marker="")
        handles[f"{len(order) - NAMED} more"] = others
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"power of an agent's part\n({unit})")
    explain(axes, list(handles.values()), list(handles), abreast=2 if parts.relevant is not None else 4)


def _draw_parts(panels: Sequence[Axes], parts: Parts) -> None:
    order = parts.order[:_MOST]
    places = np.arange(len(order))
    kinds = np.ones(len(order), bool) if parts.relevant is None else parts.relevant[order].astype(bool)
    handles: dict[str, Any] = {}
    columns = [(100 * parts.share[order], "share of the summed power (%)")]
    columns += [(parts.beta[order], "coefficient (no unit)")] if parts.weighted else []
    for axes, (values, label) in zip(panels, columns, strict=True):
        for kind, (name, color, hatch) in _KINDS.items():
            if (mine := kinds == kind).any():
                handles[name] = axes.barh(
                    places[mine], values[mine], height=0.68, color=color, hatch=hatch, edgecolor="white", linewidth=0
                )
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlabel(label)
        for place, value in zip(places, values, strict=True):
            side = -1 if value < 0 else 1
            axes.annotate(
                f"{value:.2g}", (value, place), (3 * side, 0), textcoords="offset points", va="center", fontsize=8,
                ha="left" if side > 0 else "right",
            )  # fmt: skip
        axes.margins(x=0.2)
    panels[0].set_yticks(places, [plain(parts.names[agent], 16) for agent in order], fontsize=9)
    panels[0].set_ylim(len(order) - 0.5, -0.5)
    if parts.relevant is not None:
        explain(panels[0], list(handles.values()), list(handles))
