"""Figure of the scores of a run's predictions with fewer experts a point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from server.figures.drawing import BLUE, VERMILION, explain, png_panels
from server.figures.figure import Figure
from server.figures.gp.table import METRICS
from server.figures.wording import measured, sentences, several
from server.report.data import Arrays, Report
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def fewer(report: Report, arrays: Arrays) -> Figure | None:
    """Draw both scores over K; None if fewer experts were not tried."""
    if len(arrays.get("tried_K", ())) < 2:
        return None
    rule = report.config.get("gp.aggregation") or "npae"
    of = "the first repetition's " if several(report) else ""
    caption = sentences(
        "SMSE (1: always the mean of the outputs) and MSLL (nats a point; 0: mean and variance of the training"
        f" outputs) of {of}predictions if only the first K experts of each point's ranking had been asked; less is"
        f" better: {measured(report, n_experts='expert', n_measured='measured query point')}",
        f"The aggregation is {rule}, the hyperparameters are the same; of many query points an even sample is taken",
    )
    scores = zip(arrays["tried_K"].tolist(), arrays["tried_smse"], arrays["tried_msll"], strict=True)
    words = [f"{smse:.3g} / {msll:.3g} from {counted(k, 'expert')}" for k, smse, msll in scores]
    alt = sentences(f"SMSE / MSLL at {counted(int(arrays['tried_points']), 'query point')}: {', '.join(words)}")
    return Figure("fewer", png_panels(partial(_draw, arrays=arrays), len(METRICS), 3.8, same_y=False), caption, alt)


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
