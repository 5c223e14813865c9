"""Several runs side by side."""

import re

import pytest
from typer.testing import CliRunner

from consilience.cli import app
from server.figures import figures
from server.report.compare import compare_html, open_runs, render_comparison
from server.report.data import ResultsError
from server.report.headline import answer
from server.results import ResultsDirectory
from tests.support.html_page import Page
from tests.support.sample_report import ARRAYS, LINES, make


@pytest.fixture(scope="module")
def drawn():
    """The figure of every run, drawn once."""
    return figures(make(metrics={}), ARRAYS)


@pytest.fixture
def leave(tmp_path, drawn):
    """A finished run of that report, and its directory."""

    def finished(run_id, **changes):
        directory = ResultsDirectory.open(tmp_path, "runs", run_id)
        report = make(**changes)
        report.figures = [figure.texts for figure in drawn]
        return directory.finish(report, ARRAYS, LINES, {figure.name: figure.image for figure in drawn})

    return finished


def test_runs_side_by_side(leave):
    first = leave("1", metrics={"accuracy": 0.9, "bound": -5.0, "only_here": 1.0})
    second = leave("2", metrics={"accuracy": 0.8, "bound": -5.0}, config={"seed": 3, "bc3e.sweeps": 2})
    runs = open_runs([first, second])
    text, html = render_comparison(runs), compare_html(runs)
    assert re.search(r"^accuracy +0\.9 \* +0\.8 +0\.935$", text, re.M)
    assert re.search(r"^bound +-5 +-5$", text, re.M), "as good as each other: none is best"
    assert f"run 2: bc3e-wine (protocol bc3e), {second}" in text
    page = Page(html)
    content = "".join(page.text).replace("\N{NO-BREAK SPACE}", " ")
    assert answer(runs[0].report) in content
    assert answer(runs[1].report) in content
    assert re.search(r"bc3e.sweeps</th><td[^>]*></td><td[^>]*>2<", html)
    assert html.count(">best<") == 1
    alts = ["run 1: Bound over the steps of the fit: -300.5", "run 2: Bound over the steps of the fit: -300.5"]
    assert [attrs["alt"].partition(" after")[0] for attrs in page.all("img")] == alts
    assert not re.search(r"https?://|<script", html)


def test_a_lead_within_the_standard_errors_is_said_to_be_one(leave):
    metrics = {"smse": 0.2, "smse_se": 0.05, "coverage_95": 0.99, "log_likelihood": -1.0}
    runs = open_runs(
        [
            leave("1", protocol="gp", metrics=metrics),
            leave("2", protocol="gp", metrics={**metrics, "smse": 0.25, "coverage_95": 0.9}),
        ]
    )
    text = render_comparison(runs)
    assert "0.20 ± 0.05 (*)" in text
    assert re.search(r"coverage_95 +0\.99 \* +0\.9", text), "the nearer to 95 % the better"
    assert "but within the standard errors" in text
    assert "best, not significantly" in compare_html(runs)


@pytest.mark.parametrize(("errors", "clear"), [((0.01, 0.05), False), ((0.05, 0.01), False), ((0.01, 0.01), True)])
def test_a_lead_is_clear_where_it_is_clear_of_both_standard_errors(leave, errors, clear):
    results = zip(("1", "2"), (0.2, 0.25), errors, strict=True)
    runs = [leave(run, protocol="gp", metrics={"smse": value, "smse_se": error}) for run, value, error in results]
    assert re.search(r"^smse +0\.20\S* ± 0\.\d+ (\S+)", render_comparison(open_runs(runs)), re.M)[1] == (
        "*" if clear else "(*)"
    )


@pytest.mark.parametrize(
    ("changes", "words", "marked"),
    [
        ({"protocol": "sec"}, "The runs have different protocols (bc3e and sec)", False),
        ({"scenario": "bc3e-heart"}, "The runs have different scenarios (bc3e-wine and bc3e-heart)", False),
        ({"config": {"bc3e.labeled": 0.5}}, "The data of the runs differ (bc3e.labeled)", False),
        ({"config": {"data": "/other"}}, "The data of the runs differ (data)", False),
        ({"seed": 4}, "The seeds differ (3 and 4): part of every difference is chance.", True),
        ({"sites": ["a"]}, "Different sites took part (2 and 1 sites).", True),
        ({"sites": ["a", "c"]}, "Different sites took part (sites with other names).", True),
        ({"config": {"repetitions": 5}}, "The numbers of repetitions differ (1 and 5).", True),
        ({"missing": {"b": ["gone"]}}, "Sites were missing, or left out, in run 2.", True),
    ],
)
def test_what_keeps_runs_from_being_comparable_is_said(leave, changes, words, marked):
    runs = open_runs([leave("1", missing={}), leave("2", **{"missing": {}, "metrics": {"accuracy": 0.5}, **changes})])
    assert words in render_comparison(runs)
    assert words in "".join(Page(compare_html(runs)).text)
    assert (">best<" in compare_html(runs)) == marked


def test_what_cannot_be_compared_is_refused_in_a_sentence(leave, tmp_path):
    run = leave("1")
    with pytest.raises(ResultsError, match="takes two results directories or more"):
        open_runs([run])
    with pytest.raises(ResultsError, match="is run 1 already: name every run once"):
        open_runs([run, tmp_path / "runs" / "." / "1"])
    with pytest.raises(ResultsError, match="there is no results directory"):
        open_runs([run, tmp_path / "nowhere"])
    interrupted = ResultsDirectory.open(tmp_path, "runs", "3").final
    with pytest.raises(ResultsError, match="was interrupted and has no results"):
        open_runs([run, interrupted])


def test_the_command_writes_the_page_and_prints_the_table(leave, tmp_path):
    first, second = leave("1"), leave("2", seed=4)
    page = tmp_path / "both.html"
    done = CliRunner().invoke(app, ["compare", str(first), str(second), "--output", str(page)])
    assert done.exit_code == 0, done.output
    assert "run 1" in done.output
    assert f"page: {page}" in done.output
    assert page.read_text(encoding="utf-8") == compare_html(open_runs([first, second]))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["both.html", "runs"]
    for arguments, words in (
        ([str(first), str(first)], "is run 1 already"),
        ([str(first), str(second), "--output", str(tmp_path / "no" / "x.html")], "name another --output"),
    ):
        refused = CliRunner().invoke(app, ["compare", *arguments])
        assert refused.exit_code == 1
        assert words in refused.output
