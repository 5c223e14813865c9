"""Figures of whole runs of gp: scores over fewer experts are those of runs with as many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gp_sites import own_data_config, points, predict, write_files, write_world


@pytest.mark.parametrize("rule", ["npae", "rbcm"])
def test_fewer_experts_score_what_a_run_with_so_many_does(
    tmp_path: Path, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.app.figures", lambda report, arrays: [])  # what they show is asked of the arrays
    queries = points(20)
    settings = {
        "gp__queries": str(write_files(tmp_path / "center", {"queries": queries}) / "queries.csv"),
        "gp__aggregation": rule,
    }
    folder = write_world(tmp_path / "world")
    three, two = (predict(own_data_config(tmp_path / k, folder, gp__experts=k, **settings)) for k in ("3", "2"))
    assert three.arrays["tried_K"].tolist() == [1, 2, 3]
    assert three.arrays["tried_points"] == len(queries)
    for metric in ("smse", "msll"):
        for run in (three, two):
            assert run.arrays[f"tried_{metric}"][-1] == pytest.approx(run.metrics[metric])
        assert three.arrays[f"tried_{metric}"][:2] == pytest.approx(two.arrays[f"tried_{metric}"])
