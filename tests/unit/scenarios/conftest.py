"""What the tests of the scenarios share: a folder of small data files, and no other data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.data_files import few_songs, write


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small file of every data set."""
    return write(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def only_small_files(monkeypatch: pytest.MonkeyPatch, no_data_variable: None) -> None:
    """Data files are those that a test names; of the songs there are few."""
    few_songs(monkeypatch)
