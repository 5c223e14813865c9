"""The answer of a run whose result is a table: the settings with the smallest and the largest number."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from server.report.data import Report, Row
from server.report.formatting import counted, listed, number, percent, short, with_error
from server.report.glossary import direction, meaning
from server.report.protocol import Answer, Meaning, Rival

_MOST_LABELS = 3
_EQUAL = 1e-9
"""Relative difference below which two numbers are the same."""


def label_columns(report: Report) -> list[str]:
    """Return the columns of a scenario's table that set its rows apart; none for a table of sites or clusters."""
    if "n_cells" not in report.metrics:
        return []
    names: list[str] = []
    for name in report.table[0] if report.table else ():
        if name in report.metrics or name.endswith(" published"):
            break
        names.append(name)
    return [name for name in names if len({repr(row.get(name)) for row in report.table}) > 1]


def table_answer(report: Report, who: str, answers: Sequence[Answer]) -> str:
    """Return the answer of a scenario's table; empty if the run has none, or a table with one row.

    Parameters
    ----------
    report : Report
        Report of the run.
    who : str
        Subject of the sentence.
    answers : Sequence of Answer
        Answers of the run's protocol, the best first.
    """
    labels = label_columns(report)
    metric = _metric(report, answers) if len(report.table) > 1 and labels else ""
    known = meaning(report.protocol, metric)
    if known is None:
        return ""
    rows = _rows_with(report, metric)
    low, high = min(rows, key=lambda row: row[metric]), max(rows, key=lambda row: row[metric])
    words = f"{known.words.partition(' (')[0]} ({direction(known)})"
    begin = f"{who} worked through {counted(len(report.table), 'setting')}. {words[0].upper()}{words[1:]}:"
    if low[metric] < high[metric]:
        lowest, highest = (f"{_label(row, labels)} ({_cell(row, metric, known)})" for row in (low, high))
        parts = [f"{begin} lowest with {lowest}, highest with {highest}."]
    else:
        parts = [f"{begin} {_cell(low, metric, known)} with each of them."]
    rivals = next((each.rivals for each in answers if metric.startswith(each.metric)), {})
    parts += _compared(report, rows, metric, rivals)
    return " ".join([*parts, *_beside_published(rows, metric, known)])


def _metric(report: Report, answers: Sequence[Answer]) -> str:
    """Return the table's main metric: one of `in_tables`, of the paper's figures, or its first one with a direction."""
    for name in (name for each in answers for name in each.in_tables):
        if _rows_with(report, name):
            return name
    names = [name for name in report.table[0] if name in report.metrics]
    ranked = [name for name in names if direction(meaning(report.protocol, name)) and _rows_with(report, name)]
    published = [name for name in ranked if any(row.get(f"{name} published") is not None for row in report.table)]
    return next(iter([*published, *ranked]), "")


def _rows_with(report: Report, metric: str) -> list[Row]:
    return [row for row in report.table if _is_finite(row.get(metric))]


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _label(row: Row, labels: Sequence[str]) -> str:
    """Return the first labels of a row in words."""
    words = [f"{name.replace('_', ' ')} {number(row[name])}" for name in labels if row.get(name) is not None]
    return ", ".join(words[:_MOST_LABELS])


def _cell(row: Row, metric: str, known: Meaning | None) -> str:
    value, error = float(row[metric]), row.get(f"{metric}_se")
    if known and known.share:
        return percent(value, error)
    if error:
        return with_error(value, float(error))
    return short(value)


def _compared(report: Report, rows: Sequence[Row], metric: str, rivals: Mapping[str, Rival]) -> list[str]:
    """Return the number of rows in which the metric beats each rival; for a rival without a column, its mean."""
    known = meaning(report.protocol, metric)
    in_rows = [text for rival, way in rivals.items() if (text := _wins(rows, metric, known, rival, way.words))]
    on_average = [
        f"{_cell(report.metrics, rival, meaning(report.protocol, rival))} {way.words}"
        for rival, way in rivals.items()
        if rival in report.metrics and not any(rival in row for row in rows)
    ]
    sentences = [f"It is {listed(in_rows)}."] if in_rows else []
    return (
        [*sentences, f"For comparison, on average over the settings: {listed(on_average)}."]
        if on_average
        else sentences
    )


def _wins(rows: Sequence[Row], metric: str, known: Meaning | None, rival: str, phrase: str) -> str:
    """Return the numbers of rows in which the metric beats a rival, and in which they are the same."""
    sign, word = (-1, "higher") if known and known.better == "higher" else (1, "lower")
    pairs = [(float(row[metric]), float(row[rival])) for row in rows if _is_finite(row.get(rival))]
    if not pairs:
        return ""
    same = sum(math.isclose(own, other, rel_tol=_EQUAL) for own, other in pairs)
    better = sum(sign * own < sign * other and not math.isclose(own, other, rel_tol=_EQUAL) for own, other in pairs)
    equal = f" and the same in {same}" if same else ""
    return f"{word} than {phrase} in {better} of {len(pairs)}{equal}"


def _beside_published(rows: Sequence[Row], metric: str, known: Meaning) -> list[str]:
    """Return the differences of this run's numbers from the paper's, over the rows with a published figure."""
    pairs = [
        (float(row[metric]), float(row[f"{metric} published"]))
        for row in rows
        if _is_finite(row.get(f"{metric} published"))
    ]
    if known.share:
        changes, unit = [100 * (own - paper) for own, paper in pairs], " percentage points"
    else:
        changes, unit = [100 * (own / paper - 1) for own, paper in pairs if paper > 0], " %"
    if not changes:
        return []
    which = "all of them" if len(changes) == len(rows) else f"{len(changes)} of them"
    middle = _change(statistics.median(changes), unit)
    spread = f" (from {_change(min(changes), unit)} to {_change(max(changes), unit)})"
    text = f"The paper has figures for {which}: this run's are {middle}"
    return [f"{text} in the median{spread}." if len(changes) > 1 else f"{text}."]


def _change(value: float, unit: str) -> str:
    size = f"{abs(value):.1f}" if abs(value) < 10 else f"{abs(value):.0f}"
    return "the same" if float(size) == 0 else f"{size}{unit} {'higher' if value > 0 else 'lower'}"
