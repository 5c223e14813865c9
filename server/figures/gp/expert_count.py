"""How good a run's predictions would be from fewer experts a point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from server.figures.drawing import BLUE, VERMILION, explain, png_panels
from server.figures.gp.table import METRICS
from server.figures.wording import Arrays, measured, sentences, several
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from server.results import Report


def draw_numbers(arrays: Arrays) -> dict[str, bytes]:
    """The figure by its name; none where fewer experts were not tried."""
    if len(arrays.get("tried_K", ())) < 2:
        return {}
    return {"fewer": png_panels(partial(_draw, arrays=arrays), len(METRICS), 3.8, same_y=False)}


def _draw(panels: Sequence[Axes], arrays: Arrays) -> None:
    tried = arrays["tried_K"].tolist()
    for axes, (metric, label) in zip(panels, METRICS.items(), strict=True):
        values = arrays[f"tried_{metric}"]
        axes.plot(tried, values, color=BLUE, marker="o", markersize=4.5, linewidth=1.3)
        used = axes.plot(
            tried[-1:], values[-1:], color=VERMILION, marker="D", markersize=9, fillstyle="none", linestyle="none"
        )[0]
        if tried[-1] >= 10:
            axes.set_xscale("log")
        axes.set_xticks(tried, [str(k) for k in tried])
        axes.minorticks_off()
        axes.set_xlabel("experts of a point, K (count)")
        axes.set_ylabel(label)
    explain(panels[0], [used], [f"this run: {tried[-1]}"])


def numbers_caption(report: Report) -> str:
    """What the figure draws."""
    rule = report.config.get("gp.aggregation") or "npae"
    of = "the first repetition's " if several(report) else ""
    return sentences(
        "SMSE (1: always the mean of the outputs) and MSLL (nats a point; 0: mean and variance of the training"
        f" outputs) of {of}predictions, had only the first K experts of each point's ranking been asked; less is"
        f" better: {measured(report, n_experts='expert', n_queries='query point')}",
        f"The aggregation is {rule}, the hyperparameters are the same; of many query points an even sample is taken",
    )


def numbers_told(arrays: Arrays) -> str:
    """Alternative text: both scores at every number of experts."""
    if "tried_K" not in arrays:
        return "SMSE and MSLL by number of experts of a point."
    scores = zip(arrays["tried_K"].tolist(), arrays["tried_smse"], arrays["tried_msll"], strict=True)
    told = [f"{smse:.3g} / {msll:.3g} from {counted(k, 'expert')}" for k, smse, msll in scores]
    at = counted(int(arrays["tried_points"]), "query point")
    return sentences(f"SMSE / MSLL at {at}: {', '.join(told)}")
