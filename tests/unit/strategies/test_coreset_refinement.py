"""Which of two sets of centers moves on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numerics.coreset.synthetic_rows import SyntheticRows
from numerics.coreset.weighted_points import WeightedPoints
from protocols.coreset.payloads import Summary
from strategies.coreset.pooled_coreset import PooledCoreset
from strategies.coreset.refinement import _Centers, _Moves, _with_farthest

ROWS = SyntheticRows(np.zeros((1, 1)), np.ones(1), np.zeros(1, np.int64))


def moves() -> _Moves:
    """A site of 20 rows about 0, in points of ten, whose sums are rounded to ten standard deviations of 1."""
    x = np.array([[-1.0], [1.0]])
    summary = Summary(("a",), ("F",), x, np.array([10, 10]), np.zeros(2, np.int64), np.zeros(1), 20, 0, 0)
    pool = PooledCoreset.of({"a": summary}, scaled=True)
    outcome: Any = SimpleNamespace(pool=pool, centers=SimpleNamespace(scale=np.ones(1)))
    return _Moves(outcome, 10, 1)


def centers_at(place: float, *costs: tuple[float, float]) -> _Centers:
    return _Centers(np.array([[place]]), np.array([[place]]), np.zeros((1, 1)), ROWS, costs)


@pytest.mark.parametrize(("gain", "takes"), [(0.0, False), (3.0, False), (5.0, True)])
def test_the_far_set_must_cost_less_by_more_than_the_rounding(gain: float, takes: bool) -> None:
    """Centers at .5 and 1, steps of ten deviations: twice 10 / sqrt(12) over the root of two rounds, 4.1."""
    first = centers_at(0.5, (999.0, 0.0), (100.0, 50.0), (100.0, 50.0))
    far = centers_at(1.0, (0.0, 0.0), (100.0 - gain, 50.0), (100.0 - gain, 50.0))
    chosen = moves().cheaper(first, far)
    assert chosen.fair.item() == (1.0 if takes else 0.5)
    assert chosen.plain.item() == 0.5


def test_without_an_answer_the_first_set_goes_on() -> None:
    assert moves().cheaper(centers_at(0.5), centers_at(1.0)).fair.item() == 0.5


def test_the_center_that_is_missed_least_goes_to_the_farthest_point() -> None:
    x = np.array([[0.0], [1.0], [5.0], [20.0]])
    points = WeightedPoints(x, np.ones(4, np.int64), np.zeros(4, np.int64), np.zeros(1))
    centers = np.array([[0.0], [1.0], [5.0]])
    found = _with_farthest(points, centers, lambda each: float(((x - each.T) ** 2).min(axis=1).sum()))
    assert sorted(found.ravel().tolist()) in ([0.0, 5.0, 20.0], [1.0, 5.0, 20.0])
