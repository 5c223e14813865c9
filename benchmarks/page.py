"""Writes docs/benchmarks.md: the text of benchmarks/page.md, with tables computed from the results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template

from benchmarks.growth import exponent
from benchmarks.results import Results, Row
from benchmarks.side import Case, Method, Metric, Side
from benchmarks.side.measurement import Measurement, side_of
from benchmarks.tables import format_number, format_seconds, format_size, table_head, table_row

TEMPLATE = Path(__file__).with_name("page.md")
_BUSY = 0.8
"""Processor seconds over wall seconds below which a method waited for the processor."""
_COSTS = {"all": "s", "from_sites": "from sites", "peak": "peak"}


def page(results: Results) -> str:
    """Return the page, in Markdown."""
    sides = {protocol: side_of(protocol, results.quick) for protocol in results.sides}
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        about="\n".join(_about(results)),
        trial="\n*A trial on little data, two processes at a time: nothing here is a measurement.*\n"
        if results.quick
        else "",
        sides="".join(_side(side, results.sides[protocol]) for protocol, side in sides.items()),
        growth=_growth(results) if results.growth or results.problems else "",
    )
    return re.sub(r"\n{3,}", "\n\n", text)  # a part may be empty


def _about(results: Results) -> Iterable[str]:
    about = results.about
    yield table_row(["command", f"`{about['command']}`"])
    for name in ("machine", "date", "versions"):
        yield table_row([name, about[name]])
    measurements = [row.measurement for rows in results.sides.values() for row in rows if row.measurement]
    late = sum(map(_waited, measurements))
    if late:
        yield table_row(
            ["caution", f"in {late} of {len(measurements)} measurements the method waited for the processor"]
        )


def _waited(measurement: Measurement) -> bool:
    """Return whether a method that ran in the measuring process waited for the processor."""
    here = math.isfinite(measurement.processor) and not measurement.elsewhere
    return here and measurement.processor < _BUSY * measurement.seconds


# -- side by side -----------------------------------------------------------------------------------------------------


def _side(side: Side, rows: Sequence[Row]) -> str:
    """Return a protocol's data sets and one table: the first metric in all of them, the rest and costs in the last."""
    lines = [f"\n## {side.protocol}\n", f"{side.task}\n"]
    measured = {}
    for case in side.cases:
        of_case = {method.name: _of(rows, case, method) for method in side.methods}
        measurements = {name: row.measurement for name, row in of_case.items() if row.measurement}
        if measurements:
            measured[case.name] = measurements
        lines += [*_about_case(case, list(measurements.values())), *_problems(of_case, bool(measurements))]
    if measured:
        lines += ["", *_table(side, measured), ""]
    if side.notes:
        lines += [f"{side.notes}\n"]
    return "\n".join(lines)


def _about_case(case: Case, measurements: Sequence[Measurement]) -> Iterable[str]:
    """Yield the line that begins the data set's item."""
    if measurements:
        seeds = max(each.seeds for each in measurements)
        yield f"- **{case.name}**: {case.about}; {seeds} draw{'s' if seeds > 1 else ''}."
    else:
        yield f"- **{case.name}**: {case.about}. Left out."


def _problems(of_case: Mapping[str, Row], some: bool) -> Iterable[str]:
    """Yield a line for every reason, with the methods that have no measurement for it, if `some` others have one."""
    reasons = dict.fromkeys(row.problem for row in of_case.values() if row.measurement is None)
    for reason in reasons:
        names = [name for name, row in of_case.items() if row.measurement is None and row.problem == reason]
        yield f"  {', '.join(names)}: *{reason}*." if some else f"  *{reason}*."


def _table(side: Side, measured: Mapping[str, Mapping[str, Measurement]]) -> Iterable[str]:
    """Yield the table; `measured`: by data set and method."""
    first, *others = side.metrics
    last = list(measured)[-1]
    columns = [*((first, name) for name in measured), *((metric, last) for metric in others)]
    headings = [f"{_heading(metric)}: {name}" if metric is first else _heading(metric) for metric, name in columns]
    best = {(metric.name, name): _best(metric, list(measured[name].values())) for metric, name in columns}
    yield from table_head(["method", "leaves a site", *headings, "s", "from sites"])
    for method in side.methods:
        if not any(method.name in measurements for measurements in measured.values()):
            continue
        cells = [_name(method), method.leaves]
        for metric, name in columns:
            here = measured[name].get(method.name)
            cells.append(_marked(metric, here, best[metric.name, name]) if here else "")
        cost = measured[last].get(method.name)
        cells += [format_seconds(cost.seconds), format_size(cost.from_sites)] if cost else [""] * 2
        yield table_row(cells)


def _of(rows: Sequence[Row], case: Case, method: Method) -> Row:
    matching = (row for row in rows if (row.case, row.method) == (case.name, method.name))
    return next(matching, Row(case.name, method.name, problem="not run"))


def _distance(metric: Metric, measurement: Measurement) -> float:
    """Return the distance from the best possible value; smaller is better."""
    value = measurement.metrics.get(metric.name, math.nan)
    if metric.better.startswith("near"):
        value = abs(value - float(metric.better.split()[1]))
    elif metric.better == "higher":
        value = -value
    return value if math.isfinite(value) else math.inf


def _best(metric: Metric, measurements: Sequence[Measurement]) -> float:
    return min((_distance(metric, each) for each in measurements), default=math.inf) if metric.better else -math.inf


def _marked(metric: Metric, measurement: Measurement, best: float) -> str:
    text = _value(metric, measurement)
    return f"**{text}**" if text and math.isclose(_distance(metric, measurement), best, rel_tol=1e-9) else text


def _value(metric: Metric, measurement: Measurement) -> str:
    metrics = measurement.metrics
    value, error = metrics.get(metric.name, math.nan), metrics.get(f"{metric.name}_se", math.nan)
    text = format_number(value, metric.digits)
    return f"{text} ± {format_number(error, 2)}" if text and error > 0 else text


def _heading(metric: Metric) -> str:
    return f"{metric.heading} ({metric.better})" if metric.better else metric.heading


def _name(method: Method) -> str:
    return f"**{method.name}**" if method.ours else method.name


# -- growth -----------------------------------------------------------------------------------------------------------


def _growth(results: Results) -> str:
    """Return a row for every protocol, the exponents on all axes in each cell, and their largest standard error."""
    slopes: dict[str, dict[str, list[str]]] = {}
    errors = []
    for curve in results.growth:
        cells = slopes.setdefault(curve.protocol, {cost: [] for cost in _COSTS})
        for cost in _COSTS:
            slope, error = exponent(curve.sizes, [getattr(each, cost) for each in curve.points])
            cells[cost].append(f"{slope + 0.0:.2f}".replace("-0.00", "0.00") if math.isfinite(slope) else "-")
            errors += [error] if math.isfinite(error) else []
    lines = [
        "\n## Growth\n",
        "Exponents of the growth of costs (1: proportional, 0: constant) where there are more sites and the same rows"
        " (of residual: columns), more sites with rows of their own, more rows at the same sites; standard errors are"
        f" {max(errors, default=math.nan):.2f} at most.\n",
        *table_head(["", *_COSTS.values()]),
    ]
    for protocol, cells in slopes.items():
        lines.append(table_row([f"**{protocol}**", *(", ".join(cells[cost]) for cost in _COSTS)]))
    lines += ["", *(f"{axis}: *{problem}*.\n" for axis, problem in results.problems.items())]
    return "\n".join(lines).rstrip("\n") + "\n"
