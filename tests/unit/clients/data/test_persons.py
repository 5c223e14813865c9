"""Persons with several rows: no hold-out and no fold divides them, and floors of rows count them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.consents import Consents
from clients.data import DataError, Table
from clients.data.persons import persons_of
from clients.gp.shard import measurements_of
from clients.policy import Policy
from clients.residual.shard import columns_of
from clients.sec.rows import same_order
from clients.sec.shard import n_held_out, rows_of
from numerics.gp.expert import Expert
from numerics.gp.nearest_rows import NearestRows
from numerics.gp.radial_kernels import SquaredExponential
from numerics.sec.left_out import leave_out
from numerics.sec.selection import SelectionError, draw_splits, select
from numerics.shared.candidates import parse_candidates
from numerics.shared.folds import draw_folds, draw_kinds, rows_that_hold
from numerics.shared.regressors import fit

N, VISITS = 60, 3
PERSON = np.random.default_rng(3).permutation(np.repeat(np.arange(N // VISITS), VISITS))


@pytest.fixture
def visits() -> Table:
    rng = np.random.default_rng(0)
    return Table("visits.csv", {"patient": PERSON, "x": rng.normal(size=N), "y": rng.normal(size=N)})


def settings(**more: Any) -> dict[str, Any]:
    return {"target": "y", "group": "patient", **more}


def divides(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(set(PERSON[one]) & set(PERSON[other]))


def test_the_column_of_persons_is_never_an_input(visits: Table) -> None:
    for features in ({}, {"features": "*"}):
        assert rows_of(visits, settings(**features)).features == ("x",)
        assert measurements_of(visits, settings(**features)).features == ("x",)
        assert "patient" not in columns_of(visits, settings(**features)).features
    with pytest.raises(DataError, match="one only"):
        persons_of(visits, settings(features="patient x"))


def test_every_row_needs_its_person() -> None:
    table = Table("a.csv", {"patient": np.array(["p1", None, "p1"], object), "y": np.arange(3.0)})
    with pytest.raises(DataError, match=r"row 2, column 'patient': is empty; every row needs its person"):
        persons_of(table, settings())
    with pytest.raises(DataError, match="did you mean 'patient'"):
        persons_of(table, settings(group="patients"))


@pytest.mark.parametrize("selection", ["k-fold", "half-half"])
def test_no_split_divides_a_person(selection: str) -> None:
    for fitted, measured in draw_splits(N, selection, 5, PERSON):
        assert not divides(fitted, measured)
        assert len(fitted) + len(measured) == N


def test_what_sec_holds_out_divides_no_person(visits: Table) -> None:
    rows = rows_of(visits, settings())
    n_test = n_held_out(len(rows.persons), {"sec.holdout": 0.5})
    apart = rows.hold_out(rows.persons[same_order(len(rows.persons))[:n_test]])
    assert n_test == len(apart.persons_test) == N // VISITS // 2
    assert apart.person is not None
    assert apart.person_test is not None
    assert not set(apart.person) & set(apart.person_test)
    assert len(apart.y) + len(apart.y_test) == N


def test_a_site_of_one_person_is_refused() -> None:
    table = Table("a.csv", {"patient": np.ones(9), "x": np.arange(9.0), "y": np.arange(9.0)})
    with pytest.raises(DataError, match="all rows are about one person"):
        rows_of(table, settings())
    with pytest.raises(SelectionError, match="two persons"):
        select(
            parse_candidates("lr"), np.zeros((9, 1)), np.arange(9.0), standardize="none", min_leaf=1, rng_seed=0,
            person=np.zeros(9, np.int64),
        )  # fmt: skip


def test_who_knows_the_person_does_not_know_the_outcome() -> None:
    """An input that identifies the person predicts the other visits: rows left out by persons show that it is noise."""
    rng = np.random.default_rng(1)
    mean = rng.normal(size=N)
    person = np.repeat(np.arange(N), 3)
    x, y = person[:, np.newaxis] * 1.0, mean[person] + 0.01 * rng.normal(size=3 * N)
    [tree] = parse_candidates("tree")

    def fitted(x: np.ndarray, y: np.ndarray, person: np.ndarray | None) -> Any:
        return fit(tree, x, y, standardize="none", min_leaf=1, seed=0, person=person)

    errors = [
        leave_out(fitted(x, y, None), fitted, x, y, linear=False, rng=rng, person=each).error for each in (None, person)
    ]
    assert errors[0] < 0.3 < 0.8 < errors[1]


def test_a_penalty_is_chosen_by_folds_that_divide_no_person(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    drawn = draw_folds
    monkeypatch.setattr("numerics.shared.regressors.draw_folds", lambda *a: seen.append(drawn(*a)) or seen[-1])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    [lasso] = parse_candidates("lasso")
    fit(lasso, x, x[:, 0] + rng.normal(size=N), standardize="model", min_leaf=1, seed=0, person=PERSON)
    assert seen
    assert not any(divides(*split) for split in seen[0])


def test_kinds_of_rows_in_residual_divide_no_person() -> None:
    kinds = draw_kinds(PERSON, 0.2, 0.25, np.random.default_rng(0))
    assert np.bincount(kinds).tolist() == [36, 12, 12]
    assert len(set(zip(PERSON, kinds, strict=True))) == N // VISITS


def test_gaussian_processes_leave_out_persons_as_a_whole() -> None:
    rng = np.random.default_rng(0)
    x, y, theta = rng.uniform(0, 4, size=(N, 1)), rng.normal(size=N), np.log([1.0, 1.0, 0.3])
    kernel = SquaredExponential(1)
    left = Expert(kernel, theta, x, y).left_out(PERSON)
    near = NearestRows(kernel, theta, x, y, N).left_out(np.random.default_rng(4), PERSON)
    order = np.random.default_rng(4).permutation(N)
    for row in (0, 17, 59):
        others = PERSON[row] != PERSON
        mean, explained = Expert(kernel, theta, x[others], y[others]).predict(x[[row]])
        assert left.errors[row] == pytest.approx(y[row] - mean[0])
        assert left.variances[row] == pytest.approx(1.0 - explained[0] + 0.09)
        assert near.errors[order == row][0] == pytest.approx(left.errors[row], abs=1e-6)


def test_floors_of_rows_count_persons() -> None:
    sizes = np.repeat(np.arange(6), [7, 1, 1, 4, 1, 1])
    for least in range(1, 7):
        rows = rows_that_hold(least, sizes)
        worst = np.sort(np.bincount(sizes))[::-1].cumsum()
        assert (worst[: least - 1] < rows).all(), "so many rows may be those of fewer persons"
    consents = Consents({"min-leaf": 3}, Policy(), lambda least: rows_that_hold(least, sizes))
    assert consents.number("min-leaf", 1) == 7 + 4 + 1


def test_digests_are_as_before_where_there_are_no_persons(visits: Table, tmp_path: Path) -> None:
    from clients.digest import digest_of

    rows = rows_of(visits, {"target": "y", "features": "x"})
    assert rows.person is None
    assert digest_of(rows) != digest_of(rows_of(visits, settings()))
