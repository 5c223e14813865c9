"""What a fair clustering says of points and rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.coreset.fairness.assignment import Assignment
from strategies.coreset.outcome import _largest
from strategies.coreset.profile import profile_of
from tests.support.examples import examples


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any), min_size=1, max_size=6))
@examples(60)
def test_a_point_is_of_the_cluster_that_has_most_of_it(masses: list[list[int]]) -> None:
    table = np.array(masses)
    point, center = np.nonzero(table)
    assignment = Assignment(point, center, table[point, center], 0.0, 0.0, np.zeros((1, 3)), np.zeros((3, 1)))
    assert np.array_equal(_largest(assignment, len(table)), table.argmax(axis=1))


def test_the_spread_of_a_cluster_of_whole_points_is_that_of_its_rows() -> None:
    rows = np.array([[0.0], [2.0], [10.0], [14.0]])
    places = np.array([[1.0], [12.0]])
    movement = np.square(rows - np.repeat(places, 2, axis=0)).sum(axis=0)
    outcome: Any = SimpleNamespace(
        points=SimpleNamespace(points=places, weights=np.array([2, 2]), movement=movement),
        clustering=SimpleNamespace(
            assignment=SimpleNamespace(point=np.array([0, 1]), center=np.array([0, 0]), mass=np.array([2, 2]))
        ),
        centers=SimpleNamespace(fair=np.zeros((1, 1)), scale=np.ones(1)),
        pool=SimpleNamespace(units=(np.zeros(1), np.ones(1)), features=("a",)),
    )
    profile = profile_of(outcome)
    assert profile.mean.item() == rows.mean()
    assert profile.spread.item() == pytest.approx(rows.std())
