"""A run's report for its readers: the page that it leaves, and the table for the terminal."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from server.figures import alt_text, figures

if TYPE_CHECKING:
    from server.results import Report

__all__ = [
    "answer",
    "columns",
    "figures",
    "folded",
    "human_bytes",
    "human_seconds",
    "ledger_summary",
    "metric_rows",
    "printable",
    "render_table",
    "report_html",
]

_SHOWN_SITES = 10


class _Answer(NamedTuple):
    """What a run can answer with: a metric and how it is said, what it is held against, and what is said with it."""

    metric: str
    what: str
    rivals: Mapping[str, str] = {}
    beside: Mapping[str, str] = {}


_ANSWERS: dict[str, tuple[_Answer, ...]] = {
    "bc3e": (
        _Answer(
            "accuracy",
            "an accuracy",
            {"accuracy_majority": "by majority vote", "accuracy_best_component": "by the best single component"},
        ),
        _Answer("bound", "a bound on the log-likelihood"),
    ),
    "sec": (
        _Answer(
            "mse_cluster",
            "a mean squared error",
            {"mse_alone": "with every learner alone", "mse_all": "with all learners together"},
        ),
        _Answer("n_clusters", "a number of clusters"),
    ),
    "residual": (
        _Answer(
            "test_mse",
            "a mean squared error on test rows",
            {"mse_average": "by the mean of the agents alone", "mse_centralized": "by boosting the pooled columns"},
        ),
        _Answer("train_mse", "a mean squared error on training rows"),
        _Answer("n_predicted", "a number of predictions"),
    ),
    "coreset": (_Answer("cost", "a fair clustering cost", {"cost_unfair": "without the bounds of fairness"}),),
    "gp": (
        _Answer(
            "smse",
            "a standardised mean squared error",
            {"smse_full": "by one Gaussian process of all rows"},
            {"msll": "mean standardised log loss", "coverage_95": "share of outputs in their 95 % intervals"},
        ),
        _Answer("n_queries", "a number of predictions"),
        _Answer("log_likelihood", "a log likelihood per row"),
    ),
}
"""By protocol, what can be its answer, best first."""


def printable(text: str) -> str:
    """`text` on one line, with control characters spelled out: a site's name must not steer the reader's terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def number(value: object) -> str:
    """A number to six significant digits; anything else as text, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return printable(str(value))


def with_error(value: float, error: float) -> str:
    """A number and its standard error, to one digit of the error (two where that digit is 1): ``0.942 ± 0.004``."""
    mantissa, exponent = f"{error:.1e}".split("e")
    decimals = (2 if mantissa[0] == "1" else 1) - 1 - int(exponent)
    if not error > 0 or decimals > 9:
        return f"{number(value)} ± {number(error)}"
    return f"{value:.{max(0, decimals)}f} ± {error:.{max(0, decimals)}f}"


def folded(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, with the standard error ``x_se`` set beside its ``x``."""
    shown = {}
    for name, value in values.items():
        error = values.get(f"{name}_se")
        if name.endswith("_se") and values.get(name.removesuffix("_se")) is not None:
            continue
        both = isinstance(value, int | float) and isinstance(error, int | float)
        shown[name] = with_error(float(value), float(error)) if both else number(value)  # type: ignore[arg-type]
    return shown


def human_bytes(count: int) -> str:
    """Bytes in decimal units: ``345 B``, ``1.2 kB``."""
    if count < 1000:
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


def human_seconds(seconds: float) -> str:
    """A duration: ``12.3 s``, ``2 min 5 s``, ``1 h 2 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of all columns of `rows`, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def metric_rows(report: Report) -> list[list[str]]:
    """Name, this run's value and the published one: what the answer speaks of first, the others by name."""
    here, published = folded(report.metrics), folded(report.published)
    answers = _ANSWERS.get(report.protocol, ())
    first = [name for each in answers for name in (each.metric, *each.rivals, *each.beside)]
    names = [name for name in first if name in here]
    names += [name for name in sorted({*here, *published}) if name not in names]
    return [[name, here.get(name, ""), published.get(name, "")][: len(metric_columns(report))] for name in names]


