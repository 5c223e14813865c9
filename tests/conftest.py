"""Fixtures that several files of tests use, and which tests may run at the same time (``pytest -n``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clients.cost
from scenarios import datasets
from tests.support.examples import register_profiles

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

register_profiles()


_FIRST_HALF = {"test_bc3e", "test_coreset", "test_deploy_networks", "test_gp", "test_page", "test_residual"}
"""Files of tests/process that take half of their time."""


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """A real site that answers in this process makes its files its own, and so all that come after."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def quick_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """`consilience check` takes a second to measure what a run would cost a site; here it measures the fewest rows."""
    monkeypatch.setattr(clients.cost, "_SECONDS", 0.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures and wait for nothing, not for the disk either."""
    # Imports the ServerApp, which tests of tests/unit do without.
    from tests.support.runs import skip_waiting

    skip_waiting(monkeypatch)


@pytest.fixture
def unseen_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at all sites' files before the run, as nobody can where the sites are real."""
    monkeypatch.setattr("server.preflight.check_sites", lambda sites, check: None)


@pytest.fixture
def no_data_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory of data files is named in the environment."""
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark published figures as slow; begin with the tests that wait for Flower processes."""
    for item in items:
        if item.nodeid.startswith("tests/paper/"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not _has_processes(item.nodeid))


def _has_processes(nodeid: str) -> bool:
    return nodeid.startswith("tests/process/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give all tests of a file to one worker: they share what they have computed.

    Those with Flower processes are for two workers, which mostly wait for them.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return f"process, {Path(file).stem in _FIRST_HALF}" if _has_processes(nodeid) else file

    # xdist would begin with the files of most tests.
    config.option.loadscopereorder = False
    return ByFile(config, log)
