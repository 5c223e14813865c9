"""Clusters of learners at the fusion center of sec."""

from __future__ import annotations

import numpy as np
import pytest

from protocols.sec.payloads import FittedModel
from protocols.sec.settings import Settings
from strategies.sec.learner_clusters import LearnerClusters, cluster_learners
from strategies.sec.learners import Learners, arrays_of

GROUPS = {"anna": 0, "bert": 1, "carl": 0, "dora": 1, "emil": 0, "fred": 1, "gina": 1}
"""Who is alike; newcomers are the first of the alphabet, one in the middle and the last."""
NEW = ("anna", "dora", "gina")


def learners_of(names: list[str], newcomers: tuple[str, ...]) -> Learners:
    profile = FittedModel("lr", 1.0, 0.1, 20, ("x",), np.zeros(3, np.uint8), np.zeros(0), np.zeros((0, 0)))
    return Learners.of(dict.fromkeys(names, profile), newcomers, {})


def losses_of(names: list[str]) -> np.ndarray:
    """A model of the same group is as good as the own one, another four times as bad."""
    group = np.array([GROUPS[name] for name in names])
    return np.where(group[:, np.newaxis] == group, 1.0, 4.0)


def clusters_of(names: list[str], newcomers: tuple[str, ...], earlier: dict[str, np.ndarray]) -> LearnerClusters:
    settings = Settings(k=2, newcomers=" ".join(newcomers))
    rng = np.random.default_rng(0)
    return cluster_learners(learners_of(names, newcomers), losses_of(names), settings, earlier, rng)


@pytest.mark.parametrize("newcomers", [(), NEW, ("fred",), ("anna", "carl", "fred")])
@pytest.mark.parametrize("goes_on", [False, True])
def test_newcomers_join_those_who_are_like_them_whatever_their_names(newcomers: tuple[str, ...], goes_on: bool) -> None:
    names = list(GROUPS)
    earlier: dict[str, np.ndarray] = {}
    if goes_on:
        old = [name for name in names if name not in newcomers]
        earlier = clusters_of(old, (), {}).arrays() | arrays_of(learners_of(old, ()))
    clusters = clusters_of(names, newcomers, earlier)
    first = clusters.labels[names.index("emil")]
    assert [int(label != first) for label in clusters.labels] == list(GROUPS.values())
    between = clusters.similarity[[name in newcomers for name in names]][:, [name in newcomers for name in names]]
    known = ~np.isnan(between)
    assert np.array_equal(known, np.eye(len(newcomers), dtype=bool)), "newcomers are not compared with each other"
