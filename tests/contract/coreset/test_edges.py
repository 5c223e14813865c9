"""Fair clustering at its edges: few rows, one group, odd columns, sites in trouble, settings that cannot be met."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import RecordDict

from protocols.coreset.settings import ALL_EQUAL
from server.results import load
from strategies.errors import FusionError
from tests.support import reference_coreset as reference
from tests.support.coreset_sites import (
    FEATURES,
    SITES,
    ClusteringRun,
    cluster,
    deployed_sites,
    interference,
    own_data_config,
    patients,
    split_over_sites,
    write_files,
    write_world,
)
from tests.support.grid import Tamper
from tests.support.parameters import few
from tests.support.runs import InterruptibleGrid, make_grid, outcome_of, run_over
from tests.support.tampering import silent

CLINIC, HOSPITAL, PRACTICE = range(3)
EXACT = {"coreset__assignment": "exact"}

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


def assert_true(found: ClusteringRun, *names: str) -> None:
    """Counts are those of the rows of these sites (all), and their cost: at most that of rows that go with points."""
    rows = found.rows(*names)
    np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])
    cost = reference.cost_of(found.in_units(rows), rows["cluster"].to_numpy(), found.centers)
    if found.settings["coreset.assignment"] == "exact":
        assert found.metrics["cost"] == pytest.approx(cost, rel=1e-9, abs=1e-9)
        assert found.metrics["cost_unfair"] <= found.metrics["cost"]
    else:
        assert cost <= found.metrics["cost"] * (1 + 1e-9) + 1e-9
        assert found.metrics["cost"] <= found.metrics.get("cost_bound", np.inf) * (1 + 1e-9)


# -- numbers of clusters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", few([{}, EXACT, {"coreset__algorithm": "cklv"}]))
def test_one_cluster_of_all_rows(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    """It is fair, its center is the mean, and fairness costs nothing."""
    found = cluster(own_data_config(tmp_path, folder, coreset__k=1, **changes))
    assert found.arrays["counts"].tolist() == [[180, 180]]
    np.testing.assert_allclose(found.arrays["centers"][0], patients()[list(FEATURES)].mean(), rtol=1e-9)
    assert found.metrics["cost"] == pytest.approx(len(patients()) * len(FEATURES), rel=1e-9)
    assert found.metrics["cost_bound"] == pytest.approx(found.metrics["cost"], rel=1e-9)
    assert found.metrics["price_of_fairness"] == pytest.approx(0, abs=1e-9)
    assert_true(found)


def test_as_many_clusters_as_points(tmp_path: Path) -> None:
    """Every point a center: fairness then costs what the pairs are apart, and the rest of the clusters is empty."""
    frame = patients(12)
    settings = own_data_config(tmp_path, write_world(tmp_path / "files", frame), coreset__k=12, coreset__min_weight=1)
    found = cluster(settings)
    assert found.metrics["n_coreset"] == 12
    assert found.metrics["max_violation"] == 0
    assert found.metrics["cost_unfair"] == pytest.approx(0, abs=1e-9)
    assert found.metrics["cost"] > 0
    assert_true(found)


@pytest.mark.parametrize("k", [13, 200])
def test_more_clusters_than_points_is_one_line(tmp_path: Path, k: int) -> None:
    folder = write_world(tmp_path / "files", patients(12))
    told = outcome_of(
        own_data_config(tmp_path, folder, coreset__k=k, coreset__min_weight=1, coreset__size=50), 3
    ).refusal
    assert told.startswith(f"12 different points cannot form coreset.k={k} clusters: set a smaller coreset.k")


def test_fewer_rows_than_a_coreset_has_points(tmp_path: Path) -> None:
    """Rows are sent as they are only where every one may be; otherwise each point stands for five at least."""
    folder = write_world(tmp_path / "files", patients(60))
    as_they_are = cluster(own_data_config(tmp_path / "rows", folder, coreset__size=500, coreset__min_weight=1))
    assert as_they_are.metrics["n_coreset"] == 60
    assert as_they_are.metrics["cost_bound"] == pytest.approx(as_they_are.metrics["cost"], rel=1e-7)
    merged = cluster(own_data_config(tmp_path / "points", folder, coreset__size=500))
    assert merged.arrays["weights"].min() >= 5
    assert merged.metrics["n_coreset"] <= 12
    assert merged.metrics["n_merged"] > 0
    assert_true(merged)


# -- groups ----------------------------------------------------------------------------------------------------------


def test_a_site_of_one_group_is_the_normal_case(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", how="group")
    found = cluster(own_data_config(tmp_path, folder))
    assert set(found.rows(SITES[0])["group"]) == {"F"}
    assert set(found.rows(SITES[2])["group"]) == {"M"}
    assert not found.report.missing
    assert not found.report.notes


@pytest.mark.parametrize("changes", [{}, EXACT, {"coreset__balance": 0.5}])
def test_one_group_in_all_is_plain_k_means(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = write_world(tmp_path / "files", patients(groups=1))
    found = cluster(own_data_config(tmp_path, folder, **changes))
    assert found.metrics["price_of_fairness"] == pytest.approx(0, abs=0.05)
    assert found.metrics["max_violation"] == 0
    assert any("one group, so this is plain k-means" in note for note in found.report.notes)
    assert_true(found)


def test_a_group_with_one_row(tmp_path: Path) -> None:
    """Its share cannot be had in every cluster: essentially fair is then a row or none."""
    frame = patients().copy()
    frame.loc[7, "sex"] = "X"
    folder = write_world(tmp_path / "files", frame)
    found = cluster(own_data_config(tmp_path, folder, coreset__min_weight=1))
    assert found.arrays["groups"].tolist() == ["F", "M", "X"]
    assert found.arrays["counts"][:, 2].sum() == 1
    assert found.metrics["max_violation"] < 2
    assert_true(found)
    withheld = cluster(own_data_config(tmp_path / "rare", folder))
    assert withheld.arrays["groups"].tolist() == ["F", "M"]
    assert withheld.metrics["n_withheld"] == 1
    assert withheld.arrays["counts"].sum() == len(frame) - 1


@pytest.mark.parametrize("changes", [{}, EXACT])
def test_rows_of_a_rare_group_go_to_the_nearest_center_and_are_not_counted(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    frame = patients().copy()
    rare = frame.index[:4]
    frame.loc[rare, "sex"] = "X"
    folder = write_world(tmp_path / "files", frame)
    found = cluster(own_data_config(tmp_path, folder, **changes))
    assert found.metrics["n_rows"] == len(frame)
    assert found.metrics["n_withheld"] == len(rare)
    rows = found.rows()
    hidden = rows["group"] == "X"
    assert hidden.sum() == len(rare)
    nearest = reference.squares(found.in_units(rows[hidden]), found.centers).argmin(axis=1)
    assert rows.loc[hidden, "cluster"].tolist() == nearest.tolist()
    np.testing.assert_array_equal(found.counts(rows[~hidden]), found.arrays["counts"])
    [note] = found.report.notes
    assert note.startswith("4 of 360 rows, at clinic, belong to groups that are too rare to be sent")


def test_a_gap_that_better_prices_would_close_is_noted(tmp_path: Path) -> None:
    """One that only whole rows leave is not: which of two rows goes where may depend on the last digit of a mass."""
    folder = write_world(tmp_path / "files", patients().iloc[4:])
    short = cluster(own_data_config(tmp_path / "short", folder, **EXACT, coreset__price_rounds=1))
    assert short.metrics["gap"] > 2e-3
    [note] = short.report.notes
    assert "more coreset.price-rounds, or a smaller coreset.gap, may give a better one" in note
    assert cluster(own_data_config(tmp_path / "long", folder, **EXACT)).report.notes == []


def test_a_site_whose_groups_are_all_rare_takes_no_part(tmp_path: Path) -> None:
    parts = split_over_sites(patients())
    parts["practice"] = parts["practice"][:8].assign(sex=list("FFFFMMMM"))
    found = cluster(own_data_config(tmp_path, write_files(tmp_path / "files", parts)))
    [line] = found.report.missing["practice"]
    assert line.startswith("round 1: ")
    assert line.endswith("[rare-groups]")
    assert_true(found, "clinic", "hospital")


@pytest.mark.parametrize("algorithm", ["cklv", "reassigned-cklv"])
@pytest.mark.parametrize(
    ("world", "changes"), [({"equal": False}, {}), ({"groups": 3}, {}), ({}, {"coreset__balance": 0.8})]
)
def test_pairs_of_groups_that_do_not_match_are_one_line(
    tmp_path: Path, algorithm: str, world: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder = write_world(tmp_path / "files", patients(**world))
    told = outcome_of(own_data_config(tmp_path, folder, coreset__algorithm=algorithm, **changes), 3).refusal
    assert told.startswith(f"coreset.algorithm={algorithm}")
    assert "balance" in told


def test_several_sensitive_columns_are_one_group_each_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files")
    found = cluster(own_data_config(tmp_path, folder, sensitive="smoker sex"))
    assert found.arrays["groups"].tolist() == [
        "sex=F, smoker=no",
        "sex=F, smoker=yes",
        "sex=M, smoker=no",
        "sex=M, smoker=yes",
    ]
    assert_true(found)


# -- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unseen_files")
def test_as_many_sites_with_these_columns_as_with_those_are_one_line(tmp_path: Path) -> None:
    parts = split_over_sites(patients(), names=SITES[:2])
    parts["hospital"] = parts["hospital"].rename(columns={"income": "weight"})
    folder = write_files(tmp_path / "files", parts)
    told = outcome_of(own_data_config(tmp_path, folder, features=""), 2).refusal
    assert told.startswith("as many sites have the columns age, income, score as have age, score, weight")


@pytest.mark.usefixtures("unseen_files")
@pytest.mark.parametrize("changes", [{}, EXACT])
def test_too_few_sites_of_the_same_columns_stop_the_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    parts = split_over_sites(patients())
    parts["hospital"] = parts["hospital"].rename(columns={"income": "weight"})
    folder = write_files(tmp_path / "files", parts)
    told = outcome_of(own_data_config(tmp_path, folder, features="", min_sites=3, **changes), 3).refusal
    assert "min-sites is 3" in told
    assert "hospital: " in told


@pytest.mark.usefixtures("unseen_files")
@pytest.mark.parametrize("changes", [{}, EXACT])
def test_other_columns_are_named_and_left_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    parts = split_over_sites(patients())
    parts["hospital"] = parts["hospital"].rename(columns={"income": "weight"})
    found = cluster(own_data_config(tmp_path, write_files(tmp_path / "files", parts), features="", **changes))
    assert found.report.missing == {
        "hospital": ["left out: its columns are age, score, weight; most sites have age, income, score"]
    }
    assert found.metrics["n_rows"] == 240
    assert_true(found, "clinic", "practice")
    assert not (found.path / "sites" / "hospital" / "clusters.csv").exists()


def test_columns_in_another_order_are_the_same_columns(tmp_path: Path, folder: Path) -> None:
    expected = cluster(own_data_config(tmp_path / "before", folder))
    path = folder / "hospital.csv"
    pd.read_csv(path)[["score", "sex", "smoker", "income", "patient", "age"]].to_csv(path, index=False)
    found = cluster(own_data_config(tmp_path / "after", folder))
    assert found.metrics == expected.metrics


@pytest.mark.parametrize("scale", ["variance", "none"])
def test_a_column_that_never_varies_adds_nothing(tmp_path: Path, scale: str) -> None:
    frame = patients().assign(score=1e9 + 1 / 3)
    found = cluster(own_data_config(tmp_path, write_world(tmp_path / "files", frame), coreset__scale=scale))
    assert found.arrays["scale"][2] == 1
    np.testing.assert_allclose(found.arrays["centers"][:, 2], 1e9 + 1 / 3, rtol=1e-15)
    without = cluster(
        own_data_config(tmp_path / "without", write_world(tmp_path / "fewer", frame), features="age income")
    )
    if scale == "variance":
        assert found.metrics["cost"] == pytest.approx(without.metrics["cost"], rel=0.5)
    assert_true(found)


def test_rows_that_are_all_equal_make_one_cluster_at_most(tmp_path: Path) -> None:
    frame = patients().assign(age=3.0, income=-1.0, score=0.0)
    folder = write_world(tmp_path / "files", frame)
    found = cluster(own_data_config(tmp_path, folder, coreset__k=1))
    assert found.metrics["cost"] == 0
    assert found.arrays["counts"].tolist() == [[180, 180]]
    assert outcome_of(*deployed_sites(tmp_path, folder)).refusal == ALL_EQUAL


def test_duplicate_rows_are_assigned_one_by_one(tmp_path: Path) -> None:
    frame = pd.concat([patients(24)] * 10, ignore_index=True)
    frame["patient"] = [f"p{place:04d}" for place in range(len(frame))]
    found = cluster(own_data_config(tmp_path, write_world(tmp_path / "files", frame), coreset__size=50))
    assert found.metrics["max_violation"] == 0
    assert_true(found)


@pytest.mark.usefixtures("unseen_files")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sensitive": ""}, "bad-configuration"),
        ({"sensitive": "gender"}, "missing-column"),
        ({"features": "height"}, "missing-column"),
        ({"features": "age sex"}, "bad-configuration"),
        ({"features": "age smoker"}, "not-numeric"),
        ({"id": "name"}, "missing-column"),
    ],
)
def test_what_is_wrong_with_every_site_is_told_by_its_code(
    tmp_path: Path, folder: Path, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(FusionError, match=rf"\[{code}\]"):
        cluster(own_data_config(tmp_path, folder, **changes))


def test_a_bad_cell_costs_its_site_and_no_other(tmp_path: Path, folder: Path) -> None:
    path = folder / "clinic.csv"
    frame = pd.read_csv(path)
    frame.loc[5, "age"] = np.nan
    frame.to_csv(path, index=False)
    found = cluster(own_data_config(tmp_path, folder))
    [line] = found.report.missing["clinic"]
    assert line.endswith("[missing-value]")
    assert_true(found, "hospital", "practice")


# -- sites that are lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, EXACT])
def test_a_site_that_sends_no_coreset_is_left_out(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    found = cluster(own_data_config(tmp_path, folder, **changes), tamper=silent(PRACTICE, range(1, 1000)))
    assert found.report.sites == ["clinic", "hospital"]
    assert found.metrics["n_rows"] == 240
    assert_true(found)
    fewer = write_files(tmp_path / "fewer", {name: split_over_sites(patients())[name] for name in SITES[:2]})
    expected = cluster(own_data_config(tmp_path / "two", fewer, **changes), 2)
    assert found.metrics == expected.metrics


def test_a_site_that_does_not_confirm_is_named(tmp_path: Path, folder: Path) -> None:
    """Its points helped to find the centers; what is told of costs and fairness is of the others' rows."""
    whole = cluster(own_data_config(tmp_path / "whole", folder))
    found = cluster(own_data_config(tmp_path / "lost", folder), tamper=silent(HOSPITAL, [2]))
    np.testing.assert_array_equal(found.arrays["centers"], whole.arrays["centers"])
    assert found.report.missing == {"hospital": ["round 2: no answer within 5 s"]}
    assert any(note.startswith("hospital: sent a coreset, but did not confirm") for note in found.report.notes)
    assert found.metrics["n_assigned"] == found.arrays["counts"].sum() < found.metrics["n_rows"]
    assert_true(found, "clinic", "practice")


