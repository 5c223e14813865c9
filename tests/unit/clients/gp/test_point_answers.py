"""Answers about several outputs, as they cross the wire."""

from __future__ import annotations

import numpy as np
import pytest

from clients.gp.point_answers import PointAnswers, class_by_class


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
