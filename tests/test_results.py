import json
import math
import os
import re
import shutil
import zipfile
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import server.results as results_module
from server.figures import alt_text
from server.report import (
    answer,
    figures,
    folded,
    human_bytes,
    human_seconds,
    ledger_summary,
    printable,
    report_html,
    with_error,
)
from server.results import Report, ResultsDirectory, ResultsError, load, render_table, versions

HOSTILE = '<script>alert("&")</script>'


def line(round_, direction, site, payload, size, shape=(3,)):
    return {
        "round": round_,
        "direction": direction,
        "site": site,
        "lane": "0",
        "payload": payload,
        "fields": {"alpha": {"shape": shape, "dtype": "float64", "bytes": size}},
        "bytes": size,
    }


LINES = [
    line(number, direction, site, payload, size)
    for number in (1, 2)
    for site in ("a", "b")
    for direction, payload, size in (("to_site", "EStep", 24), ("from_site", "Statistics", 40))
]


def make(**changes):
    report = Report(
        scenario="bc3e-wine",
        protocol="bc3e",
        seed=3,
        sites=["a", "b"],
        rounds=14,
        seconds=125.25,
        metrics={
            "bound": -1234.5678,
            "accuracy_se": 0.004,
            "accuracy": 0.9421,
            "accuracy_majority": 0.897,
            "accuracy_tree": 0.81,
        },
        published={"accuracy": 0.935},
        table=[{"repetition": 1, "accuracy": 0.9, "accuracy_se": 0.02}, {"repetition": 2, "note": None}],
        ledger=ledger_summary(LINES),
        versions={"python": "3.12"},
        missing={"b": ["round 3: no answer within 600 s"]},
        config={"seed": 3, "bc3e.distribution": "row"},
        command="flwr run . --stream --run-config 'seed=3'",
        convergence=[{"round": 1, "bound": -300.5, "bytes": 64}, {"round": 2, "bound": -250.25, "bytes": 64}],
    )
    return replace(report, **changes)


def finish(directory, report=None, arrays=None):
    arrays = {"alpha": np.array([1.0, 2.5])} if arrays is None else arrays
    return directory.finish(report or make(), arrays, iter(LINES), {"bound": b"png", "lazy": lambda: b"drawn"})


def started(tmp_path, run_id="7"):
    directory = ResultsDirectory.open(tmp_path / "results", "bc3e-wine", run_id)
    for folder, name in (("checkpoint", "round-1"), ("sites/a", "memory")):
        (directory.partial / folder).mkdir(parents=True)
        (directory.partial / folder / name).write_text(name)
    return directory


def tree(folder):
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


# --------------------------------------------------------------------------------------------------------- the report


def test_report_json_has_the_documented_keys_in_order():
    keys = list(json.loads(make().to_json()))
    documented = ["schema", "scenario", "protocol", "seed", "sites", "rounds", "seconds"]
    documented += ["metrics", "published", "table", "ledger", "versions"]
    assert keys[: len(documented)] == documented
    assert keys[len(documented) :] == ["missing", "notes", "config", "command", "convergence", "session"]


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
def test_a_number_that_is_not_finite_is_refused_by_name(tmp_path, field, what, value):
    report = make(**{field: {"good": 1.0, "bad": value}})
    with pytest.raises(ResultsError, match=f"{what} is -?(nan|inf)"):
        report.to_json()
    directory = started(tmp_path)
    with pytest.raises(ResultsError, match=what):
        finish(directory, report)
    assert not directory.final.exists()
    assert directory.checkpoint.is_dir()


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
    assert list(found) == ["python", "consilience", "flwr", "numpy", "scipy", "scikit-learn"]
    assert all(re.match(r"\d+\.\d+", version) for version in found.values())


# ---------------------------------------------------------------------------------------------------------- directory


