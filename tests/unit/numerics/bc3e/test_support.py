"""No sum is about few instances: labels of rare clusters, and of rare combinations, are withheld."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.support import without_rare_combinations, without_rare_labels


def labels(seed: int, n: int = 200) -> Ensemble:
    rng = np.random.default_rng(seed)
    classifiers = {name: rng.integers(-1, 3, n) for name in ("a", "b")}
    return Ensemble(n, classifiers, {"x": rng.geometric(0.4, n) - 1, "y": rng.integers(-1, 2, n)})


def each_label(ensemble: Ensemble) -> list[list[int]]:
    return [labels.tolist() for labels in (*ensemble.classifiers.values(), *ensemble.clusterings.values())]


def rows(ensemble: Ensemble) -> list[tuple[int, ...]]:
    return list(zip(*each_label(ensemble), strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fewest", [2, 5, 40])
def test_what_is_left_is_common(seed: int, fewest: int) -> None:
    before = labels(seed)
    kept = without_rare_labels(before, fewest)
    rare = np.bincount(before.clusterings["x"]) < fewest
    rare &= np.bincount(before.clusterings["x"]) > 0
    assert rare.any()
    assert (kept.clusterings["x"] == np.where(rare[before.clusterings["x"]], -1, before.clusterings["x"])).all()
    assert kept.clusterings["y"] is before.clusterings["y"]
    counts = Counter(rows(before))
    for order in range(3):
        after = rows(without_rare_combinations(before, fewest, seed=order))
        assert all(count >= fewest or set(each) == {-1} for each, count in Counter(after).items())
        assert all(was == now for was, now in zip(rows(before), after, strict=True) if counts[was] >= fewest)


@pytest.mark.parametrize("fewest", [2, 5, 40])
def test_instances_with_equal_labels_count_as_often_as_there_are(fewest: int) -> None:
    before = labels(0)
    distinct = before.distinct
    for expected, part in (
        (
            without_rare_labels(before, fewest),
            without_rare_labels(distinct.part, fewest, distinct.counts),
        ),
        (without_rare_combinations(before, fewest), without_rare_combinations(distinct.part, fewest, distinct.counts)),
    ):
        for name, each in (*expected.classifiers.items(), *expected.clusterings.items()):
            np.testing.assert_array_equal({**part.classifiers, **part.clusterings}[name][distinct.of_row], each)


def test_nothing_rare_changes_nothing() -> None:
    ensemble = Ensemble(40, {"a": np.repeat([0, 1], 20)}, {"x": np.tile([0, 2], 20)})
    assert without_rare_labels(ensemble, 20) is ensemble
    assert without_rare_combinations(ensemble, 10) is ensemble


def test_one_label_is_withheld_if_that_is_enough_and_orders_differ() -> None:
    ensemble = Ensemble(30, {"a": np.repeat([0, 1], 15)}, {"x": np.r_[np.zeros(25, int), 1:6]})
    assert [-1 in labels for labels in each_label(without_rare_combinations(ensemble, 5))] == [False, True]
    models = {name: np.random.default_rng(at).integers(0, 3, 200) for at, name in enumerate("abcde")}
    kept = [without_rare_combinations(Ensemble(200, models, {}), 5, seed=order) for order in range(8)]
    for name in models:
        assert len({int((each.classifiers[name] >= 0).sum()) for each in kept}) > 1


def test_probabilities_of_a_rare_cluster_go_to_the_others() -> None:
    soft = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    ensemble = Ensemble(4, {}, {"x": soft})
    kept = without_rare_labels(ensemble, 3)
    np.testing.assert_allclose(kept.clusterings["x"], [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(without_rare_combinations(ensemble, 3).clusterings["x"], soft)


def test_edges() -> None:
    empty = Ensemble(0, {"a": np.zeros(0, np.int64)}, {"x": np.zeros(0, np.int64)})
    assert without_rare_labels(empty, 5) is empty
    assert without_rare_combinations(empty, 5).n == 0
    no_models = Ensemble(3, {}, {})
    assert without_rare_combinations(no_models, 5).classifiers == {}
    unlabeled = Ensemble(3, {"a": np.array([-1, -1, 0])}, {"x": np.array([-1, -1, -1])})
    assert without_rare_combinations(unlabeled, 2).classifiers["a"].tolist() == [-1, -1, -1]
