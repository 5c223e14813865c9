"""Residuals are those of the process without the row, and their quantiles are those of the intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from numerics.gp.calibration import BINS, EDGES, Calibration, histogram
from numerics.gp.expert import Expert
from numerics.gp.radial_kernels import SquaredExponential

LEVELS = (0.5, 0.8, 0.95, 0.99)


def test_a_residual_is_that_of_the_process_without_the_row() -> None:
    rng = np.random.default_rng(0)
    kernel, theta = SquaredExponential(2), np.log([1.0, 0.5, 1.2, 0.3])
    x, y = rng.normal(size=(15, 2)), rng.normal(size=15)
    residuals = Expert(kernel, theta, x, y).left_out().residuals
    for row in range(15):
        others = np.arange(15) != row
        mean, explained = Expert(kernel, theta, x[others], y[others]).predict(x[row : row + 1])
        deviation = np.sqrt(1.2**2 - explained[0] + 0.3**2)
        assert residuals[row] == pytest.approx((y[row] - mean[0]) / deviation, rel=1e-9)


def test_every_residual_has_a_bin() -> None:
    counts = histogram(np.array([0.0, -EDGES[1], 1e300, -1e300, np.nextafter(EDGES[-2], 0)]))
    assert counts.sum() == 5
    assert (counts[0], counts[1], counts[-2], counts[-1]) == (1, 1, 1, 2)


def test_a_sample_stands_for_all_rows() -> None:
    sample = np.random.default_rng(0).standard_t(3, size=500)
    counts = histogram(sample, rows=8779)
    assert counts.sum() == 8779
    np.testing.assert_allclose(counts, histogram(sample) * 8779 / 500, atol=1)


@pytest.mark.parametrize("law", [norm(scale=0.7), t(3), norm(scale=2)])
def test_the_reach_is_the_quantile(law: t) -> None:
    calibration = Calibration(histogram(law.rvs(size=200_000, random_state=1)))
    for level in LEVELS:
        reach = calibration.reach(level)
        assert 2 * law.cdf(reach) - 1 == pytest.approx(level, abs=0.004)
        assert calibration.share_within(np.array([reach]))[0] == pytest.approx(level)


def test_without_residuals_errors_are_normal() -> None:
    calibration = Calibration(np.zeros(BINS, np.int64), 5)
    for level in LEVELS:
        assert calibration.reach(level) == norm.ppf(0.5 + level / 2)


def test_few_residuals_hardly_move_the_intervals_and_hyperparameters_widen_them() -> None:
    one = Calibration(histogram(np.array([50.0])))
    assert 1.9 < one.reach(0.9) < 2.4
    counts = histogram(np.random.default_rng(0).normal(size=60))
    assert Calibration(counts, 5).reach(0.95) == pytest.approx(np.sqrt(1 + 10 / 60) * Calibration(counts).reach(0.95))


def test_whatever_the_residuals_are_reaches_rise_with_the_level() -> None:
    for place in (0, 20, BINS - 1):
        counts = np.zeros(BINS, np.int64)
        counts[place] = 10**9
        reaches = [Calibration(counts).reach(level) for level in np.linspace(0.01, 0.999, 50)]
        assert np.isfinite(reaches).all()
        assert (np.diff(reaches) >= 0).all()
