"""What a fair clustering says of points and rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numerics.coreset.fairness.assignment import Assignment
from strategies.coreset.outcome import _largest
from tests.support.examples import examples


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any), min_size=1, max_size=6))
@examples(60)
def test_a_point_is_of_the_cluster_that_has_most_of_it(masses: list[list[int]]) -> None:
    table = np.array(masses)
    point, center = np.nonzero(table)
    assignment = Assignment(point, center, table[point, center], 0.0, 0.0, np.zeros((1, 3)), np.zeros((3, 1)))
    assert np.array_equal(_largest(assignment, len(table)), table.argmax(axis=1))