def metric_columns(report: Report) -> tuple[str, ...]:
    """Headings of `metric_rows`: the paper's figures have a column where there are any."""
    return ("metric", "this run", "published") if report.published else ("metric", "this run")


def answer(report: Report) -> str:
    """One sentence: the run's main number and what to hold it against."""
    who = f"{'Together, ' if len(report.sites) > 1 else ''}{_count(len(report.sites), 'site')}"
    rounds = _count(report.rounds, "round")
    here, published = folded(report.metrics), folded(report.published)
    choices = [each for each in _ANSWERS.get(report.protocol, ()) if each.metric in here]
    if not choices and not here:
        return f"{who} finished {rounds}; there was nothing to measure."
    metric, what, rivals, beside = choices[0] if choices else _Answer(min(here), f"a value of {min(here)}")
    over = f", on average over the {here['n_cells']} rows of the table," if report.metrics.get("n_cells", 1) > 1 else ""
    sentence = f"{who} reached {what} of {here[metric]}{over} in {rounds}"
    if against := [f"{here[name]} {words}" for name, words in rivals.items() if name in here]:
        sentence += f", against {' and '.join(against)}"
    if metric in published:
        sentence += f"; the paper reports {published[metric]}"
    if more := [f"{words} {here[name]}" for name, words in beside.items() if name in here]:
        sentence += f"; {', '.join(more)}"
    return f"{sentence}."


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def ledger_summary(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum up what crossed the wire.

    Parameters
    ----------
    lines : Iterable of Mapping
        One per payload: ``round``, ``direction`` (``"to_site"`` or ``"from_site"``), ``site``, ``payload``,
        ``fields`` {name: {``shape``, ``dtype``, ``bytes``}} and ``bytes``. A field that holds several arrays has a list
        of their shapes.

    Returns
    -------
    dict
        ``messages`` (distinct round, direction and site), ``bytes_to_sites``, ``bytes_from_sites``, ``by_payload``
        {payload: {direction, messages, bytes, fields {name: {every dtype, shape of the first, bytes in all}}}} and
        ``by_site`` {site: {bytes_to, bytes_from}}, both ordered by name. The direction of a payload that crossed both
        ways is ``"both"``.
    """
    messages = set()
    totals = {"to_site": 0, "from_site": 0}
    payloads: dict[str, dict[str, Any]] = {}
    sites: dict[str, dict[str, int]] = {}
    for line in lines:
        direction, size = line["direction"], line["bytes"]
        messages.add((line["round"], direction, line["site"]))
        totals[direction] += size
        site = sites.setdefault(line["site"], {"bytes_to": 0, "bytes_from": 0})
        site["bytes_to" if direction == "to_site" else "bytes_from"] += size
        payload = payloads.setdefault(
            line["payload"], {"direction": direction, "messages": 0, "bytes": 0, "fields": {}}
        )
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
    return {
        "messages": len(messages),
        "bytes_to_sites": totals["to_site"],
        "bytes_from_sites": totals["from_site"],
        "by_payload": dict(sorted(payloads.items())),
        "by_site": dict(sorted(sites.items())),
    }


def render_table(report: Report) -> str:
    """The result as plain text for a terminal: the answer, metrics beside published ones, table rows, and the cost."""
    ledger = report.ledger
    sites = [printable(name) for name in report.sites[:_SHOWN_SITES]]
    if len(report.sites) > _SHOWN_SITES:
        sites.append(f"and {len(report.sites) - _SHOWN_SITES} more")
    cost = [
        ["sites", f"{len(report.sites)}: {', '.join(sites)}"],
        ["rounds", str(report.rounds)],
        ["to sites", human_bytes(ledger.get("bytes_to_sites", 0))],
        ["from sites", human_bytes(ledger.get("bytes_from_sites", 0))],
        ["time", human_seconds(report.seconds)],
    ]
    cost += [
        [f"missing {printable(name)}", printable("; ".join(events))] for name, events in sorted(report.missing.items())
    ]
    cost += [[f"note {place}", printable(note)] for place, note in enumerate(report.notes, 1)]
    title = f"{report.scenario} (protocol {report.protocol}, seed {report.seed})"
    parts = [printable(title), printable(answer(report))]
    if metrics := metric_rows(report):
        parts.append(_aligned([metric_columns(report), *metrics]))
    if report.table:
        rows = [folded(row) for row in report.table]
        names = columns(rows)
        parts.append(_aligned([names, *([row.get(name, "") for name in names] for row in rows)]))
    return "\n\n".join([*parts, _aligned(cost)]) + "\n"


def _aligned(rows: Iterable[Iterable[str]]) -> str:
    """Rows of equally many cells with every column as wide as its widest cell."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def report_html(report: Report, figures: Mapping[str, bytes]) -> str:
    """One self-contained page: no script, nothing from the network, every value escaped.

    Parameters
    ----------
    report : Report
    figures : Mapping[str, bytes]
        PNG images by name.

    Returns
    -------
    str
        The page as HTML text.
    """
    sections = [
        _section("Result", _results(report)),
        _section("Notes", _notes(report)),
        _section("Figures", "".join(_figure(report, name, image) for name, image in figures.items())),
        _section("What crossed the wire", _wire(report)),
        _section("Rounds", _rounds(report)),
        _section("Missing parties", _missing(report)),
        _section("Configuration", _pairs("Run configuration", ("key", "value"), report.config)),
        _section("Versions", _pairs("Versions of the software", ("package", "version"), report.versions)),
        _section("How to repeat this run", _command(report)),
    ]
    title = _text(f"{report.scenario}: a run of {report.protocol}")
    facts = (
        f"Scenario {report.scenario}, protocol {report.protocol}, seed {report.seed}, "
        f"{_count(len(report.sites), 'site')}, {_count(report.rounds, 'round')}, {human_seconds(report.seconds)}."
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        f"style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{title}</h1>\n<p class="answer">{_text(answer(report))}</p>\n<p>{_text(facts)}</p>\n</header>\n'
        f"<main>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


class _Html(str):
    """Text that is HTML already; all other text is escaped on its way into the page."""

    __slots__ = ()


def _text(value: object) -> str:
    return value if isinstance(value, _Html) else html.escape(number(value))


_NUMERIC = re.compile(r"-?\d[\d.e+-]*( ± [\d.e+-]+| [kMGT]?B| s)?$")


def _table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], *, tall: bool = False) -> str:
    """A table whose first column names its rows, in a box of its own that scrolls when the page is too narrow."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in header)
    body = []
    for row in rows:
        texts = [_text(cell) for cell in row]
        cells = "".join(
            f'<td class="n">{text}</td>' if _NUMERIC.match(text) else f"<td>{text}</td>" for text in texts[1:]
        )
        body.append(f'<tr><th scope="row">{texts[0]}</th>{cells}</tr>\n')
    return (
        f'<div class="box{" tall" if tall else ""}" role="region" tabindex="0" aria-label="{_text(caption)}">\n'
        f"<table>\n<caption>{_text(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{''.join(body)}</tbody>\n</table>\n</div>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{_text(title)}</h2>\n{content}</section>\n" if content else ""


def _pairs(caption: str, header: tuple[str, str], values: Mapping[str, object]) -> str:
    return _table(caption, header, sorted(values.items())) if values else ""


def _results(report: Report) -> str:
    parts = []
    if rows := metric_rows(report):
        caption = "Metrics of this run (± standard error)" + (" beside the published ones" if report.published else "")
        parts.append(_table(caption, metric_columns(report), rows))
    if report.table:
        rows_shown = [folded(row) for row in report.table]
        names = columns(rows_shown)
        parts.append(_table("Result table", names, [[row.get(name) for name in names] for row in rows_shown]))
    return "".join(parts)


def _notes(report: Report) -> str:
    items = "".join(f"<li>{_text(note)}</li>\n" for note in report.notes)
    return f"<ul>\n{items}</ul>\n" if items else ""


def _figure(report: Report, name: str, image: bytes) -> str:
    words = _text(alt_text(report, name))
    data = base64.b64encode(image).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{data}" alt="{words}"><figcaption>{words}</figcaption></figure>\n'


_DIRECTIONS = {"to_site": "to sites", "from_site": "from sites", "both": "both ways"}


def _wire(report: Report) -> str:
    ledger = report.ledger
    if not ledger.get("messages"):
        return "<p>Nothing: no message was recorded.</p>\n"
    total = (
        f"{_count(ledger['messages'], 'message')}: {human_bytes(ledger['bytes_to_sites'])} to the sites, "
        f"{human_bytes(ledger['bytes_from_sites'])} from them. "
        "The file ledger.jsonl beside this page lists every payload."
    )
    payloads = [
        [
            name,
            _DIRECTIONS.get(each["direction"], each["direction"]),
            each["messages"],
            human_bytes(each["bytes"]),
            _Html("".join(_field(field, facts) for field, facts in each["fields"].items())),
        ]
        for name, each in ledger.get("by_payload", {}).items()
    ]
    # A site that never got or sent a message belongs in the table too.
    by_site = {**{name: {"bytes_to": 0, "bytes_from": 0} for name in report.sites}, **ledger.get("by_site", {})}
    sites = [[name, human_bytes(each["bytes_to"]), human_bytes(each["bytes_from"])] for name, each in by_site.items()]
    return (
        f"<p>{_text(total)}</p>\n"
        + _table("By payload", ("payload", "direction", "count", "bytes", "fields (shape in the first one)"), payloads)
        + _table("By site", ("site", "to it", "from it"), sites)
    )


def _field(name: str, facts: Mapping[str, Any]) -> str:
    kind = _text(f"{facts['dtype']} {_shape(facts['shape'])}, {human_bytes(facts['bytes'])} in all")
    return f'<div class="field"><b>{_text(name)}</b>: {kind}</div>'


def _shape(shape: Sequence[Any]) -> str:
    """``(3 × 4)``; of a field that holds several arrays, every one's shape."""
    if any(isinstance(each, Sequence) for each in shape):
        return ", ".join(map(_shape, shape))
    return f"({' × '.join(map(str, shape)) or 'a single value'})"


