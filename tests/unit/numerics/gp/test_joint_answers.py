"""Answers about a point and places around it: combined, they come close to the process of all rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numerics.gp.coarse_answers import coarse_further
from numerics.gp.expert import Expert
from numerics.gp.joint_answers import combine, joint_answers, pack, sizes
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.landmarks import offsets
from numerics.gp.nearest_rows import NearestRows
from tests.support.examples import examples

THETA = np.log([0.5, 0.8, 1.3, 0.1])
PRIOR, NOISE = 1.3**2, 0.01
KERNEL = kernel_of("se", 2)


def rows(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a function drawn from the prior, and points."""
    rng = np.random.default_rng(seed)
    x, points = rng.uniform(0, 3, (n, 2)), rng.uniform(0, 3, (40, 2))
    covariance = KERNEL.matrix(THETA[:-1], x, x) + NOISE * np.eye(n)
    return x, np.linalg.cholesky(covariance) @ rng.normal(size=n), points


def combined(experts: list[Expert], points: np.ndarray, D: int) -> tuple[np.ndarray, np.ndarray]:
    around = offsets(D, KERNEL.lengths(THETA[:-1]), 0)
    answers = [joint_answers(expert, points, around) for expert in experts]
    further = [np.concatenate([each.mean, pack(each.unknown)], axis=1) for _, each in answers]
    mean, explained, directions = (
        np.stack([getattr(each, name) for each, _ in answers], axis=1) for name in ("mean", "explained", "directions")
    )
    return combine(mean, explained, directions, np.stack(further, axis=1), np.full(len(points), PRIOR), NOISE)[:2]


def test_one_expert_keeps_its_prediction() -> None:
    x, y, points = rows(0)
    expert = Expert(KERNEL, THETA, x, y)
    mean, explained = expert.predict(points)
    found, variance = combined([expert], points, 6)
    np.testing.assert_allclose(found, mean, atol=1e-9)
    np.testing.assert_allclose(variance, PRIOR - explained, rtol=0.02)


def test_more_answers_come_closer_to_one_process_of_all_rows() -> None:
    """On average over worlds; experts of west and east overlap in the middle."""
    errors = {1: [], 8: [], 24: []}  # type: dict[int, list[float]]
    for seed in range(6):
        x, y, points = rows(seed)
        side = x[:, 0] + np.random.default_rng(seed).normal(0, 0.4, len(x)) > 1.5
        experts = [Expert(KERNEL, THETA, x[part], y[part]) for part in (side, ~side)]
        mean, explained = Expert(KERNEL, THETA, x, y).predict(points)
        for D, found in errors.items():
            found.append(float(np.mean((combined(experts, points, D)[0] - mean) ** 2 / (PRIOR - explained))))
    one, eight, many = (np.mean(found) for found in errors.values())
    assert many < eight < one
    assert many < 0.5 * one


def test_the_nearest_of_as_many_rows_as_there_are_answer_as_all() -> None:
    x, y, points = rows(1, 80)
    around = offsets(5, KERNEL.lengths(THETA[:-1]), 0)
    expected, more = joint_answers(Expert(KERNEL, THETA, x, y), points, around)
    found, others = NearestRows(KERNEL, THETA, x, y, 80).answer_jointly(points, around)
    for name in ("mean", "explained", "directions", "rows"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4, atol=1e-5)
    for name in ("mean", "unknown"):
        np.testing.assert_allclose(getattr(others, name), getattr(more, name), rtol=1e-3, atol=1e-4)


@examples(60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.sampled_from([0.1, 1.0, 100.0]))
def test_whatever_is_answered_leaves_a_variance(seed: int, D: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    N, K = 5, 3
    further = size * rng.normal(size=(N, K, sum(sizes(D))))
    explained = rng.uniform(0, PRIOR, (N, K)) * (rng.random((N, K)) < 0.8)
    mean, variance, _ = combine(
        size * rng.normal(size=(N, K)), explained, size * rng.normal(size=(N, K, D)), further, np.full(N, PRIOR), NOISE
    )
    assert np.isfinite(mean).all()
    assert (variance > 0).all()
    assert (variance <= PRIOR * (1 + 1e-12)).all()
    nothing = (explained == 0).all(axis=1)
    np.testing.assert_allclose(mean[nothing], 0)
    np.testing.assert_allclose(variance[nothing], PRIOR)


def test_rounded_answers_are_within_their_steps_and_those_of_few_rows_are_nothing() -> None:
    x, y, points = rows(2, 60)
    _, further = joint_answers(Expert(KERNEL, THETA, x, y), points, offsets(6, KERNEL.lengths(THETA[:-1]), 0))
    few = further.rows < np.median(further.rows)
    assert few.any()
    assert not few.all()
    mean, unknown = coarse_further(further.mean, further.unknown, few, np.full(len(points), NOISE / PRIOR))
    deviation = np.sqrt(NOISE / PRIOR + np.einsum("qdd->qd", further.unknown))
    assert not mean[few].any()
    assert (unknown[few] == np.eye(6)).all()
    assert (np.abs(mean - further.mean) <= 0.0251 * deviation)[~few].all()
    steps = deviation[:, :, np.newaxis] * deviation[:, np.newaxis, :]
    assert (np.abs(unknown - further.unknown) <= 0.0101 * steps)[~few].all()