def test_finish_leaves_a_complete_directory_and_no_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = ResultsDirectory.open("out", "bc3e-wine", 12)
    assert directory.partial == tmp_path / "out" / "bc3e-wine" / ".12.partial"
    directory.checkpoint.mkdir()
    (directory.partial / "sites").mkdir()
    final = finish(directory)
    assert final == directory.final == tmp_path / "out" / "bc3e-wine" / "12"
    assert {each.name for each in final.iterdir()} == {
        "report.json",
        "arrays.npz",
        "ledger.jsonl",
        "report.html",
        "figures",
    }
    assert tree(final / "figures") == {"bound.png": b"png", "lazy.png": b"drawn"}
    lines = [json.loads(each) for each in (final / "ledger.jsonl").read_text().splitlines()]
    assert lines == json.loads(json.dumps(LINES))
    assert os.listdir(final.parent) == ["12"]
    report, arrays = load("out/bc3e-wine/12/")
    assert report == make()
    assert arrays["alpha"].tolist() == [1.0, 2.5]


def test_sites_stay_and_the_checkpoint_goes(tmp_path):
    final = finish(started(tmp_path))
    assert (final / "sites" / "a" / "memory").is_file()
    assert not (final / "checkpoint").exists()


class Stopped(BaseException):
    """As a kill would: nothing in the code catches it."""


# Every step at which a run can be stopped, by the name it is called by.
STEPS = [
    ("server.results.write_arrays", 1),
    *(("server.results.write_file", call) for call in range(1, 6)),
    ("server.results.report_html", 1),
    ("server.results.sync_directory", 1),
    ("server.results.sync_directory", 2),
    ("os.rename", 1),
    ("os.fsync", 1),
    ("os.fsync", 4),
]


@pytest.mark.parametrize("error", [Stopped(), OSError(28, "No space left on device")], ids=["stopped", "disk-full"])
@pytest.mark.parametrize(("step", "call"), STEPS)
def test_a_failure_in_any_step_leaves_no_results_and_a_run_to_resume(tmp_path, monkeypatch, step, call, error):
    directory = started(tmp_path)
    owner, name = (os, step[3:]) if step.startswith("os.") else (results_module, step.rpartition(".")[2])
    original, calls = getattr(owner, name), []

    def failing(*args):
        calls.append(args)
        if len(calls) == call:
            raise error
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(Stopped if isinstance(error, Stopped) else ResultsError) as caught:
            finish(directory)
    assert len(calls) == call, "the step was not reached"
    if not isinstance(error, Stopped):
        assert "No space left on device" in str(caught.value)
        assert f"resume-from={directory.final}" in str(caught.value)
    assert not directory.final.exists()
    next_run = ResultsDirectory.open(tmp_path / "results", "bc3e-wine", "8")
    assert next_run.adopt(directory.final) == directory.partial
    assert finish(directory).is_dir()  # and the interrupted one can finish as well
    assert finish(next_run).is_dir()


