"""Writes docs/benchmarks.md: the text of benchmarks/page.md, and tables and sentences that follow from the numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template

from benchmarks.collect import Collected, Row
from benchmarks.growth import COSTS, Grown, exponent
from benchmarks.growth_worlds import WORLDS
from benchmarks.side import Case, Method, Metric, Side
from benchmarks.side.measure import Found, side_of
from benchmarks.tables import number, seconds, size, table_head, table_row

TEMPLATE = Path(__file__).with_name("page.md")
_BUSY = 0.8
"""Share of the processor a method must have had for its seconds to be taken as they are."""
_ERRORS = 2.0
"""Standard errors of a difference within which two methods are not told apart."""
_AXES = {
    "sites": "more sites, the same {what} between them",
    "sites-together": "more sites, each with {what} of its own",
    "rows": "more rows, the same sites",
}
_COST_HEADINGS = ("center s", "slowest site s", "all s", "to sites", "from sites", "rounds", "peak")


def page(collected: Collected) -> str:
    """The page, in Markdown."""
    sides = {protocol: side_of(protocol, collected.quick) for protocol in collected.sides}
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        about="\n".join(_about(collected)),
        trial="\n*A trial on little data, two processes at a time: nothing here is a measurement.*\n"
        if collected.quick
        else "",
        summary=_summary(sides, collected.sides) if sides else "",
        sides="".join(_side(side, collected.sides[protocol]) for protocol, side in sides.items()),
        growth=_growth(collected) if collected.growth or collected.ended else "",
    )
    return re.sub(r"\n{3,}", "\n\n", text)  # where a part is empty


def _about(collected: Collected) -> Iterable[str]:
    about = collected.about
    yield table_row(["command", f"`{about['command']}`"])
    for name in ("machine", "date", "versions", "load"):
        yield table_row([name, about[name]])
    yield table_row(["it took", f"{about['minutes']} minutes"])
    rows = [row for rows in collected.sides.values() for row in rows if row.found]
    late = sum(_waited(row.found) for row in rows if row.found)
    if late:
        yield table_row(["caution", f"in {late} of {len(rows)} measurements the method waited for the processor"])


def _waited(found: Found) -> bool:
    """Whether other work took the processor away; of work in another process only that process knows."""
    here = math.isfinite(found.processor) and not found.elsewhere
    return here and found.processor < _BUSY * found.seconds


# -- side by side -----------------------------------------------------------------------------------------------------


def _summary(sides: Mapping[str, Side], rows: Mapping[str, Sequence[Row]]) -> str:
    """One case of every protocol: the first that ours could be run on."""
    lines = [
        "\n## In one table\n",
        "One data set of every protocol; the others, and more of each method, are below. What left a party: see the"
        " columns of bytes, and in the tables below what they hold.\n",
        *table_head(["", "method", "", "s", "rounds", "to sites", "from sites", "peak"]),
    ]
    for protocol, side in sides.items():
        shown = [case for case in side.cases if _of(rows[protocol], case, side.methods[0]).found]
        if not shown:
            lines.append(table_row([f"**{protocol}**", "*no data set could be had*", *[""] * 6]))
            continue
        head = f"**{protocol}**, {shown[0].name}"
        for method in side.methods:
            row, metric = _of(rows[protocol], shown[0], method), side.metrics[0]
            if row.found is None:
                lines.append(table_row([head, _name(method), f"*{row.problem}*", *[""] * 5]))
            else:
                accuracy = f"{metric.heading} {_value(metric, row.found)}"
                found = row.found
                cells = [seconds(found.seconds), *_crossed(found), size(found.peak)]
                lines.append(table_row([head, _name(method), accuracy, *cells]))
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
    """A table of a case, and what its numbers say."""
    of_case = {method.name: _of(rows, case, method) for method in side.methods}
    found = [row.found for row in of_case.values() if row.found]
    yield f"### {side.protocol}: {case.name}\n"
    if not found:
        problems = dict.fromkeys(row.problem for row in of_case.values())
        yield f"{case.about}. Left out: {'; '.join(problems)}.\n"
        return
    seeds = max(each.seeds for each in found)
    yield f"{case.about}; {seeds} draw{'s' if seeds > 1 else ''}.\n"
    costs = ["s", "of which center", "slowest site", "rounds", "to sites", "from sites", "peak"]
    headings = [_heading(metric) for metric in side.metrics]
    yield from table_head(["method", "what leaves a party", *headings, *costs])
    best = {metric.name: _best(metric, found) for metric in side.metrics}
    for method in side.methods:
        row = of_case[method.name]
        if row.found is None:
            yield table_row([_name(method), f"*{row.problem}*", *[""] * (len(headings) + len(costs))])
            continue
        values = [_marked(metric, row.found, best[metric.name]) for metric in side.metrics]
        spent = [seconds(getattr(row.found, name)) for name in ("seconds", "center", "slowest")]
        yield table_row([_name(method), method.sees, *values, *spent, *_crossed(row.found), size(row.found.peak)])
    yield f"\n{verdict(side, of_case)}\n"


def verdict(side: Side, rows: Mapping[str, Row]) -> str:
    """Where consilience stands on a case by the first metric, in sentences that follow from the numbers alone.

    Parameters
    ----------
    side : Side
        Its first method is ours, as it is by default.
    rows : Mapping
        Of the case, by the names of methods.
    """
    metric, own = side.metrics[0], side.methods[0]
    ours = rows[own.name].found
    if ours is None or not metric.better:
        return f"{own.name} has no result here."
    peers = [
        (method.name, row.found) for method in side.methods if not method.ours and (row := rows[method.name]).found
    ]
    said = [
        _against(metric, own.name, ours, "the methods that leave the rows where they are", _apart(peers, pooled=False)),
        _against(metric, own.name, ours, "the methods that have all rows in one place", _apart(peers, pooled=True)),
    ]
    return " ".join(filter(None, said)) or "There is nothing here to compare with."


def _apart(peers: Sequence[tuple[str, Found | None]], *, pooled: bool) -> list[tuple[str, Found]]:
    return [(name, found) for name, found in peers if found and found.pooled is pooled]


def _against(metric: Metric, name: str, ours: Found, group: str, peers: Sequence[tuple[str, Found]]) -> str:
    """A sentence on ours and the best of a group."""
    if not peers or metric.name not in ours.metrics:
        return ""
    of_peers = [(other, found) for other, found in peers if metric.name in found.metrics]
    if not of_peers:
        return ""
    other, best = min(of_peers, key=lambda each: _distance(metric, each[1]))
    own, theirs = ours.metrics[metric.name], best.metrics[metric.name]
    other = f'"{other}"'
    values = f"{metric.heading} {number(own, metric.digits)}, {other} {number(theirs, metric.digits)}"
    error = math.hypot(*(each.metrics.get(f"{metric.name}_se", math.nan) for each in (ours, best)))
    better = _distance(metric, ours) < _distance(metric, best)
    who = "that one" if len(of_peers) == 1 else "the best"
    where = f"Of {group}" if len(of_peers) > 1 else f"There is one of {group}, {other}"
    link = "," if len(of_peers) > 1 else ":"
    if math.isclose(own, theirs, rel_tol=1e-9):
        return f"{where}{link} {who} does as well as {name} ({values})."
    ratio = (
        f", {number(100 * abs(own / theirs - 1), 2)} % {'more' if own > theirs else 'less'}"
        if theirs > 0 and own > 0
        else ""
    )
    doubt = math.isfinite(error) and abs(own - theirs) <= _ERRORS * error
    told = f"{values}{ratio}{'; the draws do not tell the two apart' if doubt else ''}"
    return f"{where}{link} {name} is {'ahead of' if better else 'behind'} {who} ({told})."


def _of(rows: Sequence[Row], case: Case, method: Method) -> Row:
    matching = (row for row in rows if (row.case, row.method) == (case.name, method.name))
    return next(matching, Row(case.name, method.name, problem="not run"))


def _distance(metric: Metric, found: Found) -> float:
    """How far from good: the smaller the better."""
    value = found.metrics.get(metric.name, math.nan)
    if metric.better.startswith("near"):
        value = abs(value - float(metric.better.split()[1]))
    elif metric.better == "higher":
        value = -value
    return value if math.isfinite(value) else math.inf


def _best(metric: Metric, found: Sequence[Found]) -> float:
    return min((_distance(metric, each) for each in found), default=math.inf) if metric.better else -math.inf


def _marked(metric: Metric, found: Found, best: float) -> str:
    shown = _value(metric, found)
    return f"**{shown}**" if shown and math.isclose(_distance(metric, found), best, rel_tol=1e-9) else shown


def _value(metric: Metric, found: Found) -> str:
    value, error = found.metrics.get(metric.name, math.nan), found.metrics.get(f"{metric.name}_se", math.nan)
    shown = number(value, metric.digits)
    return f"{shown} ± {number(error, 2)}" if shown and error > 0 else shown


def _heading(metric: Metric) -> str:
    return f"{metric.heading} ({metric.better})" if metric.better else metric.heading


def _name(method: Method) -> str:
    return f"**{method.name}**" if method.ours else method.name


def _crossed(found: Found) -> list[str]:
    return [f"{found.rounds:.3g}", size(found.to_sites), size(found.from_sites)]


# -- growth -----------------------------------------------------------------------------------------------------------


def _growth(collected: Collected) -> str:
    lines = [
        "\n## Growth\n",
        "Exponents with which costs grow, from the tables below; 1 is in proportion, 0 not at all.\n",
        *table_head(["", "grows", *_COST_HEADINGS]),
    ]
    last = ""
    for grown in collected.growth:
        head, last = f"**{grown.protocol}**" if grown.protocol != last else "", grown.protocol
        lines.append(table_row([head, _axis(grown.protocol, grown.axis), *_exponents(grown)]))
    for axis, problem in collected.ended.items():
        lines.append(table_row([f"**{axis}**", f"*{problem}*", *[""] * len(COSTS)]))
    for protocol in dict.fromkeys(each.protocol for each in collected.growth):
        lines += [f"\n### Growth: {protocol}\n", f"Made data: {WORLDS[protocol].about}.\n"]
        lines += table_head(["sites", "rows", *_COST_HEADINGS])
        for grown in collected.growth:
            if grown.protocol == protocol:
                lines += _points(grown)
    return "\n".join(lines) + "\n"


def _points(grown: Grown) -> Iterable[str]:
    yield table_row([f"*{_axis(grown.protocol, grown.axis)}*", *[""] * (1 + len(COSTS))])
    for each in grown.points:
        spent = [seconds(value) for value in (each.center, each.slowest, each.all)]
        crossed = [size(each.to_sites), size(each.from_sites), str(each.rounds)]
        yield table_row([f"{each.sites:,}", f"{each.rows:,}", *spent, *crossed, size(each.peak)])
    for sites, rows, predicted in grown.left_out[:1]:
        more = f", and {len(grown.left_out) - 1} larger" if len(grown.left_out) > 1 else ""
        said = f"*left out{more}: {seconds(predicted)} s predicted*"
        yield table_row([f"{sites:,}", f"{rows:,}", said, *[""] * (len(COSTS) - 1)])
    yield table_row(["exponent", "", *_exponents(grown)])


def _exponents(grown: Grown) -> list[str]:
    shown = []
    for cost in COSTS:
        slope, error = exponent(grown.sizes, [getattr(each, cost) for each in grown.points])
        spread = f" ± {error:.2f}" if math.isfinite(error) else ""
        shown.append(f"{slope + 0.0:.2f}{spread}".replace("-0.00", "0.00") if math.isfinite(slope) else "")
    return shown


def _axis(protocol: str, axis: str) -> str:
    by_columns = not WORLDS[protocol].rows_a_site
    return _AXES[axis].format(what="columns" if by_columns else "rows")
