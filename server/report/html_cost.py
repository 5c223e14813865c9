"""The cost of a run on its page: messages, rounds, and sites that did not answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from server.report.data import Report
from server.report.formatting import columns, counted, human_bytes, human_seconds, number
from server.report.glossary import measure_words, payload_words
from server.report.markup import (
    Html,
    bullets,
    joined,
    named,
    paragraph,
    table,
    text,
)
from server.report.missing_sites import reasons, remedy

_DIRECTIONS = {"to_site": "to sites", "from_site": "from sites", "both": "both ways"}
_SHARED_COLUMNS = ("round", "seconds", "sites", "bytes_to_sites", "bytes_from_sites")
"""Columns that the table of rounds has for every protocol."""
_MOST_ROUNDS = 100
_MOST_SHAPES = 8
_MOST_REASONS = 20
"""Listed events of one site."""


def wire(report: Report) -> Html:
    """Return the messages of the run, by payload and by site."""
    ledger = report.ledger
    if not ledger.get("messages"):
        return paragraph("Nothing: no message was recorded.")
    total = (
        f"{counted(ledger['messages'], 'message')}: {human_bytes(ledger['bytes_to_sites'])} to the sites, "
        f"{human_bytes(ledger['bytes_from_sites'])} from them. "
        "The file ledger.jsonl beside this page lists every payload, with the shape and type of each array in it."
    )
    payloads = [
        [
            named(payload_words(name), name),
            _DIRECTIONS.get(each["direction"], each["direction"]),
            f"{each['messages']:,}",
            human_bytes(each["bytes"]),
            _fields(each["fields"]),
        ]
        for name, each in ledger.get("by_payload", {}).items()
    ]
    header = ("content", "direction", "count", "bytes", "fields: type and shape in the first message, bytes in all")
    return joined([paragraph(total), table("By payload", header, payloads), _by_site(report)])


def _by_site(report: Report) -> Html:
    """Return one row a site, with a column for every payload; the table scrolls if there are many rows."""
    # Sites without any message have a row, too.
    nothing: dict[str, Any] = {"bytes_to": 0, "bytes_from": 0}
    by_site = {**dict.fromkeys(report.sites, nothing), **report.ledger.get("by_site", {})}
    present = {name for each in by_site.values() for name in each.get("payloads", {})}
    names = [name for name in report.ledger.get("by_payload", {}) if name in present]
    rows = [
        [
            site,
            human_bytes(each["bytes_to"]),
            human_bytes(each["bytes_from"]),
            *(human_bytes(sizes[name]) if name in sizes else "" for name in names),
        ]
        for site, each in by_site.items()
        for sizes in (each.get("payloads", {}),)
    ]
    short = [name.rpartition(".")[2] for name in names]
    header = ["site", "to it", "from it", *(names if len(set(short)) < len(short) else short)]
    title = "By site and payload" if names else "By site"
    return table(title, header, rows, tall=len(rows) > 20, where="report.json") if rows else Html()


_SPLIT = re.compile(r" (?=×|[kMGT]?B$)|(?<=×) ")
"""Blanks within a shape or a size."""


def _fields(fields: Mapping[str, Mapping[str, Any]]) -> Html:
    listed = "; ".join(_field(name, facts) for name, facts in fields.items())
    return Html(f'<span class="wide fields">{listed}</span>' if listed else "")


def _field(name: str, facts: Mapping[str, Any]) -> str:
    shape = f" {_shape(facts['shape'])}" if facts["shape"] else ""
    kind = f"{facts['dtype']}{shape}, {human_bytes(facts['bytes'])}"
    return f"<b>{text(name)}</b>: {_SPLIT.sub('&nbsp;', text(kind))}"


def _shape(shape: Sequence[Any]) -> str:
    """Return a shape as ``(3 × 4)``; for a field with several arrays, the shapes of the first ones."""
    if any(isinstance(each, Sequence) for each in shape):
        first = [_shape(each) for each in shape[:_MOST_SHAPES]]
        return ", ".join([*first, *([f"and {len(shape) - _MOST_SHAPES} more"] if len(shape) > _MOST_SHAPES else [])])
    return f"({' × '.join(map(str, shape)) or 'a single value'})"


def rounds(report: Report) -> Html:
    """Return the rounds with their times, bytes and measures; nothing if none were recorded."""
    if not report.convergence:
        return Html()
    names = columns(report.convergence)
    measures = [name for name in names if name not in _SHARED_COLUMNS]
    shared = [name for name in _SHARED_COLUMNS if name in names]
    headings = {"seconds": "time", "bytes_to_sites": "to sites", "bytes_from_sites": "from sites"}
    header = [*(headings.get(name, name) for name in shared), *(name.replace("_", " ") for name in measures)]
    rows = [[_measure(name, row.get(name)) for name in (*shared, *measures)] for row in report.convergence]
    words = {name: measure_words(report.protocol, name) for name in measures}
    return joined(
        [
            paragraph(_round_summary(report)),
            table("Every round", header, rows, tall=len(rows) > 12, where="report.json", most=_MOST_ROUNDS),
            bullets(f"{name.replace('_', ' ')}: {text}" for name, text in words.items() if text),
        ]
    )


def _measure(name: str, value: object) -> str:
    """Return a cell of the table of rounds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name == "seconds":
            return human_seconds(float(value))
        if name.startswith("bytes"):
            return human_bytes(value)
        if name == "bound":
            return f"{value:.10g}"  # a converging bound changes in its last digits
    return number(value)


def _round_summary(report: Report) -> str:
    timed = [row for row in report.convergence if isinstance(row.get("seconds"), int | float)]
    total = f"{counted(report.rounds, 'round')} in {human_seconds(report.seconds)} in all"
    if len(timed) < 2:
        return f"{total}."
    slowest = max(timed, key=lambda row: row["seconds"])
    middle = sorted(row["seconds"] for row in timed)[len(timed) // 2]
    return (
        f"{total}; half of the rounds took {human_seconds(middle)} or less, the slowest, round {slowest['round']},"
        f" {human_seconds(slowest['seconds'])}. A round's time runs from its first ask to its last answer."
    )


def missing(report: Report) -> Html:
    """Return the sites that did not answer, with the reasons."""
    if not report.missing:
        return paragraph("None: every site answered in every round.")
    rows = []
    for name, events in sorted(report.missing.items()):
        known = reasons(events)
        more = len(known) - _MOST_REASONS
        text = "; ".join([*known[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])])
        todo = remedy(events)
        rows.append([name, f"{text}. {todo[0].upper()}{todo[1:]}." if todo else text])
    header = ("site", "what happened, and what to do")
    return table("Sites that did not answer, or failed", header, rows, where="report.json")
