"""Fair clustering as a whole: fair for every row, costs that are true, and coresets that compose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import protocols.coreset.payloads as wire
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering
from protocols.coreset.payloads import Assign, Summarize
from protocols.wire.message import find
from protocols.wire.payload import Payload
from tests.support import reference_coreset as reference
from tests.support.coreset_sites import (
    FEATURES,
    SITES,
    ClusteringRun,
    cluster,
    deployed_sites,
    own_data_config,
    patients,
    split_over_sites,
    write_files,
    write_world,
)
from tests.support.parameters import few
from tests.support.runs import outcome_of, run_with_grid
from tests.support.tampering import parcels_of, silent

ALGORITHMS = ("fair-kmeans++", "fair-lloyd", "cklv", "reassigned-cklv")
ONE = ("everyone",)
"""The name of the one site that has all rows."""

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


def together(folder: Path, frame: pd.DataFrame) -> Path:
    """One site with all rows."""
    return write_files(folder, split_over_sites(frame, names=ONE))


def fair_cost(run: ClusteringRun, frame: pd.DataFrame, alpha: float = 1.0) -> float:
    """Of the cheapest fair assignment of all rows to the run's centers."""
    return reference.fair_cost(
        run.in_units(frame), np.ones(len(frame), np.int64), run.group_numbers(frame), run.centers, alpha
    )


