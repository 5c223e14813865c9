"""The page that a run leaves, for a reader who was not there and has not read the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from protocols.settings import declared, run_keys
from server.figures import alt_text, caption
from server.report.commands import broken_over_lines
from server.report.formatting import columns, counted, folded, grouped, human_bytes, human_seconds, number, percent
from server.report.glossary import MEASURES, PAYLOADS, direction, meaning
from server.report.headline import UNCLEAR, answer, comparisons
from server.report.markup import (
    Html,
    bullets,
    code,
    definitions,
    document,
    facts,
    figure,
    folded_away,
    joined,
    named,
    paragraph,
    section,
    small,
    table,
    text,
    unbroken,
)
from server.report.overview import QUESTIONS
from server.report.summary import metric_names

if TYPE_CHECKING:
    from server.figures.wording import Arrays
    from server.results import Report

__all__ = ["report_html"]

_VERDICTS = (
    (
        "the price",
        "A price is the distance to what nobody could choose here: data in one place, clusters that need not be fair,"
        " the best of several known beforehand.",
    ),
    (UNCLEAR, "Within the errors: over the repetitions, the difference is not told from none (t test of pairs, 5 %)."),
)
"""What a verdict begins with, and what it says."""
_DIRECTIONS = {"to_site": "to sites", "from_site": "from sites", "both": "both ways"}
_OF_EVERY_ROUND = ("round", "seconds", "sites", "bytes_to_sites", "bytes_from_sites")
_TOLD_ROUNDS = 100
_TOLD_SHAPES = 8
_TOLD_EVENTS = 20
"""Things that went wrong with one site."""


def report_html(report: Report, figures: Mapping[str, bytes], arrays: Arrays | None = None) -> str:
    """One self-contained page: no script, nothing from the network, every value escaped.

    Parameters
    ----------
    report : Report
    figures : Mapping[str, bytes]
        PNG images by name.
    arrays : Mapping[str, ndarray], optional
        The run's arrays, from which the images' alternative texts tell more numbers.

    Returns
    -------
    str
        The page as HTML text. Tables of more than some hundred rows are cut in the middle, and say where the rest is.
    """
    sections = [
        section("What was asked", _asked(report)),
        section("The answer", _answer(report)),
        section("Figures", _figures(report, figures, arrays or {})),
        section("Result", _results(report)),
        section("What crossed the wire", _wire(report)),
        section("Rounds", _rounds(report)),
        section("Missing parties", _missing(report)),
        section("Configuration", _configuration(report)),
        section("Versions", _versions(report)),
        section("How to repeat this run", _repeat(report)),
    ]
    question = report.asked.get("question", QUESTIONS.get(report.protocol, ""))
    header = joined(
        [
            paragraph(f"Report of a run of the protocol {report.protocol}", "kind"),
            Html(f"<h1>{text(report.scenario)}</h1>\n"),
            paragraph(question, "question") if question else Html(),
            facts(_facts(report)),
        ]
    )
    footer = f"Written by consilience {report.versions.get('consilience', '')}. The files beside this page: report.json"
    footer += " (all numbers), arrays.npz, ledger.jsonl (every payload), figures."
    return document(f"{report.scenario}: a run of {report.protocol}", header, sections, footer)


def _facts(report: Report) -> dict[str, object]:
    """Size and cost of a run, in short."""
    return {
        "sites": len(report.sites),
        "rounds": grouped(report.rounds),
        "time": human_seconds(report.seconds),
        "to the sites": human_bytes(report.ledger.get("bytes_to_sites", 0)),
        "from the sites": human_bytes(report.ledger.get("bytes_from_sites", 0)),
        "seed": str(report.seed),
    }


# -- question and answer ----------------------------------------------------------------------------------------------


def _asked(report: Report) -> Html:
    told = report.asked
    return definitions(
        {
            "Data": told.get("data", ""),
            "Who holds what": told.get("holds", ""),
            "What left the sites": told.get("left", ""),
            "Goes on from": told.get("earlier", ""),
            "Repeated": _repeated(report),
        }
    )


def _repeated(report: Report) -> str:
    times, own = int(report.config.get("repetitions", 1)), bool(report.config.get("protocol"))
    if times < 2:
        return "" if own else "No: of one draw, no number has a standard error (the key repetitions sets how many)."
    means = "Numbers are means over the repetitions ± their standard errors"
    if own:
        return f"{grouped(times)} times on the same data, with other seeds. {means}, which say nothing of other data."
    return f"{grouped(times)} times, with data drawn or dealt out anew. {means}."


def _answer(report: Report) -> Html:
    compared = comparisons(report)
    held = Html()
    if compared:
        held = table(
            "What the number of this run is held against",
            ("held against", "its number", "this run's number", "which is"),
            [(_capital(each.words), each.value, each.difference, _verdict(each.verdict)) for each in compared],
        )
        if told := [
            words for verdict, words in _VERDICTS if any(each.verdict.startswith(verdict) for each in compared)
        ]:
            held = joined([held, paragraph(" ".join(told), "small")])
    notes = bullets(report.notes)
    before = Html(f"<h3>Before you use the result</h3>\n{notes}") if notes else Html()
    return joined([paragraph(unbroken(answer(report)), "answer"), held, before])


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _verdict(verdict: str) -> Html:
    """In words, and in a colour for those who see it."""
    kind = {"better": "good", "worse": "bad"}.get(verdict)
    return Html(f'<span class="{kind}">{verdict}</span>') if kind else text(verdict)


def _figures(report: Report, figures: Mapping[str, bytes], arrays: Arrays) -> Html:
    """Every figure with its caption."""
    return joined(
        figure(image, alt_text(report, name, arrays), caption(report, name)) for name, image in figures.items()
    )


# -- results ----------------------------------------------------------------------------------------------------------


def _results(report: Report) -> Html:
    parts = []
    if report.table:
        rows = [folded(row) for row in report.table]
        names = columns(rows)
        cells = [[row.get(name, "") for name in names] for row in rows]
        # Of our own names: one with a space in it may hold a name from the data.
        headings = [name.replace("_", " ") if meaning(name) is None and name.isidentifier() else name for name in names]
        parts.append(table("Result table", headings, cells, tall=len(rows) > 20, where="report.json"))
    if names := metric_names(report):
        here, published = folded(report.metrics), folded(report.published)
        header = ["metric", "this run", *(["published", "relative difference"] if published else []), "which way"]
        metrics = []
        for name in names:
            known = meaning(name)
            paper = [published.get(name, ""), _difference_from(report.metrics, report.published, name)]
            words = named(known.words if known else "", name)
            metrics.append([words, here.get(name, ""), *(paper if published else []), direction(known)])
        several = " of this run: means over the rows of the table" if "n_cells" in report.metrics else " of this run"
        parts.append(table(f"Metrics{several}{_with_errors(report)}", header, metrics))
    return joined(parts)


def _with_errors(report: Report) -> str:
    return " (± standard error)" if any(name.endswith("_se") for name in report.metrics) else ""


def _difference_from(here: Mapping[str, float], there: Mapping[str, float], name: str) -> str:
    """By how many percent a number is more or less than another of that name; empty where that says nothing."""
    if name not in here or not there.get(name, 0.0) > 0:
        return ""
    change = here[name] / there[name] - 1
    return f"{'+' if change > 0 else '−' if change < 0 else ''}{percent(abs(change))}"


# -- cost -------------------------------------------------------------------------------------------------------------


def _wire(report: Report) -> Html:
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
            named(PAYLOADS.get(name, ""), name),
            _DIRECTIONS.get(each["direction"], each["direction"]),
            grouped(each["messages"]),
            human_bytes(each["bytes"]),
            Html("".join(_field(field, facts) for field, facts in each["fields"].items())),
        ]
        for name, each in ledger.get("by_payload", {}).items()
    ]
    header = ("what it holds", "direction", "count", "bytes", "fields (shape in the first one)")
    return joined([paragraph(total), table("By payload", header, payloads), _by_site(report)])


def _by_site(report: Report) -> Html:
    """A line a site, with a column for every payload where the ledger tells; it scrolls where there are many."""
    # A site that never got or sent a message belongs in the table too.
    nothing: dict[str, Any] = {"bytes_to": 0, "bytes_from": 0}
    by_site = {**dict.fromkeys(report.sites, nothing), **report.ledger.get("by_site", {})}
    names = sorted({name for each in by_site.values() for name in each.get("payloads", {})})
    rows = [
        [
            site,
            human_bytes(each["bytes_to"]),
            human_bytes(each["bytes_from"]),
            *(_cell_bytes(each.get("payloads", {}).get(name)) for name in names),
        ]
        for site, each in by_site.items()
    ]
    short = [name.rpartition(".")[2] for name in names]
    header = ["site", "to it", "from it", *(names if len(set(short)) < len(short) else short)]
    title = "By site and payload" if names else "By site"
    return table(title, header, rows, tall=len(rows) > 20, where="report.json") if rows else Html()


def _cell_bytes(size: int | None) -> str:
    return "" if size is None else human_bytes(size)


def _field(name: str, facts: Mapping[str, Any]) -> str:
    shape = f" {_shape(facts['shape'])}" if facts["shape"] else ""
    kind = text(f"{facts['dtype']}{shape}, {human_bytes(facts['bytes'])} in all")
    return f'<div class="field"><b>{text(name)}</b>: {kind}</div>'


def _shape(shape: Sequence[Any]) -> str:
    """``(3 × 4)``; of a field that holds several arrays, the shapes of the first ones."""
    if any(isinstance(each, Sequence) for each in shape):
        told = [_shape(each) for each in shape[:_TOLD_SHAPES]]
        return ", ".join([*told, *([f"and {len(shape) - _TOLD_SHAPES} more"] if len(shape) > _TOLD_SHAPES else [])])
    return f"({' × '.join(map(str, shape)) or 'a single value'})"


def _rounds(report: Report) -> Html:
    if not report.convergence:
        return Html()
    names = columns(report.convergence)
    measures = [name for name in names if name not in _OF_EVERY_ROUND]
    told = [name for name in _OF_EVERY_ROUND if name in names]
    headings = {"seconds": "time", "bytes_to_sites": "to sites", "bytes_from_sites": "from sites"}
    header = [*(headings.get(name, name) for name in told), *(name.replace("_", " ") for name in measures)]
    rows = [[_of_round(name, row.get(name)) for name in (*told, *measures)] for row in report.convergence]
    return joined(
        [
            paragraph(_round_summary(report)),
            table("Every round", header, rows, tall=len(rows) > 12, where="report.json", most=_TOLD_ROUNDS),
            bullets(_measures_told(measures)),
        ]
    )


def _measures_told(names: Sequence[str]) -> list[str]:
    """What the columns say that are a protocol's own."""
    told = {name: MEASURES.get(name) or (known.words if (known := meaning(name)) else "") for name in names}
    return [f"{name.replace('_', ' ')}: {words}" for name, words in told.items() if words]


