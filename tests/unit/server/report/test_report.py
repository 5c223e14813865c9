import importlib
import math
import re
import shlex
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from consilience.cli import app
from protocols.registry import SHARED
from protocols.registry import names as protocol_names
from protocols.wire.payload import Payload
from server.figures import figures
from server.report.commands import broken_over_lines, consilience_command, flwr_command
from server.report.compare import compare_html, open_runs, render_comparison
from server.report.data import Report, ResultsError
from server.report.formatting import folded, human_bytes, human_seconds, percent, printable, with_error
from server.report.glossary import meaning, measure_words, payload_words
from server.report.headline import UNCLEAR, answer, comparisons, differences
from server.report.html import report_html
from server.report.overview import overview
from server.report.protocol import report_of
from server.report.summary import ledger_summary, render_table
from server.results import ResultsDirectory
from tests.support.sample_report import ARRAYS, HOSTILE, LINES, line, make


def draw(report):
    """Draw the figures, add their texts to the report, and return their images by name."""
    drawn = figures(report, ARRAYS)
    report.figures = [figure.texts for figure in drawn]
    return {figure.name: figure.image for figure in drawn}


# -------------------------------------------------------------------------------------------------- words and numbers


def test_ledger_summary_adds_up():
    lines = [*LINES, line(2, "from_site", "b", "Counts", 5, shape=())]
    summary = ledger_summary(iter(lines))
    assert summary["messages"] == 8, "two payloads of one reply are one message"
    assert summary["bytes_to_sites"] == 4 * 24
    assert summary["bytes_from_sites"] == 4 * 40 + 5
    assert list(summary["by_payload"]) == ["Counts", "EStep", "Statistics"]
    assert summary["by_payload"]["EStep"] == {
        "direction": "to_site",
        "messages": 4,
        "bytes": 96,
        "fields": {"alpha": {"dtype": "float64", "shape": [3], "bytes": 96}},
    }
    assert summary["by_site"] == {
        "a": {"bytes_to": 48, "bytes_from": 80, "payloads": {"EStep": 48, "Statistics": 80}},
        "b": {"bytes_to": 48, "bytes_from": 85, "payloads": {"Counts": 5, "EStep": 48, "Statistics": 80}},
    }
    assert sum(each["bytes"] for each in summary["by_payload"].values()) == sum(each["bytes"] for each in lines)
    assert ledger_summary(reversed(lines)) == summary


def test_ledger_summary_says_every_dtype_in_which_a_field_crossed():
    lines = [line(number, "to_site", "a", "Fit", 12) for number in range(4)]
    for number, dtype in enumerate(["float64", "float32", "int64 and uint8", "float32"]):
        lines[number]["fields"]["alpha"]["dtype"] = dtype
    field = ledger_summary(lines)["by_payload"]["Fit"]["fields"]["alpha"]
    assert field == {"dtype": "float64 and float32 and int64 and uint8", "shape": [3], "bytes": 48}


def test_an_empty_ledger():
    summary = ledger_summary([])
    assert summary["messages"] == summary["bytes_to_sites"] == 0
    assert "no message was recorded" in report_html(make(ledger=summary), {})


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.9421, 0.004, "0.942 ± 0.004"),
        (0.9421, 0.0014, "0.9421 ± 0.0014"),
        (0.9421, 0.00996, "0.942 ± 0.010"),
        (-1234.56, 12.3, "-1235 ± 12"),
        (3.0, 0.0, "3 ± 0"),
        (1.0, 1e-17, "1 ± 1e-17"),
    ],
)
def test_a_standard_error_sets_the_digits(value, error, text):
    assert with_error(value, error) == text


def test_a_standard_error_without_its_value_is_shown_by_itself():
    assert folded({"x_se": 0.5, "y": 1.0, "y_se": 0.1}) == {"x_se": "0.5", "y": "1.00 ± 0.10"}
    assert folded({"x": None, "x_se": None}) == {"x": "", "x_se": ""}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB"), (5 * 10**12, "5.0 TB")],
)
def test_human_bytes(count, text):
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (0.04, "40 ms"),
        (1e-5, "below 1 ms"),
        (0.0996, "0.1 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 0 s"),
        (125.2, "2 min 5 s"),
        (3720, "1 h 2 min"),
    ],
)
def test_human_seconds(seconds, text):
    assert human_seconds(seconds) == text


