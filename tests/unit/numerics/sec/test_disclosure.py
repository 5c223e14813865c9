"""What errors with bounded rows and noise are on average, and what their standard errors are."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.sec.disclosure import guarded_deviations, guarded_errors, share_kept
from numerics.sec.recommendation import recommend


def differences(distance: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions of 4000 foreign models, of the own one, and outcomes."""
    rng = np.random.default_rng(seed)
    own, y = np.zeros(n), rng.normal(size=n)
    return distance * rng.normal(size=(4000, n)), own, y


@pytest.mark.parametrize(("n", "rank"), [(32, 8), (40, 5), (100, 9), (400, 5)])
@pytest.mark.parametrize("distance", [0.5, 1.0, 5.0])
def test_bounding_rows_does_not_make_foreign_models_look_better(n: int, rank: int, distance: float) -> None:
    """Within a quarter of the difference to the own model's error; without the correction it is a half."""
    predictions, own, y = differences(distance, n, n)
    ranks = np.full(len(predictions), rank)
    found = guarded_errors(predictions, own, y, ranks, np.zeros(len(predictions))).mean() - np.mean(y**2)
    assert found == pytest.approx(distance**2, rel=0.25)


def test_nothing_is_given_back_where_no_row_is_bounded() -> None:
    predictions, own, y = differences(1.0, 20, 0)
    found = guarded_errors(predictions, own, y, np.ones(len(predictions), int), np.zeros(len(predictions)))
    np.testing.assert_allclose(found, np.mean((predictions - y) ** 2, axis=1), rtol=1e-4)
    assert (np.diff(share_kept(np.linspace(0, 1, 50))) <= 0).all()


def test_standard_errors_are_those_of_paired_differences() -> None:
    rng = np.random.default_rng(0)
    y, other = rng.normal(size=4000), rng.normal(size=4000)
    predictions = other + 0.01 * rng.normal(size=(1, 4000))
    paired = (predictions[0] - y) ** 2 - (other - y) ** 2
    found = guarded_deviations(predictions, other, y, np.zeros(1))
    assert found[0] == pytest.approx(paired.std() / np.sqrt(4000), rel=0.01)
    assert guarded_deviations(other[np.newaxis], other, y, np.ones(1)).tolist() == [0]


def test_personal_weights_stand_unless_the_held_out_rows_refute_them() -> None:
    deviations = {"alone": 0.2, "cluster": 0.1, "personal": 0.0}
    assert recommend({"alone": 1.1, "cluster": 0.9, "personal": 1.0}, deviations, 40) == "personal"
    assert recommend({"alone": 1.1, "cluster": 0.7, "personal": 1.0}, deviations, 40) == "cluster"
    assert recommend({"alone": 1.0, "cluster": 1.4, "personal": 1.3}, deviations, 40) == "personal"
    assert recommend({"alone": 1.0, "cluster": 1.6, "personal": 1.5}, deviations, 40) == "alone"
    assert recommend({"alone": 1.0, "cluster": np.inf, "personal": 0.9}, deviations, 40) == "personal"
    assert recommend({"alone": 1.0, "cluster": 0.9, "personal": np.inf}, deviations, 40) == "cluster"


def test_a_cluster_stands_unless_the_held_out_rows_refute_it() -> None:
    deviations = {"alone": 0.2, "cluster": 0.0}
    assert recommend({"alone": 1.0, "cluster": 1.2}, deviations, 40, squared=False) == "cluster"
    assert recommend({"alone": 1.0, "cluster": 2.0}, deviations, 40, squared=False) == "alone"
    assert recommend({"alone": 1.0, "cluster": np.inf}, deviations, 40, squared=False) == "alone"
    assert recommend({"alone": np.inf, "cluster": np.inf}, deviations, 40) == "cluster"
    assert recommend({"alone": 1.0, "cluster": 9.0}, {"alone": 8.0}, 40) == "alone"  # by the ratio