def _of_round(name: str, value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name == "seconds":
            return human_seconds(float(value))
        if name.startswith("bytes"):
            return human_bytes(value)
        if name == "bound":
            return f"{value:.10g}"  # one that converges changes in its last digits
    return number(value)


def _round_summary(report: Report) -> str:
    timed = [row for row in report.convergence if isinstance(row.get("seconds"), int | float)]
    told = f"{counted(report.rounds, 'round')} in {human_seconds(report.seconds)} in all"
    if len(timed) < 2:
        return f"{told}."
    slowest = max(timed, key=lambda row: row["seconds"])
    middle = sorted(row["seconds"] for row in timed)[len(timed) // 2]
    return (
        f"{told}; half of the rounds took {human_seconds(middle)} or less, the slowest, round {slowest['round']},"
        f" {human_seconds(slowest['seconds'])}. A round's time is that from its first ask to its last answer."
    )


def _missing(report: Report) -> Html:
    if not report.missing:
        return paragraph("None: every site answered in every round.")
    rows = []
    for name, events in sorted(report.missing.items()):
        more = len(events) - _TOLD_EVENTS
        rows.append([name, "; ".join([*events[:_TOLD_EVENTS], *([f"and {more} more"] if more > 0 else [])])])
    return table("Sites that did not answer, or failed", ("site", "what happened"), rows, where="report.json")


# -- how it was done --------------------------------------------------------------------------------------------------


def _configuration(report: Report) -> Html:
    defaults = declared()
    unlike = {key: value for key, value in report.config.items() if key not in defaults or value != defaults[key]}
    rest = {key: value for key, value in report.config.items() if key not in unlike}
    parts = []
    if unlike:
        rows = [
            [key, _told(value), _told(defaults[key]) if key in defaults else "", _meaning_of(key)]
            for key, value in sorted(unlike.items())
        ]
        parts.append(table("Set for this run", ("key", "value", "default", "meaning"), rows))
    else:
        parts.append(paragraph("Every key of the run configuration has its default."))
    if rest:
        others = [[key, _told(value), _meaning_of(key)] for key, value in sorted(rest.items())]
        content = table("Keys at their defaults", ("key", "value", "meaning"), others)
        title = f"{grouped(len(rest))} {'other keys' if unlike else 'keys'}, at their defaults"
        parts.append(folded_away(title, content))
    return joined(parts)


def _told(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return small("empty") if value == "" else value


def _meaning_of(key: str) -> Html:
    keys = run_keys()
    return Html(f'<span class="wide">{text(keys[key].meaning)}</span>') if key in keys else Html()


def _versions(report: Report) -> Html:
    rows = [[name, version] for name, version in report.versions.items()]
    return table("Software of the fusion center", ("package", "version"), rows) if rows else Html()


def _repeat(report: Report) -> Html:
    if not report.command:
        return Html()
    version = report.versions.get("consilience", "")
    parts = []
    if report.shorthand:
        parts += [
            paragraph(f"With consilience {version} installed, anywhere:"),
            code(broken_over_lines(report.shorthand)),
            paragraph("The same with Flower's own command, in the folder of consilience:"),
        ]
    else:
        whose = "" if "num-supernodes" in report.command else ", at the SuperLink to which the sites are connected"
        parts.append(paragraph(f"With Flower's own command, in the folder of consilience {version}{whose}:"))
    parts.append(code(broken_over_lines(report.command)))
    parts.append(paragraph("The same seed, data and versions give the same numbers; times differ."))
    return joined(parts)
