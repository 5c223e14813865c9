"""The report as data: what report.json holds, and what is refused."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.report.data import Report, ResultsError
from server.report.html import report_html
from server.report.protocol import report_of
from server.report.summary import render_table
from server.versions import versions
from tests.support.sample_report import make


def test_report_json_has_the_documented_keys_in_order():
    keys = list(json.loads(make().to_json()))
    documented = ["schema", "scenario", "protocol", "seed", "sites", "rounds", "seconds"]
    documented += ["metrics", "published", "table", "ledger", "versions"]
    assert keys[: len(documented)] == documented
    optional = ["missing", "lost", "notes", "config", "command", "convergence", "session", "overview", "differences"]
    optional += ["shorthand", "influence", "verdict", "figures"]
    assert keys[len(documented) :] == optional


def test_a_report_of_an_earlier_version_is_read_and_shown():
    old = json.loads(make().to_json())
    for name in ("overview", "differences", "shorthand", "figures"):
        del old[name]
    for site in old["ledger"]["by_site"].values():
        del site["payloads"]
    report = Report.from_json(json.dumps(old))
    assert report == make(ledger=report.ledger, overview={})
    html = report_html(report, {"bound": b"png"})
    assert report_of("bc3e").question in html
    assert 'alt="Figure: bound."' in html
    assert ">By site</p>" in html


def test_report_round_trip():
    assert Report.from_json(make().to_json()) == make()


@given(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)), st.text())
def test_report_round_trip_is_exact_for_any_number_and_name(metrics, site):
    back = Report.from_json(make(metrics=metrics, sites=[site]).to_json())
    assert {name: value.hex() for name, value in back.metrics.items()} == {n: v.hex() for n, v in metrics.items()}
    assert back.sites == [site]


def test_equal_reports_give_equal_text_whatever_the_order_of_their_metrics():
    backwards = make(metrics=dict(reversed(make().metrics.items())))
    assert backwards.to_json() == make().to_json()
    assert render_table(backwards) == render_table(make())


def test_numpy_values_become_plain_numbers():
    report = make(metrics={"x": np.float64(0.1), "n": np.int64(3)}, convergence=[{"round": np.int64(1), "b": (1, 2)}])
    back = Report.from_json(report.to_json())
    assert back.metrics == {"n": 3.0, "x": 0.1}
    assert back.convergence == [{"round": 1, "b": [1, 2]}]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
@pytest.mark.parametrize(("field", "what"), [("metrics", "metric 'bad'"), ("published", "published figure 'bad'")])
def test_a_number_that_is_not_finite_is_refused_by_name(field, what, value):
    with pytest.raises(ResultsError, match=f"{what} is -?(nan|inf)"):
        make(**{field: {"good": 1.0, "bad": value}}).to_json()


def test_text_is_no_metric():
    with pytest.raises(ResultsError, match="metric 'bad' is not a number: 'high'"):
        make(metrics={"bad": "high"}).to_json()


def test_no_value_in_a_round_is_null():
    assert json.loads(make(convergence=[{"round": 1, "change": math.inf}]).to_json())["convergence"][0] == {
        "round": 1,
        "change": None,
    }


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda content: "{", "not JSON"),
        (lambda content: "[]", "no 'schema'"),
        (lambda content: json.dumps(content | {"schema": 2}), "schema 2 is not the schema 1"),
        (lambda content: json.dumps({k: v for k, v in content.items() if k != "sites"}), "no 'sites'"),
        (lambda content: json.dumps(content | {"rounds": "many"}), "'rounds' is str"),
        (lambda content: json.dumps(content | {"metrics": {"x": math.nan}}), "metric 'x' is nan"),
    ],
)
def test_what_is_no_report_is_refused(edit, message):
    with pytest.raises(ResultsError, match=re.escape(message)):
        Report.from_json(edit(json.loads(make().to_json())))


def test_versions_names_what_a_result_depends_on():
    found = versions()
    assert list(found) == ["python", "consilience", "flwr", "numpy", "scipy", "scikit-learn", "platform"]
    assert all(re.match(r"\d+\.\d+", version) for name, version in found.items() if name != "platform")
    assert versions("gp").keys() - found.keys() == {"torch", "gpytorch"}
