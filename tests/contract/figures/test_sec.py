"""Figures of SEC: what is drawn for which run, from content alone, and what is said of them to who cannot see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from server.figures.sec.embedding import Embedding
from server.report.data import Report
from tests.support.figure_checks import alt_text, assert_drawn, caption, contents, draw


def make(**changes: Any) -> Report:
    made: dict[str, Any] = {"scenario": "s", "protocol": "sec", "seed": 0, "sites": ["a"], "rounds": 3, "seconds": 1.0}
    return Report(**{**made, "metrics": {}, **changes})


def clustering(labels: list[int], **changes: Any) -> dict[str, np.ndarray]:
    """Arrays of a run with these labels."""
    same = np.equal.outer(labels, labels)
    arrays = {
        "labels": np.array(labels),
        "similarity": np.where(same, 1.0, 0.2),
        "learners": np.array([f"lab-{place}" for place in range(len(labels))]),
        "eigenvalues": np.linspace(1, 0, len(labels)),
        "gap": np.zeros(0),
        "gap_error": np.zeros(0),
    }
    return {**arrays, **changes}


def rows(groups: tuple[int, ...], levels: Any = (1, 4, 64), **more: Any) -> list[dict[str, Any]]:
    """A table over p and SNR."""
    return [
        {"p": p, "SNR": level, "clusters_correct": 0.5, "mse_alone": p / level, "mse_cluster": p / level / 2, **more}
        for p in groups
        for level in levels
    ]


def table(found: list[dict[str, Any]], **changes: Any) -> tuple[Report, dict[str, np.ndarray]]:
    metrics = {"clusters_correct": 0.5, "n_clusters": 2.0, "mse_alone": 1.0, "mse_cluster": 0.5}
    metrics["n_cells"] = float(len(found))
    report = make(metrics=metrics, table=found, **changes)
    return report, {"cells_n_clusters": np.ones((len(found), 1)), **clustering([0, 1, 0])}


# -- what is drawn ----------------------------------------------------------------------------------------------------


def test_a_table_of_one_row_shows_its_clustering_instead() -> None:
    report, arrays = table(rows((5,), (4,)))
    assert list(draw(report, arrays)) == ["similarity", "embedding", "errors", "eigenvalues"]


def test_a_table_of_several_rows_shows_curves() -> None:
    assert list(draw(*table(rows((5,))))) == ["correct", "errors"]
    assert_drawn(*table(rows((5, 10, 20, 40, 80))), ["correct", "errors"])


def test_a_table_without_numbers_to_run_over_has_no_curves() -> None:
    found = [{"scans": name, "clusters_correct": 1.0, "mse_alone": 1.0} for name in ("made", "real")]
    assert draw(*table(found)) == {}


@pytest.mark.slow
def test_curves_differ_where_the_content_differs() -> None:
    drawn = [draw(*table(rows((5,), **more))) for more in ({}, {"mse_alone_se": 0.1}, {"mse_alone published": 2.0})]
    assert len({each["errors"] for each in drawn}) == 3
    assert len({each["correct"] for each in drawn}) == 1


@pytest.mark.parametrize(
    ("scale", "span"), [(1e-6, 1.5), (1e-6, 1e5), (1.0, 1.5), (1.0, 20.0), (1e6, 20.0), (1e6, 1e5)]
)
def test_errors_of_every_size_can_be_drawn(scale: float, span: float) -> None:
    found = [{"attacked": k, "mse_alone": scale, "mse_all": scale * span**k, "mse_all_se": scale} for k in (0, 1)]
    assert list(draw(*table(found))) == ["errors"]


def test_an_error_of_0_is_no_obstacle() -> None:
    assert list(draw(*table([{"attacked": k, "mse_alone": 0.0, "mse_all": 100.0 * k} for k in (0, 1)]))) == ["errors"]


@pytest.mark.parametrize("n", [2, 31])
def test_a_clustering_of_any_size_can_be_drawn(n: int) -> None:
    report, embedded = make(metrics={"n_clusters": 1.0}), ["embedding"] if n > 2 else []
    for labels in ([0] * n, [0] * (n - 1) + [-1]):
        assert list(draw(report, clustering(labels))) == ["similarity", *embedded, "eigenvalues"]
    assert_drawn(report, clustering(list(range(n))), ["similarity", *embedded, "eigenvalues"])


def test_one_learner_and_a_run_that_measured_nothing_have_no_figures() -> None:
    assert draw(make(metrics={"n_clusters": 1.0}), clustering([0])) == {}
    assert draw(make(), {}) == {}


def test_a_name_is_drawn_as_it_is() -> None:
    names = np.array(["$x^{$", "x" * 64, "_^\\"])
    arrays = clustering([0, 1, 0], learners=names)
    assert_drawn(make(metrics={"n_clusters": 2.0}), arrays, ["similarity", "embedding", "eigenvalues"])


def test_many_clusters_are_cut_short() -> None:
    found = [{"cluster": k, "mse_alone": 1.0 + k, "mse_cluster": 1.0, "who": "x"} for k in range(40)]
    report = make(metrics={"mse_alone": 2.0, "mse_cluster": 1.0, "n_clusters": 40.0}, table=found)
    assert_drawn(report, {}, ["errors"])
    assert contents(report, "errors", {}).height < 1200
    assert "cluster 3" in alt_text(report, "errors")
    assert len(alt_text(report, "errors")) < 400


# -- the embedding ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_learners_of_a_cluster_lie_together_and_newcomers_with_them() -> None:
    labels = [0, 0, 1, 1, 2, 2, 0, 2, -1]
    arrays = clustering(labels, newcomer=np.array([False] * 6 + [True] * 3))
    arrays["similarity"] += np.random.default_rng(0).uniform(0, 0.05, (9, 9))
    arrays["similarity"] = (arrays["similarity"] + arrays["similarity"].T) / 2
    arrays["similarity"][6:, 6:] = arrays["similarity"][8] = arrays["similarity"][:, 8] = np.nan
    found = Embedding.of(arrays)
    assert found is not None
    assert found.rows.shape == (8, 3), "of whom nothing is known is nowhere"
    np.testing.assert_allclose(np.linalg.norm(found.rows, axis=1), 1)
    distances = np.linalg.norm(found.rows[:, np.newaxis] - found.middles, axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), found.labels)
    assert list(draw(make(metrics={"n_clusters": 3.0}), arrays)) == ["similarity", "embedding", "eigenvalues"]


def test_a_newcomer_with_the_row_of_an_old_learner_lies_where_that_one_does() -> None:
    s = np.array([[1.0, 0.8, 0.1, 0.2], [0.8, 1.0, 0.3, 0.1], [0.1, 0.3, 1.0, 0.7], [0.2, 0.1, 0.7, 1.0]])
    twice = s[np.ix_([0, 1, 2, 3, 2], [0, 1, 2, 3, 2])]
    found = Embedding.of(clustering([0, 0, 1, 1, 1], similarity=twice, newcomer=np.arange(5) == 4))
    assert found is not None
    np.testing.assert_allclose(found.rows[4], found.rows[2], atol=1e-12)


@pytest.mark.parametrize("k", [7, 40])
def test_many_clusters_are_told_by_number_rather_than_in_a_legend(k: int) -> None:
    arrays = clustering([label % k for label in range(3 * k)])
    report = make(metrics={"n_clusters": float(k)})
    assert contents(report, "embedding", arrays)
    text = alt_text(report, "embedding", arrays)
    assert "3 learners in cluster 0" in text
    assert len(text) < 500


# -- what is said -----------------------------------------------------------------------------------------------------


def test_the_text_of_curves_gives_their_ends_and_the_caption_explains_the_marks() -> None:
    report, _ = table(rows((5, 10), **{"mse_alone_se": 0.1, "clusters_correct published": 0.7}))
    assert alt_text(report, "errors") == (
        "Mean squared error: alone, p = 5: 5 (SNR 1) to 0.0781 (SNR 64); alone, p = 10: 10 (SNR 1) to 0.156 (SNR 64);"
        " with its cluster, p = 5: 2.5 (SNR 1) to 0.0391 (SNR 64); with its cluster, p = 10: 5 (SNR 1) to 0.0781"
        " (SNR 64)."
    )
    assert alt_text(report, "correct") == (
        "Share of the repetitions whose clusters are all correct: p = 5: 0.5 (SNR 1) to 0.5 (SNR 64);"
        " p = 10: 0.5 (SNR 1) to 0.5 (SNR 64)."
    )
    assert "6 rows of the table" in caption(report, "errors")
    assert caption(report, "errors").endswith("Bars are standard errors.")
    assert caption(report, "correct").endswith("Crosses are the paper's figures.")


def test_the_text_of_a_clustering_tells_its_numbers() -> None:
    report, arrays = make(metrics={"n_clusters": 2.0, "n_learners": 4.0}), clustering([0, 1, 0, -1])
    assert alt_text(report, "similarity", arrays) == (
        "Matrix of the similarity of each two learners, ordered by cluster. Its mean is 1 within clusters and 0.2"
        " between clusters. 2 learners in cluster 0, 1 learner in cluster 1, 1 learner in none."
    )
    assert alt_text(report, "eigenvalues", arrays) == (
        "The largest eigenvalues fall from 1 to 0.667 at 2 clusters, the chosen number, and then to 0.333."
    )
    arrays |= {"gap": np.array([0.5, 0.2, 0.1]), "gap_error": np.full(3, 0.1)}
    assert alt_text(report, "gap", arrays) == "Gap by number of clusters: 0.5 at 2, 0.1 at 4; 2 was chosen."
    assert "4 learners, 1 site" in caption(report, "similarity", arrays)


def test_the_text_of_a_clustering_names_the_first_repetition_if_there_are_several() -> None:
    report = make(metrics={"n_clusters": 2.5}, config={"repetitions": 2})
    arrays = clustering([0, 1, 0], gap=np.array([0.5, 0.2]), gap_error=np.full(2, 0.1))
    for name in ("similarity", "eigenvalues", "gap"):
        assert "first repetition" in alt_text(report, name, arrays)
        assert "2.5" not in alt_text(report, name, arrays), "a mean over the repetitions, which are not all drawn"
        assert "first repetition" in caption(report, name, arrays)


def test_errors_on_the_centers_rows_are_said_to_be_on_those() -> None:
    report = make(metrics={"mse_test_alone": 1.0, "mse_test_cluster": 0.5, "n_clusters": 1.0})
    assert_drawn(report, {}, ["errors"])
    assert alt_text(report, "errors") == (
        "Mean squared error on the center's test rows: all clusters: alone 1, with its cluster 0.5."
    )