# -- fair for every row -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", few(["group", "random"]))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_groups_of_one_size_are_balanced_exactly(tmp_path: Path, algorithm: str, how: str) -> None:
    folder = write_world(tmp_path / "files", how=how)
    found = cluster(own_data_config(tmp_path, folder, coreset__algorithm=algorithm))
    rows = found.rows()
    counts = found.counts(rows)
    assert sorted(rows["patient"]) == sorted(patients()["patient"])
    np.testing.assert_array_equal(counts[:, 0], counts[:, 1])
    np.testing.assert_array_equal(counts, found.arrays["counts"])
    assert found.metrics["max_violation"] == 0
    assert found.metrics["balance"] == 1
    assert found.arrays["groups"].tolist() == ["F", "M"]
    assert found.arrays["totals"].tolist() == [len(rows) // 2] * 2


@pytest.mark.parametrize(
    ("world", "changes"),
    few(
        [
            ({"equal": False}, {}),
            ({"equal": False}, {"coreset__algorithm": "fair-lloyd"}),
            ({"equal": False}, {"coreset__balance": 0.7}),
            ({"groups": 3}, {}),
            ({"groups": 4, "equal": False}, {"coreset__k": 5}),
            ({"groups": 3, "equal": False}, {"coreset__balance": 0.5}),
            ({"equal": False}, {"sensitive": "sex smoker"}),
            ({}, {"coreset__balance": 0.9}),
            ({}, {"coreset__center_size": 12}),
            ({"equal": False}, {"coreset__center_size": 9, "coreset__k": 2}),
            ({"groups": 3}, {"coreset__assignment": "exact"}),
            ({"equal": False}, {"coreset__assignment": "exact", "coreset__balance": 0.7}),
        ],
        4,
    ),
)
@pytest.mark.parametrize("how", few(["group", "random"]))
def test_every_cluster_of_rows_keeps_its_bounds(
    tmp_path: Path, how: str, world: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Up to what whole rows do to it: each number is the best fractional one rounded down or up."""
    folder = write_world(tmp_path / "files", patients(**world), how)
    found = cluster(own_data_config(tmp_path, folder, **changes))
    rows = found.rows()
    counts, totals = found.counts(rows), found.arrays["totals"]
    np.testing.assert_array_equal(counts, found.arrays["counts"])
    np.testing.assert_array_equal(counts.sum(axis=0), totals)
    assert counts.sum() == len(rows)
    alpha = changes.get("coreset__balance", 1.0)
    broken = reference.violation(counts, totals, alpha)
    assert broken <= 2 - 1 / len(totals)
    assert found.metrics["max_violation"] == pytest.approx(broken, abs=1e-9)
    assert found.metrics["balance"] == pytest.approx(reference.balance(counts, totals))
    for cluster_, row in enumerate(found.report.table[:-1]):
        assert row["rows"] == counts[cluster_].sum()
        for h, name in enumerate(found.arrays["groups"].tolist() if row["rows"] else []):
            assert row[f"share {name}"] == pytest.approx(counts[cluster_, h] / row["rows"])


@pytest.mark.parametrize(
    "changes",
    few(
        [
            {"coreset__overlapping": True, "coreset__balance": 0.9},
            {
                **{"coreset__overlapping": True, "coreset__bounds": "sex=F: 0.45..0.55", "coreset__balance": 0.5},
                **{"coreset__assignment": "exact", "coreset__refine": 2, "coreset__price_rounds": 5},
            },
        ]
    ),
)
def test_each_of_several_columns_keeps_its_bounds(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    """Up to whole rows: the number of each of the four combinations is rounded."""
    found = cluster(own_data_config(tmp_path, folder, sensitive="sex smoker", **changes))
    rows, arrays = found.rows(), found.arrays
    names = arrays["bounded"].tolist()
    assert names == ["sex=F", "sex=M", "smoker=no", "smoker=yes"]
    alpha, broken = changes["coreset__balance"], [0.0]
    for number, row in enumerate(found.report.table[:-1]):
        own = rows[rows["cluster"] == number]
        for place, name in enumerate(names):
            column, value = name.split("=")
            share, n = (rows[column] == value).mean(), (own[column] == value).sum()
            special = name == "sex=F" and "coreset__bounds" in changes
            low, high = (0.45, 0.55) if special else (alpha * share, share / alpha)
            broken += [low * len(own) - n, n - high * len(own)]
            assert arrays["bounded_counts"][number, place] == n
            assert row[f"share {name}"] == pytest.approx(n / len(own))
    assert found.metrics["max_violation"] == pytest.approx(max(broken), abs=1e-9)
    assert max(broken) < 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coreset__bounds": "X: 0..0.5"}, "coreset.bounds: no group is called 'X'; there are 'F', 'M'"),
        ({"coreset__bounds": "F: 0.6..0.9"}, "coreset.bounds: 'F' is 0.5 of all rows"),
        ({"coreset__overlapping": True}, "coreset.overlapping needs several sensitive columns"),
    ],
)
def test_bounds_that_no_clusters_keep_are_one_line(
    tmp_path: Path, folder: Path, changes: dict[str, Any], message: str
) -> None:
    assert message in outcome_of(own_data_config(tmp_path, folder, **changes), 3).refusal


def test_profiles_say_who_is_in_a_cluster(tmp_path: Path, folder: Path) -> None:
    """Of points of one row each mean and spread are those of the rows; of others the mean nearly is."""
    for name, changes in {"rows": {"coreset__min_weight": 1, "coreset__size": 360}, "points": {}}.items():
        found = cluster(own_data_config(tmp_path / name, folder, **changes))
        rows, arrays = found.rows(), found.arrays
        by_cluster = rows.groupby("cluster")[list(FEATURES)]
        mean, spread = by_cluster.mean().to_numpy(), by_cluster.std(ddof=0).to_numpy()
        exact = name == "rows"
        assert (np.abs(arrays["profile_mean"] - mean) / arrays["scale"]).max() < (1e-9 if exact else 0.05)
        assert (np.abs(arrays["profile_spread"] - spread) / arrays["scale"]).max() < (1e-9 if exact else 0.5)
        apart = (arrays["profile_mean"] - arrays["mean"]) / arrays["scale"]
        for row, distances in zip(found.report.table, apart, strict=False):
            farthest = np.abs(distances).argmax()
            words = f"{'high' if distances[farthest] > 0 else 'low'} {FEATURES[farthest]} ("
            assert row["stands out"].startswith(words) == (abs(distances[farthest]) >= 0.5)
        assert found.report.table[-1]["stands out"] == ""


# -- costs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "changes"),
    few(
        [
            ({}, {}),
            ({}, {"coreset__construction": "kmeans"}),
            ({}, {"coreset__projection": 2}),
            ({}, {"coreset__scale": "none"}),
            ({}, {"coreset__center_size": 12}),
            ({}, {"coreset__size": 60, "coreset__min_weight": 1}),
            ({"equal": False}, {}),
            ({"equal": False}, {"coreset__balance": 0.7}),
            ({"groups": 3}, {"coreset__k": 4}),
            ({"equal": False}, {"sensitive": "sex smoker", "coreset__balance": 0.8}),
        ],
        3,
    ),
)
def test_costs_are_those_of_the_rows_and_the_coreset_bounds_them(
    tmp_path: Path, world: dict[str, Any], changes: dict[str, Any]
) -> None:
    frame = patients(**world)
    found = cluster(own_data_config(tmp_path, write_world(tmp_path / "files", frame), **changes))
    rows, metrics = found.rows(), found.metrics
    x, labels = found.in_units(rows), rows["cluster"].to_numpy()
    alpha = changes.get("coreset__balance", 1.0)
    # Of rows that go with their points: a divided point's rows are divided better than the center knows.
    true, divided = reference.cost_of(x, labels, found.centers), metrics["cost_bound"]
    assert true <= metrics["cost"] * (1 + 1e-9)
    assert metrics["cost"] <= divided * (1 + 1e-9)
    if "coreset__center_size" not in changes:
        assert metrics["cost"] == pytest.approx(divided, rel=1e-9)
    # Within the coreset's error: at most its own cost and the movement, and at least what any fair assignment costs.
    slack = 1e-6 * metrics["cost"]
    rounding = np.abs(reference.squares(x, found.centers)).max() if metrics["max_violation"] else 0.0
    best = fair_cost(found, rows, alpha)
    assert best - slack - rounding * found.arrays["counts"].size <= metrics["cost"]
    assert metrics["cost"] <= metrics["cost_bound"] + slack
    assert best <= metrics["cost_bound"] + slack
    on_points = reference.fair_cost(
        found.points, found.arrays["weights"], found.arrays["point_groups"], found.centers, alpha
    )
    assert metrics["cost_coreset"] <= on_points + slack
    assert metrics["cost_coreset"] == pytest.approx(on_points, rel=0.05)
    movement = metrics["cost_bound"] - metrics["cost_coreset"]
    assert abs(np.sqrt(best) - np.sqrt(on_points)) <= np.sqrt(movement) + slack
    # Plain k-means of the same points; the rows go with their points there, too.
    plain = (found.arrays["centers_unfair"] - found.arrays["mean"]) / found.arrays["scale"]
    assert reference.squares(x, plain).min(axis=1).sum() <= metrics["cost_unfair"] * (1 + 1e-9)
    if "coreset__center_size" not in changes:
        nearest = found.arrays["weights"] @ reference.squares(found.points, plain).min(axis=1)
        assert metrics["cost_unfair"] == pytest.approx(nearest + movement, rel=1e-9)
    assert metrics["price_of_fairness"] == pytest.approx(metrics["cost"] / metrics["cost_unfair"] - 1)


def test_the_fair_assignment_is_that_of_algorithm_8(tmp_path: Path) -> None:
    """Points of one row each: the rows, matched in pairs as the paper does it."""
    frame = patients(60)
    settings = own_data_config(
        tmp_path, write_world(tmp_path / "files", frame), coreset__size=60, coreset__min_weight=1
    )
    found = cluster(settings)
    rows = found.rows()
    assert found.metrics["n_coreset"] == 60
    matched = reference.matching_cost(found.in_units(rows), found.group_numbers(rows), found.centers)
    assert found.metrics["cost"] == pytest.approx(matched, rel=1e-7)
    assert found.metrics["cost_bound"] == pytest.approx(found.metrics["cost"], rel=1e-7)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_a_few_rows_are_clustered_as_well_as_can_be(tmp_path: Path, seed: int) -> None:
    """All fair clusterings of ten rows are tried; with many restarts the best is found. No cluster of rows is cheaper
    than the fairlets."""
    frame = patients(10, seed)
    folder = write_files(tmp_path / "files", split_over_sites(frame, names=SITES[:2]))
    small = {"coreset__k": 2, "coreset__min_weight": 1, "coreset__restarts": 60}
    found = cluster(own_data_config(tmp_path, folder, **small), 2)
    rows = found.rows()
    best = reference.best_fair(found.in_units(rows), found.group_numbers(rows), 2)
    assert found.metrics["cost"] == pytest.approx(best, rel=1e-9)
    assert found.metrics["cost_fairlets"] <= best


def test_a_column_counts_in_its_standard_deviation_over_all_rows(tmp_path: Path) -> None:
    """Known from the summaries alone, though no site has the rows of another."""
    frame = patients()
    folder = write_world(tmp_path / "files", frame.sort_values("income"))
    found = cluster(own_data_config(tmp_path, folder))
    assert found.arrays["features"].tolist() == sorted(FEATURES)
    np.testing.assert_allclose(found.arrays["scale"], frame[list(FEATURES)].std(ddof=0), rtol=1e-9)
    np.testing.assert_allclose(found.arrays["mean"], frame[list(FEATURES)].mean(), rtol=1e-9)
    unscaled = cluster(own_data_config(tmp_path, folder, coreset__scale="none"))
    assert unscaled.arrays["scale"].tolist() == [1, 1, 1]
    # In its own unit the income is all that counts.
    assert unscaled.metrics["cost"] > 1e6


def test_two_asks_in_all(tmp_path: Path, folder: Path) -> None:
    _, grid = run_with_grid(own_data_config(tmp_path, folder), len(SITES))
    asked = [payload for way, content in grid.crossed if way == "to_site" for payload in parcels_of(content)]
    assert asked == [Summarize] * 3 + [Assign] * 3


# -- coresets compose (Lemma 6) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", few([{}, {"coreset__construction": "kmeans"}, {"coreset__size": 40}]))
@pytest.mark.parametrize("how", few(["group", "random"]))
def test_the_union_of_coresets_is_a_coreset_of_the_union(tmp_path: Path, how: str, changes: dict[str, Any]) -> None:
    """As good as that of all rows at one site: for any centers, and any numbers of rows of every group at each, the
    cost on the points is that on the rows within the measured movement (Definition 4)."""
    frame = patients(150, groups=3, equal=False)
    split = cluster(own_data_config(tmp_path / "split", write_world(tmp_path / "files", frame, how), **changes))
    whole = cluster(own_data_config(tmp_path / "whole", together(tmp_path / "one", frame), **changes), 1)
    for name in ("mean", "scale"):
        np.testing.assert_allclose(split.arrays[name], whole.arrays[name], rtol=1e-9)
    for name in ("totals", "groups"):
        np.testing.assert_array_equal(split.arrays[name], whole.arrays[name])
    assert split.metrics["n_rows"] == whole.metrics["n_rows"] == len(frame)

    rng = np.random.default_rng(5)
    rows = split.rows()
    x, group = split.in_units(rows), split.group_numbers(rows)
    ones = np.ones(len(rows), np.int64)
    for _ in range(6):
        centers = x[rng.choice(len(x), 4, replace=False)] + rng.normal(scale=0.3, size=(4, x.shape[1]))
        constraint = np.stack([rng.multinomial(n, rng.dirichlet(np.ones(4))) for n in split.arrays["totals"]], axis=1)
        measures: list[tuple[Callable[..., float], Any]] = [
            (reference.fair_cost, 0.8),
            (reference.group_cost, constraint),
        ]
        for cost, rule in measures:
            true = cost(x, ones, group, centers, rule)
            for run in (split, whole):
                on_points = cost(run.points, run.arrays["weights"], run.arrays["point_groups"], centers, rule)
                movement = run.metrics["cost_bound"] - run.metrics["cost_coreset"]
                assert abs(np.sqrt(true) - np.sqrt(on_points)) <= np.sqrt(movement) + 1e-6
                assert true <= on_points + movement + 1e-6 * true


# -- coresets that do not know groups do not compose (Figure 1) ------------------------------------------------------


def two_places(left: str, right: str, name: str, seed: int) -> pd.DataFrame:
    """Twenty rows at each of two places far apart, those of either place of one group."""
    rng = np.random.default_rng(seed)
    place = np.repeat([-100.0, 100.0], 20)
    x = np.stack([place, np.zeros(40)], axis=1) + rng.normal(size=(40, 2))
    sex = np.repeat([left, right], 20)
    return pd.DataFrame({"patient": [f"{name}{i}" for i in range(40)], "age": x[:, 0], "income": x[:, 1], "sex": sex})


@pytest.mark.parametrize(
    "parts",
    [
        {"a": two_places("F", "M", "a", 1), "b": two_places("M", "F", "b", 2)},  # Figure 1
        {"a": two_places("F", "F", "a", 1), "b": two_places("M", "M", "b", 2)},  # and sites of one group each
    ],
)
def test_what_is_fair_of_all_rows_is_found_where_no_site_could(tmp_path: Path, parts: dict[str, pd.DataFrame]) -> None:
    """Within either site fair clusters mix the two places, or there are none. Together every place has its share of
    both groups, and the clusters are the places: at a ten thousandth of the cost."""
    settings = {"features": "age income", "coreset__k": 2, "coreset__size": 4, "coreset__scale": "none"}
    found = cluster(own_data_config(tmp_path, write_files(tmp_path / "files", parts), **settings), 2)
    rows = found.rows()
    assert (rows.groupby("cluster")["age"].agg(lambda age: np.sign(age).nunique()) == 1).all()
    assert found.arrays["counts"].tolist() == [[20, 20], [20, 20]]
    for name in parts:
        own_rows = found.rows(name)
        assert own_rows["cluster"].value_counts().tolist() == [20, 20]
    # What the coreset takes for nothing, the rows around their points, its movement gives back.
    places = [rows[rows["cluster"] == c][["age", "income"]] for c in range(2)]
    best = sum(float(((each - each.mean()) ** 2).to_numpy().sum()) for each in places)
    assert found.metrics["cost"] == pytest.approx(best, rel=1e-9)
    assert found.metrics["cost_coreset"] < 0.9 * best
    assert found.metrics["cost_bound"] == pytest.approx(best, rel=1e-9)

    alone = cluster(own_data_config(tmp_path, write_files(tmp_path / "alone", {"a": parts["a"]}), **settings), 1)
    if len(alone.arrays["groups"]) == 2:
        assert alone.metrics["cost"] > 1000 * found.metrics["cost"]
    else:
        assert any("one group" in note for note in alone.report.notes)


# -- the exact assignment ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "changes"),
    few([({}, {}), ({"equal": False}, {}), ({"groups": 3, "equal": False}, {"coreset__balance": 0.7}),
     ({"equal": False}, {"sensitive": "sex smoker"})], 2),
)  # fmt: skip
@pytest.mark.parametrize("how", few(["group", "random"]))
def test_priced_over_the_federation_the_assignment_is_the_best_of_all_rows(
    tmp_path: Path, how: str, world: dict[str, Any], changes: dict[str, Any]
) -> None:
    frame = patients(**world)
    folder = write_world(tmp_path / "files", frame, how)
    followed = cluster(own_data_config(tmp_path / "points", folder, **changes))
    exact = cluster(own_data_config(tmp_path / "rows", folder, coreset__assignment="exact", **changes))
    np.testing.assert_array_equal(exact.arrays["centers"], followed.arrays["centers"])
    rows, metrics = exact.rows(), exact.metrics
    alpha = changes.get("coreset__balance", 1.0)
    best = fair_cost(exact, rows, alpha)
    assert metrics["cost_lower"] <= best * (1 + 1e-6)
    assert metrics["cost_lower"] == pytest.approx(best, rel=2e-3)
    assert metrics["cost"] == pytest.approx(best, rel=0.02)
    # Whole rows may be cheaper than any fair assignment: essentially fair ones, by a row here and there.
    assert metrics["gap"] == pytest.approx(max(0.0, 1 - metrics["cost_lower"] / metrics["cost"]), abs=1e-12)
    assert metrics["cost"] <= followed.metrics["cost"] * (1 + 1e-9)
    np.testing.assert_array_equal(exact.counts(rows), exact.arrays["counts"])
    assert metrics["cost"] == pytest.approx(
        reference.cost_of(exact.in_units(rows), rows["cluster"].to_numpy(), exact.centers), rel=1e-9
    )


@pytest.mark.slow
def test_refined_centers_lose_less_than_half_of_what_coarse_points_lose(tmp_path: Path) -> None:
    """Points of twenty rows and more are coarse: sums over the rows make up for most of it."""
    frame = patients(equal=False)
    folder = write_world(tmp_path / "files", frame)
    exact = {"coreset__assignment": "exact", "coreset__k": 4, "coreset__min_weight": 20}
    coarse = cluster(own_data_config(tmp_path / "coarse", folder, **exact))
    refined = cluster(own_data_config(tmp_path / "refined", folder, coreset__refine=10, **exact))
    rows = refined.rows()
    x, group = refined.in_units(rows), refined.group_numbers(rows)
    bounds = Bounds.of(np.bincount(group) / len(group), 1.0)
    pooled = fair_clustering(x, np.ones(len(x), np.int64), group, bounds, 4, restarts=5, rng=np.random.default_rng(0))
    assert refined.metrics["cost"] - pooled.cost < (coarse.metrics["cost"] - pooled.cost) / 2
    assert refined.metrics["cost_unfair"] < coarse.metrics["cost_unfair"]
    assert refined.metrics["max_violation"] < 1
    np.testing.assert_array_equal(refined.counts(rows), refined.arrays["counts"])
    assert refined.metrics["cost"] == pytest.approx(
        reference.cost_of(x, rows["cluster"].to_numpy(), refined.centers), rel=1e-9
    )
    assert refined.metrics["cost"] <= refined.metrics["cost_bound"]
    assert refined.metrics["cost_bound"] == pytest.approx(
        refined.metrics["cost_coreset"] + coarse.metrics["cost_bound"] - coarse.metrics["cost_coreset"]
    )


def test_a_site_that_stops_answering_while_centers_move_is_left_out(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", patients())
    settings = own_data_config(tmp_path, folder, coreset__assignment="exact", coreset__refine=4)
    found = cluster(settings, tamper=silent(1, range(3, 100)))
    assert any("while all rows were priced" in line for line in found.report.missing["hospital"])
    rows = found.rows("clinic", "practice")
    np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])


def test_one_site_prices_as_many_do(tmp_path: Path) -> None:
    """Of points of one row each the assignment of the points is that of the rows, however they are split."""
    frame = patients(90)
    exact = {"coreset__assignment": "exact", "coreset__size": 90, "coreset__min_weight": 1, "coreset__gap": 1e-7}
    split = cluster(own_data_config(tmp_path / "split", write_world(tmp_path / "files", frame), **exact))
    whole = cluster(own_data_config(tmp_path / "whole", together(tmp_path / "one", frame), **exact), 1)
    for found in (split, whole):
        assert found.metrics["gap"] < 1e-5
        assert found.metrics["cost"] == pytest.approx(found.metrics["cost_coreset"], rel=1e-6)
        assert found.metrics["cost"] == pytest.approx(fair_cost(found, found.rows()), rel=1e-6)


# -- real sites -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", few([{"coreset__assignment": "exact"}, {}, {"coreset__min_weight": 1}]))
def test_real_sites_find_what_simulated_ones_do(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    """But for points of fewer rows than a real site sends unless it says otherwise."""
    settings, nodes = deployed_sites(tmp_path, folder, **changes)
    real = cluster(settings, nodes)
    simulated = cluster(own_data_config(tmp_path, folder, **{**changes, "coreset__min_weight": 5}))
    assert real.metrics == simulated.metrics
    for name, array in simulated.arrays.items():
        np.testing.assert_array_equal(real.arrays[name], array, err_msg=name)
    for name in SITES:
        kept = (tmp_path / "home" / name / "clusters.csv").read_bytes()
        assert kept == (simulated.path / "sites" / name / "clusters.csv").read_bytes()
    assert not list(real.path.rglob("clusters.csv"))


def test_rows_without_names_are_numbered(tmp_path: Path, folder: Path) -> None:
    found = cluster(own_data_config(tmp_path, folder, id=""))
    kept = pd.read_csv(found.path / "sites" / SITES[0] / "clusters.csv")
    assert kept["entity"].tolist() == list(range(len(kept)))
    assert len(found.rows()) == len(patients())


def test_the_seed_changes_the_clustering_and_not_the_points(tmp_path: Path, folder: Path) -> None:
    """Points of the same rows grouped in two ways would say of fewer rows than either."""
    first, second = (
        cluster(own_data_config(tmp_path / str(seed), folder, seed=seed, coreset__restarts=1, coreset__k=5))
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(first.arrays["points"], second.arrays["points"])
    assert not np.array_equal(first.arrays["centers"], second.arrays["centers"])


def test_repetitions_of_a_party_s_own_rows_are_one_line(tmp_path: Path, folder: Path) -> None:
    told = outcome_of(own_data_config(tmp_path, folder, repetitions=3), len(SITES)).refusal
    assert told == "a site summarizes its own rows once; leave repetitions out"


def test_all_payloads_are_found_by_their_titles() -> None:
    declared = [each for each in vars(wire).values() if isinstance(each, type) and issubclass(each, Payload)]
    assert len(declared) > 5
    for payload in set(declared) - {Payload}:
        assert find(payload.title()) is payload
