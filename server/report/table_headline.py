"""The answer of a run whose result is a table: with which settings its number is smallest and largest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from server.report.formatting import counted, grouped, listed, number, percent, with_error
from server.report.glossary import Meaning, direction, meaning

if TYPE_CHECKING:
    from server.results import Report

_TOLD_LABELS = 3
_EQUAL = 1e-9
Row = Mapping[str, Any]


class Told(Protocol):
    """A metric that can be an answer, what it is held against, and what answers in its place in tables."""

    @property
    def metric(self) -> str:
        """Its name."""

    @property
    def rivals(self) -> Mapping[str, str]:
        """By metric, how it is said after "than"."""

    @property
    def in_tables(self) -> tuple[str, ...]:
        """Metrics in its place, best first."""


def label_columns(report: Report) -> list[str]:
    """Columns of a scenario's table that set its rows apart; none of a table that has one line a site, say."""
    if "n_cells" not in report.metrics:
        return []
    names: list[str] = []
    for name in report.table[0] if report.table else ():
        if name in report.metrics or name.endswith(" published"):
            break
        names.append(name)
    return [name for name in names if len({repr(row.get(name)) for row in report.table}) > 1]


def table_answer(report: Report, who: str, answers: Sequence[Told]) -> str:
    """What a scenario's table says; empty if the run has none, or one of a single row.

    Parameters
    ----------
    report : Report
    who : str
        How the sentence begins.
    answers : Sequence
        What can be the answer of the run's protocol, best first.
    """
    labels = label_columns(report)
    metric = _metric(report, answers) if len(report.table) > 1 and labels else ""
    said = meaning(metric)
    if said is None:
        return ""
    rows = _rows_with(report, metric)
    low, high = min(rows, key=lambda row: row[metric]), max(rows, key=lambda row: row[metric])
    words = f"{said.words.partition(' (')[0]} ({direction(said)})"
    begin = f"{who} worked through {counted(len(report.table), 'setting')}. {words[0].upper()}{words[1:]}:"
    if low[metric] < high[metric]:
        lowest, highest = (f"{_called(row, labels)} ({_cell(row, metric)})" for row in (low, high))
        parts = [f"{begin} lowest with {lowest}, highest with {highest}."]
    else:
        parts = [f"{begin} {_cell(low, metric)} with each of them."]
    rivals = next((each.rivals for each in answers if metric.startswith(each.metric)), {})
    parts += _held_against(report, rows, metric, rivals)
    return " ".join([*parts, *_beside_published(rows, metric, said)])


def _metric(report: Report, answers: Sequence[Told]) -> str:
    """What the table is about: what the paper has figures of, else its first column that can be better or worse."""
    for name in (name for each in answers for name in each.in_tables):
        if _rows_with(report, name):
            return name
    there = [name for name in report.table[0] if name in report.metrics]
    ranked = [name for name in there if (known := meaning(name)) and direction(known) and _rows_with(report, name)]
    told = [name for name in ranked if any(row.get(f"{name} published") is not None for row in report.table)]
    return next(iter([*told, *ranked]), "")


def _rows_with(report: Report, metric: str) -> list[Row]:
    return [row for row in report.table if _is_finite(row.get(metric))]


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _called(row: Row, labels: Sequence[str]) -> str:
    told = [f"{name.replace('_', ' ')} {number(row[name])}" for name in labels if row.get(name) is not None]
    return ", ".join(told[:_TOLD_LABELS])


def _cell(row: Row, metric: str) -> str:
    value, error, known = float(row[metric]), row.get(f"{metric}_se"), meaning(metric)
    if known and known.share:
        return percent(value, error)
    if error:
        return with_error(value, float(error))
    return grouped(round(value)) if abs(value) >= 1e4 else f"{value:.4g}"


def _held_against(report: Report, rows: Sequence[Row], metric: str, rivals: Mapping[str, str]) -> list[str]:
    """In how many rows it is better than what else could be done; of a rival with no column, the mean over cells."""
    in_rows = [told for rival, phrase in rivals.items() if (told := _against(rows, metric, rival, phrase))]
    by_itself = [
        f"{_cell(report.metrics, rival)} {phrase}"
        for rival, phrase in rivals.items()
        if rival in report.metrics and not any(rival in row for row in rows)
    ]
    found = [f"It is {listed(in_rows)}."] if in_rows else []
    return [*found, f"To be held against, on average over the settings: {listed(by_itself)}."] if by_itself else found


def _against(rows: Sequence[Row], metric: str, rival: str, phrase: str) -> str:
    """In how many rows it is better, and in how many the same."""
    sign, word = (-1, "higher") if (known := meaning(metric)) and known.better == "higher" else (1, "lower")
    pairs = [(float(row[metric]), float(row[rival])) for row in rows if _is_finite(row.get(rival))]
    if not pairs:
        return ""
    same = sum(math.isclose(here, there, rel_tol=_EQUAL) for here, there in pairs)
    better = sum(sign * here < sign * there and not math.isclose(here, there, rel_tol=_EQUAL) for here, there in pairs)
    equal = f" and the same in {same}" if same else ""
    return f"{word} than {phrase} in {better} of {len(pairs)}{equal}"


def _beside_published(rows: Sequence[Row], metric: str, said: Meaning) -> list[str]:
    """How far this run's figures are from the paper's, over the rows of which it has one."""
    pairs = [
        (float(row[metric]), float(row[f"{metric} published"]))
        for row in rows
        if _is_finite(row.get(f"{metric} published"))
    ]
    if said.share:
        changes, unit = [100 * (here - there) for here, there in pairs], " percentage points"
    else:
        changes, unit = [100 * (here / there - 1) for here, there in pairs if there > 0], " %"
    if not changes:
        return []
    which = "all of them" if len(changes) == len(rows) else f"{len(changes)} of them"
    middle, spread = (
        statistics.median(changes),
        f" (from {_change(min(changes), unit)} to {_change(max(changes), unit)})",
    )
    told = f"The paper has figures for {which}: this run's are {_change(middle, unit)}"
    return [f"{told} in the median{spread}." if len(changes) > 1 else f"{told}."]


def _change(value: float, unit: str) -> str:
    size = f"{abs(value):.1f}" if abs(value) < 10 else f"{abs(value):.0f}"
    return "the same" if float(size) == 0 else f"{size}{unit} {'higher' if value > 0 else 'lower'}"
