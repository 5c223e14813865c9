"""Answers as they cross the wire: about several outputs, and those that rest on few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict

from clients.commitments import Commitments
from clients.gp.point_answers import PointAnswers, _protected, class_by_class
from numerics.gp.sketch import Sketch


@pytest.mark.parametrize("n_landmarks", [0, 2])
def test_answers_about_all_classes_of_a_point_follow_each_other(n_landmarks: int) -> None:
    """With `gp.answers=1` there are no answers about landmarks: arrays without columns."""

    def of(outputs: list[float]) -> PointAnswers:
        numbers = np.array(outputs)
        further = np.repeat(numbers[:, np.newaxis], n_landmarks, axis=1)
        return PointAnswers(
            numbers, numbers, further.astype(np.float16), further.astype(np.float32), further.astype(np.float16)
        )

    joined = class_by_class([of([1.0, 2.0, 3.0]), of([10.0, 20.0, 30.0])])
    assert joined.mean.tolist() == [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]
    assert joined.further_mean.shape == (6, n_landmarks)
    assert (joined.further_mean == joined.mean[:, np.newaxis]).all()


def test_lone_predictions_of_all_asks_count_together() -> None:
    site: Any = SimpleNamespace(
        name="lab",
        shard=SimpleNamespace(n=100),
        consents=SimpleNamespace(number=lambda key, default: 3),
        commitments=Commitments(RecordDict(), 1),
    )

    def n_answered(rows: float) -> int:
        answers = Sketch(np.ones(2), np.full(2, 0.5), np.ones((2, 1)), np.full(2, rows))
        return int((_protected(answers, np.ones(2), 0.1, site, 5, lambda: 0.1).explained > 0).sum())

    assert [n_answered(1.0) for _ in range(3)] == [2, 1, 0]
    assert n_answered(50.0) == n_answered(5.0) == 2
    assert n_answered(4.99) == 0
