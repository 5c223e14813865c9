"""Figures of coreset: what is drawn for which run, from content alone, and what is said of them in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numerics.coreset.fairness.clustering import fair_clustering
from protocols.coreset.payloads import Construction, Summary
from server.figures.coreset.balance import Shares
from server.figures.coreset.clusters import Plane
from server.figures.coreset.price import prices
from server.report.data import Report
from strategies.coreset.fairness import Fairness
from strategies.coreset.outcome import ClusterCenters, CoresetOutcome
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.price_of_fairness import price_over_k
from tests.support.figure_checks import alt_text, assert_drawn, caption, contents, draw, figure_names

ALGORITHMS = ("fair-kmeans++", "reassigned-cklv", "cklv")
RUN = ["clusters", "balance"]


FAIR = Fairness(1.0, overlapping=False, own={})


def make(**changes: Any) -> Report:
    made: dict[str, Any] = {
        "scenario": "s", "protocol": "coreset", "seed": 0, "sites": ["a"], "rounds": 2, "seconds": 1.0,
    }  # fmt: skip
    return Report(**{**made, "metrics": {}, **changes})


def clustered(k: int = 3, H: int = 2, d: int = 3, n: int = 60, **changes: Any) -> dict[str, np.ndarray]:
    """Arrays of one run, whose clusters are exactly fair."""
    rng = np.random.default_rng(0)
    clusters, groups = np.arange(n) % k, np.arange(n) // k % H
    centers = rng.normal(size=(k, d)) * 5
    totals = 100 * k * np.arange(H, 0, -1)
    arrays = {
        "points": centers[clusters] + rng.normal(size=(n, d)),
        "weights": rng.integers(5, 50, n),
        "point_groups": groups,
        "point_clusters": clusters,
        "groups": np.array([f"sex={h}" for h in range(H)]),
        "features": np.array([f"x{j}" for j in range(d)]),
        "mean": np.zeros(d),
        "scale": np.full(d, 2.0),
        "centers": centers,
        "centers_unfair": centers + 1.0,
        "counts": np.tile(totals // k, (k, 1)),
        "totals": totals,
        "balance": np.array(1.0),
    }
    return {**arrays, **changes}


def profiled(**changes: Any) -> dict[str, np.ndarray]:
    """Arrays with profiles: the second cluster stands out by its last column, the third has no rows."""
    arrays = clustered()
    mean = np.array([[0.5, 0.0, -1.0], [0.0, 0.1, 6.0], [np.nan] * 3])
    return {**arrays, "profile_mean": mean, "profile_spread": np.ones((3, 3)), **changes}


def test_a_profile_shows_the_column_that_is_farthest_from_all_rows() -> None:
    report = make(metrics={"n_rows": 600.0})
    assert figure_names(report, profiled()) == ["clusters", "profile", "balance"]
    assert_drawn(report, profiled(), ["clusters", "profile", "balance"])
    assert "x2 in cluster 1: its mean is 6, 3 standard deviations above" in alt_text(report, "profile", profiled())
    lower = profiled(profile_mean=np.array([[0.0, 0.0, -6.0], [0.0, 0.0, 1.0], [0.0] * 3]))
    assert "3 standard deviations below" in alt_text(report, "profile", lower)
    assert contents(report, "profile", lower) != contents(report, "profile", profiled())
    wide = clustered(k=40, d=20, n=400)
    wide |= {"profile_mean": wide["centers"], "profile_spread": np.ones((40, 20))}
    said = caption(report, "profile", wide)
    assert "The 30 clusters farthest from all rows, of 40" in said
    assert "The 12 columns that differ most, of 20" in said


def row(part: str, **more: Any) -> dict[str, Any]:
    """A row of a table: labels, then what was measured."""
    labels = {"part": part, "rows": 1000, "sensitive": "sex", "balance": 1.0, "algorithm": ALGORITHMS[0], "k": 4}
    own = {name: value for name, value in more.items() if name in labels or name == "split" or name == "scale"}
    return {**labels, **own, "cost": 10.0, **{name: value for name, value in more.items() if name not in own}}


def errors(**more: Any) -> list[dict[str, Any]]:
    return [row("error", rows=n, error=0.01 * n / 1000, **more) for n in (1000, 2000, 3000, 4000)]


def quality(ks: tuple[int, ...] = (2, 5, 10, 20, 40, 60), **more: Any) -> list[dict[str, Any]]:
    return [
        row("quality", k=k, algorithm=name, relative=1 - (2 - place) * k / 2000, fairlet_share=k / 100, **more)
        for place, name in enumerate(ALGORITHMS)
        for k in ks
    ]


def groups(**more: Any) -> list[dict[str, Any]]:
    prices = {"sex": 0.132, "race": 0.067, "race sex": 0.161}
    return [
        row("groups", rows="all", sensitive=name, balance=balance, price_of_fairness=price * balance, **more)
        for name, price in prices.items()
        for balance in (1.0, 0.8)
    ]


def table(rows: list[dict[str, Any]]) -> tuple[Report, dict[str, np.ndarray]]:
    metrics = {"cost": 10.0, "balance": 0.9, "max_violation": 0.5, "n_cells": float(len(rows))}
    return make(metrics=metrics, table=rows), clustered()


# -- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_shows_its_points_and_the_groups_of_its_clusters() -> None:
    assert_drawn(make(), clustered(), RUN, twice=True)


@pytest.mark.parametrize(
    ("arrays", "changed"),
    [
        (clustered(k=1), RUN),
        (clustered(d=1), ["clusters"]),
        (clustered(d=1, H=20, n=400), RUN),
        (clustered(n=1, k=1), RUN),
        (clustered(points=np.ones((60, 3)), centers=np.ones((3, 3)), centers_unfair=np.ones((3, 3))), ["clusters"]),
        (clustered(scale=np.ones(3)), ["clusters"]),
        (clustered(k=20, H=12, n=500), ["clusters"]),
        (clustered(k=200, H=3, n=900), RUN),
        (clustered(d=300, n=40), ["clusters"]),
    ],
    ids=["k=1", "d=1", "d=1 H=20", "one point", "equal points", "unscaled", "many", "k=200", "d > n"],
)
@pytest.mark.slow
def test_every_shape_can_be_drawn(arrays: dict[str, np.ndarray], changed: list[str]) -> None:
    assert figure_names(make(), arrays) == RUN
    assert all(contents(make(), name, arrays) for name in changed)


@pytest.mark.slow
@pytest.mark.parametrize("arrays", [clustered(n=1, k=1), clustered(k=20, H=12, n=500)], ids=["one point", "many"])
def test_few_and_many_clusters_are_laid_out(arrays: dict[str, np.ndarray]) -> None:
    assert_drawn(make(), arrays, RUN)


def test_one_group_has_no_shares_to_compare() -> None:
    assert list(draw(make(), clustered(H=1))) == ["clusters"]


def test_a_clustering_that_no_site_has_counted_has_no_shares() -> None:
    assert figure_names(make(), clustered(counts=np.zeros((3, 2), int))) == ["clusters"]


def test_nothing_to_draw() -> None:
    assert draw(make(), {}) == {}


def test_a_table_of_one_row_shows_its_run() -> None:
    assert figure_names(*table(errors()[:1])) == RUN


def test_a_name_is_drawn_as_it_is() -> None:
    names = np.array(["$x^{$", "_" + "x" * 64])
    assert_drawn(make(), clustered(groups=names), RUN)


def test_the_plane_is_that_of_the_rows_behind_the_points() -> None:
    """A point of weight w counts as w rows, and columns in units of their scale."""
    arrays = clustered(d=4)
    points, weights, scale = arrays["points"], arrays["weights"], np.array([1.0, 2.0, 5.0, 0.5])
    plane = Plane.of(points, weights, scale)
    rows = np.repeat(points / scale, weights, axis=0)
    values, vectors = np.linalg.eigh(np.cov(rows.T, ddof=0))
    assert plane.explained == pytest.approx(values[::-1][:2] / values.sum(), rel=1e-6)
    assert np.abs(plane.axes.T @ vectors[:, ::-1][:, :2]) == pytest.approx(np.eye(2), abs=1e-5)
    assert plane.project(rows * scale).mean(axis=0) == pytest.approx(np.zeros(2), abs=1e-9)


@pytest.mark.slow
def test_what_is_drawn_depends_on_the_weights_groups_and_clusters() -> None:
    changed = {
        "weights": np.arange(60) + 5,
        "point_groups": np.zeros(60, int),
        "point_clusters": np.zeros(60, int),
        "centers_unfair": np.zeros((3, 3)),
        "scale": np.array([1.0, 2.0, 30.0]),
    }
    changed_arrays = [clustered(), *(clustered(**{name: value}) for name, value in changed.items())]
    assert len({contents(make(), "clusters", arrays) for arrays in changed_arrays}) == 6


# -- shares of groups ------------------------------------------------------------------------------------------------


def test_shares_are_relative_to_all_rows() -> None:
    counts = np.array([[30, 10], [20, 40], [0, 0]])
    shares = Shares.of(clustered(counts=counts, totals=counts.sum(axis=0), balance=np.array(0.8)))
    assert shares.of_all == pytest.approx([0.5, 0.5])
    assert shares.ratio[:2] == pytest.approx(np.array([[1.5, 0.5], [2 / 3, 4 / 3]]))
    assert np.isnan(shares.ratio[2]).all(), "an empty cluster has no shares"
    assert shares.allowed == pytest.approx(np.array([[0.8, 0.8], [1.25, 1.25]]))
    assert shares.outside.tolist() == [[True, True], [True, True], [False, False]]


def test_no_share_is_more_than_the_whole_cluster() -> None:
    counts = np.array([[90, 10], [90, 10]])
    shares = Shares.of(clustered(counts=counts, totals=counts.sum(axis=0), balance=np.array(0.5)))
    assert shares.allowed[1] == pytest.approx([1 / 0.9, 2.0])


def test_rounding_to_whole_rows_is_fair() -> None:
    counts = np.array([[34, 33], [33, 34]])
    shares = Shares.of(clustered(counts=counts, totals=counts.sum(axis=0)))
    assert not shares.outside.any()
    assert shares.allowed == pytest.approx(np.ones((2, 2)))


def test_the_most_frequent_groups_are_shown() -> None:
    totals = np.arange(1, 13)
    shares = Shares.of(clustered(H=12, counts=np.tile(totals, (3, 1)), totals=3 * totals))
    assert shares.groups.tolist() == [f"sex={h}" for h in range(11, 3, -1)]
    assert shares.ratio == pytest.approx(np.ones((3, 8)))


def test_of_many_clusters_those_farthest_from_all_rows_are_shown() -> None:
    counts = np.full((50, 2), 100)
    counts[[7, 41]] = [150, 50], [50, 150]
    counts[0] = 0
    shares = Shares.of(clustered(k=50, counts=counts, totals=counts.sum(axis=0)))
    assert len(shares.clusters) == 30
    assert {7, 41} <= set(shares.clusters.tolist())
    assert 0 not in shares.clusters
    assert shares.clusters.tolist() == sorted(shares.clusters.tolist())


@pytest.mark.slow
def test_an_unfair_cluster_and_the_allowed_band_are_seen() -> None:
    unfair = np.array([[300, 0], [200, 100], [100, 200]])
    images = {
        contents(make(), "balance", clustered(counts=counts, balance=np.array(alpha)))
        for counts in (clustered()["counts"], unfair)
        for alpha in (1.0, 0.8)
    }
    assert len(images) == 4


@pytest.mark.slow
def test_a_row_of_panels_for_every_three_groups() -> None:
    three, eight = (contents(make(), "balance", clustered(H=H, n=200)) for H in (3, 12))
    assert eight.height == pytest.approx(3 * three.height, abs=3)


# -- a table ----------------------------------------------------------------------------------------------------------


def test_every_part_of_a_table_has_its_figures() -> None:
    splits = [row("split", split=name, error=0.01) for name in ("random", "column", "group")]
    rows = errors() + splits + quality() + groups()
    assert_drawn(*table(rows), ["error", "split", "quality", "fairlet_share", "groups"])
    for part, names in {"error": ["error"], "quality": ["quality", "fairlet_share"], "groups": ["groups"]}.items():
        assert list(draw(*table([each for each in rows if each["part"] == part]))) == names


@pytest.mark.slow
def test_errors_over_rows_with_the_papers_largest() -> None:
    base = draw(*table(errors()))
    assert list(base) == ["error"]
    assert draw(*table(errors()[::-1])) == base
    assert draw(*table(errors(error_se=0.002))) != base
    assert draw(*table(errors(**{"error published": 0.035}))) == base, "the line says it"
    assert alt_text(table(errors())[0], "error") == (
        "How much dearer the coreset's solution is than that of clustering all rows (sensitive sex, balance 1,"
        " fair-kmeans++, k 4): 1 % (rows 1000), 2 % (rows 2000), 3 % (rows 3000), 4 % (rows 4000)."
    )
    assert "4 rows of the table, 1 repetition, 1 site" in caption(table(errors())[0], "error")
    assert caption(table(errors())[0], "error").endswith("The dotted line is the paper's largest (bank), 3.5 %.")


def test_quality_over_k_by_algorithm() -> None:
    rows = quality((2, 60))
    for each in rows:
        if each["algorithm"] == ALGORITHMS[0]:
            each |= {"gain": each["k"] / 2000, "gain published": 0.05}
    rows += quality((10,))
    assert_drawn(*table(rows), ["quality", "fairlet_share"])
    assert alt_text(table(rows)[0], "quality") == (
        "Cost relative to CKLV k-means++ (rows 1000, sensitive sex, balance 1): fair-kmeans++: 0.998 (k 2) to 0.94"
        " (k 60); reassigned-cklv: 0.999 (k 2) to 0.97 (k 60); cklv: 1 (k 2) to 1 (k 60). The"
        " largest gain of fair k-means++ over reassigned CKLV is 3 %, in the paper up to 5 %."
    )
    assert alt_text(table(rows)[0], "fairlet_share").endswith("balance 1): 0.02 (k 2), 0.1 (k 10), 0.6 (k 60).")


@pytest.mark.slow
def test_scaled_and_unscaled_columns_have_a_panel_each() -> None:
    rows = [{**each, "scale": scale} for scale in ("variance", "none") for each in quality()]
    rows = [{"part": each.pop("part"), "scale": each.pop("scale"), **each} for each in rows]
    assert_drawn(*table(rows), ["quality", "fairlet_share"])
    (report, arrays), (other, _) = table(rows), table(quality())
    assert contents(report, "quality", arrays) != contents(other, "quality", arrays)
    assert "scale none, cklv: 1 (k 2) to 1 (k 60)" in alt_text(table(rows)[0], "quality")


def test_the_price_of_fairness_over_groups_and_balance() -> None:
    assert_drawn(*table(groups()), ["groups"])
    assert draw(*table(groups(price_of_fairness_se=0.01))) != draw(*table(groups()))
    assert alt_text(table(groups(price_of_fairness_se=0.01))[0], "groups") == (
        "How much dearer the fair clusters are than those of plain k-means (rows all, fair-kmeans++, k 4): sex, balance"
        " 1: 13.2 %; sex, balance 0.8: 10.6 %; race, balance 1: 6.7 %; race, balance 0.8: 5.36 %; race sex, balance 1:"
        " 16.1 %; race sex, balance 0.8: 12.9 %."
    )
    assert caption(table(groups(price_of_fairness_se=0.01))[0], "groups").endswith("Bars are standard errors.")


@pytest.mark.slow
def test_published_figures_are_crosses() -> None:
    rows = groups(**{"price_of_fairness published": 0.1})
    assert draw(*table(rows)) != draw(*table(groups()))
    assert caption(table(rows)[0], "groups").endswith("Crosses are the paper's figures.")


def test_cells_without_a_number_are_left_out() -> None:
    rows = errors()
    rows[1]["error"], rows[2]["error"] = float("nan"), None
    assert list(draw(*table(rows))) == ["error"]
    assert "nan" not in alt_text(table(rows)[0], "error")
    for each in rows:
        each["error"] = None
    assert list(draw(*table(rows))) == ["error"]  # of the cost, which is always known
    assert alt_text(table(rows)[0], "error").startswith("Sum of squared distances")
    for each in rows:
        each["cost"] = float("nan")
    assert draw(*table(rows)) == {}


def test_a_table_without_parts_is_named_by_what_it_compares() -> None:
    rows = [{"k": k, "excess": 0.1 / k} for k in (2, 4, 8)]
    assert_drawn(*table(rows), ["excess"])
    assert alt_text(table(rows)[0], "excess") == (
        "How much dearer the clusters are than the planted ones: 5 % (k 2), 2.5 % (k 4), 1.25 % (k 8)."
    )


def test_a_part_of_one_row_is_a_dot() -> None:
    assert list(draw(*table([errors()[0], groups()[0]]))) == ["error", "groups"]


def test_many_curves_can_be_drawn_and_are_told_in_part() -> None:
    rows = [row("error", rows=n, sensitive=f"s{j}", error=0.01) for n in (1, 2, 3) for j in range(20)]
    assert_drawn(*table(rows), ["error"])
    assert "; and 8 more" in alt_text(table(rows)[0], "error")


# -- the price of fairness --------------------------------------------------------------------------------------------


def test_the_price_over_k_is_drawn_beside_the_runs_own() -> None:
    arrays = clustered(price_k=np.array([2, 3, 6]), price_fair=np.array([11.0, 12, 9]), price_unfair=np.full(3, 8.0))
    np.testing.assert_allclose(prices(arrays), [37.5, 50, 12.5])
    report = make(metrics={"price_of_fairness": 0.4})
    assert_drawn(report, arrays, [*RUN, "price"])
    assert contents(report, "price", arrays) != contents(make(), "price", arrays)
    assert alt_text(report, "price", arrays) == (
        "Price of fairness by number of clusters: 37.5 % at 2, 50 % at 3, 12.5 % at 6. This run paid 40 % on all rows."
    )
    assert "on the coreset's points" in caption(report, "price", arrays)
    assert figure_names(make(), {**arrays, "price_unfair": np.zeros(3)}) == RUN


def outcome(k: int, H: int = 2, n: int = 40) -> CoresetOutcome:
    """Of a site whose groups lie apart: fairness has a price."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % H
    x = rng.normal(size=(n, 2)) + 3.0 * group[:, np.newaxis]
    names = tuple(map(str, range(H)))
    sent = Summary(("x", "y"), names, x, np.full(n, 5), group, np.ones(2), 5 * n, 0, 0)
    pool = PooledCoreset.of({"a": sent}, scaled=False)
    points = pool.union
    clustering = fair_clustering(
        points.points,
        points.weights,
        points.groups,
        pool.bounds(FAIR),
        k,
        restarts=1,
        rng=rng,
    )
    centers = ClusterCenters(Construction(n, "bico", 0, 5, False), clustering.centers, clustering.centers, np.ones(2))
    return CoresetOutcome(pool, points, clustering, centers, FAIR)


