"""Fixtures that several files of tests use."""

from __future__ import annotations

import pytest

import strategies.fusion
from scenarios import sources
from server import app as server_app
from tests.contract import Clock


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, and no waiting."""
    monkeypatch.setattr(strategies.fusion, "time", Clock())
    monkeypatch.setattr(server_app, "figures", lambda report, arrays: {})


@pytest.fixture
def no_data_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory of data files is named in the environment."""
    monkeypatch.delenv(sources.DATA_VARIABLE, raising=False)
