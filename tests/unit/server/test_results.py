"""The results directory: complete or absent, and resumed from where it stopped."""

import json
import math
import os
import re
import shutil
import zipfile

import numpy as np
import pytest

import server.results as results_module
from server.report.data import ResultsError
from server.results import ResultsDirectory, load
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
    assert sorted(os.listdir(final.parent)) == [".numbers", "12"]
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


def test_a_report_that_cannot_be_written_leaves_a_run_to_resume(tmp_path):
    directory = started(tmp_path)
    with pytest.raises(ResultsError, match="metric 'bad' is nan"):
        finish(directory, make(metrics={"good": 1.0, "bad": math.nan}))
    assert not directory.final.exists()
    assert directory.checkpoint.is_dir()


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