def test_table_for_the_terminal():
    text = render_table(make())
    assert "accuracy           0.942 ± 0.004  0.935" in text
    assert re.search(r"^bound +-1234\.57$", text, re.M)
    assert re.search(r"^repetition  accuracy +note\n1 +0\.90 ± 0\.02\n2$", text, re.M)
    assert re.search(r"^sites +2: a, b$", text, re.M)
    assert re.search(r"^to sites +96 B$", text, re.M)
    assert re.search(r"^from sites +160 B$", text, re.M)
    assert re.search(r"^time +2 min 5 s$", text, re.M)
    assert re.search(r"^missing b +round 3: no answer within 600 s$", text, re.M)


def test_table_of_many_sites_and_nothing_else():
    text = render_table(make(sites=[f"s{i}" for i in range(30)], metrics={}, published={}, table=[], missing={}))
    assert "30: s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, and 20 more" in text
    assert "there was nothing to measure" in text


def test_a_name_cannot_steer_the_terminal():
    assert "\x1b" not in render_table(make(sites=["a\x1b[2J"], missing={"a\nb": ["\x1b]0;x\x07"]}))
    assert printable("a\nb\x1b") == "a\\nb\\x1b"
    assert printable("Zürich ±") == "Zürich ±"


# ---------------------------------------------------------------------------------------------------------- the answer


@pytest.mark.parametrize(
    ("protocol", "metrics", "words"),
    [
        (
            "bc3e",
            make().metrics,
            "Together, 2 sites put 94.2 ± 0.4 % (higher is better) of their instances into the right class: 4.5"
            " percentage points more than by majority vote (89.7 %) and 0.7 percentage points more than in the"
            " paper (93.5 %).",
        ),
        ("bc3e", {"bound": -12.5}, "at a bound on the log-likelihood of -12.5 (higher is better); no true classes"),
        (
            "sec",
            {"mse_cluster": 0.1, "mse_alone": 0.3, "mse_all": 0.1, "n_clusters": 1.0},
            "a mean squared error of 0.1 (lower is better): 66.7 % less than with every learner alone (0.3) and the"
            " same as with all learners together. They form 1 cluster.",
        ),
        (
            "sec",
            {"mse_cluster": 0.6, "mse_alone": 0.2},
            "(lower is better): 3 times as large as with every learner alone (0.2).",
        ),
        ("bc3e", {"n_predicted": 7.0}, "classified 7 new instances of their own"),
        ("sec", {"n_clusters": 3.0}, "form 3 clusters; no rows were held out"),
        ("residual", {"test_mse": 0.1, "train_mse": 0.2}, "predict test rows with a mean squared error of 0.1 (lower"),
        (
            "residual",
            {"test_mse": 0.1, "mse_centralized": 0.08},
            "25.0 % more than by boosting all columns in one place",
        ),
        ("residual", {"train_mse": 0.1}, "there are no test rows"),
        ("residual", {"n_predicted": 30.0}, "predict 30 rows"),
        (
            "coreset",
            {"cost": 12000.4, "cost_unfair": 12000.4, "n_rows": 5000.0, "max_violation": 0.0},
            "put 5,000 rows into fair clusters at a cost of 12,000 (lower is better): the same as without the bounds of"
            " fairness. Every cluster keeps the bounds of fairness.",
        ),
        (
            "coreset",
            {"cost": 5.0, "max_violation": 0.4},
            "put some rows into fair clusters at a cost of 5 (lower is better).",
        ),
        (
            "coreset",
            {"cost": 5.0, "max_violation": 0.4},
            "misses its bounds of fairness in a cluster by 0.4 rows at most.",
        ),
        (
            "gp",
            {"smse": 0.25, "smse_full": 0.2, "n_queries": 10.0, "coverage_95": 0.9},
            "predict 10 points with a standardised mean squared error of 0.25 (lower is better), where 0 is exact and"
            " 1 no better than the mean output: 25.0 % more than by one Gaussian process of all rows (0.2; the price of"
            " rows in separate places). Their 95 % intervals hold 90.0 % of the outputs.",
        ),
        ("gp", {"n_queries": 10.0}, "predict 10 points with unknown outputs."),
        ("gp", {"log_likelihood": -0.5}, "at a log likelihood of -0.5 (higher is better) per row"),
        ("other", {"b": 2.0, "a": 1.0}, "reached a = 1."),
        ("other", {}, "there was nothing to measure"),
    ],
)
def test_the_answer_names_the_main_number_its_direction_and_its_rivals(protocol, metrics, words):
    published = make().published if protocol == "bc3e" and "accuracy" in metrics else {}
    assert words in answer(make(protocol=protocol, metrics=metrics, published=published))


