"""Short names of runs: a number belongs to one run for ever, and a name that may be two runs is none."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server.report.data import ResultsError
from server.run_names import find_newest, find_run, finished_runs, short_names, take_number


def finished(name: str, run_id: str, *, at: int = 0, output: Path = Path("results")) -> Path:
    run = output / name / run_id
    run.mkdir(parents=True)
    (run / "report.json").touch()
    os.utime(run / "report.json", (at, at))
    take_number(run)
    return run


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_runs_are_numbered_as_they_finish() -> None:
    first, second = finished("wine", "912", at=1), finished("wine", "17", at=2)
    assert short_names(Path("results/wine")) == {"912": "wine-1", "17": "wine-2"}
    assert [find_run(name) for name in ("wine-1", "wine-2", "wine")] == [first, second, second]
    assert find_run("results/wine-1") == find_run(Path("results/wine/912")) == first
    assert finished_runs(Path("results/wine")) == [first, second]


def test_a_clock_that_is_set_back_does_not_make_an_older_run_the_newest() -> None:
    finished("wine", "912", at=7200)
    second = finished("wine", "17", at=3600)
    assert find_run("wine") == finished_runs(Path("results/wine"))[-1] == second


def test_a_number_keeps_its_run_when_others_are_deleted() -> None:
    for place in range(3):
        finished("wine", f"run{place}", at=place)
    shutil.rmtree("results/wine/run0")
    shutil.rmtree("results/wine/run2")
    fourth = finished("wine", "run3")
    assert find_run("wine-4") == fourth
    assert find_run("wine-2") == Path("results/wine/run1")
    for gone in ("wine-1", "wine-3", "wine-5", "wine-02", "wine-0"):
        assert find_run(gone) == Path(gone)


def test_runs_that_finish_together_have_different_numbers() -> None:
    runs = [Path("results/wine") / str(place) for place in range(40)]
    for run in runs:
        run.mkdir(parents=True)
        (run / "report.json").touch()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(take_number, runs))
    names = short_names(Path("results/wine"))
    assert sorted(names.values()) == sorted(f"wine-{number}" for number in range(1, 41))
    assert {find_run(name).name: name for name in names.values()} == names


def test_a_name_that_may_be_two_runs_is_refused() -> None:
    third = [finished("wine", str(place)) for place in range(3)][-1]
    other = finished("wine-3", "88")
    with pytest.raises(ResultsError, match=r"wine-3 may be results/wine-3/88 or results/wine/2: give the path"):
        find_run("wine-3")
    assert find_run("wine-3-1") == other
    assert find_run(third) == third
    finished("wine", "5", output=Path())
    with pytest.raises(ResultsError, match=r"wine may be .* or .*: give the path"):
        find_run("wine")


def test_results_of_another_folder_are_named_with_it() -> None:
    run = finished("wine", "5", output=Path("elsewhere"))
    assert find_run("elsewhere/wine-1") == find_run("elsewhere/wine") == run
    assert find_run("wine-1") == Path("wine-1")


def test_the_newest_run_is_that_which_finished_last() -> None:
    finished("wine", "5", at=3)
    last = finished("heart", "4", at=7)
    finished("moon", "9", at=5)
    assert find_newest(Path("results")) == last
    with pytest.raises(ResultsError, match="there is no finished run in nowhere: name one, or another --output-dir"):
        find_newest(Path("nowhere"))
