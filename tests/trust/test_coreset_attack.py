"""What a hostile fusion center reads of a real site in fair clustering, by `consilience attack coreset`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from consilience.attack.playing import Outcome, play
from protocols.coreset.payloads import ClusterCounts, Summarize
from protocols.gp.payloads import Survey
from tests.support.coreset_sites import ask, context_of, patients, site_at
from tests.support.site_client import RealSite

SETTINGS = {"sensitive": "sex", "features": "age income score"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    patients(100).to_csv(tmp_path / "clinic.csv", index=False)
    return tmp_path / "clinic.csv"


def played(data: Path, runs: int, only: str, **node: Any) -> Outcome:
    [outcome] = play("coreset", data, settings={**SETTINGS, **node}, most_runs=runs, only=only)
    return outcome


def test_no_number_of_a_row_comes_out_of_an_assignment(data: Path) -> None:
    outcome = played(data, 3, "one row apart")
    assert outcome.rows_out == outcome.groups_out == 0
    assert outcome.faults == {"prices-not-allowed": 1}


def test_with_consent_to_prices_one_number_of_a_row_comes_out_in_every_run(data: Path) -> None:
    """The same attack finds what is there: documented with the consent (docs/coreset.md)."""
    outcome = played(data, 3, "one row apart", **{"allow-prices": True})
    assert outcome.rows_out == 1
    assert outcome.notes == ["numbers of single rows read: 3"]


def test_prices_tell_nothing_without_consent_and_a_histogram_of_single_rows_with_it(data: Path) -> None:
    """The consent is to show rows to a center that lies (docs/coreset.md)."""
    refused = played(data, 1, "histogram by prices")
    assert refused.groups_out == 0
    assert refused.faults["prices-not-allowed"] == 1
    allowed = played(data, 1, "histogram by prices", **{"allow-prices": True})
    assert allowed.groups_out > 50
    assert allowed.rows_out == 0


@pytest.mark.parametrize(("attack", "most"), [("sums apart", 5), ("sums averaged", 0)])
def test_sums_that_differ_by_one_row_do_not_tell_it(
    data: Path, monkeypatch: pytest.MonkeyPatch, attack: str, most: int
) -> None:
    """Borders find single rows, as the histogram does; the sums on either side are rounded beyond a row."""
    assert played(data, 1, attack).faults == {"prices-not-allowed": 1}
    allowed = played(data, 1, attack, **{"allow-prices": True})
    assert allowed.rows_out == allowed.groups_out == 0
    assert int(allowed.notes[0].split(": ")[1]) > 5
    monkeypatch.setattr(
        "clients.coreset.refinement._Grid.rounded",
        lambda grid, sums, rows, whole: sums + (whole - rows)[:, np.newaxis] * grid.mean,
    )
    assert played(data, 1, attack, **{"allow-prices": True}).rows_out > most


def test_a_comparison_tells_how_far_the_rows_of_a_point_moved_and_no_row(data: Path) -> None:
    outcome = played(data, 6, "comparison")
    assert outcome.rows_out == outcome.groups_out == 0
    assert outcome.notes == ["points whose movement was read: 6"]


def test_points_of_many_runs_tell_no_row(data: Path) -> None:
    outcome = played(data, 12, "two summaries")
    assert outcome.rows_out == outcome.groups_out == 0
    assert outcome.n_runs == 12
    assert not outcome.faults


def test_points_of_all_runs_differ_by_whole_blocks(tmp_path: Path) -> None:
    """Whatever is asked in however many runs: no two points differ by fewer rows than the site allows."""
    context = context_of(tmp_path)
    asks = [Summarize(size, "bico", 0, 1, True) for size in (1, 4, 12, 13, 60, 10_000)]
    asks += [Summarize(12, "kmeans", 0, 1, True), Summarize(12, "bico", 2, 1, True), Summarize(12, "bico", 0, 5, False)]
    asks += [Summarize(60, "bico", 0, 6, True), Summarize(60, "kmeans", 2, 17, False)]
    points = []
    for number, each in enumerate(asks):
        site = site_at(Context(100 + number, 5, context.node_config, RecordDict(), context.run_config))
        summary = ask(site, each)
        points.append(np.unique(site.memory["point"], axis=0, return_inverse=True)[1].ravel())
        assert summary.weights.min() >= max(5, each.min_weight)
        assert sorted(np.bincount(points[-1])) == sorted(summary.weights)
    blocks = np.unique(np.stack(points), axis=1, return_counts=True)[1]
    assert blocks.min() >= 5


def test_an_assignment_tells_what_the_center_has_said() -> None:
    assert [field.name for field in fields(ClusterCounts)] == ["counts"]


def test_moments_of_another_protocol_tell_of_no_few_rows_that_are_withheld(tmp_path: Path) -> None:
    """A row that is its group's only one is withheld from the coreset, but not from the moments of gp."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "y": rng.normal(size=60), "sex": ["F", "M"] * 30})
    frame.loc[7, "sex"] = "X"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    node = {"site": "a", "data": str(tmp_path / "rows.csv"), "site-output-dir": str(tmp_path / "own")}
    about = {**node, "sensitive": "sex", "features": "a y"}
    summarize = Summarize(size=50, construction="bico", projection=0, min_weight=5, scaled=True)
    [coreset] = RealSite(about, {"protocol": "coreset"}).answer(1, summarize).parcels
    survey = Survey(kernel="se", max_rows=1000, fit=False, robust=False, local=0)
    learner = RealSite({**node, "target": "y", "features": "a"}, {"protocol": "gp"}, run_id=10)
    [moments] = learner.answer(1, survey).parcels
    withheld = (moments.payload.counts @ moments.payload.y_means) - (coreset.payload.weights @ coreset.payload.points)[
        1
    ]
    assert coreset.payload.withheld >= 5
    assert abs(withheld - frame.loc[7, "y"]) > 0.01