def test_the_answer_of_a_single_site_is_of_one():
    told = answer(make(sites=["a"], protocol="sec", metrics={"mse_cluster": 0.1}, published={}))
    assert told.startswith("1 site, each predicting with its cluster, has a mean")
    assert answer(make(sites=["a"])).startswith("1 site put 94.2 ± 0.4 % (higher is better) of its instances")
    assert answer(make(sites=["a"], protocol="residual", metrics={"test_mse": 0.1})).startswith("1 site predicts test")


def test_the_answer_of_a_run_that_goes_on_from_another_says_so():
    for protocol, key in (("bc3e", "from"), ("sec", "from"), ("sec", "sec.join")):
        text = answer(make(protocol=protocol, config={key: "/results/7"}))
        assert text.startswith("With the result of an earlier run, 2 sites")
    assert answer(make(config={"sec.join": "/results/7"})).startswith("Together"), "no key of its protocol"


TABLE = [
    {"rule": "poe", "K": 1, "smse": 0.5, "smse_se": 0.1, "smse published": 0.4, "smse_full": 0.2},
    {"rule": "npae", "K": 1, "smse": 0.25, "smse published": 0.25, "smse_full": 0.25},
    {"rule": "bcm", "K": 1, "smse": 0.3, "smse_full": 0.4},
]


def test_the_answer_of_a_table_says_where_its_number_is_smallest_and_largest_and_how_it_fares():
    report = make(protocol="gp", metrics={"smse": 0.35, "smse_full": 0.28, "n_cells": 3.0}, published={}, table=TABLE)
    assert answer(report) == (
        "Together, 2 sites worked through 3 settings. Standardised mean squared error (lower is better): lowest with"
        " rule npae (0.25), highest with rule poe (0.50 ± 0.10). It is lower than by one Gaussian process of all rows"
        " in 1 of 3 and the same in 1. The paper has figures for 2 of them: this run's are 12 % higher in the median"
        " (from the same to 25 % higher)."
    )
    single = make(protocol="gp", metrics={"smse": 0.5, "n_cells": 1.0}, published={}, table=TABLE[:1])
    assert "error of 0.5 (lower" in answer(single), "a table of one row is a run like any other"


def test_what_the_answer_is_held_against_says_which_is_better():
    report = make(protocol="sec", metrics={"mse_cluster": 0.2, "mse_alone": 0.1, "mse_all": 0.4}, published={})
    told = [(each.metric, each.verdict) for each in comparisons(report)]
    assert told == [("mse_alone", "worse"), ("mse_all", "better")]
    costs = {"cost": 3.0, "cost_full": 2.0, "cost_unfair": 2.5}
    told = {each.metric: each.verdict for each in comparisons(make(protocol="coreset", metrics=costs, published={}))}
    assert told == {"cost_full": "the price of rows in separate places", "cost_unfair": "the price of fairness"}
    cheaper = comparisons(make(protocol="coreset", metrics={**costs, "cost": 1.0}, published={}))
    assert {each.verdict for each in cheaper} == {"better"}
    assert comparisons(make(protocol="other")) == []


