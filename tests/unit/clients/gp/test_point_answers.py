"""Answers as they cross the wire: about several outputs, and those that rest on few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict

from clients.commitments import Commitments
from clients.gp.experts import Part
from clients.gp.point_answers import PointAnswers, PointSetup, _protected, class_by_class, predict_points
from numerics.gp.coarse_answers import FEWEST_ROWS
from numerics.gp.joint_answers import JointAnswer
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


def private_site(most: int) -> Any:
    """A site of which at most so many predictions that rest on few rows leave."""
    return SimpleNamespace(
        name="lab",
        has_private_rows=True,
        shard=SimpleNamespace(n=100),
        consents=SimpleNamespace(number=lambda key, default: most),
        commitments=Commitments(RecordDict(), 1),
    )


def test_lone_predictions_of_all_asks_count_together() -> None:
    site = private_site(3)

    def n_answered(few: bool) -> int:
        answers = Sketch(np.ones(2), np.full(2, 0.5), np.ones((2, 1)), np.ones(2))
        return int((_protected(answers, np.full(2, few), np.ones(2), 0.1, site, lambda: 0.1).explained > 0).sum())

    assert [n_answered(few=True) for _ in range(3)] == [2, 1, 0]
    assert n_answered(few=False) == 2


@pytest.mark.parametrize("alone", ["the point", "its surroundings"])
def test_only_what_rests_on_fewer_rows_than_the_floor_is_withheld(monkeypatch: pytest.MonkeyPatch, alone: str) -> None:
    """Where a point itself rests on few rows it is not answered; where its surroundings do, these are not."""
    rng = np.random.default_rng(0)
    rows = Part.of(rng.normal(size=(20, 1)), rng.normal(size=20))
    setup = PointSetup("se", (0.0, 0.0, -2.0), np.ones((1, 1)), 0, 0, joint=True)

    def answered(n_rows: float) -> tuple[bool, bool]:
        n, enough = np.array([n_rows]), np.array([50.0])
        point, around = (n, enough) if alone == "the point" else (enough, n)
        exact = Sketch(np.ones(1), np.full(1, 0.5), np.ones((1, 1)), point)
        further = JointAnswer(np.ones((1, 1)), np.full((1, 1, 1), 0.5), around)
        monkeypatch.setattr("clients.gp.point_answers._exact", lambda *_: (exact, further))
        answers = predict_points(rows, np.zeros((1, 1)), setup, private_site(0))
        return bool(answers.explained[0] > 0), bool(answers.further_mean[0, 0] != 0)

    assert answered(FEWEST_ROWS) == (True, True)
    assert answered(np.nextafter(FEWEST_ROWS, 0)) == (alone != "the point", False)
