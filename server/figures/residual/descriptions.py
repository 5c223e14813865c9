"""The figures of a table in words: what they draw, and what is to be seen."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from server.figures.residual.common import PANELS, REFERENCES, SUMS, TOLD
from server.figures.residual.rows import error_of, measures, name_of, over_label
from server.figures.wording import BARS, CROSSES, Arrays, measured, sentences
from server.report.formatting import counted

if TYPE_CHECKING:
    from server.results import Report


def table_caption(report: Report, name: str) -> str:
    """What a figure of the table draws; empty for one that is not ours."""
    over = over_label(report)
    drawn = {
        "errors": "Mean squared error on test rows (squared unit of the outcome)",
        "contraction": "Contraction of a step (no unit): by how much it shrinks from one turn of an agent to the next",
        "relevance": "Power of the prediction (squared unit of the outcome), summed over the agents with a relevant"
        " attribute, and over those without one",
        "curves": "Mean squared error (squared unit of the outcome) over the iterations, a panel for each row of the"
        " table, the means of its repetitions",
        "powers": "Power of the prediction (squared unit of the outcome) over the iterations, a line for each row of"
        " the table: of the agents with a relevant attribute, and of those without one",
    }
    if name not in drawn:
        return ""
    along = f" over {over[0]}" if over is not None and name in ("errors", "contraction", "relevance") else ""
    n = len(report.table)
    cut = f", the first {PANELS} drawn" if n > PANELS and name in ("curves", "powers") else ""
    repeated = counted(int(report.config.get("repetitions", 1)), "repetition")
    sizes = measured(report, n_aligned="common row", n_test="test row", n_agents="agent")
    return sentences(
        f"{drawn[name]}{along}; {counted(n, 'row')} of the table{cut}, {repeated}: {sizes}",
        _marks(report, _metrics(report, name)) if name in ("errors", "contraction", "relevance") else (),
    )


def table_told(report: Report, name: str, arrays: Arrays) -> str:
    """Alternative text of a figure of the table; empty for one that is not ours."""
    if name == "curves":
        told = _told(report, arrays, "test_mse")
        return sentences(f"Errors over the iterations; reached on test rows: {told}" if told else _BY_ROW)
    if name == "powers":
        kinds = [(label, _told(report, arrays, each)) for each, (label, *_) in SUMS.items()]
        told = "; ".join(f"{label}: {said}" for label, said in kinds if said)
        return sentences(f"Power at the last iteration of {told}" if told else _BY_ROW.replace("Errors", "Power"))
    metrics = _metrics(report, name)
    if not metrics:
        return ""
    what = {"errors": "Mean squared error on test rows", "contraction": "Contraction of a step"}
    every = [(what.get(name, f"Power of {SUMS.get(each, ('',))[0]}"), _told(report, arrays, each)) for each in metrics]
    parts = [f"{said}: {told}" if told else f"{said}, by row of the table" for said, told in every]
    if name == "errors":
        given = [(label, report.metrics[each]) for each, (label, *_) in REFERENCES.items() if each in report.metrics]
        parts += [f"{label}: {value:.3g}" for label, value in given]
    return sentences("; ".join(parts))


_BY_ROW = "Errors over the iterations, by row of the table"


def _metrics(report: Report, name: str) -> list[str]:
    return {"errors": [error_of(report)], "contraction": ["contraction"], "relevance": list(SUMS)}.get(name, [])


def _marks(report: Report, metrics: list[str]) -> list[str]:
    """What diamonds, bars and crosses mean, where there are any."""
    shown = {each for row in report.table for each in row}
    diamonds = "test_mse_best" in shown and metrics == [error_of(report)] and over_label(report) is None
    marks = ["diamonds are the smallest errors along the way"] if diamonds else []
    marks += [BARS.replace("bars", "thin bars")] if any(f"{each}_se" in shown for each in metrics) else []
    return marks + ([CROSSES] if any(f"{each} published" in shown for each in metrics) else [])


def _told(report: Report, arrays: Arrays, metric: str) -> str:
    """A metric's value by row, shown in the table or not, in words; empty where it is not known."""
    values = measures(report, arrays, metric)[0]
    known = [
        (name_of(report, row), value)
        for row, value in zip(report.table, values.tolist(), strict=True)
        if isfinite(value)
    ]
    parts = ", ".join(f"{name}: {value:.3g}" for name, value in known[:TOLD])
    return parts + (f", and {counted(len(known) - TOLD, 'row')} more" if len(known) > TOLD else "")