@pytest.mark.parametrize(("error", "verdict"), [(0.0, "better"), (0.01, "better"), (0.03, UNCLEAR)])
def test_a_difference_within_its_error_is_neither_better_nor_worse(error, verdict):
    """Of three repetitions Student's distribution asks for 4.3 standard errors: 0.1 is 10 of them, or 3.3."""
    report = make(
        metrics={"accuracy": 0.9, "accuracy_se": error, "accuracy_majority": 0.8},
        published={"accuracy": 0.8},
        differences={"accuracy_majority": {"difference": 0.1, "difference_se": error}},
        config={"repetitions": 3},
    )
    assert {each.verdict for each in comparisons(report)} == {verdict}
    assert (f"; {UNCLEAR})" in answer(report)) == (verdict == UNCLEAR)
    assert ("Not significant: the difference" in report_html(report, {})) == (verdict == UNCLEAR)


def test_the_answer_of_a_table_says_higher_where_that_is_better():
    rows = [{"sites": n, "accuracy": 0.9, "accuracy_majority": rival} for n, rival in ((2, 0.8), (3, 0.95), (4, 0.9))]
    metrics = {"accuracy": 0.9, "accuracy_majority": 0.88, "accuracy_best_component": 0.7, "n_cells": 3.0}
    told = answer(make(metrics=metrics, published={}, table=rows))
    assert "It is higher than by majority vote in 1 of 3 and the same in 1." in told
    assert "For comparison, on average over the settings: 70.0 % by the best single component." in told


def test_differences_have_the_standard_errors_of_pairs():
    rng = np.random.default_rng(0)
    base = rng.gamma(5.0, size=2000)
    arrays = {"repetitions_mse_cluster": 0.8 * base, "repetitions_mse_alone": base}
    found = differences("sec", {"mse_cluster": 1.0}, arrays)
    assert set(found) == {"mse_alone"}
    assert found["mse_alone"]["relative"] == pytest.approx(-0.2)
    assert found["mse_alone"]["relative_se"] == pytest.approx(0.0, abs=1e-12)
    assert found["mse_alone"]["difference_se"] == pytest.approx(0.2 * base.std(ddof=1) / 2000**0.5)
    noisy = {**arrays, "repetitions_mse_cluster": base * rng.normal(0.8, 0.1, 2000)}
    ratios = [
        noisy["repetitions_mse_cluster"][draw].mean() / base[draw].mean()
        for draw in rng.integers(2000, size=(500, 2000))
    ]
    assert differences("sec", {"mse_cluster": 1.0}, noisy)["mse_alone"]["relative_se"] == pytest.approx(
        np.std(ratios), rel=0.2
    )
    cells = {"cells_mse_cluster": np.ones((3, 2)), "cells_mse_alone": np.full((3, 2), 2.0)}
    assert differences("sec", {"mse_cluster": 1.0}, cells)["mse_alone"]["relative"] == -0.5
    assert differences("sec", {"mse_cluster": 1.0}, {"repetitions_mse_cluster": np.ones(1)}) == {}
    told = make(protocol="sec", metrics={"mse_cluster": 8.0, "mse_alone": 10.0}, published={}, differences=found)
    assert "20.0 % less than with every learner alone (10)" in answer(told)


@pytest.mark.parametrize(
    ("share", "error", "text"),
    [
        (0.0, None, "0.0 %"),
        (0.9562, None, "95.6 %"),
        (1.0, None, "100 %"),
        (5.512, None, "551 %"),
        (0.0023, None, "0.23 %"),
        (1e-6, None, "0.0001 %"),
        (0.942, 0.004, "94.2 ± 0.4 %"),
        (0.5, 0.0, "50.0 %"),
    ],
)
def test_percent(share, error, text):
    assert percent(share, error) == text


# ------------------------------------------------------------------------------------------------- meanings, questions


def payloads():
    for name in (*protocol_names(), *SHARED):
        importlib.import_module(f"protocols.{name}.payloads")
    asks = [each for each in every_subclass(Payload) if each.__dict__.get("answer") is not None]
    return {each.title() for each in asks} | {each.answer.title() for each in asks}


