"""Wide integers against Python's own: conversion, sums, rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from numerics.shared.exact_sum import LARGEST_TERM, MOST_TERMS, WORDS, add, exact_sum, from_words, negate, to_words

numbers = st.one_of(
    st.floats(-LARGEST_TERM, LARGEST_TERM),
    st.floats(-1e3, 1e3),
    st.integers(-(2**70), 2**70).map(lambda steps: float(np.ldexp(float(steps), -66))),  # about half a step of the grid
)
integers = st.one_of(st.integers(-(2**255), 2**255 - 1), st.integers(-(2**66), 2**66), st.sampled_from([0, -1, 1]))


def as_words(integer: int) -> np.ndarray:
    return np.frombuffer((integer % 2**256).to_bytes(32, "little"), "<u8").astype(np.uint64)


def as_integer(words: np.ndarray) -> int:
    return int.from_bytes(words.astype("<u8").tobytes(), "little", signed=True)


def nearest_step(value: float) -> int:
    return round(Fraction(value) * 2**64)  # ties to even


@given(hnp.arrays(np.float64, st.integers(0, 5), elements=numbers))
def test_words_are_the_nearest_multiple(values: np.ndarray) -> None:
    words = to_words(values)
    assert words.shape == (len(values), WORDS)
    assert words.dtype == np.uint64
    assert [as_integer(each) for each in words] == [nearest_step(value) for value in values.tolist()]


@given(integers)
def test_floats_are_the_nearest_to_the_integer(integer: int) -> None:
    assert float(from_words(as_words(integer))) == integer / 2**64  # Python rounds a quotient of integers correctly


@given(integers, integers)
def test_integers_add_modulo(one: int, other: int) -> None:
    expected = (one + other + 2**255) % 2**256 - 2**255
    assert as_integer(add(as_words(one), as_words(other))) == expected
    assert as_integer(add(as_words(one), negate(as_words(one)))) == 0


@given(st.lists(numbers, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_sum_is_exact_in_any_order(values: list[float], random: object) -> None:
    exact = sum(nearest_step(value) for value in values) / 2**64
    random.shuffle(values)  # type: ignore[attr-defined]
    assert exact_sum([np.array([value]) for value in values])[0] == exact


def test_shapes_are_kept() -> None:
    values = np.random.default_rng(0).normal(size=(3, 0, 2)), np.random.default_rng(0).normal(size=(3, 4))
    for each in (*values, np.array(2.5)):
        assert to_words(each).shape == (*each.shape, WORDS)
        assert np.array_equal(from_words(to_words(each)), np.round(np.ldexp(each, 64)) / 2.0**64)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2 * LARGEST_TERM, -1e300])
def test_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="beyond"):
        to_words(np.array([1.0, value]))


def test_largest_terms_do_not_overflow() -> None:
    largest = np.full(3, -LARGEST_TERM)
    assert (exact_sum([largest] * MOST_TERMS) == MOST_TERMS * largest).all()
    for count in (0, MOST_TERMS + 1):
        with pytest.raises(ValueError, match=f"{count} terms"):
            exact_sum([largest] * count)
