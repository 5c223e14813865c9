"""The examples of docs/operate.md that need a library of somebody else's, where that is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.documentation import blocks

ROWS = [
    {"round": 1, "bound": -20.5, "sites": 3, "bytes_to_sites": 100, "bytes_from_sites": 50, "seconds": 0.5},
    {"round": 2, "bound": None, "sites": 2, "bytes_to_sites": 10, "bytes_from_sites": 5, "seconds": 0.25},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the progress of the run that the page names."""
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results" / "bc3e-own-data" / "RUN-ID"
    results.mkdir(parents=True)
    (results / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def executed(word: str) -> dict[str, Any]:
    """Run the page's block with `rows`, and the one that holds this word."""
    texts = [block.text for block in blocks("docs/operate.md") if block.language == "python"]
    names: dict[str, Any] = {}
    for text in (*(text for text in texts if "def rows" in text), *(text for text in texts if word in text)):
        exec(compile(text, "docs/operate.md", "exec"), names)
    return names


def test_prometheus_has_the_last_round(run: Path) -> None:
    executed("to_prometheus")
    lines = (run / "consilience.prom").read_text().splitlines()
    assert 'consilience_round{run="consilience"} 2' in lines
    assert 'consilience_seconds{run="consilience"} 0.25' in lines
    assert not any("bound" in line for line in lines)


def test_tensorboard_has_every_round(run: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    executed("to_tensorboard")
    board = EventAccumulator(str(run / "board"))
    board.Reload()
    assert set(board.Tags()["tensors"]) == set(ROWS[0])
    assert [event.step for event in board.Tensors("sites")] == [1, 2]
    assert [event.step for event in board.Tensors("bound")] == [1]


def test_mlflow_has_every_round(run: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    executed("to_mlflow")
    (recorded,) = mlflow.search_runs(experiment_names=["consilience"], output_format="list")
    history = mlflow.MlflowClient().get_metric_history(recorded.info.run_id, "sites")
    assert [(each.step, each.value) for each in history] == [(1, 3.0), (2, 2.0)]
    assert recorded.data.metrics["bound"] == -20.5
