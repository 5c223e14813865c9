"""Bins of columns: how many rows a bin has, what several runs tell together, and randomized response."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.bins import ColumnBins, randomized, share_replaced
from numerics.residual.boosted import finish
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.losses import SquaredError
from numerics.residual.split import Split

LEVELS = (16, 32, 64)


def columns(n: int) -> Columns:
    rng = np.random.default_rng(n)
    x = np.column_stack([rng.normal(size=n), rng.integers(0, 7, n), np.where(rng.random(n) < 0.9, 0.0, rng.random(n))])
    city = rng.choice(4, size=n, p=[0.02, 0.5, 0.4, 0.08])
    indicators = (city[:, None] == np.arange(3)).astype(float)  # the last belongs to no category
    features = ("a", "city=Oslo", "city=Paris", "city=Rome", "b", "c")
    values = np.column_stack([x[:, 0], indicators, x[:, 1:]])
    return Columns(values, features, categories={"city": ("Oslo", "Paris", "Rome")})


@pytest.mark.parametrize("n", [12, 100, 700, 3000])
@pytest.mark.parametrize("least", [1, 10])
def test_every_bin_is_of_enough_rows_and_coarser_ones_are_unions(n: int, least: int) -> None:
    data = columns(n)
    found = {levels: ColumnBins.of(data, levels, least) for levels in LEVELS}
    told = {levels: bins.apply(data) for levels, bins in found.items()}
    for levels, bins in told.items():
        assert bins.dtype == np.uint8
        for column, k in zip(bins.T, found[levels].levels, strict=True):
            assert k <= levels
            assert column.max() < k
            assert np.unique(column, return_counts=True)[1].min() >= min(least, n)
    for coarse, fine in ((16, 32), (32, 64)):
        for a, b in zip(told[coarse].T, told[fine].T, strict=True):
            assert all(len(np.unique(a[b == each])) == 1 for each in np.unique(b))
    order = np.argsort(data.x[:, 0])
    assert (np.diff(told[64][order, 0].astype(int)) >= 0).all()
    if n == 3000:
        assert found[16].levels[0] >= 12, "a column without ties has nearly all of its bins"
        assert found[64].levels[1] == 7, "equal values stay together"


def test_categories_are_numbered_by_their_frequency_and_rare_ones_share_a_number() -> None:
    data = columns(700)
    bins = ColumnBins.of(data, 32, 30)
    assert bins.features == ("a", "b", "c")
    assert bins.categories == (("city", (2, 0, 1, 2)),), "Oslo is as rare as what belongs to no category"
    unknown = Columns(np.zeros((1, 6)), data.features, categories=data.categories)
    assert bins.apply(unknown)[0, 3] == 2
    assert ColumnBins.of(data, 32, 200).categories == (("city", (1, 0, 1, 1)),)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_randomized_response_keeps_and_replaces_as_often_as_it_says(epsilon: float) -> None:
    n, k = 20_000, 8
    names = [f"c{i}" for i in range(n)]
    bins = np.full((n, 2), 3, np.uint8)
    levels = np.array([k, 1], np.uint8)
    bins[:, 1] = 0
    drawn = randomized(bins, levels, epsilon, b"key", names)
    counts = np.bincount(drawn[:, 0], minlength=k) / n
    assert counts[3] == pytest.approx(1 - share_replaced(k, epsilon), abs=0.015)
    others = np.delete(counts, 3)
    np.testing.assert_allclose(others, share_replaced(k, epsilon) / (k - 1), atol=0.01)
    assert counts[3] / others.mean() == pytest.approx(np.exp(epsilon), rel=0.5)
    assert not drawn[:, 1].any(), "one bin has no other"
    np.testing.assert_array_equal(drawn, randomized(bins, levels, epsilon, b"key", names))
    np.testing.assert_array_equal(drawn[::-7], randomized(bins[::-7], levels, epsilon, b"key", names[::-7]))
    assert (drawn != randomized(bins, levels, epsilon, b"another", names)).any()


def test_bins_of_a_site_that_is_absent_are_missing() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 16, size=(2, 300)).astype(float)
    y = np.sin(a) + 0.1 * b
    combination = AgentCombination(("x", "y"), np.zeros(2), 0.0, None, (1, 1), (16, 16))
    finished = finish(combination, np.stack([a, b]), SquaredError(y, Split(150, 50, 100), 0.0))
    assert finished.errors[2] < 0.1 * y.var()
    own = {"x": a[:, None].astype(np.uint8), "y": b[:, None].astype(np.uint8)}
    both, without_x, without_y = finished.combination.predict_without_each(own, 300)
    assert np.mean((y - both)[200:] ** 2) == pytest.approx(finished.errors[2])
    assert np.isfinite(without_x).all()
    assert np.mean((y - without_y)[200:] ** 2) < np.mean((y - without_x)[200:] ** 2)
    assert finished.combination.missing(["y"]) == ("x",)


def test_what_can_be_the_bins_of_a_site() -> None:
    combination = AgentCombination(("x", "y"), np.zeros(2), 0.0, None, (1, 1), (16, 0))
    bins = np.zeros((5, 1), np.uint8)
    assert combination.fits("x", bins, 5)
    assert combination.fits("y", bins.astype(float), 5)
    assert not combination.fits("x", bins.astype(float), 5)
    assert not combination.fits("y", bins, 5)
    assert not combination.fits("x", bins + np.uint8(16), 5)
    assert not combination.fits("x", bins, 4)
