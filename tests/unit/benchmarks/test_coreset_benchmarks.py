"""The pieces of benchmarks/coreset.py, on little input."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import coreset, coreset_growth, coreset_pass, coreset_peers
from benchmarks.processes import told

N_ROWS, SIZE = 3000, 100
needs_data = pytest.mark.skipif(not coreset_peers.SHARED.exists(), reason="no data files here")


@pytest.mark.parametrize("way", ["consilience", "colour-blind", "Birch", "MiniBatchKMeans"])
def test_one_pass(way: str, tmp_path: Path) -> None:
    """Rows move no less than to their nearest representative, which colours of their own alone could beat."""
    path = tmp_path / "rows.bin"
    coreset_pass.write_rows(path, N_ROWS)
    found = coreset_pass.run_way(way, path, N_ROWS, SIZE, 4.0)
    assert 0 < found.nearest < 40
    assert 0 < found.representatives <= (2 * SIZE if way == "consilience" else N_ROWS)
    if way == "colour-blind":
        assert found.representatives <= SIZE
    assert not found.movement < found.nearest * (1 - 1e-9)


def test_a_process_that_fails_says_why() -> None:
    assert told([sys.executable, "-c", "import json; print(1); print(json.dumps({'a': 2}))"], 60) == {"a": 2}
    assert "no such thing" in told([sys.executable, "-c", "raise SystemExit('no such thing')"], 60)
    assert told([sys.executable, "-c", "import time; time.sleep(60)"], 0.2) == "did not end within 0.2 s"
    assert "does-not-exist" in told(["/does-not-exist"], 60)


def test_without_peers_a_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    coreset.main(["--parts", "peers"])
    assert "left out" in capsys.readouterr().out


def test_fair_assignment(capsys: pytest.CaptureFixture[str]) -> None:
    coreset.main(["--parts", "assignment", "--points", "300", "--runs", "2"])
    assert "300 points" in capsys.readouterr().out


def test_whole_run() -> None:
    found = coreset_growth.synthetic(rows=2000, sites=2, colours=2, k=3)
    assert found.summaries > 0
    assert found.rest > 0
    assert found.sent > 0
    assert found.metrics["n_rows"] == 2000


@needs_data
def test_with_and_without_a_coreset() -> None:
    drawn = coreset_peers.people("coreset-diabetes", "", 1000)
    assert drawn is not None
    x, colour = drawn
    np.testing.assert_allclose(x.std(axis=0), 1)
    short = coreset_growth.with_coreset(x, colour, 2, 1)
    fairly = coreset_peers.fair_cost(x, colour, coreset_peers.clustered(x, colour, 2, 1, 0)[0])
    assert short.cost <= short.bound * (1 + 1e-9)
    assert short.cost == pytest.approx(fairly, rel=0.2)


@needs_data
def test_seeds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coreset, "DIRECT", 1)
    monkeypatch.setattr(coreset, "SEEDS_ROWS", 600)
    coreset.main(["--parts", "seeds", "--seeds", "1"])
    assert "locations used" in capsys.readouterr().out
