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


@pytest.mark.parametrize(("policy", "groups"), [("", 1), ("secure-aggregation = true\n", 0)], ids=["default", "masked"])
def test_likelihoods_tell_the_output_of_a_row_that_alone_has_a_value(tmp_path: Path, policy: str, groups: int) -> None:
    """A limit that docs/privacy.md states: no inputs come out, and with masks the center has no site's likelihood."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=N), "rare": np.arange(N) == 17, "few": np.arange(N) % 40 == 1})
    frame = frame.astype(float).assign(y=rng.normal(size=N) + frame["x"])
    frame.to_csv(tmp_path / "wells.csv", index=False)
    (tmp_path / "policy.toml").write_text(policy)
    settings = {"target": "y"}
    (each,) = play("gp", tmp_path / "wells.csv", tmp_path / "policy.toml", settings, only="likelihoods")
    assert (each.rows_out, each.groups_out) == (0, groups), each.lines
    if groups:
        totals = {note.partition(" ")[0]: float(note.rpartition(" ")[2]) for note in each.notes}
        true = {name: frame.loc[frame[name] == 1, "y"].sum() for name in ("rare", "few")}
        assert totals == pytest.approx(true, abs=0.01 * np.ptp(frame["y"]))


@pytest.fixture
def of_classes(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(N, 2)), columns=["x", "z"])
    frame = frame.assign(rare=1.0 * (np.arange(N) == 17), few=1.0 * (np.arange(N) % 40 == 1))
    frame = frame.assign(ill=np.where(rng.random(N) < frame["x"], "yes", "no"))
    frame.loc[17, "ill"] = "yes"
    frame.to_csv(tmp_path / "ward.csv", index=False)
    return tmp_path / "ward.csv"


def test_no_row_comes_out_where_outputs_are_classes(of_classes: Path) -> None:
    for each in play("gp", of_classes, settings={"target": "ill"}):
        assert each.rows_out <= N // 100, each.lines
        if each.name == "likelihoods":  # the same limit as of amounts (docs/privacy.md)
            ill = pd.read_csv(of_classes).query("few == 1")["ill"].eq("yes").sum()
            assert each.groups_out == 1
            assert {note.rpartition(" ")[2] for note in each.notes} == {"1", str(ill)}


@pytest.mark.usefixtures("_unprotected")
@pytest.mark.filterwarnings("ignore")
def test_without_protection_the_same_attack_reads_rows_and_their_classes(of_classes: Path) -> None:
    pd.read_csv(of_classes).drop(columns=["rare", "few"]).to_csv(of_classes, index=False)
    (outcome,) = play("gp", of_classes, settings={"target": "ill"}, only="isolation")
    assert outcome.rows_out > N // 10, outcome.lines
