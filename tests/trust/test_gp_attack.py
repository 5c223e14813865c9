"""A hostile fusion center that predicts with crafted hyperparameters reads no row of a real site."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.policy import Policy
from consilience.attack.gp import ATTACKS
from consilience.attack.playing import Outcome, play

N = 100


@pytest.fixture
def outcomes(tmp_path: Path) -> list[Outcome]:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(N, 2))
    y = np.sin(6 * x[:, 0]) * np.cos(5 * x[:, 1]) + 0.05 * rng.normal(size=N)
    path = tmp_path / "map.csv"
    pd.DataFrame({"east": x[:, 0], "north": x[:, 1], "y": y}).to_csv(path, index=False)
    return list(play("gp", path, settings={"target": "y"}))


def test_no_row_comes_out(outcomes: list[Outcome]) -> None:
    assert {each.name for each in outcomes} == set(ATTACKS)
    for each in outcomes:
        assert each.rows_out <= N // 100, each.lines


@pytest.fixture
def _unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "trusts_center", True)


@pytest.mark.usefixtures("_unprotected")
@pytest.mark.filterwarnings("ignore")
def test_without_protection_the_same_attack_reads_many_rows(outcomes: list[Outcome]) -> None:
    assert next(each for each in outcomes if each.name == "isolation").rows_out > N // 5
