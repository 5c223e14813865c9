"""The local engine with worker processes: the same results, a process that dies, a round that ends before its sites."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from common.settings import ConfigError
from consilience.local_engine import engine
from consilience.local_engine.log import log_lines
from server.results import load
from tests.support.engines import SHORT_RUNS, assert_same_run
from tests.support.parameters import few

pytestmark = pytest.mark.usefixtures("quick")


def processes() -> set[int]:
    """The processes below this one."""
    return {each.pid for each in psutil.Process().children(recursive=True)}


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = processes()
    yield
    assert processes() == before


@pytest.mark.parametrize("name", few(list(SHORT_RUNS)))
def test_workers_give_the_result_of_sites_in_line(tmp_path: Path, name: str) -> None:
    sites, settings = SHORT_RUNS[name]
    paths = [
        engine.run({**settings, "output-dir": str(tmp_path / str(workers))}, sites, workers=workers)
        for workers in (None, 2)
    ]
    assert_same_run(*paths)


OWN = """
import os, signal, time

def data(place, n_sites):
    {body}
    return {{"class_a": [0, 1, 1, 0], "class_b": [0, 1, 0, 0], "cluster_x": [1, 0, 0, 1]}}
"""


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes settings for own data by a function with this body; the function lies in a module."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def settings(module: str, body: str) -> dict[str, Any]:
        (tmp_path / f"{module}.py").write_text(OWN.format(body=body))
        return {"protocol": "bc3e", "data": f"{module}:data", "output-dir": str(tmp_path / "results")}

    return settings


def test_a_worker_that_dies_is_a_failed_site_and_the_run_goes_on(own_data: Any, tmp_path: Path) -> None:
    """It says by which signal or code; what a site logs in a worker is in the log."""
    mark = tmp_path / "died"
    died = f"if place == 1 and not os.path.exists({str(mark)!r}): open({str(mark)!r}, 'w'); os.kill(os.getpid(), 9)"
    body = f"{died}\n    if place == 3: os._exit(3)\n    if place == 4: raise ValueError('no such ward')"
    lines: list[str] = []
    with log_lines(lines.append):
        path = engine.run({**own_data("dying", body), "min-sites": 2}, 5, workers=2)
    report, _ = load(path)
    assert set(report.missing) == {"site-1", "site-3", "site-4"}
    assert report.missing["site-1"] == ["round 1: its process ended (signal 9)"]
    assert report.missing["site-3"][0] == "round 1: its process ended (exit code 3)"
    ended = [line for line in lines if "process ended" in line]
    assert ended == [
        f"WARNING : round 1: site-{each}"
        for each in ("1: its process ended (signal 9)", "3: its process ended (exit code 3)")
    ]
    assert any("no such ward" in line for line in lines), lines
    assert report.sites[:1] == ["site-0"]


def test_too_few_sites_because_a_worker_ended_is_an_error_that_says_so(own_data: Any) -> None:
    """And not that the other site, which answered, is missing."""
    settings = own_data("ending", "if place == 1: os._exit(3)")
    with pytest.raises(RuntimeError, match=r"site-1.*its process ended \(exit code 3\)") as caught:
        engine.run({**settings, "min-sites": 2}, 2, workers=2)
    assert "site-0" not in str(caught.value)


@pytest.fixture
def real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The round's time-out is of real seconds."""
    import strategies.exchange

    monkeypatch.setattr(strategies.exchange, "time", time)


@pytest.mark.usefixtures("real_clock")
def test_the_time_out_of_a_round_holds(own_data: Any) -> None:
    settings = own_data("slow", "time.sleep(600 if place == 1 else 0)")
    path = engine.run({**settings, "round-timeout": 15.0, "bc3e.max-rounds": 1, "min-sites": 1}, 3, workers=3)
    assert list(load(path)[0].missing) == ["site-1"]


@pytest.mark.usefixtures("real_clock")
def test_an_interrupt_ends_the_workers(own_data: Any) -> None:
    settings = own_data("endless", "time.sleep(600)")
    threading.Timer(8.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        engine.run(settings, 2, workers=2)


def test_data_given_in_python_reach_the_workers() -> None:
    import consilience as cs

    sites = {name: {"class_a": [0, 1, 1, 0], "cluster_x": [1, 0, 0, 1]} for name in ("north", "south")}
    one, other = (cs.run(cs.BC3E(allow_single_model=True), workers=workers, data=sites) for workers in (None, 2))
    assert_same_run(other.path, one.path)


def test_a_function_of_the_program_itself_is_refused(tmp_path: Path) -> None:
    settings = {"protocol": "bc3e", "data": "__main__:load", "output-dir": str(tmp_path)}
    with pytest.raises(ConfigError, match="put it in a module"):
        engine.run(settings, 2, workers=2)
