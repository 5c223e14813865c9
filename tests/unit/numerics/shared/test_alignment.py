"""Matching rows by keys: one order for all, whoever comes first, and exact where keys were forged to look alike."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Int64, UInt64

from numerics.shared.alignment import AlignmentError, CommonEntities, align

Keys = UInt64[np.ndarray, "n 2"]
TOP = 2**64 - 1


def keys(*pairs: tuple[int, int]) -> Keys:
    return np.array(pairs, dtype=np.uint64).reshape(-1, 2)


def pairs_of(held: Keys, rows: Int64[np.ndarray, "n"] | None = None) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in (held if rows is None else held[rows])]


def assert_aligned(holders: Mapping[str, Keys], found: CommonEntities) -> None:
    """What sets say, in the order of the keys."""
    everything = [set(pairs_of(held)) for held in holders.values()]
    common = sorted(set.intersection(*everything)) if everything else []
    assert list(found.rows) == list(found.lost) == list(holders)
    for site, held in holders.items():
        assert found.rows[site].dtype == np.int64
        assert pairs_of(held, found.rows[site]) == common
        assert found.lost[site] == len(held) - len(common)
        others = [set(pairs_of(keys)) for name, keys in holders.items() if name != site]
        assert found.gains[site] == (len(set.intersection(*others)) - len(common) if others else 0)
    assert found.n_distinct == len(set().union(*everything))


# Words of few values, so that first words, second words and whole keys coincide often.
words = st.sampled_from([0, 1, 2, 2**63, TOP])
holdings = st.lists(st.lists(st.tuples(words, words), unique=True, max_size=12), max_size=5)


@given(held=holdings)
def test_rows_are_those_of_the_common_entities_in_the_order_of_the_keys(held: list[list[tuple[int, int]]]) -> None:
    holders = {f"site-{place}": keys(*pairs) for place, pairs in enumerate(held)}
    assert_aligned(holders, align(holders))


@given(held=holdings, seed=st.integers(0, 2**32))
def test_nobody_s_order_matters(held: list[list[tuple[int, int]]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    holders = {f"site-{place}": keys(*pairs) for place, pairs in enumerate(held)}
    shuffled = {site: rng.permutation(own) for site, own in reversed(holders.items())}
    one, other = align(holders), align(shuffled)
    assert (one.n_distinct, one.lost) == (other.n_distinct, other.lost)
    for site, own in holders.items():
        np.testing.assert_array_equal(own[one.rows[site]], shuffled[site][other.rows[site]])


def test_honest_keys_of_sites_that_miss_some() -> None:
    rng = np.random.default_rng(0)
    everybody = rng.integers(0, 2**64, (500, 2), dtype=np.uint64)
    holders = {f"site-{place}": rng.permutation(everybody)[: 450 + place] for place in range(4)}
    found = align(holders)
    assert_aligned(holders, found)
    assert 0 < len(found.rows["site-0"]) < 450


@pytest.mark.parametrize(
    "holders",
    [
        {},
        {"a": keys()},
        {"a": keys((1, 1)), "b": keys()},
        {"a": keys(), "b": keys((1, 1))},
        {"a": keys((3, 0), (1, 0), (2, 0))},
        {"a": keys((1, 1)), "b": keys((2, 1))},
        {"a": keys((1, 1), (1, 2)), "b": keys()},
    ],
)
def test_one_site_none_and_empty_ones(holders: dict[str, Keys]) -> None:
    assert_aligned(holders, align(holders))


@pytest.mark.parametrize(
    "holders",
    [
        # Within a site, between two, and between others than the first.
        {"a": keys((7, 1), (7, 0), (5, 9)), "b": keys((7, 0), (5, 9))},
        {"a": keys((7, 1), (5, 9)), "b": keys((7, 0), (5, 9))},
        {"a": keys((5, 9)), "b": keys((7, 0), (5, 9)), "c": keys((7, TOP), (5, 9))},
        {"a": keys((7, 1), (7, 0)), "b": keys((7, 0), (7, 1)), "c": keys((7, 2), (7, 1), (7, 0))},
    ],
)
def test_keys_forged_to_share_their_first_word_are_different_entities(holders: dict[str, Keys]) -> None:
    assert_aligned(holders, align(holders))


def test_a_site_of_keys_that_all_share_a_word_takes_no_quadratic_time() -> None:
    forged = np.zeros((200_000, 2), np.uint64)
    forged[:, 1] = np.random.default_rng(0).permutation(len(forged))
    started = time.process_time()
    found = align({"a": forged, "b": forged[::-1].copy()})
    assert time.process_time() - started < 10
    np.testing.assert_array_equal(forged[found.rows["a"], 1], np.arange(len(forged)))


@pytest.mark.parametrize(
    ("held", "rows"),
    [
        (keys((1, 1), (2, 2), (1, 1)), "rows 1 and 3 of bank"),
        (keys((9, 1), (2, 2), (2, 2), (9, 1)), "rows 2 and 3 of bank"),
        (keys((0, 0), (0, 0)), "rows 1 and 2 of bank"),
        (keys((7, 1), (7, 0), (7, 1)), "rows 1 and 3 of bank"),
    ],
)
def test_a_site_with_an_entity_twice_is_named(held: Keys, rows: str) -> None:
    good = keys((1, 1), (2, 2))
    with pytest.raises(AlignmentError, match=f"^{rows} are the same entity; each entity may have one row$"):
        align({"shop": good, "bank": held, "telecom": good})
