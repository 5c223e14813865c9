"""Fixtures that several files of tests use, which tests may run at the same time, and what is printed of a failure."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clients.cost
from scenarios import data_set, registry
from tests.support.examples import register_profiles

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

register_profiles()

# Thousands of collected tests live until the end. Python would look through them for garbage all the time.
gc.set_threshold(20_000, 20, 20)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is where the tests were started in the background; those that press Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


_LONGEST = (
    "test_engines",
    "test_deployment",
    "test_page",
    "test_bc3e",
    "test_five_ways",
    "test_processors",
    "test_faults",
)
"""Files of tests/process that take the longest; they begin."""


def pytest_runtest_setup() -> None:
    """Set the usual umask: a real site that answered in this process has made its files its own, and all after them."""
    os.umask(0o022)


@pytest.fixture(autouse=True, scope="module")
def worlds_of_benchmarks() -> Iterator[None]:
    """A benchmark's worlds are scenarios of its process; the next file of tests knows nothing of them."""
    yield
    for name in [name for name in registry._SCENARIOS if name.startswith("benchmark-")]:
        del registry._SCENARIOS[name]


@pytest.fixture(autouse=True, scope="session")
def quick_check() -> Iterator[None]:
    """`consilience check` takes a second to measure what a run would cost a site; here it measures the fewest rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients.cost, "_SECONDS", 0.0)
        yield


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures and wait for nothing, not for the disk either."""
    # Imports the ServerApp, which tests of tests/unit do without.
    from tests.support.runs import skip_waiting

    skip_waiting(monkeypatch)


@pytest.fixture
def influence(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are quick, but compute the result without each site."""
    monkeypatch.setattr("server.evaluation.influence", lambda strategy, outcome: strategy.influence(outcome))


@pytest.fixture
def unseen_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at all sites' files before the run, as nobody can where the sites are real."""
    monkeypatch.setattr("server.preflight.check_sites", lambda sites, check: None)
    monkeypatch.setattr("server.preflight.check_rows", lambda sites, protocol, config: None)


@pytest.fixture
def no_data_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory of data files is named in the environment."""
    monkeypatch.delenv(data_set.DATA_VARIABLE, raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark published figures as slow; begin with the tests that wait for Flower processes."""
    for item in items:
        if item.nodeid.startswith("tests/paper/"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _turn(item.nodeid))


def pytest_collection_finish() -> None:
    """Leave out of the search for garbage what was imported and collected."""
    gc.collect()
    gc.freeze()


def _turn(nodeid: str) -> int:
    """The place of a test's file in the order of all: what waits for processes first, and of that the longest."""
    if not nodeid.startswith("tests/process/"):
        return len(_LONGEST) + 1
    name = Path(nodeid.partition("::")[0]).stem
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give all tests of a file to one worker: they share what they have computed."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

    # xdist would begin with the files of most tests. Those at the end are small, so that nobody waits for one of them.
    config.option.loadscopereorder = False
    return ByFile(config, log)


# -- what is printed --------------------------------------------------------------------------------------------------


class Progress:
    """Names of tests as they fail, and of those that an interrupted session leaves unfinished.

    pytest names failures at its end only, which a session that is cut short may not reach.
    """

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._running: dict[str, None] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nfailed: {report.nodeid} ({report.when}, {report.duration:.0f} s)", red=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for nodeid in self._running:
            terminalreporter.write_line(f"unfinished: {nodeid}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Print names where there is a terminal: not in the processes of ``-n``, whose reports come to their parent."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal))
