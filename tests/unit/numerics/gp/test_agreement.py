"""Which site the others contradict; which site's outputs are far from most; which rows are outliers."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.gp.aggregation import ExpertPredictions
from numerics.gp.agreement import contradiction
from numerics.gp.measurements import LIMIT, Measurements
from numerics.gp.moments import ExpertMoments, join, moments_of, remote, remote_inputs, units_of


def answers(
    shift: float, *, n: int = 200, n_sites: int = 5, K: int = 3, seed: int = 0
) -> tuple[ExpertPredictions, np.ndarray]:
    """K of the sites at each point: what they know of one function, and site 1 says so much more."""
    rng = np.random.default_rng(seed)
    site = np.argsort(rng.random((n, n_sites)), axis=1)[:, :K]
    explained = rng.uniform(0.5, 0.95, (n, K))
    # The function given a prediction has this mean and variance; residuals are independent.
    value = rng.normal(size=(n, 1))
    mean = explained * value + np.sqrt(explained * (1 - explained)) * rng.normal(size=(n, K))
    return ExpertPredictions(mean + shift * (site == 1), explained, np.ones((n, K), bool)), site


def test_sites_that_see_one_function_do_not_contradict_each_other() -> None:
    predictions, site = answers(0.0)
    values = contradiction(predictions, site, 5, np.ones(200), 1e-6)
    np.testing.assert_allclose(values, 1.0, atol=0.4)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_a_site_that_says_something_else_stands_out(K: int) -> None:
    predictions, site = answers(5.0, K=K)
    values = contradiction(predictions, site, 5, np.ones(200), 1e-6)
    assert values.argmax() == 1
    assert values[1] > 20 * np.delete(values, 1).max()


def test_two_sites_that_lie_alike_do_not_discredit_three() -> None:
    predictions, site = answers(0.0)
    lying = ExpertPredictions(predictions.mean + 5 * (site < 2), predictions.explained, predictions.available)
    values = contradiction(lying, site, 5, np.ones(200), 1e-6)
    assert values[:2].min() > 20 > values[2:].max()


def test_nothing_is_said_of_two_sites_nor_of_what_nobody_knows() -> None:
    predictions, site = answers(5.0, n_sites=2, K=2)
    assert not contradiction(predictions, site, 2, np.ones(200), 0.1).any()
    predictions, site = answers(5.0)
    ignorant = ExpertPredictions(predictions.mean, np.zeros_like(predictions.mean), predictions.available)
    assert not contradiction(ignorant, site, 5, np.ones(200), 0.1).any()


def test_experts_of_one_site_are_not_compared() -> None:
    predictions, _ = answers(0.0)
    assert not contradiction(predictions, np.zeros((200, 3), np.int64), 1, np.ones(200), 0.1).any()


def site_moments(*sites: np.ndarray) -> ExpertMoments:
    return join([moments_of(np.zeros((len(y), 1)), y) for y in sites])


def drawn(seed: int, n: int = 300) -> np.ndarray:
    return np.random.default_rng(seed).normal(7.0, 2.0, n)


def with_cell(value: float) -> np.ndarray:
    y = drawn(9)
    y[3] = value
    return y


@pytest.mark.parametrize("other", [with_cell(1e6), drawn(9) + 1e30, 1000 * drawn(9)], ids=["cell", "shift", "unit"])
def test_outputs_far_from_most_are_remote_and_no_unit_of_the_others(other: np.ndarray) -> None:
    honest = [drawn(seed) for seed in range(4)]
    moments = site_moments(*honest, other)
    mask = remote(moments, np.arange(5))
    assert mask.tolist() == [False] * 4 + [True]
    expected, units = units_of(site_moments(*honest)), units_of(moments, ~mask)
    assert (units.y_mean, units.y_scale) == pytest.approx((expected.y_mean, expected.y_scale))


def test_sites_of_other_regions_are_not_remote() -> None:
    regions = [drawn(seed) + 8 * seed for seed in range(4)]
    assert not remote(site_moments(*regions), np.arange(4)).any()
    assert not remote(site_moments(drawn(0), drawn(1) + 1e9), np.arange(2)).any()
    assert not remote(site_moments(np.ones(9), np.ones(9), drawn(0)), np.arange(3)).any()


@pytest.mark.parametrize("other", [with_cell(1e6), 1e6 * drawn(9)], ids=["cell", "unit"])
def test_inputs_very_far_from_most_are_no_unit_of_the_others(other: np.ndarray) -> None:
    """Only in the input that is far, and whatever the other site's outputs are."""
    sites = [np.column_stack([drawn(seed), drawn(seed + 20)]) for seed in range(3)]
    honest, y = [moments_of(x, drawn(0)) for x in sites], drawn(1)
    moments = join([*honest, moments_of(np.column_stack([drawn(4), other]), y)])
    mask = remote_inputs(moments, np.arange(4))
    assert mask.tolist() == [[False, False]] * 3 + [[False, True]]
    units = units_of(moments, None, ~mask)
    assert units.scale[0] == units_of(moments).scale[0]
    assert (units.mean[1], units.scale[1]) == pytest.approx(
        (units_of(join(honest)).mean[1], units_of(join(honest)).scale[1])
    )
    regions = [moments_of(drawn(seed)[:, np.newaxis] + 30 * seed, drawn(0)) for seed in range(4)]
    assert not remote_inputs(join(regions), np.arange(4)).any()


def test_a_wrong_cell_is_one_of_few_that_lie_far_off() -> None:
    x = np.column_stack([drawn(0), np.zeros(300), drawn(2)])
    x[5, 0], x[6, 1], x[7, 0] = 1e6, 1.0, 40.0
    x[:4, 2] = 1e6  # more than a hundredth of the rows
    y = drawn(1)
    y[8], y[9] = -1e6, 12 * y.std()
    rows = Measurements(x, y, ("a", "b", "c"))
    assert np.argwhere(rows.cells_beyond(np.inf)).tolist() == [[5, 0], [8, 3]]
    assert np.argwhere(rows.cells_beyond(LIMIT)).tolist() == [[5, 0], [8, 3], [9, 3]]


def test_a_site_is_judged_by_all_its_experts() -> None:
    moments = site_moments(drawn(0), drawn(1), drawn(2), with_cell(1e6), drawn(3))
    assert remote(moments, np.array([0, 1, 2, 2, 3])).tolist() == [False, False, True, False]


def test_outliers_are_left_out_with_their_experts() -> None:
    y = np.append(drawn(0, 50), [1e6, -1e6])
    rows = Measurements(np.arange(52.0)[:, None], y, ("x",), np.append(np.arange(50) % 2, [3, 2]))
    left = rows.without_outliers(LIMIT, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(left.y, y[:50])
    assert left.part is not None
    assert set(left.part.tolist()) == {0, 1}
    assert rows.cells_beyond(LIMIT).sum() == 2
    fewer = rows.without_outliers(LIMIT, 10, np.random.default_rng(0))
    assert fewer.n == 42
    assert set(fewer.y) < set(left.y)


def test_most_equal_outputs_have_no_outliers() -> None:
    rows = Measurements(np.zeros((5, 1)), np.array([0.0, 0.0, 0.0, 1.0, 50.0]), ("x",))
    assert rows.without_outliers(LIMIT, 9, np.random.default_rng(0)) is rows
    ordinary = Measurements(np.zeros((300, 1)), drawn(0), ("x",))
    assert LIMIT > 5
    assert ordinary.without_outliers(LIMIT, 9, np.random.default_rng(0)) is ordinary
