"""Expected losses of clusters, and the choice among them."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.sec.cluster_assignment import same_partition
from numerics.sec.partition_choice import MixtureLosses, choose_partition, set_aside
from numerics.sec.similarity import complete, dissimilarity, similarity
from numerics.sec.spectral import partitions
from tests.support.parameters import few

SLOPES = np.random.default_rng(5).normal(size=(8, 6))


def linear_learners(groups: list[int], n: int, seed: int, scale: dict[int, float] | None = None) -> MixtureLosses:
    """Least squares through the origin of rows with six inputs and noise of variance 1/4."""
    rng = np.random.default_rng(seed)
    rows, fits, errors, variances = [], [], [], []
    for place, group in enumerate(groups):
        x = rng.normal(size=(n, 6))
        y = (x @ SLOPES[group] + rng.normal(size=n) / 2) * (scale or {}).get(place, 1.0)
        fit = np.linalg.lstsq(x, y)[0]
        leverage = np.einsum("ij,ji->i", x, np.linalg.pinv(x))
        residuals = y - x @ fit
        rows.append((x, y))
        fits.append(fit)
        errors.append(np.mean((residuals / (1 - leverage)) ** 2))
        variances.append(np.mean(residuals**2) * 6 / (n - 6))
    losses = np.array([[np.mean((y - x @ fit) ** 2) for x, y in rows] for fit in fits])
    return MixtureLosses(
        losses,
        np.array(errors),
        np.array(variances),
        np.full(len(groups), float(n)),
        n / np.array(errors),
        np.zeros(len(groups)),
    )


def test_the_bias_of_a_model_at_other_rows_is_without_both_variances() -> None:
    """``b_ij = e_{i->j} - e_j - V_i + V_j``."""
    losses, errors, variances = np.array([[0.8, 1.2], [1.4, 0.8]]), np.array([1.0, 0.9]), np.array([0.1, 0.3])
    mixtures = MixtureLosses(losses, errors, variances, np.full(2, 30.0), np.ones(2), np.zeros(2))
    np.testing.assert_allclose(mixtures.biases, [[0.0, 0.5], [0.2, 0.0]], rtol=1e-12)
    np.testing.assert_allclose(mixtures.distances, [[0.0, 0.35], [0.35, 0.0]], rtol=1e-12)


def test_a_direction_that_is_unknown_counts_as_the_other() -> None:
    def contrasts(*unknown: tuple[int, int]) -> np.ndarray:
        losses = np.array([[0.8, 1.4], [1.4, 0.8]])
        for place in unknown:
            losses[place] = np.nan
        two = np.ones(2)
        return MixtureLosses(losses, two, 0.2 * two, 30 * two, two, np.zeros(2)).contrasts

    assert contrasts()[0, 1] > 0
    np.testing.assert_array_equal(contrasts((0, 1)), contrasts())
    assert np.isnan(contrasts((0, 1), (1, 0))[0, 1])


def choose(mixtures: MixtureLosses) -> np.ndarray:
    candidates = []
    for v in (dissimilarity(mixtures.losses, mixtures.errors), mixtures.contrasts):
        candidates += partitions(complete(similarity(v)[0]), 1, 0, np.random.default_rng(0))
    return choose_partition(mixtures, candidates)


@pytest.mark.parametrize(
    "groups",
    [[0] * 8, [0, 1] * 5, [0, 1, 2, 3] * 4, [0] * 10 + [1, 1, 2, 2, 3, 3], list(range(8)) * 3, [0, 1], [0, 0]],
    ids=["one", "two", "four", "uneven", "eight", "two learners apart", "two learners together"],
)
@pytest.mark.parametrize("seed", few([0, 1]))
def test_groups_are_found_whatever_their_number(groups: list[int], seed: int) -> None:
    assert same_partition(choose(linear_learners(groups, 60, seed)), np.array(groups))


def test_a_learner_in_other_units_is_set_aside_and_hides_nothing() -> None:
    groups = [0, 1, 2] * 4
    expected = np.array([*groups])
    expected[4] = 9
    assert same_partition(choose(linear_learners(groups, 60, 0, {4: 1000.0})), expected)


def test_the_expected_loss_of_a_mixture_is_the_one_on_new_rows() -> None:
    """Over draws: eight learners of one relation, four of another, in one cluster."""
    groups = [0] * 8 + [1] * 4
    said, seen = [], []
    for seed in range(60):
        mixtures = linear_learners(groups, 30, seed)
        said.append(mixtures.ratios(np.zeros(12, int))[0] * mixtures.own_errors)
        rng = np.random.default_rng(seed)
        fits = []
        for group in groups:  # the same draws as above
            x = rng.normal(size=(30, 6))
            fits.append(np.linalg.lstsq(x, x @ SLOPES[group] + rng.normal(size=30) / 2)[0])
        mixed = np.average(fits, axis=0, weights=mixtures.weights)
        seen.append([np.sum((mixed - SLOPES[group]) ** 2) + 1 / 4 for group in groups])
    for members in (slice(0, 8), slice(8, 12)):
        assert np.mean(said, axis=0)[members].mean() == pytest.approx(np.mean(seen, axis=0)[members].mean(), rel=0.05)


def test_learners_that_told_nothing_are_no_worse_with_others() -> None:
    mixtures = linear_learners([0, 1, 0, 1], 60, 0)
    mixtures.losses[:, 2] = np.nan
    ratios, deviations = mixtures.ratios(np.array([0, 1, 0, 1]))
    assert (ratios[2], deviations[2]) == (1.0, 0.0)
    assert np.isfinite(ratios).all()


def test_a_model_that_predicts_no_finite_number_is_alone() -> None:
    mixtures = linear_learners([0, 1, 0, 1], 60, 0)
    mixtures.losses[2, [0, 1, 3]] = np.inf
    assert set_aside(mixtures, np.array([0, 1, 0, 1])).tolist() == [0, 1, 2, 1]


def test_permuted_learners_have_permuted_clusters() -> None:
    mixtures, order = linear_learners([0, 1, 2, 0, 1, 2, 2], 40, 3), np.array([4, 2, 0, 6, 5, 1, 3])
    permuted = MixtureLosses(
        mixtures.losses[np.ix_(order, order)],
        *(each[order] for each in (mixtures.errors, mixtures.variances, mixtures.n, mixtures.weights, mixtures.noise)),
    )
    assert same_partition(choose(permuted), choose(mixtures)[order])