def every_subclass(kind):
    return [found for each in kind.__subclasses__() for found in (each, *every_subclass(each))]


def test_every_payload_that_can_cross_is_explained():
    every = payloads()
    assert {"bc3e.EStep", "gp.Predictions", "secure_aggregation.Keys"} <= every
    assert not [name for name in every if not payload_words(name)]
    assert all(words[0].islower() for name in every if (words := payload_words(name)))
    assert payload_words("envelope")
    assert payload_words("unheard-of.Ask") == payload_words("Ask") == ""


@pytest.mark.parametrize("protocol", protocol_names())
def test_no_payload_is_explained_that_does_not_exist(protocol):
    payloads()
    assert {f"{protocol}.{name}" for name in report_of(protocol).payloads} <= {
        each.title() for each in every_subclass(Payload)
    }


def test_metrics_with_a_name_in_them_are_explained_too():
    assert meaning("gp", "coverage_95").target == 0.95
    assert meaning("gp", "coverage_95").words == "outputs inside their 95 % interval"
    assert meaning("bc3e", "accuracy_naive_bayes").words == "accuracy of the classifier naive bayes"
    assert meaning("sec", "mse_test_all").words.startswith(meaning("sec", "mse_all").words)
    assert meaning("sec", "mse_test_x") is meaning("sec", "unheard-of") is None
    assert meaning("sec", "coverage_95") is meaning("unheard-of", "coverage_95") is None
    assert meaning("unheard-of", "n_rows").counts == "row"


def test_measures_of_a_round_are_explained():
    assert measure_words("bc3e", "change") == "rise of the bound, as a share of it"
    assert measure_words("bc3e", "bound") == meaning("bc3e", "bound").words
    assert "fits under way" in measure_words("bc3e", "open")
    assert measure_words("bc3e", "unheard-of") == ""


@pytest.mark.parametrize("protocol", protocol_names())
def test_every_protocol_has_a_question_and_says_what_left_the_sites(protocol):
    config = {"bc3e.distribution": "row", "coreset.min-weight": 5, "data": "/d", "target": "y", "sensitive": "sex"}
    texts = overview(protocol, config, [], 3, "", (), {})
    assert texts["question"] == report_of(protocol).question
    assert texts["data"].startswith("Own data of 3 sites, one file each in /d")
    assert {"holdings", "disclosure"} < set(texts)
    assert "earlier" not in texts
    assert "own configuration" in overview(protocol, {**config, "data": ""}, [], 3, "", (), {})["data"]


def test_a_protocol_that_is_not_installed_has_an_overview_of_its_data():
    assert set(overview("unheard-of", {"data": "/d"}, [], 3, "", ("unheard-of.Ask",), {})) == {"data"}


def test_what_left_the_sites_is_said():
    def texts(protocol, payloads=(), cells=(), arrays=None, **config):
        named = {key.replace("__", "."): value for key, value in config.items()}
        return overview(protocol, named, cells, 2, "x", payloads, arrays or {})

    def left(*args, **options):
        return texts(*args, **options)["disclosure"]

    assert "number of instances" in left("bc3e", ["bc3e.Predict"])
    assert "their number" in left("bc3e", ["bc3e.PredictShared"])
    assert "masked" in left("bc3e", **{"secure-aggregation": True})
    assert "Of instances that several sites hold" in left("bc3e", bc3e__distribution="column")
    assert "Models that hold rows" in left("sec", **{"sec.allow-row-models": True})
    assert "encrypted" in left("residual", ["residual.Pass"])
    assert "at the fusion center" in texts("residual", arrays={"holder": np.array("")})["holdings"]
    assert "at the fusion center" in texts("residual", arrays={"prediction": np.ones(2)})["holdings"]
    assert "at one of them" in texts("residual", arrays={"holder": np.array("b")})["holdings"]
    assert "single row here" in left("coreset", **{"coreset.min-weight": 1})
    rows = [{"coreset.min-weight": 20}, {"coreset.min-weight": 1}]
    assert "single row here" in left("coreset", cells=rows), "the row that discloses most"
    assert "some of single rows" in left("coreset", ["coreset.Masses"])
    assert "disclosed the inputs" in left("gp", ["gp.Inputs"])
    assert "are predictions at" in left("gp", ["gp.Predict", "gp.Predictions"]), "nothing was learnt anew"
    assert left("gp", ["gp.Moments", "gp.Likelihood"]).endswith("and of the output and sums for the hyperparameters.")
    assert "(masked: only their total" in left("gp", ["gp.Moments", "secure_aggregation.Hidden"])
    assert "to all sites" in left("gp", ["gp.Rows"])
    assert texts("sec", **{"sec.join": "/r/7"})["earlier"].endswith("joined the clusters of an earlier run: /r/7.")
    assert texts("gp", **{"from": "/r/7"})["earlier"].endswith("/r/7.")


