"""The page of a run."""

import re

from server.report.commands import broken_over_lines
from server.report.data import Report
from server.report.headline import answer
from server.report.html import report_html
from server.report.protocol import report_of
from server.report.summary import ledger_summary
from tests.support.html_page import Page
from tests.support.sample_report import HOSTILE, draw_figures, line, make


def test_page_is_well_formed_and_complete():
    report = make()
    html = report_html(report, draw_figures(report))
    page = Page(html)
    text = "".join(page.text)
    headings = ["The answer", "Overview", "Figures", "Result", "What crossed the wire", "Rounds"]
    headings += ["Missing sites", "Configuration", "Versions", "How to repeat this run"]
    assert re.findall(r"<h2 [^>]*>([^<]*)</h2>", html) == headings
    links = [attrs["href"].removeprefix("#") for attrs in page.all("a")]
    assert [attrs["id"] for attrs in page.all("section")] == links[1:]
    assert links[0] == page.all("main")[0]["id"]
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(set(ids)) == len(ids)
    assert len(page.all("h1")) == len(page.all("main")) == 1
    assert all(attrs.get("alt") for attrs in page.all("img"))
    assert len(page.all("img")) == 2
    assert len(page.all("table")) == 10
    assert all(attrs["aria-labelledby"] in ids for attrs in page.all("table"))
    assert all("scope" in attrs for attrs in page.all("th"))
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    sentence = answer(report, {"accuracy_majority"})
    for shown in (sentence, "94.2 ± 0.4 %", "EStep", "float64 (3), 96 B", "round 3: no answer", "3.12"):
        assert shown in text
    assert broken_over_lines(report.command) in text
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_page_takes_nothing_from_the_network_and_runs_nothing():
    report = make()
    html = report_html(report, draw_figures(report))
    page = Page(html)
    assert not re.search(r"https?://|@import|url\(|javascript:", html)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert all(attrs["src"].startswith("data:image/svg+xml;base64,") for attrs in page.all("img"))
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_page_shows_the_shapes_of_the_arrays_of_a_field():
    def page_with(*shapes):
        wire = [line(1, "to_site", "a", "EStep", 8, shape=list(shapes))]
        return report_html(make(ledger=ledger_summary(wire)), {}).replace("&nbsp;", " ")

    assert "float64 (3 × 4), (3), (a single value), 8 B" in page_with([3, 4], [3], [])
    assert "float64 (3), (3), (3), (3), (3), (3), (3), (3), and 12 more, 8 B" in page_with(*[[3]] * 20)


def test_every_value_is_escaped():
    lines = [line(1, HOSTILE, HOSTILE, HOSTILE, 4) | {"direction": "to_site"}]
    lines[0]["fields"] = {HOSTILE: {"shape": [2], "dtype": HOSTILE, "bytes": 4}}
    hostile = make(
        scenario=HOSTILE,
        protocol=HOSTILE,
        sites=[HOSTILE],
        metrics={HOSTILE: 1.0},
        published={HOSTILE: 2.0},
        table=[{HOSTILE: HOSTILE}],
        ledger=ledger_summary(lines),
        versions={HOSTILE: HOSTILE},
        missing={HOSTILE: [HOSTILE]},
        config={HOSTILE: HOSTILE},
        command=HOSTILE,
        convergence=[{"round": 1, HOSTILE: HOSTILE}],
    )
    html = report_html(hostile, {HOSTILE: b"x"})
    assert "<script" not in html
    page = Page(html)
    assert "".join(page.text).count(HOSTILE) >= 20
    assert page.all("img")[0]["alt"] == f"Figure: {HOSTILE}."


def test_page_of_a_bare_run_is_well_formed():
    bare = Report(scenario="s", protocol="p", seed=0, sites=[], rounds=0, seconds=0.0, metrics={})
    html = report_html(bare, {})
    Page(html)
    assert "every site answered in every round" in html
    assert "Figures" not in html


def test_a_run_of_many_sites_and_rounds_gives_a_page_of_bounded_size():
    sites = [f"site-{number:03d}" for number in range(200)]
    payloads = [f"bc3e.{name}" for name in sorted(report_of("bc3e").payloads)[:8]]
    lines = [line(1, "from_site", site, payload, 1234567) for site in sites for payload in payloads]
    rounds = [{"round": n, "bound": -1 / n, "seconds": 0.01 * n, "bytes_to_sites": n} for n in range(1, 1001)]
    rows = [{"expert": n, "site": sites[n % 200], "rows": n} for n in range(3000)]
    events = {site: [f"round {n}: no answer within 600 s" for n in range(1000)] for site in sites}
    big = make(sites=sites, ledger=ledger_summary(lines), convergence=rounds, rounds=1000, table=rows, missing=events)
    html = report_html(big, {})
    assert len(html) < 1_000_000
    Page(html)
    assert "900 rows are left out here: all are in report.json" in html
    assert ">site-199<" in html
    assert "the slowest, round 1000, 10.0 s" in html
    assert "rounds 0 to 999: no answer within 600 s" in html
    events = {"a": [f"round {n}: its answer {n} was refused" for n in range(1000)]}
    assert "and 980 more" in report_html(make(missing=events), {})


def test_the_configuration_shows_first_what_differs_from_the_defaults():
    html = report_html(make(config={"seed": 3, "bc3e.distribution": "row", "cells": "", "gp.kernel": ""}), {})
    changed, _, rest = html.partition("<details>")
    assert re.search(r"<th scope=\"row\">seed</th><td class=\"n\">3</td><td class=\"n\">0</td>", changed)
    assert "<summary>2 other keys at their defaults</summary>" in rest
    assert "bc3e.distribution" in rest.partition("</details>")[0]
    assert "gp.kernel" not in html  # of another protocol
    assert "has its default" in report_html(make(config={"cells": ""}), {})


def test_the_page_says_by_how_much_a_published_figure_is_missed():
    html = report_html(make(metrics={"accuracy": 0.9, "bound": 2.0}, published={"accuracy": 1.0, "bound": 0.0}), {})
    assert '<td class="n">−10.0 %</td>' in html
    assert "accuracy of the majority vote" not in html


def test_the_page_has_the_texts_that_the_report_keeps():
    report = make()
    images = draw_figures(report)
    assert Report.from_json(report.to_json()).figures == report.figures
    assert "-300.5 after the first, -250.25 after 2" in report.figures[1]["alt"]
    report.figures[0] |= {"alt": "An old text & its number.", "caption": "Words of an earlier version."}
    html = report_html(report, images)
    assert 'alt="An old text &amp; its number."' in html
    assert "<figcaption>Words of an earlier version.</figcaption>" in html


def test_a_figure_without_texts_is_named():
    html = report_html(make(), {"price_of_all": b"x"})
    assert 'alt="Figure: price of all."' in html
    assert "<figcaption>Price of all.</figcaption>" in html
