"""What a run would cost a site: measured on some rows, scaled to all, and said with a remedy where it is too much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import clients.cost
from clients.cost import Work, cost_lines
from protocols import registry
from protocols.settings import declared

CONFIG = {"round-timeout": 600.0}


class Clock:
    """Stands in for the module `time`: the work moves it on."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    process_time = perf_counter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clients.cost, "time", clock)
    monkeypatch.setattr(clients.cost, "_SECONDS", 1.2)
    return clock


@pytest.fixture
def taking(clock: Clock) -> Callable[[Callable[[int], float]], Callable[[int], None]]:
    """Make work on m rows that takes so many seconds."""

    def make(seconds: Callable[[int], float]) -> Callable[[int], None]:
        def run(m: int) -> None:
            clock.now += seconds(m)

        return run

    return make


def estimated(*works: Work, n: int) -> float:
    laws = [clients.cost._measure(work, n, 1.0) for work in works]
    return sum(law.seconds_of(n) for law in laws)


@pytest.mark.parametrize("power", [1.0, 1.3, 2.0, 3.0])
def test_a_power_is_found_again(taking: Any, power: float) -> None:
    work = Work(taking(lambda m: 1e-8 * m**power), (0.9, 3.0))
    assert estimated(work, n=10**6) == pytest.approx(1e-8 * 10 ** (6 * power), rel=1e-6)


def test_a_start_that_does_not_grow_is_not_scaled(taking: Any) -> None:
    work = Work(taking(lambda m: 0.1 + 1e-6 * m), (1.0, 1.0))
    assert estimated(work, n=10**6) == pytest.approx(1.1, rel=1e-6)


def test_a_buffer_of_a_constant_size_is_not_scaled(taking: Any) -> None:
    """Of work whose rows take 8 bytes each, and whose buffer takes 4 MB."""
    spend = taking(lambda m: 1e-7 * m)

    def run(m: int) -> None:
        spend(m)
        buffer, rows = np.zeros(500_000), np.zeros(m)
        del buffer, rows

    law = clients.cost._measure(Work(run, (1.0, 1.0)), 1_000_000, 1.0)
    assert law.bytes_of(1_000_000) == pytest.approx(12e6, rel=0.05)


def test_few_rows_are_measured_as_they_are(taking: Any) -> None:
    sizes: list[int] = []
    work = Work(lambda m: sizes.append(m), (0.9, 3.0))
    estimated(work, n=40)
    assert set(sizes) == {40}


def test_no_measurement_begins_that_would_take_too_long(taking: Any, clock: Clock) -> None:
    work = Work(taking(lambda m: 1e-9 * m**3), (1.0, 3.0))
    clients.cost._measure(work, 10**6, 1.0)
    assert clock.now < 1.2


def test_parts_of_a_site_are_measured_as_parts(taking: Any) -> None:
    work = Work(taking(lambda m: 1e-9 * m**2), (1.0, 3.0), lambda n: (1000, n / 1000))
    assert estimated(work, n=10**6) == pytest.approx(1000 * 1e-3)


def test_what_a_round_does_not_wait_for_has_a_remedy_that_holds(taking: Any) -> None:
    def lines(n: int) -> list[str]:
        return cost_lines({"quick.Ask": [Work(taking(lambda m: 0.0), (1.0, 1.0))], "slow.Ask": [slow()]}, n, CONFIG)

    def slow() -> Work:
        return Work(taking(lambda m: 1e-7 * m**2), (1.0, 3.0))

    text = "\n".join(lines(10**6))
    assert "about 28 h for its longest answer, to slow.Ask; a round waits 600 s" in text
    assert "THIS IS MORE THAN A ROUND WAITS. With 54000 rows it would be half of that" in text
    assert "may be off by more than a factor of 3" in text
    assert "NEARLY WHAT A ROUND WAITS" in "\n".join(lines(70_000))
    assert "A ROUND WAITS" not in "\n".join(lines(54_000))


def test_work_that_fails_is_said() -> None:
    def failing(m: int) -> None:
        raise ValueError("no such kernel")

    assert cost_lines({"slow.Ask": [Work(failing, (1.0, 1.0))]}, 100, CONFIG)[1:] == ["  not known: no such kernel"]


@pytest.mark.parametrize("protocol", registry.BUILT_IN)
def test_every_protocol_estimates_its_heaviest_answer(tmp_path: Path, protocol: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(y=rng.normal(size=300))
    for name in ("class_1", "class_2", "cluster_1"):
        frame[name] = rng.integers(0, 3, 300)
    frame["sex"] = np.where(rng.random(300) < 0.5, "f", "m")
    frame.to_csv(tmp_path / "site.csv", index=False)
    own = {"coreset": {"sensitive": "sex", "features": "a b"}, "bc3e": {}}.get(
        protocol, {"target": "y", "features": "a b"}
    )
    lines = registry.room(protocol, "check").check_lines(
        {**declared(), "data": str(tmp_path / "site.csv"), "protocol": protocol, **own}
    )
    (place,) = [place for place, line in enumerate(lines) if line.startswith("What a run would cost this site")]
    assert lines[place + 1].startswith("  time: ")
    assert f"to {protocol}." in lines[place + 1]
    assert lines[place + 2].startswith("  memory: about ")
