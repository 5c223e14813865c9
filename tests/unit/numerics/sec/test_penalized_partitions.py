"""Eq. (4) by trying all partitions, as Ye, Ding and Ghanadan define the clusters, beside what the center computes."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.sec.similarity import similarity
from numerics.sec.spectral import cluster
from tests.support.parameters import few
from tests.support.reference_sec import dissimilarity, linear_learners, penalized, set_partitions, within

GROUPS = [(4, 3), (3, 2, 2), (2, 2, 2), (3, 3)]
PENALTY = 0.2


def draw(sizes: tuple[int, ...], seed: int, snr: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """True labels of some groups of learners, and the similarity of the learners."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    losses, errors = linear_learners(truth, 5, snr, seed)
    return truth, similarity(dissimilarity(losses, errors))[0]


@pytest.mark.parametrize(("n", "number"), [(1, 1), (2, 2), (3, 5), (5, 52), (7, 877)])
def test_there_are_as_many_partitions_as_bells_number(n: int, number: int) -> None:
    assert len({tuple(labels) for labels in set_partitions(n)}) == number


@pytest.mark.parametrize("seed", few(range(6), 2))
@pytest.mark.parametrize("sizes", GROUPS)
def test_no_partition_into_as_many_clusters_is_tighter(sizes: tuple[int, ...], seed: int) -> None:
    _, s = draw(sizes, seed, snr=0.5)
    for k in range(2, len(s)):
        best = min(within(s, labels) for labels in set_partitions(len(s)) if max(labels) + 1 == k)
        labels = cluster(s, k=k, rng=np.random.default_rng(seed)).labels
        assert within(s, labels.tolist()) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_one_cluster_always_wins_where_it_may(penalty: float) -> None:
    """All rows of one eigenvector are 1: the first term of eq. (4) is 0, and any other K pays for more clusters."""
    _, s = draw((4, 3), 0)
    assert penalized(s, penalty, k_min=1).max() == 0


@pytest.mark.parametrize("sizes", GROUPS)
def test_clear_groups_are_those_of_the_penalized_partition(sizes: tuple[int, ...]) -> None:
    truth, s = draw(sizes, 1, snr=1000.0)
    assert penalized(s, PENALTY).tolist() == truth.tolist()
