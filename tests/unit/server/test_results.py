import json
import math
import os
import re
import shutil
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import server.results as results_module
from server.report.data import Report, ResultsError
from server.report.html import report_html
from server.report.protocol import report_of
from server.report.summary import render_table
from server.results import ResultsDirectory, load
from server.versions import versions
from tests.support.sample_report import LINES, make


def finish(directory, report=None, arrays=None):
    arrays = {"alpha": np.array([1.0, 2.5])} if arrays is None else arrays
    return directory.finish(report or make(), arrays, iter(LINES), {"bound": b"png", "accuracy": b"another"})


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
    optional = ["missing", "notes", "config", "command", "convergence", "session", "overview", "differences"]
    optional += ["shorthand", "figures"]
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
    assert list(found) == ["python", "consilience", "flwr", "numpy", "scipy", "scikit-learn", "platform"]
    assert all(re.match(r"\d+\.\d+", version) for name, version in found.items() if name != "platform")
    assert versions("gp").keys() - found.keys() == {"torch", "gpytorch"}


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
    assert tree(final / "figures") == {"accuracy.png": b"another", "bound.png": b"png"}
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


def test_a_page_that_cannot_be_made_costs_no_results(tmp_path, monkeypatch):
    def broken(*given):
        raise ZeroDivisionError

    monkeypatch.setattr(results_module, "report_html", broken)
    final = finish(started(tmp_path))
    assert load(final)[0] == make()
    assert not (final / "report.html").exists()
    assert (final / "figures" / "bound.png").is_file()


class Stopped(BaseException):
    """As a kill would: nothing in the code catches it."""


# Every step at which a run can be stopped, by the name it is called by.
STEPS = [
    ("server.results.write_arrays", 1),
    *(("server.results.write_file", call) for call in range(1, 6)),
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
