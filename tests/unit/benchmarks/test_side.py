"""The frame of the benchmarks: methods measured alike, growth and its exponents, the page that is written of them."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import results as results_module
from benchmarks.growth import Curve, Point, exponent, grow, sizes_of
from benchmarks.growth_worlds import WORLDS
from benchmarks.page import page
from benchmarks.processes import run_process
from benchmarks.results import Results, Row
from benchmarks.side import PROTOCOLS, Case, Method, Metric, NotHereError, Result, Side
from benchmarks.side.measurement import Measurement, check_installed, measure, side_of
from benchmarks.tables import format_number, format_seconds, format_size

MEGABYTE = 10**6


def measurement(error: float, se: float = 0.01, rounds: float = 0.0, moved: float = 0.0) -> Measurement:
    metrics = {"error": error, "error_se": se}
    return Measurement(metrics, 3, 1.5, 1.5, 0.5, 0.2, rounds, moved, moved, 3e6)


def a_side(*methods: Method, better: str = "lower") -> Side:
    cases = [Case("small", "ten rows", lambda seed: seed, 2)]
    return Side("gp", "Do it.", [Metric("error", "error", better)], cases, methods, small=lambda: 0)


def a_method(name: str, ours: bool = False, **more: object) -> Method:
    return replace(Method(name, lambda data, seed: Result(lambda: {"error": 1.0 + seed}), "rows", ours), **more)  # type: ignore[arg-type]


# -- how a method is measured -----------------------------------------------------------------------------------------


def test_means_and_standard_errors_over_the_draws() -> None:
    side = a_side(a_method("ours", ours=True))
    result = measure(side, side.cases[0], side.methods[0])
    assert result.metrics == {"error": 1.5, "error_se": pytest.approx(0.5)}
    assert result.seeds == 2
    assert 0 <= result.seconds < 1
    assert math.isnan(result.center)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is read from /proc")
def test_the_peak_is_that_of_the_method_alone() -> None:
    def run_it(data: np.ndarray, seed: int) -> Result:
        held = np.ones(30 * MEGABYTE // 8)
        total = float(held.sum() + data[0])
        return Result(lambda: {"error": total + np.ones(100 * MEGABYTE // 8).sum()})

    case = Case("large", "", lambda seed: np.ones(60 * MEGABYTE // 8), 1)
    side = replace(a_side(), cases=[case], small=lambda: np.ones(1))
    peak = measure(side, case, Method("ours", run_it, "rows")).peak
    assert 25 * MEGABYTE < peak < 55 * MEGABYTE


def test_a_package_that_is_absent_is_named() -> None:
    check_installed(a_method("present", needs=("json",)))
    absent = a_method("absent", needs=("json", "no_such_module"), package="no-such-package")
    with pytest.raises(NotHereError, match=r"not installed: `pip install no-such-package`$"):
        check_installed(absent)
    with pytest.raises(NotHereError, match="make peers"):
        check_installed(replace(absent, apart=True))


def test_another_python_is_asked_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSILIENCE_PEERS", sys.executable)
    check_installed(a_method("present", needs=("json",), apart=True))
    with pytest.raises(NotHereError):
        check_installed(a_method("absent", needs=("no_such_module",), apart=True))


def test_a_process_answers_in_json_or_says_why_not() -> None:
    assert run_process([sys.executable, "-c", "import json; print(1); print(json.dumps({'a': 2}))"], 60) == {"a": 2}
    assert "no such thing" in run_process([sys.executable, "-c", "raise SystemExit('no such thing')"], 60)
    assert run_process([sys.executable, "-c", "import time; time.sleep(60)"], 0.2) == "did not end within 0.2 s"
    assert "does-not-exist" in run_process(["/does-not-exist"], 60)


def test_what_does_not_end_or_is_absent_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    side = a_side(a_method("slow", ours=True, limit=7.0), a_method("absent"), a_method("present"))
    answers = {"absent": {"missing": "not installed"}, "present": {**vars(measurement(0.3))}}
    monkeypatch.setattr(results_module, "side_of", lambda protocol, quick: side)
    monkeypatch.setattr(
        results_module, "run_process", lambda command, limit: answers.get(command[5], f"did not end within {limit:g} s")
    )
    slow, absent, present = results_module.compare("gp", False, 5.0, lambda line: None)
    assert (slow.problem, absent.problem, present.problem) == ("did not end within 7 s", "not installed", "")
    assert present.measurement == measurement(0.3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ours_comes_first_and_names_are_unique(protocol: str) -> None:
    for quick in (True, False):
        side = side_of(protocol, quick)
        assert side.methods[0].ours
        assert side.metrics[0].better
        for each in (side.methods, side.cases, side.metrics):
            names = [one.name for one in each]
            assert len(set(names)) == len(names)


# -- growth -----------------------------------------------------------------------------------------------------------


def test_the_exponent_of_a_power_law_is_exact() -> None:
    sizes = [2, 5, 10, 100]
    slope, error = exponent(sizes, [3.0 * each**1.7 for each in sizes])
    assert slope == pytest.approx(1.7)
    assert error == pytest.approx(0.0, abs=1e-6)
    assert exponent(sizes, [4.0] * 4)[0] == pytest.approx(0.0, abs=1e-12)
    slope, error = exponent([1, 10], [1.0, 100.0])
    assert slope == pytest.approx(2.0)
    assert math.isnan(error)
    for costs in ([0.0, 1.0], [math.nan, 1.0], []):
        assert all(map(math.isnan, exponent([1, 2][: len(costs)], costs)))


def test_growth_stops_before_a_size_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("benchmarks.growth.time.perf_counter", lambda: now[0])

    def quadratic(sites: int, rows: int) -> Point:
        now[0] += 1e-6 * rows**2
        return Point(sites, rows, 1, 1, 1, 1, 1, 1, 1)

    sizes = [(5, 10**power) for power in range(2, 7)]
    points, omitted = grow(sizes, quadratic, 200.0)
    assert [each.rows for each in points] == [100, 1000, 10_000]
    assert [each[:2] for each in omitted] == [(5, 100_000), (5, 1_000_000)]
    assert omitted[0][2] == pytest.approx(10_000.0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_synthetic_data_have_the_required_size(protocol: str) -> None:
    for axis in ("sites", "rows"):
        world = WORLDS[protocol].make(3, 300, axis == "sites")
        assert len(world.shards) == 3
        if protocol == "coreset":
            counts = [sum(len(block.group) for block in shard.blocks()) for shard in world.shards]
        elif protocol == "sec":
            counts = [shard.n + len(shard.y_test) for shard in world.shards]
        else:
            counts = [shard.n for shard in world.shards]
        assert counts == [300] * 3 if protocol == "residual" else sum(counts) == 300
    assert sizes_of(protocol, "rows", quick=False)[-1][1] == 10**6
    assert sizes_of(protocol, "sites", quick=False)[-1][0] == 200


# -- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Results:
    pooling, local = a_method("pooling"), a_method("local")
    side = a_side(a_method("consilience", ours=True), pooling, local, a_method("absent"))
    monkeypatch.setattr("benchmarks.page.side_of", lambda protocol, quick: side)
    about = {key: key for key in ("command", "machine", "date", "versions", "load", "minutes")}
    rows = [
        Row("small", "consilience", measurement(0.2, rounds=3, moved=2e6)),
        Row("small", "pooling", measurement(0.1, moved=1e6)),
        Row("small", "local", measurement(0.5)),
        Row("small", "absent", problem="not installed: `pip install absent`"),
    ]
    points = [Point(n, 100, 0.5, 0.2, 0.1 * n, 3, 100 * n, 200 * n, math.nan) for n in (2, 4, 8)]
    growth = [Curve("gp", "sites", points, [(16, 100, 99.0)])]
    return Results(about, False, {"gp": rows}, growth, {"gp rows": "did not end within 5 s"})


def test_the_page_has_every_method_and_says_what_is_missing(results: Results) -> None:
    text = page(results)
    assert "$" not in text
    assert "| **consilience** | rows | 0.2000 ± 0.010 |" in text
    assert "| pooling | rows | **0.1000 ± 0.010** |" in text
    assert "*not installed: `pip install absent`*" in text
    assert "*did not end within 5 s*" in text
    assert "| **gp** | 1.00 | 1.00 | - |" in text
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count(" | ") for line in rows}) <= 1, block


def test_the_page_survives_a_file(results: Results) -> None:
    assert page(Results.of_json(results.to_json())) == page(results)


def test_numbers_are_short_and_plain() -> None:
    assert [format_number(each, 3) for each in (0, 0.01234, 1.5, 12_345.6, math.nan)] == [
        "0",
        "0.0123",
        "1.50",
        "12,346",
        "",
    ]
    assert [format_seconds(each) for each in (0.00123, 0.0004, 0.0, 12.34, math.nan)] == [
        "0.001",
        "< 0.001",
        "0.000",
        "12.3",
        "",
    ]
    assert [format_size(each) for each in (0, 12, 12_300, 4_560_000, math.nan)] == [
        "0",
        "12 B",
        "12.3 kB",
        "4.56 MB",
        "",
    ]


def test_what_a_process_has_started_ends_with_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    child = f"import os, pathlib, time; pathlib.Path({str(started)!r}).write_text(str(os.getpid())); time.sleep(60)"
    parent = (
        f"import sys; from benchmarks.processes import run_process as run; run([sys.executable, '-c', {child!r}], 60)"
    )
    assert run_process([sys.executable, "-c", parent], 2.0) == "did not end within 2 s"
    status = Path(f"/proc/{started.read_text()}/status")
    until = time.monotonic() + 10
    while status.exists() and "zombie" not in status.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert not status.exists() or "zombie" in status.read_text()
