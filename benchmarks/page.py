"""Writes docs/benchmarks.md: the text of benchmarks/page.md, with tables and sentences computed from the results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template

from benchmarks.growth import COSTS, Curve, exponent
from benchmarks.growth_worlds import WORLDS
from benchmarks.results import Results, Row
from benchmarks.side import Case, Method, Metric, Side
from benchmarks.side.measurement import Measurement, side_of
from benchmarks.tables import format_number, format_seconds, format_size, table_head, table_row

TEMPLATE = Path(__file__).with_name("page.md")
_BUSY = 0.8
"""Share of the processor below which a method is counted as waiting."""
_ERRORS = 2.0
"""Standard errors of a difference within which two methods do not differ significantly."""
_AXES = {
    "sites": "more sites, the same {what} between them",
    "sites-together": "more sites, each with {what} of its own",
    "rows": "more rows, the same sites",
}
_COST_HEADINGS = ("center s", "slowest site s", "all s", "to sites", "from sites", "rounds", "peak")


def page(results: Results) -> str:
    """Return the page, in Markdown."""
    sides = {protocol: side_of(protocol, results.quick) for protocol in results.sides}
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        about="\n".join(_about(results)),
        trial="\n*A trial on little data, two processes at a time: nothing here is a measurement.*\n"
        if results.quick
        else "",
        summary=_summary(sides, results.sides) if sides else "",
        sides="".join(_side(side, results.sides[protocol]) for protocol, side in sides.items()),
        growth=_growth(results) if results.growth or results.problems else "",
    )
    return re.sub(r"\n{3,}", "\n\n", text)  # where a part is empty


def _about(results: Results) -> Iterable[str]:
    about = results.about
    yield table_row(["command", f"`{about['command']}`"])
    for name in ("machine", "date", "versions", "load"):
        yield table_row([name, about[name]])
    yield table_row(["it took", f"{about['minutes']} minutes"])
    measurements = [row.measurement for rows in results.sides.values() for row in rows if row.measurement]
    late = sum(map(_waited, measurements))
    if late:
        yield table_row(
            ["caution", f"in {late} of {len(measurements)} measurements the method waited for the processor"]
        )


def _waited(measurement: Measurement) -> bool:
    """Whether a method in this process had to wait for the processor."""
    here = math.isfinite(measurement.processor) and not measurement.elsewhere
    return here and measurement.processor < _BUSY * measurement.seconds


# -- side by side -----------------------------------------------------------------------------------------------------


def _summary(sides: Mapping[str, Side], rows: Mapping[str, Sequence[Row]]) -> str:
    """Return a table with one case of every protocol: the first one with a measurement of the protocol."""
    lines = [
        "\n## In one table\n",
        "One data set of every protocol. The other data sets, and more about each method, are below.\n",
        *table_head(["", "method", "", "s", "rounds", "to sites", "from sites", "peak"]),
    ]
    for protocol, side in sides.items():
        cases = [case for case in side.cases if _of(rows[protocol], case, side.methods[0]).measurement]
        if not cases:
            lines.append(table_row([f"**{protocol}**", "*no data set is available*", *[""] * 6]))
            continue
        head = f"**{protocol}**, {cases[0].name}"
        for method in side.methods:
            row, metric = _of(rows[protocol], cases[0], method), side.metrics[0]
            measurement = row.measurement
            if measurement is None:
                lines.append(table_row([head, _name(method), f"*{row.problem}*", *[""] * 5]))
            else:
                accuracy = f"{metric.heading} {_value(metric, measurement)}"
                costs = [format_seconds(measurement.seconds), *_traffic(measurement), format_size(measurement.peak)]
                lines.append(table_row([head, _name(method), accuracy, *costs]))
            head = ""
    return "\n".join(lines) + "\n"


def _side(side: Side, rows: Sequence[Row]) -> str:
    lines = [f"\n## {side.protocol}\n", f"{side.task}\n"]
    for case in side.cases:
        if any(row.case == case.name for row in rows):
            lines += _case(side, case, rows)
    if side.notes:
        lines += [f"{side.notes}\n"]
    return "\n".join(lines)


def _case(side: Side, case: Case, rows: Sequence[Row]) -> Iterable[str]:
    """Yield the table of a case, and what follows from its numbers."""
    of_case = {method.name: _of(rows, case, method) for method in side.methods}
    measurements = [row.measurement for row in of_case.values() if row.measurement]
    yield f"### {side.protocol}: {case.name}\n"
    if not measurements:
        problems = dict.fromkeys(row.problem for row in of_case.values())
        yield f"{case.about}. Left out: {'; '.join(problems)}.\n"
        return
    seeds = max(each.seeds for each in measurements)
    yield f"{case.about}; {seeds} draw{'s' if seeds > 1 else ''}.\n"
    costs = ["s", "of which center", "slowest site", "rounds", "to sites", "from sites", "peak"]
    headings = [_heading(metric) for metric in side.metrics]
    yield from table_head(["method", "what leaves a site", *headings, *costs])
    best = {metric.name: _best(metric, measurements) for metric in side.metrics}
    for method in side.methods:
        row = of_case[method.name]
        if row.measurement is None:
            yield table_row([_name(method), f"*{row.problem}*", *[""] * (len(headings) + len(costs))])
            continue
        values = [_marked(metric, row.measurement, best[metric.name]) for metric in side.metrics]
        seconds = [format_seconds(getattr(row.measurement, name)) for name in ("seconds", "center", "slowest")]
        peak = format_size(row.measurement.peak)
        yield table_row([_name(method), method.leaves, *values, *seconds, *_traffic(row.measurement), peak])
    yield f"\n{verdict(side, of_case)}\n"


def verdict(side: Side, rows: Mapping[str, Row]) -> str:
    """Return the rank of consilience on a case by the first metric, in sentences that follow from the numbers alone.

    Parameters
    ----------
    side : Side
        The comparison; its first method is the protocol with default settings.
    rows : Mapping
        Rows of the case, by the names of methods.
    """
    metric, own = side.metrics[0], side.methods[0]
    ours = rows[own.name].measurement
    if ours is None or not metric.better:
        return f"{own.name} has no result here."
    peers = [(method.name, rows[method.name].measurement) for method in side.methods if not method.ours]
    sentences = [
        _against(
            metric, own.name, ours, "the methods that leave the rows where they are", _select(peers, pooled=False)
        ),
        _against(metric, own.name, ours, "the methods that have all rows in one place", _select(peers, pooled=True)),
    ]
    return " ".join(filter(None, sentences)) or "There is nothing here to compare with."


def _select(peers: Sequence[tuple[str, Measurement | None]], *, pooled: bool) -> list[tuple[str, Measurement]]:
    return [(name, measurement) for name, measurement in peers if measurement and measurement.pooled is pooled]


def _against(metric: Metric, name: str, ours: Measurement, group: str, peers: Sequence[tuple[str, Measurement]]) -> str:
    """Return a sentence on consilience and the best method of a group."""
    if not peers or metric.name not in ours.metrics:
        return ""
    of_peers = [(other, measurement) for other, measurement in peers if metric.name in measurement.metrics]
    if not of_peers:
        return ""
    other, best = min(of_peers, key=lambda each: _distance(metric, each[1]))
    own, theirs = ours.metrics[metric.name], best.metrics[metric.name]
    other = f'"{other}"'
    values = f"{metric.heading} {format_number(own, metric.digits)}, {other} {format_number(theirs, metric.digits)}"
    error = math.hypot(*(each.metrics.get(f"{metric.name}_se", math.nan) for each in (ours, best)))
    better = _distance(metric, ours) < _distance(metric, best)
    who = "that one" if len(of_peers) == 1 else "the best"
    where = f"Of {group}" if len(of_peers) > 1 else f"There is one of {group}, {other}"
    link = "," if len(of_peers) > 1 else ":"
    if math.isclose(own, theirs, rel_tol=1e-9):
        return f"{where}{link} {who} does as well as {name} ({values})."
    ratio = (
        f", {format_number(100 * abs(own / theirs - 1), 2)} % {'more' if own > theirs else 'less'}"
        if theirs > 0 and own > 0
        else ""
    )
    doubt = math.isfinite(error) and abs(own - theirs) <= _ERRORS * error
    numbers = f"{values}{ratio}{'; the difference is not significant over the draws' if doubt else ''}"
    return f"{where}{link} {name} is {'ahead of' if better else 'behind'} {who} ({numbers})."


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


def _traffic(measurement: Measurement) -> list[str]:
    to_sites, from_sites = format_size(measurement.to_sites), format_size(measurement.from_sites)
    return [f"{measurement.rounds:.3g}", to_sites, from_sites]


# -- growth -----------------------------------------------------------------------------------------------------------


def _growth(results: Results) -> str:
    lines = [
        "\n## Growth\n",
        "Exponents of the growth of costs, from the tables below: 1 is proportional, 0 constant.\n",
        *table_head(["", "grows", *_COST_HEADINGS]),
    ]
    last = ""
    for curve in results.growth:
        head, last = f"**{curve.protocol}**" if curve.protocol != last else "", curve.protocol
        lines.append(table_row([head, _axis(curve.protocol, curve.axis), *_exponents(curve)]))
    for axis, problem in results.problems.items():
        lines.append(table_row([f"**{axis}**", f"*{problem}*", *[""] * len(COSTS)]))
    for protocol in dict.fromkeys(each.protocol for each in results.growth):
        lines += [f"\n### Growth: {protocol}\n", f"Synthetic data: {WORLDS[protocol].about}.\n"]
        lines += table_head(["sites", "rows", *_COST_HEADINGS])
        for curve in results.growth:
            if curve.protocol == protocol:
                lines += _points(curve)
    return "\n".join(lines) + "\n"


def _points(curve: Curve) -> Iterable[str]:
    yield table_row([f"*{_axis(curve.protocol, curve.axis)}*", *[""] * (1 + len(COSTS))])
    for each in curve.points:
        seconds = [format_seconds(value) for value in (each.center, each.slowest, each.all)]
        traffic = [format_size(each.to_sites), format_size(each.from_sites), str(each.rounds)]
        yield table_row([f"{each.sites:,}", f"{each.rows:,}", *seconds, *traffic, format_size(each.peak)])
    for sites, rows, predicted in curve.omitted[:1]:
        more = f", and {len(curve.omitted) - 1} larger" if len(curve.omitted) > 1 else ""
        prediction = f"*left out{more}: {format_seconds(predicted)} s predicted*"
        yield table_row([f"{sites:,}", f"{rows:,}", prediction, *[""] * (len(COSTS) - 1)])
    yield table_row(["exponent", "", *_exponents(curve)])


def _exponents(curve: Curve) -> list[str]:
    cells = []
    for cost in COSTS:
        slope, error = exponent(curve.sizes, [getattr(each, cost) for each in curve.points])
        spread = f" ± {error:.2f}" if math.isfinite(error) else ""
        cells.append(f"{slope + 0.0:.2f}{spread}".replace("-0.00", "0.00") if math.isfinite(slope) else "")
    return cells


def _axis(protocol: str, axis: str) -> str:
    by_columns = not WORLDS[protocol].rows_a_site
    return _AXES[axis].format(what="columns" if by_columns else "rows")
