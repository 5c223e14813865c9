"""Figures of what each agent adds to one run's prediction: its power over the iterations, its coefficient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from server.figures.drawing import BLUE, INK, PALETTE, VERMILION, explain, plain, png, png_panels
from server.figures.residual.common import chosen, over_iterations, where
from server.figures.wording import Arrays, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report

NAMED, GREY = 8, "#bbbbbb"
"""Agents whose power is drawn in colour and named; what the others are drawn in."""
_MOST = 20
"""Agents whose coefficients are shown: those with the largest parts."""
_TOLD = 6
_KINDS = {True: ("relevant attribute", BLUE, ""), False: ("irrelevant attributes alone", VERMILION, "////")}
"""Of agents, where the scenario knows: how they are called, and their bars' colour and hatching."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What each agent adds to the chosen prediction, agents in the order of `Arrays`.

    Attributes
    ----------
    names : ndarray
        ``(D,)``.
    beta : ndarray
        ``(D,)`` coefficients.
    share : ndarray
        ``(D,)`` mean square of each agent's part, by the sum of all; 0 where nobody adds anything.
    relevant : ndarray or None
        ``(D,)`` who has a relevant attribute; None where nobody knows.
    """

    names: Shaped[np.ndarray, "D"]
    beta: Float64[np.ndarray, "D"]
    share: Float64[np.ndarray, "D"]
    relevant: Bool[np.ndarray, "D"] | None

    @classmethod
    def of(cls, report: Report, arrays: Arrays) -> Parts | None:
        """At the chosen iterate; None where the arrays do not tell it."""
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
        """The largest part first."""
        return np.argsort(-self.share, kind="stable")

    @property
    def weighted(self) -> bool:
        """Whether coefficients differ: sip and greedy add parts as they are, meta-boosting has none."""
        return bool(np.ptp(self.beta))


def draw_agents(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """PNG images by name."""
    parts = Parts.of(report, arrays)
    if parts is None:
        return {}
    drawn = {}
    if len(arrays["power"]) > 1:
        drawn["power"] = png(partial(_draw_power, power=arrays["power"], parts=parts), height=4.2)
    n = min(len(parts.names), _MOST)
    height = 1.5 + 0.25 * n
    drawn["coefficients"] = png_panels(
        partial(_draw_parts, parts=parts), 2 if parts.weighted else 1, height, same_x=False
    )
    return drawn


def _draw_power(axes: Axes, power: Float64[np.ndarray, "iterations D"], parts: Parts) -> None:
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
    axes.set_ylabel("power of an agent's part\n(squared unit of the outcome)")
    explain(axes, list(handles.values()), list(handles), abreast=2 if parts.relevant is not None else 4)


def _draw_parts(panels: Sequence[Axes], parts: Parts) -> None:
    order = parts.order[:_MOST]
    places = np.arange(len(order))
    kinds = np.ones(len(order), bool) if parts.relevant is None else parts.relevant[order].astype(bool)
    handles: dict[str, Any] = {}
    columns = [(100 * parts.share[order], "share of the summed power (%)")]
    columns += [(parts.beta[order], "coefficient (no unit)")] if parts.weighted else []
    for axes, (values, label) in zip(panels, columns, strict=True):
        for kind, (name, colour, hatch) in _KINDS.items():
            if (mine := kinds == kind).any():
                handles[name] = axes.barh(
                    places[mine], values[mine], height=0.68, color=colour, hatch=hatch, edgecolor="white", linewidth=0
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


def agents_caption(report: Report, name: str) -> str:
    """What a figure of the agents draws; empty for one that is not ours."""
    n = report.metrics.get("n_agents")
    who = counted(n, "agent") if n else counted(len(report.sites), "site")
    if name == "power":
        return sentences(
            f"Power (mean square about its mean, squared unit of the outcome) of each agent's part of the prediction"
            f" over the iterations{where(report)}: {who}",
            f"The {NAMED} largest at the end by name, any others in grey; where the scenario knows them, agents whose"
            " attributes are irrelevant are dotted",
        )
    if name != "coefficients":
        return ""
    cut = f", the {_MOST} with the largest parts" if n and n > _MOST else ""
    return sentences(
        f"What each agent adds to the chosen prediction{where(report)}: its part's power as a share of the sum of all"
        f" parts' (%), and its coefficient (no unit) where these differ; {who}{cut}",
        "Parts overlap, so that shares are not what would be lost without an agent",
    )


def agents_told(report: Report, name: str, arrays: Arrays) -> str:
    """Alternative text of a figure of the agents; empty for one that is not ours."""
    if name not in ("power", "coefficients"):
        return ""
    parts, told = Parts.of(report, arrays), [""]
    if parts is not None:
        told = [
            f"{plain(parts.names[agent])} {100 * parts.share[agent]:.3g} %"
            + (f" (coefficient {parts.beta[agent]:.3g})" if parts.weighted and name == "coefficients" else "")
            for agent in parts.order[:_TOLD]
        ]
        told += [f"and {len(parts.names) - _TOLD} more"] if len(parts.names) > _TOLD else []
    elif not several(report):
        shares = {row["party"]: row["share of power"] for row in report.table if "share of power" in row}
        first = sorted(shares, key=lambda party: -shares[party])
        told = [f"{party} {100 * shares[party]:.3g} %" for party in first[:_TOLD]]
    what = "Power over the iterations" if name == "power" else "What each agent adds"
    listed = f"shares of all power at the chosen one: {', '.join(told)}" if any(told) else "a part for each agent"
    known = ""
    if parts is not None and parts.relevant is not None and name == "power":
        share = 100 * float(parts.share[~parts.relevant.astype(bool)].sum())
        known = f"agents with irrelevant attributes alone have {share:.3g} % together"
    return sentences(f"{what}{where(report)}; {listed}", known)