@pytest.mark.parametrize("first", few([3, 2, 4]))
def test_a_site_that_is_lost_while_rows_are_priced(tmp_path: Path, folder: Path, first: int) -> None:
    """The others' rows are priced from there on, fair among themselves, and bounded from below as such."""
    found = cluster(own_data_config(tmp_path, folder, **EXACT), tamper=silent(HOSPITAL, range(first, 1000)))
    assert any("while all rows were priced" in line for line in found.report.missing["hospital"])
    assert_true(found, "clinic", "practice")
    rows = found.rows("clinic", "practice")
    totals = found.counts(rows).sum(axis=0)
    assert reference.violation(found.arrays["counts"], totals, 1.0) < 2
    best = reference.fair_cost(
        found.in_units(rows), np.ones(len(rows), np.int64), found.group_numbers(rows), found.centers
    )
    assert found.metrics["cost_lower"] <= best * (1 + 1e-6)
    assert found.metrics["cost"] == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("number", few([3, 2, 4]))
def test_an_answer_that_is_lost_while_rows_are_priced_is_given_again(tmp_path: Path, folder: Path, number: int) -> None:
    expected = cluster(own_data_config(tmp_path / "whole", folder, **EXACT))
    found = cluster(own_data_config(tmp_path / "lost", folder, **EXACT), tamper=silent(HOSPITAL, [number]))
    assert found.report.missing == {"hospital": [f"round {number}: no answer within 5 s"]}
    assert found.metrics == expected.metrics


