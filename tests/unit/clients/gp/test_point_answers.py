"""Predictions that rest on few rows: a run gets so many, over all of its asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import RecordDict

from clients.commitments import Commitments
from clients.gp.point_answers import _protected
from numerics.gp.sketch import Sketch


def test_lone_predictions_of_all_asks_count_together() -> None:
    site: Any = SimpleNamespace(
        name="lab",
        shard=SimpleNamespace(n=100),
        consents=SimpleNamespace(number=lambda key, default: 3),
        commitments=Commitments(RecordDict(), 1),
    )

    def n_answered(rows: float) -> int:
        answers = Sketch(np.ones(2), np.full(2, 0.5), np.ones((2, 1)), np.full(2, rows))
        return int((_protected(answers, np.ones(2), 0.1, site, 5).explained > 0).sum())

    assert [n_answered(1.0) for _ in range(3)] == [2, 1, 0]
    assert n_answered(50.0) == 2