def test_the_price_is_found_from_half_to_twice_as_many_clusters() -> None:
    run = outcome(4)
    found = price_over_k(run)
    assert found["price_k"].tolist() == [2, 3, 4, 6, 8]
    assert np.all(found["price_fair"] >= found["price_unfair"])
    assert np.all(found["price_unfair"] > 0)
    many = replace(run, centers=replace(run.centers, fair=np.zeros((13, 2))))
    for other in (many, replace(run, lost=("b",)), outcome(4, H=1)):
        assert price_over_k(other) == {}, "takes seconds; of other rows than the bounds; no price to pay"


# -- what is said -----------------------------------------------------------------------------------------------------


def test_the_text_of_the_points_gives_sizes_and_the_price_of_fairness() -> None:
    metrics = {"n_coreset": 4000.0, "n_rows": 48842.0, "cost": 11.32, "cost_unfair": 10.0, "price_of_fairness": 0.132}
    report = make(metrics=metrics)
    assert "4,000 points that stand for 48,842 rows, 1 site" in caption(report, "clusters", clustered())
    assert alt_text(report, "clusters", clustered()).endswith(
        "fair clusters cost 11.32, 13.2 % above the 10 of plain k-means."
    )
    assert alt_text(report, "clusters", clustered()).startswith("3 clusters of 300 to 300 rows. The axes show ")
    twice = make(metrics=metrics, config={"repetitions": 2})
    assert caption(twice, "clusters", clustered()).startswith("The weighted points of the first repetition")
    assert "4,000" not in caption(twice, "clusters", clustered()), "the metrics are means over the repetitions"
    assert alt_text(twice, "clusters", clustered()).endswith("of plain k-means, on average over the repetitions.")
    cheaper = {**metrics, "price_of_fairness": -0.01}
    assert "1 % below the 10 of plain k-means" in alt_text(make(metrics=cheaper), "clusters", clustered())