# ------------------------------------------------------------------------------------------------------ the commands


def test_the_commands_are_shell_and_say_every_key_that_was_set():
    config = {"scenario": "bc3e-heart", "protocol": "", "data": "it's here.csv", "seed": 3, "secure-aggregation": True}
    config |= {"resume-from": "/results/7", "bc3e.alpha": 1.0, "classes": ""}
    flwr = shlex.split(flwr_command(config, 4))
    assert flwr[:4] == ["flwr", "run", ".", "--stream"]
    assert 'data="it\'s here.csv"' in flwr
    assert "secure-aggregation=true" in flwr
    assert not any("resume-from" in word or "alpha" in word for word in flwr)
    assert flwr[-1] == "num-supernodes=4 client-resources-num-cpus=1"
    own = shlex.split(consilience_command(config, 4))
    assert own[:5] == ["consilience", "run", "bc3e-heart", "--sites", "4"]
    assert own[own.index("--data") + 1] == "it's here.csv"
    assert {"seed=3", "secure-aggregation=true", "classes="} <= set(own)
    for command in (flwr_command(config, 4), consilience_command(config, 4)):
        assert shlex.split(broken_over_lines(command).replace("\\\n", "")) == shlex.split(command)


def test_real_sites_have_no_simulation_in_their_command():
    for config in ({"protocol": "gp"}, {"scenario": "predict", "protocol": "", "from": "/r/7"}):
        assert "num-supernodes" not in flwr_command(config, 0)
        assert consilience_command(config, 0) == ""
    config = {"scenario": "bc3e-wine", "protocol": "gp", "data": "/d"}
    assert consilience_command(config, 4) == "consilience run --protocol gp --data /d"


def test_a_value_that_no_argument_can_carry_does_not_lose_the_run():
    assert "FILE.toml" in flwr_command({"scenario": "bc3e-wine", "protocol": "", "features": "a' \"b"}, 2)


# --------------------------------------------------------------------------------------------------------------- page


VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def test_page_is_well_formed_and_complete():
    report = make()
    html = report_html(report, draw(report))
    page = Page(html)
    text = "".join(page.text)
    headings = ["Overview", "The answer", "Figures", "Result", "What crossed the wire", "Rounds"]
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
    for shown in (answer(report), "0.942 ± 0.004", "EStep", "float64 (3), 96 B in all", "round 3: no answer", "3.12"):
        assert shown in text
    assert broken_over_lines(report.command) in text
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_page_takes_nothing_from_the_network_and_runs_nothing():
    report = make()
    html = report_html(report, draw(report))
    page = Page(html)
    assert not re.search(r"https?://|@import|url\(|javascript:", html)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert all(attrs["src"].startswith("data:image/png;base64,") for attrs in page.all("img"))
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_page_shows_the_shapes_of_the_arrays_of_a_field():
    def told(*shapes):
        wire = [line(1, "to_site", "a", "EStep", 8, shape=list(shapes))]
        return report_html(make(ledger=ledger_summary(wire)), {})

    assert "float64 (3 × 4), (3), (a single value), 8 B in all" in told([3, 4], [3], [])
    assert "float64 (3), (3), (3), (3), (3), (3), (3), (3), and 12 more, 8 B in all" in told(*[[3]] * 20)


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
    assert "and 980 more" in html


