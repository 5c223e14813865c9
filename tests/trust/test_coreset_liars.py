"""One site of five lies in fair clustering: influence and a note name it, and a robust run leaves it out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from protocols.coreset.payloads import ClusterCosts, CostsAlone, Masses, Summary
from server.results import load
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.robust import FARTHEST, far_sites
from tests.support.grid import Tamper, config
from tests.support.runs import run
from tests.support.tampering import lying, silent

pytestmark = pytest.mark.usefixtures("quick")

N_SITES, LIAR = 5, 1
FAR = lying(LIAR, Summary, "points", lambda points: points + 1000.0)


def settings_of(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return config(tmp_path, scenario="coreset-synthetic", coreset__rows=2000, coreset__k=4, coreset__size=50, **changes)


@pytest.mark.usefixtures("influence")
def test_points_far_away_are_named_by_their_influence(tmp_path: Path) -> None:
    honest = load(run(settings_of(tmp_path / "honest"), N_SITES))[0]
    report = load(run(settings_of(tmp_path / "lie"), N_SITES, tamper=FAR))[0]
    assert report.influence["most"] == f"site-{LIAR}"
    others = [change for site, change in report.influence["without"].items() if site != f"site-{LIAR}"]
    assert report.influence["change"] > max(0.05, 2 * max(others))
    assert honest.influence["change"] < 0.02
    [note] = [note for note in report.notes if "coreset.robust" in note]
    assert note.startswith(f"site-{LIAR}: ")
    assert not any("coreset.robust" in note for note in honest.notes)


def test_a_robust_run_leaves_them_out(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, coreset__robust=True)
    report, arrays = load(run(settings, N_SITES, tamper=FAR))
    others, expected = load(run(settings, N_SITES, tamper=silent(LIAR, [1])))
    assert "coreset.robust" in " ".join(report.missing[f"site-{LIAR}"])
    np.testing.assert_array_equal(arrays["centers"], expected["centers"])
    assert report.metrics == others.metrics


def test_a_robust_run_of_honest_sites_leaves_nobody_out(tmp_path: Path) -> None:
    """Sites that differ: each has rows of one group, or of a part of the clusters."""
    for split in ("random", "column", "group"):
        honest, robust = (
            load(run(settings_of(tmp_path / f"{split} {on}", coreset__split=split, coreset__robust=on), N_SITES))[0]
            for on in (False, True)
        )
        assert not robust.missing
        assert not any("coreset.robust" in note for note in honest.notes)
        assert robust.metrics == honest.metrics


def summary_of(x: np.ndarray) -> Summary:
    n = len(x)
    weights, zeros = np.full(n, 5), np.zeros(n, np.int64)
    return Summary(("a", "b"), ("F",), x, weights, zeros, np.ones(2), 5 * n, 0, 0)


def test_two_sites_cannot_tell_which_of_them_is_far() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2))
    pool = PooledCoreset.of({"a": summary_of(x), "b": summary_of(x + 1e6)}, scaled=True)
    assert not far_sites(pool, FARTHEST)


def test_a_column_that_is_constant_at_most_sites_tells_nothing() -> None:
    """Its deviations there are rounding errors, in which everything is far."""
    rng = np.random.default_rng(2)
    draws = {f"site-{place}": rng.normal(size=(20, 2)) for place in range(5)}
    for place, x in enumerate(draws.values()):
        x[:, 1] = 1e6 * (1 + 1e-15 * rng.normal(size=20)) if place < 3 else rng.normal(1e6, 1.0, 20)
    summaries = {site: replace(summary_of(x), movement=np.zeros(2)) for site, x in draws.items()}
    assert not far_sites(PooledCoreset.of(summaries, scaled=True), FARTHEST)


@pytest.mark.parametrize("shift", [30.0, 1e3, 1e30])
def test_two_of_five_sites_far_away(shift: float) -> None:
    rng = np.random.default_rng(1)
    draws = {f"site-{place}": rng.normal(size=(20, 2)) for place in range(5)}
    lies = {site: summary_of(x + shift * (site in ("site-1", "site-3"))) for site, x in draws.items()}
    assert set(far_sites(PooledCoreset.of(lies, scaled=True), FARTHEST)) == {"site-1", "site-3"}


def test_a_cost_that_no_rows_have_is_refused(tmp_path: Path) -> None:
    """After an exact assignment a site tells what its rows cost: within what its own points and movement allow."""
    settings = settings_of(tmp_path, coreset__assignment="exact", coreset__price_rounds=2)
    report = load(run(settings, N_SITES, tamper=lying(LIAR, ClusterCosts, "cost", lambda cost: 100 * cost)))[0]
    assert any("is not a cost of rows with these points" in line for line in report.missing[f"site-{LIAR}"])


def costs(**lies: float) -> Tamper:
    """The site's sums of what its rows cost together and alone, several of them changed."""

    def tamper(at: int, number: int, reply: Message) -> Message | None:
        for field, value in lies.items():
            reply = lying(LIAR, CostsAlone, field, lambda _: value)(at, number, reply)  # type: ignore[assignment]  # noqa: B023
        return reply

    return tamper


@pytest.mark.parametrize("alone", [1e20, 1e50])
def test_a_cost_alone_that_no_rows_have_is_refused(tmp_path: Path, alone: float) -> None:
    """It used to end the run of all."""
    report = load(run(settings_of(tmp_path), N_SITES, tamper=costs(alone=alone, squares=alone**2 / 300)))[0]
    assert any("'alone': is not a cost of rows with these points" in line for line in report.missing[f"site-{LIAR}"])
    assert "cost_alone" in report.metrics


@pytest.mark.usefixtures("influence")
def test_a_site_whose_costs_alone_turn_the_verdict_is_named(tmp_path: Path) -> None:
    """Twice what its rows cost together, nothing alone: no bound of these costs is narrow enough to refuse it."""
    settings = settings_of(tmp_path, coreset__assignment="exact", coreset__refine=0)
    honest = load(run(settings, N_SITES))[0].verdict
    lie = costs(together=4800.0, alone=0.0, squares=60000.0)
    lied = load(run(settings, N_SITES, tamper=lie))[0].verdict
    assert (honest["decision"], lied["decision"]) == ("join", "do not join")
    assert [line for line in lied["warnings"] if "rests on" in line] == [
        f"The verdict rests on the answer of site-{LIAR} alone: without it, it would be: Join."
    ]
    assert not any("rests on" in line for line in honest["warnings"])


@pytest.mark.parametrize("cost", [1e55, 1e300])
def test_a_sum_too_large_to_be_added_up_is_refused(tmp_path: Path, cost: float) -> None:
    settings = settings_of(tmp_path, coreset__assignment="exact", coreset__price_rounds=1, coreset__refine=0)
    lie = lying(LIAR, Masses, "exact", lambda exact: exact * 0 + cost)
    report = load(run(settings, N_SITES, tamper=lie))[0]
    assert any("is larger than 1.53e+54" in line for line in report.missing[f"site-{LIAR}"])
