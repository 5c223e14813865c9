"""The page of a run, for a reader who knows neither the run nor the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols import registry
from protocols.settings import declared, run_keys
from server.report import html_cost
from server.report.commands import broken_over_lines, from_python
from server.report.data import Report
from server.report.formatting import columns, folded, human_bytes, human_seconds, percent
from server.report.glossary import direction, meaning
from server.report.headline import UNCLEAR, answer, comparisons, value_text
from server.report.influence import sentence, table_of
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
from server.report.protocol import report_of
from server.report.summary import metric_names
from server.report.verdict import DO_NOT_JOIN, JOIN, Verdict, Way, verdict

__all__ = ["figure_texts", "report_html", "value_texts"]

_VERDICTS = (
    (
        "the price",
        "A price is the distance to an alternative that is not available in practice: data in one place, clusters"
        " without bounds of fairness, the best of several known in advance.",
    ),
    (UNCLEAR, "Not significant: the difference is within its error over repetitions or rows (paired t test, 5 %)."),
)
"""First words of a verdict, and their explanation."""


def report_html(report: Report, images: Mapping[str, bytes]) -> str:
    """Return the page: self-contained, without scripts or anything from the network, every value escaped.

    Parameters
    ----------
    report : Report
        Report of the run.
    images : Mapping[str, bytes]
        PNG images by the name of their figure; `Report.figures` has their texts.

    Returns
    -------
    str
        HTML text. Long tables are cut in the middle, and name the file that has all rows.
    """
    sections = [
        section("The answer", _answer(report)),
        section("Overview", _overview(report)),
        section("Figures", _figures(report, images)),
        section("Result", _results(report)),
        section("Influence of each site", _influence(report)),
        section("What crossed the wire", html_cost.wire(report)),
        section("Rounds", html_cost.rounds(report)),
        section("Missing sites", html_cost.missing(report)),
        section("Configuration", _configuration(report)),
        section("Versions", _versions(report)),
        section("How to repeat this run", _repeat(report)),
    ]
    question = report.overview.get("question", report_of(report.protocol).question)
    header = joined(
        [
            paragraph(f"Report of a run of the protocol {report.protocol}", "kind"),
            Html(f"<h1>{text(report.scenario)}</h1>\n"),
            paragraph(question, "question") if question else Html(),
            _decision(report, verdict(report)),
            facts(_facts(report)),
        ]
    )
    footer = f"Written by consilience {report.versions.get('consilience', '')}. The files beside this page: report.json"
    footer += " (all numbers), arrays.npz, ledger.jsonl (every payload), figures."
    return document(f"{report.scenario}: a run of {report.protocol}", header, sections, footer)


def _decision(report: Report, verdict: Verdict) -> Html:
    """Return the verdict: whether a site should join, bars of the alternatives, and warnings."""
    kind = {JOIN: "good", DO_NOT_JOIN: "bad"}.get(verdict.decision, "open")
    words = Html(f'<strong class="{kind}">{text(verdict.words)}</strong>')
    parts = [Html("Should a site join? "), words, Html(" ")] if verdict.words else []
    sentence = paragraph(joined([*parts, unbroken(verdict.reason)]), "sentence")
    warnings = Html(f'<div class="warnings">\n<p>{verdict.heading}</p>\n{bullets(verdict.warnings)}</div>\n')
    content = joined([sentence, _bars(report, verdict), warnings if verdict.warnings else Html()])
    return Html(f'<div class="verdict {kind}">\n{content}</div>\n')


def _bars(report: Report, verdict: Verdict) -> Html:
    """Return bars of the result and of its alternatives; nothing without an alternative."""
    if len(verdict.ways) < 2:
        return Html()
    largest = max(abs(way.value) for way in verdict.ways) or 1.0
    better = direction(meaning(report.protocol, verdict.ways[0].metric))
    scale = paragraph(f"{_capital(verdict.measure)}{f' ({better})' if better else ''}", "small")
    rows = []
    for way in verdict.ways:
        kind = "mine" if way.kind == "together" else "far" if way.kind == "out of reach" else "rival"
        width = max(0.5, 100 * abs(way.value) / largest)
        saved = "" if way.gain is None else _saved(way, " error" if better.startswith("higher") else "")
        rows.append(
            f'<li class="{kind}"><span class="way">{text(_capital(way.words))}'
            f"{' <small>(not available)</small>' if kind == 'far' else ''}</span>"
            f'<span class="value">{unbroken(value_text(report, way.metric))}</span>'
            f'<span class="track"><span class="bar" style="width:{width:.1f}%"></span></span>'
            f'<span class="saved">{saved}</span></li>\n'
        )
    return Html(f'{scale}<ul class="bars">\n{"".join(rows)}</ul>\n')


def _saved(way: Way, what: str) -> str:
    """Return the share of an alternative's error that the result saves, in words."""
    assert way.gain is not None  # noqa: S101 - the caller has checked it
    if abs(way.gain) > 10:
        return ""
    sign = "less" if way.gain >= 0 else "more"
    return f"{unbroken(percent(abs(way.gain), way.error))} {sign}{what} together" if way.gain else "the same"


