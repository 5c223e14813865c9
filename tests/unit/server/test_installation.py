"""What the log of a run says first of the installation at the fusion center."""

from __future__ import annotations

import sys

import pytest

from server.installation import remarks


def test_nothing_is_said_of_a_whole_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/home/me/.venv")
    assert remarks() == []


def test_an_environment_that_flower_built_for_the_run_is_named_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/home/me/.flwr/runtime-envs/77")
    [remark] = remarks()
    assert "/home/me/.flwr/runtime-envs/77" in remark
    assert "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1" in remark


def test_missing_figures_are_told_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert remarks() == ["a report with figures needs matplotlib: pip install 'consilience[report]'"]
