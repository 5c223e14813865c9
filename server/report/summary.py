"""Summary of a run: totals of the ledger, and the report as text for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from server.report.data import Report
from server.report.formatting import columns, folded, human_bytes, human_seconds, printable
from server.report.headline import answer, first_metrics
from server.report.influence import sentence
from server.report.missing_sites import reasons
from server.report.verdict import verdict

_MOST_SITES = 10


def metric_names(report: Report) -> list[str]:
    """Return the names of metrics and published figures: those of the answer first, the others by name."""
    names = {*folded(report.metrics), *folded(report.published)}
    first = first_metrics(report)
    return [*first, *sorted(names.difference(first))]


def metric_rows(report: Report) -> list[list[str]]:
    """Return name, value and published figure of every metric."""
    own, published = folded(report.metrics), folded(report.published)
    width = len(metric_columns(report))
    return [[name, own.get(name, ""), published.get(name, "")][:width] for name in metric_names(report)]


def metric_columns(report: Report) -> tuple[str, ...]:
    """Return the headings of `metric_rows`; published figures have a column if there are any."""
    return ("metric", "this run", "published") if report.published else ("metric", "this run")


def ledger_summary(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals of what crossed the wire.

    Parameters
    ----------
    lines : Iterable of Mapping
        Lines of the ledger, one per payload: ``round``, ``direction`` (``"to_site"`` or ``"from_site"``), ``site``,
        ``payload``, ``fields`` {name: {``shape``, ``dtype``, ``bytes``}} and ``bytes``. A field with several arrays has
        a list of their shapes.

    Returns
    -------
    dict
        ``messages`` (distinct round, direction and site), ``bytes_to_sites``, ``bytes_from_sites``, ``by_payload``
        {payload: {direction, messages, bytes, fields {name: {all dtypes, first shape, total bytes}}}} and ``by_site``
        {site: {bytes_to, bytes_from, payloads {payload: bytes both ways}}}, sites sorted by name, payloads in the order
        in which they first crossed. A payload that crossed both ways has the direction ``"both"``.
    """
    messages = set()
    totals = {"to_site": 0, "from_site": 0}
    payloads: dict[str, dict[str, Any]] = {}
    first: dict[str, tuple[int, bool, str]] = {}
    sites: dict[str, dict[str, Any]] = {}
    for line in lines:
        direction, size = line["direction"], line["bytes"]
        messages.add((line["round"], direction, line["site"]))
        totals[direction] += size
        site = sites.setdefault(line["site"], {"bytes_to": 0, "bytes_from": 0, "payloads": {}})
        site["bytes_to" if direction == "to_site" else "bytes_from"] += size
        site["payloads"][line["payload"]] = site["payloads"].get(line["payload"], 0) + size
        payload = payloads.setdefault(
            line["payload"], {"direction": direction, "messages": 0, "bytes": 0, "fields": {}}
        )
        when = (line["round"], direction != "to_site", line["payload"])
        first[line["payload"]] = min(first.get(line["payload"], when), when)
        payload["direction"] = direction if payload["direction"] == direction else "both"
        payload["messages"] += 1
        payload["bytes"] += size
        for name, each in line["fields"].items():
            total = payload["fields"].setdefault(
                name, {"dtype": each["dtype"], "shape": list(each["shape"]), "bytes": 0}
            )
            if each["dtype"] not in total["dtype"].split(" and "):
                total["dtype"] += f" and {each['dtype']}"
            total["bytes"] += each["bytes"]
    for site in sites.values():
        site["payloads"] = {name: site["payloads"][name] for name in sorted(site["payloads"], key=first.__getitem__)}
    return {
        "messages": len(messages),
        "bytes_to_sites": totals["to_site"],
        "bytes_from_sites": totals["from_site"],
        "by_payload": {name: payloads[name] for name in sorted(payloads, key=first.__getitem__)},
        "by_site": dict(sorted(sites.items())),
    }


def render_table(report: Report, printed: Collection[str] = ()) -> str:
    """Return the report as plain text for a terminal: verdict, answer, metrics and published figures, table, cost.

    Notes that are `printed` already are left out.
    """
    ledger = report.ledger
    sites = [printable(name) for name in report.sites[:_MOST_SITES]]
    if len(report.sites) > _MOST_SITES:
        sites.append(f"and {len(report.sites) - _MOST_SITES} more")
    cost = [
        ["sites", f"{len(report.sites)}: {', '.join(sites)}"],
        ["rounds", str(report.rounds)],
        ["to sites", human_bytes(ledger.get("bytes_to_sites", 0))],
        ["from sites", human_bytes(ledger.get("bytes_from_sites", 0))],
        ["time", human_seconds(report.seconds)],
    ]
    cost += [
        [f"missing {printable(name)}", printable("; ".join(reasons(events)))]
        for name, events in sorted(report.missing.items())
    ]
    if influence := sentence(report):
        cost.append(["influence", printable(influence)])
    notes = [note for note in report.notes if note not in printed]
    cost += [[f"note {place}", printable(note)] for place, note in enumerate(notes, 1)]
    title = f"{report.scenario} (protocol {report.protocol}, seed {report.seed})"
    decided = verdict(report)
    decision = [f"Should a site join? {decided}"] if decided.words else []
    decision += [f"{decided.heading}: {each}" for each in decided.warnings]
    parts = [printable(title), "\n".join(map(printable, decision)), printable(answer(report))]
    parts = [part for part in parts if part]
    if metrics := metric_rows(report):
        parts.append(align([metric_columns(report), *metrics]))
    if report.table:
        rows = [folded(row) for row in report.table]
        names = columns(rows)
        parts.append(align([names, *([row.get(name, "") for name in names] for row in rows)]))
    return "\n\n".join([*parts, align(cost)]) + "\n"


def align(rows: Iterable[Iterable[str]]) -> str:
    """Return rows of equally many cells as text, with columns as wide as their widest cell.

    Examples
    --------
    >>> print(align([["k", "cost"], ["10", "1.5"]]))
    k   cost
    10  1.5
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