def test_a_site_that_is_lost_when_rows_are_settled(tmp_path: Path, folder: Path) -> None:
    rounds = cluster(own_data_config(tmp_path / "whole", folder, **EXACT)).report.rounds
    found = cluster(own_data_config(tmp_path / "lost", folder, **EXACT), tamper=silent(HOSPITAL, [rounds]))
    assert found.report.missing == {"hospital": [f"round {rounds}: no answer within 5 s"]}
    assert "cost_lower" not in found.metrics
    assert_true(found, "clinic", "practice")


# -- what happens between the asks ------------------------------------------------------------------------------------


def observed(
    tmp_path: Path, folder: Path, number: int, happens: Callable[[InterruptibleGrid], None], **changes: Any
) -> ClusteringRun:
    """A run of real sites during which something happens when this round was answered."""
    settings, nodes = deployed_sites(tmp_path, folder, **changes)
    grids: list[InterruptibleGrid] = []
    tamper: Tamper = interference(number, lambda: happens(grids[0]))
    grids.append(make_grid(settings, nodes, tamper=tamper))
    path = run_over(grids[0], settings)
    return ClusteringRun(*load(path), path, {**settings, "data": str(folder)})


def forget(grid: InterruptibleGrid, tmp_path: Path) -> None:
    """Every site is restarted, and has lost what it kept in its directory."""
    for context in grid.contexts.values():
        context.state = RecordDict()
    for kept in (tmp_path / "home").glob("*/memory-*"):
        shutil.rmtree(kept)


