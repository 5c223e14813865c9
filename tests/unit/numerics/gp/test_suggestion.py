"""Where to measure next, by joint answers and by one process of all rows."""

from __future__ import annotations

import numpy as np

from numerics.gp.expert import Expert
from numerics.gp.joint_answers import combine, joint_answers, pack
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.landmarks import offsets
from numerics.gp.suggestion import variance_reductions

THETA = np.log([0.5, 0.5, 1.0, 0.2])
KERNEL = kernel_of("se", 2)
NOISE = 0.04


def exact(x: np.ndarray, points: np.ndarray) -> np.ndarray:
    """From the covariances of the process of all rows."""
    known = KERNEL.matrix(THETA[:-1], x, points)
    rows = KERNEL.matrix(THETA[:-1], x, x) + NOISE * np.eye(len(x))
    left = KERNEL.matrix(THETA[:-1], points, points) - known.T @ np.linalg.solve(rows, known)
    return np.asarray((left**2).mean(axis=0) / (np.diag(left) + NOISE))


def by_answers(parts: list[np.ndarray], points: np.ndarray) -> np.ndarray:
    around = offsets(8, KERNEL.lengths(THETA[:-1]), 0)
    answers = [joint_answers(Expert(KERNEL, THETA, x, np.zeros(len(x))), points, around) for x in parts]
    further = [np.concatenate([each.mean, pack(each.unknown)], axis=1) for _, each in answers]
    mean, explained, directions = (
        np.stack([getattr(each, name) for each, _ in answers], axis=1) for name in ("mean", "explained", "directions")
    )
    found = combine(mean, explained, directions, np.stack(further, axis=1), np.ones(len(points)), NOISE)
    return variance_reductions(KERNEL, THETA[:-1], points, points, around, found.covariances, found.variance, NOISE)


def test_the_best_point_is_about_as_good_as_the_best_by_all_rows() -> None:
    """Sites know the south west and the north east; candidates lie everywhere."""
    shares, correlations = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points = rng.uniform(0, 3, (80, 2))
        parts = [rng.normal(middle, 0.6, (60, 2)) for middle in (0.8, 2.0, 2.4)]
        expected, found = exact(np.concatenate(parts), points), by_answers(parts, points)
        shares.append(expected[found.argmax()] / expected.max())
        correlations.append(np.corrcoef(found, expected)[0, 1])
    assert np.mean(shares) > 0.97
    assert np.mean(correlations) > 0.97


def test_nobody_knows_anything_so_the_middle_of_the_points_is_best() -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    found = by_answers([np.full((1, 2), 100.0)], points)
    expected = exact(np.full((1, 2), 100.0), points)
    assert found.argmax() == expected.argmax()
    assert np.corrcoef(found, expected)[0, 1] > 0.99