def test_a_figure_that_cannot_be_drawn_leaves_no_results(tmp_path):
    directory = started(tmp_path)
    with pytest.raises(ZeroDivisionError):
        directory.finish(make(), {}, [], {"broken": lambda: bytes(1 // 0)})
    assert not directory.final.exists()
    assert directory.checkpoint.is_dir()


def test_a_checkpoint_that_cannot_be_removed_does_not_undo_the_run(tmp_path, monkeypatch):
    directory = started(tmp_path)
    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda path, **kw: remove(path, **kw) if path.name == "figures" else None)
    assert load(finish(directory))[0] == make()


def test_an_existing_final_directory_is_refused(tmp_path):
    directory = started(tmp_path)
    directory.final.mkdir()
    for attempt in (lambda: finish(directory), lambda: ResultsDirectory.open(tmp_path / "results", "bc3e-wine", "7")):
        with pytest.raises(ResultsError, match="exists already") as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert not any(directory.final.iterdir())


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(ResultsError, match="cannot name a results directory"):
        ResultsDirectory.open(tmp_path, name, "1")
    with pytest.raises(ResultsError, match="cannot name a figure"):
        started(tmp_path).finish(make(), {}, [], {name: b""})


def test_an_output_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"file/bc3e-wine/\.1\.partial cannot be made: .*; set another output-dir"):
        ResultsDirectory.open(tmp_path / "file", "bc3e-wine", "1")


def test_equal_arrays_give_equal_bytes(tmp_path):
    values = {"beta_0": np.arange(6.0).reshape(2, 3), "alpha": np.array(2.5), "file": np.array(["a", "é"])}
    one = finish(started(tmp_path, "1"), arrays=values)
    other = finish(
        started(tmp_path, "2"),
        arrays={name: np.asfortranarray(each) if each.ndim else each for name, each in reversed(values.items())},
    )
    assert tree(one) == tree(other)
    with zipfile.ZipFile(one / "arrays.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    _, back = load(one)
    for name, each in values.items():
        np.testing.assert_array_equal(back[name], each, strict=True)


def test_python_objects_are_refused_by_name(tmp_path):
    directory = started(tmp_path)
    with pytest.raises(ResultsError, match="array 'names' holds Python objects"):
        finish(directory, arrays={"names": np.array([{}], dtype=object)})
    assert not directory.final.exists()


# ------------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize("typed", ["final", "partial", "relative"])
def test_adopt_copies_checkpoint_and_sites(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    old = started(tmp_path)
    before = tree(old.partial)
    new = ResultsDirectory.open(tmp_path / "elsewhere", "bc3e-wine", "8")
    path = {"final": old.final, "partial": str(old.partial), "relative": "results/bc3e-wine/7/"}[typed]
    assert new.adopt(path) == old.partial
    assert tree(new.partial) == before == tree(old.partial)


def test_adopt_tells_what_is_wrong(tmp_path):
    new = ResultsDirectory.open(tmp_path, "bc3e-wine", "8")
    with pytest.raises(ResultsError, match="there is no interrupted run"):
        new.adopt(tmp_path / "nowhere" / "1")
    new.checkpoint.mkdir()
    (new.checkpoint / "round-1").write_text("")
    with pytest.raises(ResultsError, match="names the run itself"):
        new.adopt(new.final)
    complete = started(tmp_path, "9")
    final = finish(complete)
    for typed in (final, complete.partial):
        with pytest.raises(ResultsError, match=re.escape(f"is complete: look at it with `consilience show {final}`")):
            new.adopt(typed)
    with pytest.raises(ResultsError, match="is not a results directory"):
        new.adopt(tmp_path)
    bare = ResultsDirectory.open(tmp_path, "bc3e-wine", "10")
    with pytest.raises(ResultsError, match="stopped before its first checkpoint"):
        new.adopt(bare.final)


def test_a_copy_cut_short_is_not_taken_for_a_checkpoint(tmp_path, monkeypatch):
    old, new = started(tmp_path), ResultsDirectory.open(tmp_path, "bc3e-wine", "8")
    copy = shutil.copytree

    def cut_short(source, *args, **options):
        copy(source, *args, **options)
        if source.name == "checkpoint":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", cut_short)
    with pytest.raises(ResultsError, match=r"cannot be copied to .*: No space left on device"):
        new.adopt(old.final)
    assert not new.checkpoint.exists()


def test_load_tells_what_is_wrong(tmp_path):
    interrupted = started(tmp_path)
    for typed in (interrupted.final, interrupted.partial):
        with pytest.raises(
            ResultsError, match=re.escape(f"interrupted and has no results; go on with resume-from={interrupted.final}")
        ):
            load(typed)
    with pytest.raises(ResultsError, match="there is no results directory"):
        load(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match=r"is not a results directory: it has no report.json and no arrays.npz"):
        load(tmp_path)
    final = finish(started(tmp_path, "8"))
    with pytest.raises(ResultsError, match="is not a results directory"):
        load(final / "report.json")
    (final / "arrays.npz").write_bytes(b"PK")
    with pytest.raises(ResultsError, match=r"arrays.npz cannot be read"):
        load(final)
    (final / "report.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"report.json cannot be read: not a report: it has no 'schema'"):
        load(final)


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
    assert summary["by_site"] == {"a": {"bytes_to": 48, "bytes_from": 80}, "b": {"bytes_to": 48, "bytes_from": 85}}
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
    [(0.04, "0.0 s"), (12.34, "12.3 s"), (59.97, "1 min 0 s"), (125.2, "2 min 5 s"), (3720, "1 h 2 min")],
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


@pytest.mark.parametrize(
    ("protocol", "metrics", "words"),
    [
        ("bc3e", make().metrics, "accuracy of 0.942 ± 0.004 in 14 rounds, against 0.897 by majority vote; the paper"),
        ("bc3e", {"bound": -12.5}, "Together, 2 sites reached a bound on the log-likelihood of -12.5 in 14 rounds."),
        ("sec", {"mse_cluster": 0.1, "mse_alone": 0.3, "mse_all": 0.2}, "of 0.1 in 14 rounds, against 0.3 with every"),
        ("residual", {"test_mse": 0.1, "train_mse": 0.2}, "a mean squared error on test rows of 0.1 in 14 rounds."),
        (
            "residual",
            {"test_mse": 0.1, "mse_average": 0.7, "mse_centralized": 0.03},
            "of 0.1 in 14 rounds, against 0.7 by the mean of the agents alone and 0.03 by boosting the pooled columns.",
        ),
        ("residual", {"test_mse": 0.1, "mse_centralized": 0.03}, "rounds, against 0.03 by boosting the pooled"),
        ("coreset", {"cost": 5.0, "cost_unfair": 4.0}, "of 5 in 14 rounds, against 4 without the bounds of fairness."),
        ("gp", {"smse": 0.25}, "a standardised mean squared error of 0.25"),
        ("other", {"b": 2.0, "a": 1.0}, "a value of a of 1"),
    ],
)
def test_the_answer_names_the_main_number_and_its_rivals(protocol, metrics, words):
    assert words in answer(make(protocol=protocol, metrics=metrics))


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
    html = report_html(report, figures(report, {}))
    page = Page(html)
    text = "".join(page.text)
    for heading in ("Result", "Figures", "What crossed the wire", "Rounds", "Missing parties", "Configuration"):
        assert f"<h2>{heading}</h2>" in html
    assert len(page.all("h1")) == len(page.all("main")) == 1
    assert all(attrs.get("alt") for attrs in page.all("img"))
    assert len(page.all("img")) == 2
    assert len(page.all("table")) == len(page.all("caption")) == 8
    assert all("scope" in attrs for attrs in page.all("th"))
    for shown in (answer(report), "0.942 ± 0.004", "EStep", "float64 (3), 96 B in all", "round 3: no answer", "3.12"):
        assert shown in text
    assert report.command in text
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_page_takes_nothing_from_the_network_and_runs_nothing():
    report = make()
    html = report_html(report, figures(report, {}))
    page = Page(html)
    assert not re.search(r"https?://|@import|url\(|javascript:", html)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert all(attrs["src"].startswith("data:image/png;base64,") for attrs in page.all("img"))
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_page_shows_the_shape_of_every_array_of_a_field():
    wire = [line(1, "to_site", "a", "EStep", 8, shape=[[3, 4], [3], []])]
    assert "float64 (3 × 4), (3), (a single value), 8 B in all" in report_html(make(ledger=ledger_summary(wire)), {})


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
    assert "<h2>Figures</h2>" not in html


# ------------------------------------------------------------------------------------------------------------ figures


def test_figures_are_reproducible_png_images():
    report = make(metrics=make().metrics | {"accuracy_$x^{$": 0.5})
    drawn = figures(report, {})
    assert list(drawn) == ["bound", "accuracy"]
    assert drawn == figures(report, {})
    for image in drawn.values():
        assert image.startswith(b"\x89PNG\r\n\x1a\n")
        assert b"tEXt" not in image
    assert drawn["bound"] != figures(make(convergence=[{"round": 1, "bound": 1.0}]), {})["bound"]


def test_figures_of_what_is_not_there():
    assert figures(make(convergence=[{"round": 1, "bound": None}], metrics={"accuracy": 1.0}), {}) == {}
    assert figures(make(protocol="unheard-of"), {}) == {}


def test_alt_text_says_what_the_figure_shows():
    assert alt_text(make(), "bound") == "Bound over rounds: -300.5 in round 1, -250.25 in round 2."
    assert "together (BC3E) 0.942, majority vote 0.897, tree 0.810" in alt_text(make(), "accuracy")