@pytest.mark.parametrize("changes", few([{}, EXACT, {"coreset__construction": "kmeans"}, {"coreset__projection": 2}]))
def test_sites_that_have_lost_their_memory_find_the_same_points_again(
    tmp_path: Path, folder: Path, changes: dict[str, Any]
) -> None:
    for rounds in [1, 2] if changes == EXACT else [1]:
        remembered = observed(tmp_path / f"kept {rounds}", folder, 99, lambda grid: None, **changes)
        here = tmp_path / f"lost {rounds}"
        happened: list[bool] = []

        def lose(grid: InterruptibleGrid, here: Path = here, happened: list[bool] = happened) -> None:
            happened.append(True)
            forget(grid, here)

        forgotten = observed(here, folder, rounds, lose, **changes)
        assert happened
        assert forgotten.metrics == remembered.metrics
        assert not forgotten.report.missing
        for name in SITES:
            kept = [tmp_path / f"{what} {rounds}" / "home" / name / "clusters.csv" for what in ("lost", "kept")]
            assert kept[0].read_bytes() == kept[1].read_bytes()


def one_more(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame[-1:]])


def one_less(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[:-1]


def another_group(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sex=["X", *frame["sex"][1:]])


def fewer_of_a_group(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sex=["M"] * 30 + frame["sex"].tolist()[30:])


@pytest.fixture
def any_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of ``new-rows = 1``: the protocol itself notices what has changed."""
    monkeypatch.setattr("clients.policy.Policy.fewest_new_rows", 1)


@pytest.mark.usefixtures("any_change")
@pytest.mark.parametrize("changes", few([{}, EXACT]))
@pytest.mark.parametrize("change", few([one_more, one_less, another_group, fewer_of_a_group], 2))
def test_data_that_changes_between_the_asks_is_noticed(
    tmp_path: Path, folder: Path, changes: dict[str, Any], change: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    path = folder / "hospital.csv"
    found = observed(tmp_path, folder, 1, lambda grid: change(pd.read_csv(path)).to_csv(path, index=False), **changes)
    assert "[data-changed]" in " ".join(found.report.missing["hospital"])
    rows = found.rows("clinic", "practice", homes=tmp_path / "home")
    np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])
    assert not (tmp_path / "home" / "hospital" / "clusters.csv").exists()


@pytest.mark.usefixtures("any_change")
def test_data_that_changes_after_the_memory_is_lost_is_noticed(tmp_path: Path, folder: Path) -> None:
    path = folder / "hospital.csv"

    def both(grid: InterruptibleGrid) -> None:
        forget(grid, tmp_path)
        one_less(pd.read_csv(path)).to_csv(path, index=False)

    found = observed(tmp_path, folder, 1, both)
    assert "[data-changed]" in " ".join(found.report.missing["hospital"])
