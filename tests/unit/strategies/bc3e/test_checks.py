"""Answers that no labels can have, and holdings so unlike the others' that a run goes on without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protocols.bc3e.payloads import LARGEST_TABLE, Holdings, Statistics, Tally
from protocols.wire.payload import PayloadError
from strategies.bc3e.checks import check_columns, check_counts, check_holdings, check_statistics
from strategies.bc3e.layout import Layout, agree_layout, strangers
from strategies.bc3e.shared import SharedInstances
from strategies.errors import FusionError

HELD = Holdings(4, 3, ("svm", "tree"), ("k3", "k6"), np.array([3, 6]), np.zeros(0, np.uint64), True)
KEYS = np.arange(4, dtype=np.uint64)


@pytest.fixture(scope="module")
def layout() -> Layout:
    return agree_layout({"a": HELD, "b": replace(HELD, has_truth=False)}, "row", 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_classes": 4}, r"n_classes.*is 4, and bc3e\.classes is 3"),
        ({"n_clusters": np.array([3, LARGEST_TABLE // 3 + 1])}, "n_clusters.*would exceed"),
        ({"n_clusters": np.array([3, 2**62])}, "n_clusters.*would exceed"),
        ({"clusterings": ("k6", "k3")}, "clusterings.*not in order"),
        ({"classifiers": ("svm", "svm")}, "classifiers.*one comes twice"),
        ({"classifiers": ("", "svm")}, "classifiers.*empty"),
        ({"instances": -1}, "negative"),
        ({"classifiers": ()}, "n_classes.*no classifier"),
    ],
)
def test_holdings_that_fit_no_run_are_refused(changes: dict[str, Any], told: str) -> None:
    check_holdings("row", 3, "a", HELD)
    with pytest.raises(PayloadError, match=told):
        check_holdings("row", 3, "a", replace(HELD, **changes))


def test_two_instances_of_one_name_are_refused() -> None:
    check_holdings("column", 0, "a", replace(HELD, keys=KEYS))
    with pytest.raises(PayloadError, match="two of its instances have one name"):
        check_holdings("column", 0, "a", replace(HELD, keys=KEYS // 2))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"n_classes": 4},
            "left out: it has labels of 4 classes, the others of 3 at most: if 4 is right, set bc3e.classes=4",
        ),
        ({"n_clusters": np.array([3, 101])}, "left out: k6 has 101 clusters there, and up to 6 at most sites"),
        (
            {"keys": KEYS + 1},
            "left out: its instances are not those of most sites, as bc3e.distribution=arbitrary allows",
        ),
    ],
)
def test_one_site_unlike_most_does_not_end_the_run(changes: dict[str, Any], reason: str) -> None:
    held = replace(HELD, keys=KEYS)
    sites = {"a": held, "b": held, "c": replace(held, **changes)}
    assert strangers(sites, "column", 0) == {"c": reason}
    del sites["a"]
    assert strangers(sites, "column", 0) == {}, "of two sites, nobody knows which one is right"


def test_confusion_matrices_of_too_many_classes_are_refused() -> None:
    """One label of 9999 would make tables of 10^8 numbers at every site."""
    held = replace(HELD, n_classes=10_000, n_clusters=np.array([3, 6]))
    with pytest.raises(FusionError, match=r"10000 classes.*number the classes 0, 1, 2"):
        agree_layout({"a": held, "b": held}, "row", 0, confusion=True)
    assert agree_layout({"a": held, "b": held}, "row", 0).k == 10_000


def test_sites_of_unequal_sizes_all_take_part() -> None:
    """A site of few instances has seen few of the classes and clusters."""
    sizes = [(2, [1, 2]), (100, [3, 6]), (100, [3, 100])]
    sites = {
        str(place): replace(HELD, n_classes=k, n_clusters=np.array(clusters))
        for place, (k, clusters) in enumerate(sizes)
    }
    assert strangers(sites, "row", 0) == {}
    sites["3"] = replace(HELD, n_classes=11 * 100)
    assert strangers(sites, "row", 5000) == {}, "the run knows its number of classes"


def tally(**changes: Any) -> Tally:
    good = Tally(("bc3e", "vote", "svm"), np.array([3, 2, 4]), np.array([4, 4, 4]))
    return replace(good, **changes)


def test_counts_are_of_the_instances_and_classifiers_that_the_site_holds(layout: Layout) -> None:
    check_counts(layout, "a", tally())
    with pytest.raises(PayloadError, match="more than the 4 instances"):
        check_counts(layout, "a", tally(total=np.array([4, 4, 5])))
    with pytest.raises(PayloadError, match="a classifier that the site does not hold"):
        check_counts(layout, "a", tally(methods=("bc3e", "vote", "oracle")))
    with pytest.raises(PayloadError, match="more than the 0 instances"):
        check_counts(layout, "b", tally())


@pytest.mark.parametrize("n", [1, 150, 730])
def test_each_shared_instance_is_counted_once_and_sites_take_turns(n: int) -> None:
    """Site c knows no class, and d holds a half."""
    keys = np.random.default_rng(0).permutation(n).astype(np.uint64)
    whole = replace(HELD, instances=n, keys=keys, n_clusters=np.array([3, 6]))
    half = replace(whole, instances=len(keys[::2]), keys=keys[::2])
    sites = {"a": whole, "b": whole, "c": replace(whole, has_truth=False), "d": half}
    layout = agree_layout(sites, "arbitrary", 3)
    starts = {site: np.zeros((3, len(rows)), np.int64) for site, rows in layout.shared_rows.items()}
    shared = SharedInstances(layout, starts, np.ones(3))
    counted = {site: layout.shared_index[site][shared.instances_to_count(site)] for site in sites}
    assert sorted(np.concatenate(list(counted.values())).tolist()) == list(range(n))
    assert not len(counted["c"])
    assert max(map(len, counted.values())) <= (n if n < 200 else n / 2 + 1)


def alone(layout: Layout, share: np.ndarray, labels: np.ndarray) -> Statistics:
    """Sums of an E-step of the classifiers alone, for a site whose two clusterings have the same labels."""
    k, step = len(share), 2**layout.bits
    mass = []
    for name in ("k3", "k6"):
        table = np.zeros((k, layout.n_clusters[name]))
        np.add.at(table.T, labels, share.T)
        mass.append(np.rint(table * step).astype(np.int64))
    squares = np.full(2, int(step * (share**2).sum()))
    return Statistics(share.shape[1], tuple(mass), np.full(k, -step), -step, squares=squares)


@pytest.mark.parametrize(
    "falsify",
    [
        lambda sums: replace(sums, mass=tuple(0 * table for table in sums.mass)),
        lambda sums: replace(sums, squares=sums.squares // 4),
        lambda sums: replace(sums, squares=sums.squares * 4),
    ],
)
def test_squares_fit_the_mass(layout: Layout, falsify: Callable[[Statistics], Statistics]) -> None:
    """A single instance's probabilities have squares of 1/k to 1 in all, whatever they are."""
    names, rng = layout.common_of("a"), np.random.default_rng(0)
    for share in (np.eye(3)[:, [0, 1, 2, 2]], np.full((3, 4), 1 / 3), rng.dirichlet(np.ones(3), 4).T):
        sums = alone(layout, share, np.array([0, 1, 2, 0]))
        check_statistics(layout, np.ones(3), names, 4, sums, alone=True)
        with pytest.raises(PayloadError, match="squares"):
            check_statistics(layout, np.ones(3), names, 4, falsify(sums), alone=True)


def test_labels_do_not_change_from_round_to_round(layout: Layout) -> None:
    rng, labels = np.random.default_rng(1), np.array([0, 1, 2, 0])
    before, after = (alone(layout, rng.dirichlet(np.ones(3), 4).T, labels) for _ in range(2))
    check_columns(before.mass, 4, after)
    less = replace(after, mass=tuple(table * 19 // 20 for table in after.mass))
    moved = alone(layout, rng.dirichlet(np.ones(3), 4).T, (labels + 1) % 3)
    for false in (less, moved):
        with pytest.raises(PayloadError, match="other labels than in an earlier round"):
            check_columns(before.mass, 4, false)