def _facts(report: Report) -> dict[str, object]:
    """Return size and cost of the run."""
    return {
        "sites": _n_sites(report),
        "rounds": f"{report.rounds:,}",
        "time": human_seconds(report.seconds),
        "to the sites": human_bytes(report.ledger.get("bytes_to_sites", 0)),
        "from the sites": human_bytes(report.ledger.get("bytes_from_sites", 0)),
        "seed": str(report.seed),
    }


def _n_sites(report: Report) -> str:
    """Return the number of sites that answered every ask, of how many."""
    n_sites, complete = len({*report.sites, *report.missing}), len(set(report.sites) - report.missing.keys())
    return f"{n_sites:,}" if complete == n_sites else f"{complete:,} of {n_sites:,}"


# -- overview, answer and figures -------------------------------------------------------------------------------------


def _overview(report: Report) -> Html:
    texts = report.overview
    return definitions(
        {
            "Data": texts.get("data", ""),
            "Who holds what": texts.get("holdings", ""),
            "What left the sites": texts.get("disclosure", ""),
            "Earlier run": texts.get("earlier", ""),
            "Repetitions": _repetitions(report),
        }
    )


def _repetitions(report: Report) -> str:
    times, own = int(report.config.get("repetitions", 1)), bool(report.config.get("protocol"))
    if times < 2:
        return (
            ""
            if own
            else "One: standard errors, where there are any, are over rows (the key repetitions sets the number)."
        )
    means = "Numbers are means over the repetitions ± their standard errors"
    if own:
        return f"{times:,} on the same data, with different seeds. {means}, which say nothing about other data."
    return f"{times:,}, each with data drawn or dealt out anew. {means}."


def _answer(report: Report) -> Html:
    rivals = comparisons(report)
    compared = Html()
    beside = {way.metric for way in verdict(report).ways[1:]}  # these are at the top of the page
    if any(each.metric not in beside for each in rivals):
        compared = table(
            "Compared with",
            ("alternative", "its number", "this run's number", "verdict"),
            [(_capital(each.words), each.value, each.difference, _verdict(each.verdict)) for each in rivals],
        )
        if explanations := [
            words for beginning, words in _VERDICTS if any(each.verdict.startswith(beginning) for each in rivals)
        ]:
            compared = joined([compared, paragraph(" ".join(explanations), "small")])
    notes = bullets(report.notes)
    before = Html(f"<h3>Before you use the result</h3>\n{notes}") if notes else Html()
    return joined([paragraph(unbroken(answer(report, beside)), "answer"), compared, before])


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _verdict(verdict: str) -> Html:
    """Return a verdict in words; better and worse also have a color."""
    kind = {"better": "good", "worse": "bad"}.get(verdict)
    return Html(f'<span class="{kind}">{verdict}</span>') if kind else text(verdict)


def figure_texts(report: Report, name: str) -> tuple[str, str, bool]:
    """Return alternative text, caption and shades of a figure; texts made of its name if the report has none."""
    figure = next((each for each in report.figures if each.get("name") == name), {})
    words = name.replace("_", " ")
    alt, caption = figure.get("alt") or f"Figure: {words}.", figure.get("caption") or f"{words.capitalize()}."
    return alt, caption, bool(figure.get("shades"))


def _figures(report: Report, images: Mapping[str, bytes]) -> Html:
    return joined(figure(image, *figure_texts(report, name)) for name, image in images.items())


# -- results ----------------------------------------------------------------------------------------------------------


