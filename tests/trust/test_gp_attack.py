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
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(N, 2))
    y = np.sin(6 * x[:, 0]) * np.cos(5 * x[:, 1]) + 0.05 * rng.normal(size=N)
    pd.DataFrame({"east": x[:, 0], "north": x[:, 1], "y": y}).to_csv(tmp_path / "map.csv", index=False)
    return tmp_path / "map.csv"


@pytest.fixture
def outcomes(path: Path) -> list[Outcome]:
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


def _wells(path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=N), "rare": np.arange(N) == 17, "few": np.arange(N) % 40 == 1})
    frame.astype(float).assign(y=rng.normal(size=N) + frame["x"]).to_csv(path, index=False)


@pytest.mark.parametrize("protected", [True, False])
def test_moments_and_likelihoods_tell_nothing_of_a_row_that_alone_has_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """Without the protection, covariances tell the other inputs of such a row, and likelihoods its output."""
    if not protected:
        monkeypatch.setattr("clients.gp.experts.without_rare_inputs", lambda x, fewest: x)
    _wells(tmp_path / "wells.csv")
    (each,) = play("gp", tmp_path / "wells.csv", None, {"target": "y"}, only="likelihoods")
    assert (each.rows_out, each.groups_out) == ((0, 0) if protected else (1, 1)), each.lines
    assert bool(each.notes) == (not protected)


@pytest.mark.parametrize("protected", [True, False])
def test_short_lengths_in_one_column_tell_no_row(path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool) -> None:
    if not protected:
        monkeypatch.setattr("clients.gp.point_answers._usual_error", lambda rows, setup: 0.0)
    (each,) = play("gp", path, None, {"target": "y"}, most_runs=4, only="slices")
    assert each.n_claims == 0 if protected else each.groups_out > 0, each.lines


def test_splits_of_several_runs_tell_no_row(path: Path) -> None:
    """The experts of two runs differ by whole experts, not by the row where one split cuts later than the other."""
    (each,) = play("gp", path, None, {"target": "y"}, most_runs=9, only="splits")
    assert (each.n_claims, each.notes) == (0, ["different experts: 5"]), each.lines


@pytest.mark.parametrize("protected", [True, False])
def test_residuals_that_are_outputs_count_none_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        monkeypatch.setattr("clients.gp.handlers.are_predicted", lambda outputs, errors: True)
    (each,) = play("gp", path, None, {"target": "y"}, most_runs=3, only="sizes")
    assert each.n_claims == 0 if protected else each.groups_out > N // 5, each.lines


@pytest.mark.parametrize("protected", [True, False])
def test_an_output_that_lies_far_off_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """Without the protection, sums of squares with this row and without it tell its output."""
    if not protected:
        monkeypatch.setattr("clients.gp.experts._with_common_outputs", lambda rows, fewest: rows)
    known = dict.fromkeys(("outliers", "gains"), 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["x", "z", "y"])
        frame.loc[rng.integers(N), "y"] = rng.choice([-1, 1]) * rng.uniform(12, 40)
        frame.to_csv(tmp_path / "wells.csv", index=False)
        for name in known:
            (each,) = play("gp", tmp_path / "wells.csv", settings={"target": "y"}, only=name)
            assert each.n_claims == 1, each.lines
            known[name] += each.groups_out
    assert max(known.values()) <= 1 if protected else known["outliers"] > 15, known


@pytest.fixture
def of_classes(tmp_path: Path) -> Path:
    return _patients(tmp_path, 0)


def _patients(tmp_path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(size=(N, 2)), columns=["x", "z"])
    frame = frame.assign(rare=1.0 * (np.arange(N) == 17), few=1.0 * (np.arange(N) % 40 == 1))
    frame = frame.assign(ill=np.where(rng.random(N) < frame["x"], "yes", "no"))
    frame.loc[17, "ill"] = "yes"
    frame.to_csv(tmp_path / "ward.csv", index=False)
    return tmp_path / "ward.csv"


def test_hardly_a_row_comes_out_where_outputs_are_classes(of_classes: Path) -> None:
    for each in play("gp", of_classes, settings={"target": "ill"}):
        assert each.rows_out <= N // 20, each.lines
        if each.name == "likelihoods":
            assert (each.groups_out, each.notes) == (0, []), each.lines


def test_plausible_hyperparameters_read_no_more_than_a_guess_and_one_of_a_hundred(tmp_path: Path) -> None:
    """Of two columns and two classes, a guess of as many points has .5 of 100 rows right, and 4 in the luckiest of 200.

    So one draw says little.
    """
    rows_out = 0
    for seed in range(8):
        (outcome,) = play("gp", _patients(tmp_path, seed), settings={"target": "ill"}, only="plausible")
        rows_out += outcome.rows_out
    assert rows_out <= 0.015 * 8 * N


@pytest.mark.usefixtures("_unprotected")
@pytest.mark.filterwarnings("ignore")
def test_without_protection_the_same_attack_reads_rows_and_their_classes(of_classes: Path) -> None:
    pd.read_csv(of_classes).drop(columns=["rare", "few"]).to_csv(of_classes, index=False)
    (outcome,) = play("gp", of_classes, settings={"target": "ill"}, only="isolation")
    assert outcome.rows_out > N // 10, outcome.lines