def test_the_text_of_the_shares_gives_the_farthest() -> None:
    shares: list[dict[str, Any]] = [{"cluster": 0, "rows": 40, "share F": 0.55, "share M": 0.45}]
    shares += [{"cluster": 1, "rows": 0}, {"cluster": "all", "rows": 40, "share F": 0.5, "share M": 0.5}]
    report = make(table=shares, metrics={"max_violation": 0.4, "n_groups": 12.0}, config={"coreset.balance": 0.8})
    assert alt_text(report, "balance", clustered()) == (
        "Farthest from 1 is F in cluster 0, 55 % against 50 % of all rows; the ratios are from 1 to 1; all are as fair"
        " as required; the largest violation of a bound is 0.4 rows."
    )
    shares[0] |= {"share F": 0.05, "share M": 0.95}
    shares[-1] |= {"share F": 0.25, "share M": 0.75}
    below = alt_text(make(table=shares), "balance", clustered())
    assert below.startswith("Farthest from 1 is F in cluster 0, 5 % against 25 % of all rows"), "a fifth of its share"
    unfair = clustered(counts=np.array([[300, 0], [200, 100], [100, 200]]))
    assert (
        "the ratios are from 0 to 2; 2 clusters not as fair as required" in alt_text(make(), "balance", unfair).lower()
    )
    text = caption(report, "balance", unfair)
    assert "8 most frequent of 12 groups" in text
    assert text.endswith("The shaded band, 0.8 to 1.25, is allowed (coreset.balance 0.8).")
    assert "Required is 1" in caption(make(config={"coreset.balance": 1.0}), "balance", unfair)
    assert "in the first repetition" in caption(make(config={"repetitions": 3}), "balance", unfair)