def _results(report: Report) -> Html:
    parts = []
    if report.table:
        rows = [value_texts(report.protocol, row) for row in report.table]
        names = columns(rows)
        cells = [[row.get(name, "") for name in names] for row in rows]
        # Names of metrics stay as files have them, and names with a space, which may be names from the data.
        plain = {name for name in names if meaning(report.protocol, name) is None and name.isidentifier()}
        headings = [name.replace("_", " ") if name in plain else name for name in names]
        parts.append(table("Result table", headings, cells, tall=len(rows) > 20, where="report.json"))
    if names := metric_names(report):
        own, published = value_texts(report.protocol, report.metrics), value_texts(report.protocol, report.published)
        header = ["metric", "this run", *(["published", "relative difference"] if published else []), "direction"]
        metrics = []
        for name in names:
            known = meaning(report.protocol, name)
            paper = [published.get(name, ""), _difference_from(report.metrics, report.published, name)]
            words = named(known.words if known else "", name)
            metrics.append([words, own.get(name, ""), *(paper if published else []), direction(known)])
        means = ": means over the rows of the table" if "n_cells" in report.metrics else ""
        parts.append(table(f"Metrics of this run{means}{_with_errors(report)}", header, metrics))
    return joined(parts)


def value_texts(protocol: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as text, with standard errors beside them, and shares in percent."""
    texts = folded(values)
    for name, value in values.items():
        known = meaning(protocol, name)
        if isinstance(value, float) and name in texts and (known.share if known else name.startswith("share ")):
            texts[name] = percent(value, values.get(f"{name}_se"))
    return texts


def _with_errors(report: Report) -> str:
    return " (± standard error)" if any(name.endswith("_se") for name in report.metrics) else ""


def _difference_from(own: Mapping[str, float], published: Mapping[str, float], name: str) -> str:
    """Return the difference of a number from a published one in percent; empty without a published one above 0."""
    if name not in own or not published.get(name, 0.0) > 0:
        return ""
    change = own[name] / published[name] - 1
    return f"{'+' if change > 0 else '−' if change < 0 else ''}{percent(abs(change))}"


def _influence(report: Report) -> Html:
    """Return the result without each site; nothing if the protocol does not define it."""
    if not (words := sentence(report)):
        return Html()
    headings, rows = table_of(report)
    content = table("Without each site", headings, rows, tall=len(rows) > 20, where="report.json") if rows else Html()
    return joined([paragraph(words), content])


# -- how it was done --------------------------------------------------------------------------------------------------


def _configuration(report: Report) -> Html:
    defaults = declared()
    changed = {key: value for key, value in report.config.items() if key not in defaults or value != defaults[key]}
    # Keys of other protocols say nothing about this run.
    others = {name for name in registry.names() if name != report.protocol}
    rest = {
        key: value for key, value in report.config.items() if key not in changed and key.partition(".")[0] not in others
    }
    parts = []
    if changed:
        rows = [
            [key, _setting(value), _setting(defaults[key]) if key in defaults else "", _meaning_of(key)]
            for key, value in sorted(changed.items())
        ]
        parts.append(table("Set for this run", ("key", "value", "default", "meaning"), rows))
    else:
        parts.append(paragraph("Every key of the run configuration has its default."))
    if rest:
        rows = [[key, _setting(value), _meaning_of(key)] for key, value in sorted(rest.items())]
        content = table("Keys at their defaults", ("key", "value", "meaning"), rows)
        title = f"{len(rest):,} {'other keys' if changed else 'keys'} at their defaults"
        parts.append(folded_away(title, content))
    return joined(parts)


def _setting(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return small("empty") if value == "" else value


def _meaning_of(key: str) -> Html:
    keys = run_keys()
    return Html(f'<span class="wide">{text(keys[key].meaning.replace("`", ""))}</span>') if key in keys else Html()


def _versions(report: Report) -> Html:
    rows = [[name, version] for name, version in sorted(report.versions.items())]
    return table("Software of the fusion center", ("package", "version"), rows) if rows else Html()


def _repeat(report: Report) -> Html:
    if from_python(report.config):
        return paragraph("The data were given in Python. The same call, with the same data, repeats the run.")
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
        where = "" if "num-supernodes" in report.command else ", at the SuperLink to which the sites are connected"
        parts.append(paragraph(f"With Flower's own command, in the folder of consilience {version}{where}:"))
    parts.append(code(broken_over_lines(report.command)))
    parts.append(paragraph("The same seed, data and versions give the same numbers; times differ."))
    return joined(parts)
