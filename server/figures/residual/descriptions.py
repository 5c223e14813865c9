"""Captions and alternative texts of the figures of a table."""

from __future__ import annotations

from math import isfinite

from server.figures.residual.common import MOST_IN_WORDS, PANELS, REFERENCES, SUMS
from server.figures.residual.rows import error_of, measures, name_of, over_label
from server.figures.wording import BARS, CROSSES, measured, sentences
from server.report.data import Arrays, Report
from server.report.formatting import counted

_CONTENT = {
    "errors": "Mean squared error on test rows (squared unit of the outcome)",
    "contraction": "Contraction of a step (no unit): factor by which it shrinks from one turn of an agent to the next",
    "relevance": "Power of the prediction (squared unit of the outcome), summed over the agents with a relevant"
    " attribute, and over those without one",
    "curves": "Mean squared error (squared unit of the outcome) over the iterations, a panel for each row of the table,"
    " the means of its repetitions",
    "powers": "Power of the prediction (squared unit of the outcome) over the iterations, a line for each row of the"
    " table: of the agents with a relevant attribute, and of those without one",
}
"""What each figure draws."""


def caption(report: Report, name: str) -> str:
    """Return the caption of a figure of the table."""
    over = over_label(report)
    along = f" over {over[0]}" if over is not None and name in ("errors", "contraction", "relevance") else ""
    n = len(report.table)
    cut = f", the first {PANELS} drawn" if n > PANELS and name in ("curves", "powers") else ""
    repeated = counted(int(report.config.get("repetitions", 1)), "repetition")
    sizes = measured(report, n_aligned="common row", n_test="test row", n_agents="agent")
    return sentences(
        f"{_CONTENT[name]}{along}; {counted(n, 'row')} of the table{cut}, {repeated}: {sizes}",
        _marks(report, _metrics(report, name)),
    )


def alt_text(report: Report, name: str, arrays: Arrays) -> str:
    """Return the alternative text of a figure of the table."""
    if name == "curves":
        reached = _by_row(report, arrays, "test_mse")
        return sentences(
            f"Errors over the iterations{f'; reached on test rows: {reached}' if reached else ', by row of the table'}"
        )
    if name == "powers":
        kinds = [(label, _by_row(report, arrays, each)) for each, (label, *_) in SUMS.items()]
        powers = "; ".join(f"{label}: {words}" for label, words in kinds if words)
        return sentences(f"Power {f'at the last iteration of {powers}' if powers else 'by row of the table'}")
    what = {"errors": "Mean squared error on test rows", "contraction": "Contraction of a step"}
    labels = {each: what.get(name, f"Power of {SUMS.get(each, ('',))[0]}") for each in _metrics(report, name)}
    parts = [f"{label}: {words}" for each, label in labels.items() if (words := _by_row(report, arrays, each))]
    if name == "errors":
        references = [(label, each) for each, (label, *_) in REFERENCES.items() if each in report.metrics]
        parts += [f"{label}: {report.metrics[each]:.3g}" for label, each in references]
    return sentences("; ".join(parts))


def _metrics(report: Report, name: str) -> list[str]:
    """Return the metrics of a figure over the rows; empty for one over the iterations."""
    return {"errors": [error_of(report)], "contraction": ["contraction"], "relevance": list(SUMS)}.get(name, [])


def _marks(report: Report, metrics: list[str]) -> list[str]:
    """Return what diamonds, bars and crosses mean, if there are any."""
    names = {each for row in report.table for each in row}
    diamonds = "test_mse_best" in names and metrics == [error_of(report)] and over_label(report) is None
    marks = ["diamonds are the smallest errors along the way"] if diamonds else []
    marks += [BARS.replace("bars", "thin bars")] if any(f"{each}_se" in names for each in metrics) else []
    return marks + ([CROSSES] if any(f"{each} published" in names for each in metrics) else [])


def _by_row(report: Report, arrays: Arrays, metric: str) -> str:
    """Return a metric's value in every row, in words."""
    values = measures(report, arrays, metric)[0]
    known = [
        (name_of(report, row), value)
        for row, value in zip(report.table, values.tolist(), strict=True)
        if isfinite(value)
    ]
    words = ", ".join(f"{name}: {value:.3g}" for name, value in known[:MOST_IN_WORDS])
    return words + (f", and {counted(len(known) - MOST_IN_WORDS, 'row')} more" if len(known) > MOST_IN_WORDS else "")
