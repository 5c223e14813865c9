"""Writes docs/benchmarks.md: the text of benchmarks/page.md, with tables computed from the results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template

from benchmarks.growth import Curve, exponent
from benchmarks.growth_worlds import WORLDS
from benchmarks.results import Results, Row
from benchmarks.side import Case, Method, Metric, Side
from benchmarks.side.measurement import Measurement, side_of
from benchmarks.tables import format_number, format_seconds, format_size, table_head, table_row

TEMPLATE = Path(__file__).with_name("page.md")
_BUSY = 0.8
"""Processor seconds over wall seconds below which a method waited for the processor."""
_AXES = {
    "sites": "more sites, the same {what} between them",
    "sites-together": "more sites, each with {what} of its own",
    "rows": "more rows, the same sites",
}
_COSTS = {"all": "s", "from_sites": "from sites", "rounds": "rounds", "peak": "peak"}


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
    lines = [f"\n## {side.protocol}\n", f"{side.task}\n"]
    for case in side.cases:
        if any(row.case == case.name for row in rows):
            lines += _case(side, case, rows)
    if side.notes:
        lines += [f"{side.notes}\n"]
    return "\n".join(lines)


def _case(side: Side, case: Case, rows: Sequence[Row]) -> Iterable[str]:
    """Yield the table of a case."""
    of_case = {method.name: _of(rows, case, method) for method in side.methods}
    measurements = [row.measurement for row in of_case.values() if row.measurement]
    yield f"### {side.protocol}: {case.name}\n"
    if not measurements:
        problems = dict.fromkeys(row.problem for row in of_case.values())
        yield f"{case.about}. Left out: {'; '.join(problems)}.\n"
        return
    seeds = max(each.seeds for each in measurements)
    yield f"{case.about}; {seeds} draw{'s' if seeds > 1 else ''}.\n"
    headings = [_heading(metric) for metric in side.metrics]
    yield from table_head(["method", "what leaves a site", *headings, "s", "rounds", "from sites"])
    best = {metric.name: _best(metric, measurements) for metric in side.metrics}
    for method in side.methods:
        row = of_case[method.name]
        measured = row.measurement
        if measured is None:
            continue
        values = [_marked(metric, measured, best[metric.name]) for metric in side.metrics]
        traffic = [f"{measured.rounds:.3g}", format_size(measured.from_sites)]
        yield table_row([_name(method), method.leaves, *values, format_seconds(measured.seconds), *traffic])
    yield ""
    yield from _problems(of_case)


def _problems(of_case: Mapping[str, Row]) -> Iterable[str]:
    """Yield a line for every reason, with the methods that have no measurement for that reason."""
    reasons = dict.fromkeys(row.problem for row in of_case.values() if row.measurement is None)
    for reason in reasons:
        names = [name for name, row in of_case.items() if row.measurement is None and row.problem == reason]
        yield f"{'; '.join(names)}: *{reason}*.\n"


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
    lines = [
        "\n## Growth\n",
        "Exponents of the growth of costs: 1 is proportional, 0 constant.\n",
        *table_head(["", "grows", *_COSTS.values()]),
    ]
    last = ""
    for curve in results.growth:
        head, last = f"**{curve.protocol}**" if curve.protocol != last else "", curve.protocol
        lines.append(table_row([head, _axis(curve.protocol, curve.axis), *_exponents(curve)]))
    for axis, problem in results.problems.items():
        lines.append(table_row([f"**{axis}**", f"*{problem}*", *[""] * len(_COSTS)]))
    return "\n".join(lines) + "\n"


def _exponents(curve: Curve) -> list[str]:
    cells = []
    for cost in _COSTS:
        slope, error = exponent(curve.sizes, [getattr(each, cost) for each in curve.points])
        spread = f" ± {error:.2f}" if math.isfinite(error) else ""
        cells.append(f"{slope + 0.0:.2f}{spread}".replace("-0.00", "0.00") if math.isfinite(slope) else "")
    return cells


def _axis(protocol: str, axis: str) -> str:
    by_columns = not WORLDS[protocol].rows_a_site
    return _AXES[axis].format(what="columns" if by_columns else "rows")