def test_the_configuration_shows_first_what_differs_from_the_defaults():
    html = report_html(make(config={"seed": 3, "bc3e.distribution": "row", "gp.kernel": ""}), {})
    changed, _, rest = html.partition("<details>")
    assert re.search(r"<th scope=\"row\">seed</th><td class=\"n\">3</td><td class=\"n\">0</td>", changed)
    assert "<summary>2 other keys at their defaults</summary>" in rest
    assert "bc3e.distribution" in rest.partition("</details>")[0]
    assert "has its default" in report_html(make(config={"gp.kernel": ""}), {})


def test_the_page_says_by_how_much_a_published_figure_is_missed():
    html = report_html(make(metrics={"accuracy": 0.9, "bound": 2.0}, published={"accuracy": 1.0, "bound": 0.0}), {})
    assert '<td class="n">−10.0 %</td>' in html
    assert "accuracy of the majority vote" not in html


# ------------------------------------------------------------------------------------------------------------- compare


@pytest.fixture
def leave(tmp_path):
    """A finished run of that report, and its directory."""

    def finished(run_id, **changes):
        directory = ResultsDirectory.open(tmp_path, "runs", run_id)
        report = make(**changes)
        return directory.finish(report, ARRAYS, LINES, draw(report))

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
    told = "".join(page.text).replace("\N{NO-BREAK SPACE}", " ")
    assert answer(runs[0].report) in told
    assert answer(runs[1].report) in told
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


@pytest.mark.parametrize(
    ("changes", "words", "marked"),
    [
        ({"protocol": "sec"}, "The runs have different protocols (bc3e and sec)", False),
        ({"scenario": "bc3e-heart"}, "The runs have different scenarios (bc3e-wine and bc3e-heart)", False),
        ({"config": {"bc3e.labelled": 0.5}}, "The data of the runs differ (bc3e.labelled)", False),
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


# ------------------------------------------------------------------------------------------------------------ figures


def test_figures_are_reproducible_png_images():
    report = make(metrics=make().metrics | {"accuracy_$x^{$": 0.5})
    drawn = figures(report, ARRAYS)
    assert [figure.name for figure in drawn] == ["bound", "accuracy"]
    assert drawn == figures(report, ARRAYS)
    for figure in drawn:
        assert figure.image.startswith(b"\x89PNG\r\n\x1a\n")
        assert b"tEXt" not in figure.image
    assert drawn[0] != figures(report, {"bounds": np.array([1.0])})[0]


def test_a_run_without_anything_to_draw_has_no_figures():
    assert figures(make(metrics={"accuracy": 1.0}), {}) == []
    assert figures(make(protocol="unheard-of"), {}) == []


def test_the_page_has_the_texts_that_the_report_keeps():
    report = make()
    images = draw(report)
    assert Report.from_json(report.to_json()).figures == report.figures
    assert "-300.5 after the first, -250.25 after 2" in report.figures[0]["alt"]
    report.figures[0] |= {"alt": "An old text & its number.", "caption": "Words of an earlier version."}
    html = report_html(report, images)
    assert 'alt="An old text &amp; its number."' in html
    assert "<figcaption>Words of an earlier version.</figcaption>" in html


def test_a_figure_without_texts_is_named():
    html = report_html(make(), {"price_of_all": b"x"})
    assert 'alt="Figure: price of all."' in html
    assert "<figcaption>Price of all.</figcaption>" in html


# --------------------------------------------------------------------------------------- numbers that are not finite


def test_an_error_that_is_not_finite_is_shown_as_it_is():
    assert with_error(1.0, math.nan) == "1 ± nan"
    assert with_error(1.0, math.inf) == "1 ± inf"


def test_a_row_without_a_finite_number_does_not_answer():
    rows = [{"K": place, "smse": value} for place, value in enumerate((0.5, math.nan, math.inf, 0.1))]
    told = answer(make(protocol="gp", metrics={"smse": 0.3, "n_cells": 4.0}, table=rows))
    assert "nan" not in told
    assert "inf" not in told