def _rounds(report: Report) -> str:
    names = columns(report.convergence)
    names.sort(key=lambda name: name != "round")
    # More digits than elsewhere: a bound that converges changes in its last ones.
    rows = [
        [f"{row[name]:.10g}" if isinstance(row.get(name), float) else row.get(name) for name in names]
        for row in report.convergence
    ]
    return _table("Measures by round", names, rows, tall=True) if rows else ""


def _missing(report: Report) -> str:
    if not report.missing:
        return "<p>None: every site answered in every round.</p>\n"
    rows = [[name, "; ".join(events)] for name, events in sorted(report.missing.items())]
    return _table("Sites that did not answer, or failed", ("site", "what happened"), rows)


def _command(report: Report) -> str:
    return f"<pre><code>{html.escape(report.command)}</code></pre>\n" if report.command else ""


_STYLE = """
:root { --ink: #1a1a1a; --paper: #ffffff; --line: #c8c8c8; --soft: #f3f4f6; --mark: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #15181c; --line: #454b52; --soft: #20252b; --mark: #7cbcf5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.answer { font-size: 1.15rem; border-left: .25rem solid var(--mark); padding-left: .75rem; }
.box { overflow-x: auto; margin: 0 0 1rem; } .tall { max-height: 26rem; overflow-y: auto; }
.box:focus-visible { outline: 2px solid var(--mark); }
table { border-collapse: collapse; min-width: 18rem; overflow-wrap: normal; }
caption { text-align: left; padding: .25rem 0; font-weight: 600; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; }
thead th { background: var(--soft); } tbody th { font-weight: normal; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.field { white-space: nowrap; } figure { margin: 0 0 1rem; }
img { max-width: 100%; height: auto; background: #ffffff; } figcaption { font-size: .9rem; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; }
@media print {
  :root { --ink: #000000; --paper: #ffffff; --line: #999999; --soft: #ffffff; --mark: #000000; }
  body { max-width: none; font-size: 10pt; } .box, .tall, pre { overflow: visible; max-height: none; }
  pre { white-space: pre-wrap; } .field, td.n { white-space: normal; }
  tr, figure { break-inside: avoid; } h2, caption { break-after: avoid; } thead { display: table-header-group; }
}
"""
