"""Rounded answers: as good as they need to be, and nothing where nothing is known."""

from __future__ import annotations

import numpy as np

from numerics.gp.coarse_answers import coarse, effective_rows


def test_answers_are_within_their_steps() -> None:
    rng = np.random.default_rng(0)
    explained, mean = rng.uniform(0.05, 0.999, 500), rng.normal(size=500)
    directions = rng.uniform(-0.2, 0.2, (500, 4))
    for few, variance_step, mean_step in ((False, 0.011, 0.026), (True, 0.11, 0.14)):
        answer = coarse(mean, explained, directions, np.full(500, few), np.ones(500), 0.01)
        known = answer.explained > 0
        variance, rounded = 1.01 - explained, 1.01 - answer.explained
        assert (np.abs(np.log(rounded / variance))[known] <= variance_step).all()
        assert (np.abs(answer.mean - mean) <= mean_step * np.sqrt(rounded))[known].all()
        assert answer.directions.any() != few
        assert not answer.mean[~known].any()


def test_more_noise_than_function_still_tells_what_is_explained() -> None:
    answer = coarse(np.ones(1), np.full(1, 0.5), np.zeros((1, 0)), np.zeros(1, bool), np.ones(1), 1e4)
    assert abs(answer.explained[0] - 0.5) < 0.02


def test_a_prediction_of_equal_weights_rests_on_all_rows() -> None:
    assert np.allclose(effective_rows(np.full((7, 2), -0.3)), 7)
