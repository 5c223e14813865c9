"""The joint counts of all labels that a fusion center reads from sums, and what a site withholds of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clients.bc3e import results
from clients.policy import Policy
from consilience.attack import bc3e
from consilience.attack.playing import Outcome, play

N, RARE = 100, 3


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bc3e, "_ASKS", 6)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, N)
    models = [np.where(rng.random(N) < 0.75, truth, rng.integers(0, 2, N)) for _ in range(4)]
    models[2][:RARE] = 2  # the cluster 2 of x
    header = "class_a,class_b,cluster_x,cluster_y"
    np.savetxt(tmp_path / "own.csv", np.column_stack(models), "%d", ",", header=header, comments="")
    return tmp_path / "own.csv"


def played(data: Path, **settings: Any) -> list[Outcome]:
    keys = {key.replace("_", "-"): value for key, value in settings.items()}
    return [
        each for name in ("plain em", "crafted parameters") for each in play("bc3e", data, settings=keys, only=name)
    ]


def test_no_rare_combination_comes_out(data: Path) -> None:
    for outcome in played(data):
        assert outcome.rows_out == outcome.groups_out == outcome.n_true == 0, outcome.lines


def test_without_protection_all_rare_combinations_come_out(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those outside of rare clusters come out with `min-combination=1`, as docs/bc3e-reference.md says."""
    consenting = played(data, min_combination=1)
    monkeypatch.setattr(Policy, "private_floor", lambda policy, n_rows: 1)
    for outcome, protected in zip(played(data, min_combination=1), consenting, strict=True):
        rows = bc3e.true_rows(_shard(data))
        counts = np.unique(rows, axis=0, return_counts=True)[1]
        assert outcome.n_true == (counts < 5).sum(), outcome.lines
        assert 0 < protected.n_true < outcome.n_true


@pytest.mark.parametrize("withheld", [1, 5])
def test_single_instances_come_out_where_the_site_shares_them_only(data: Path, withheld: int) -> None:
    """Whatever the fusion center says of other sites: then all do, and `min-combination` withholds none."""
    (outcome,) = play("bc3e", data, settings={"min-combination": withheld}, only="shared")
    assert outcome.n_claims == 0, outcome.lines
    consent = {"min-combination": withheld, "allow-shared-instances": True}
    (outcome,) = play("bc3e", data, settings=consent, only="shared")
    counts = np.unique(bc3e.true_rows(_shard(data)), axis=0, return_counts=True)[1]
    assert outcome.n_true == (counts < 5).sum(), outcome.lines


@pytest.mark.parametrize("step", [1, results.FEWEST_APART])
def test_right_decisions_of_many_runs_tell_no_known_class(
    data: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(results, "FEWEST_APART", step)
    frame = pd.read_csv(data).drop(columns="class_b").assign(known=np.random.default_rng(1).integers(0, 2, N))
    frame.to_csv(data, index=False)
    (outcome,) = play("bc3e", data, settings={"truth": "known"}, most_runs=25, only="right decisions")
    assert (outcome.groups_out > 0) == (step == 1), outcome.lines
    assert outcome.rows_out == 0 or step == 1, outcome.lines


def test_without_known_classes_no_decision_is_counted(data: Path) -> None:
    (outcome,) = play("bc3e", data, settings={"truth": ""}, most_runs=2, only="right decisions")
    assert outcome.n_claims == 0, outcome.lines


def _shard(data: Path) -> Any:
    from clients.bc3e.shard import open_shard

    return open_shard({"data": str(data)})
