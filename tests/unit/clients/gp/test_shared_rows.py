"""A site's own rows among the shared ones: those drawn, or else those of the same values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.gp import shared_rows
from clients.gp.experts import Part
from tests.support.examples import examples

Indices = list[np.ndarray]


def columns(part: Part) -> np.ndarray:
    return np.column_stack([part.x, part.y])


def one_by_one(experts: list[Part], drawn: Indices, disclosed: np.ndarray) -> Indices:
    """The definition, row by row."""
    known = {row.tobytes() for row in disclosed}
    if all(row.tobytes() in known for part, index in zip(experts, drawn, strict=True) for row in columns(part)[index]):
        return drawn
    left, places = sum(map(len, drawn)), []
    for part in experts:
        among = [
            any((np.abs(row - other) <= 1e-9 * np.maximum(np.abs(other), 1)).all() for other in disclosed)
            for row in columns(part)
        ]
        places.append(np.flatnonzero(among)[:left])
        left -= len(places[-1])
    return places


def world(seed: int) -> tuple[list[Part], Indices, np.ndarray]:
    """Experts with ties, rows drawn from each, and the shared rows of all sites in any order."""
    rng = np.random.default_rng(seed)
    experts = [Part.of(rng.integers(-1, 2, (n, 2)) * 0.1, rng.integers(0, 3, n) * 1.0) for n in rng.integers(0, 9, 3)]
    drawn = [np.flatnonzero(rng.random(len(part.y)) < 0.4) for part in experts]
    own = np.concatenate([columns(part)[index] for part, index in zip(experts, drawn, strict=True)])
    others = np.column_stack([rng.integers(-1, 2, (5, 2)) * 0.1, rng.integers(0, 3, 5) * 1.0])
    return experts, drawn, rng.permutation(np.concatenate([own, others]))


@examples(150)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-12, 1e-8]), st.sampled_from([1, 7, 10**6]))
def test_they_are_those_of_a_comparison_one_by_one(seed: int, rounding: float, pairs: int) -> None:
    experts, drawn, disclosed = world(seed)
    disclosed = disclosed * (1 + rounding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_rows, "_PAIRS", pairs)
        places = shared_rows.shared_rows_of(experts, drawn, disclosed)
    expected = one_by_one(experts, drawn, disclosed)
    assert [index.tolist() for index in places] == [index.tolist() for index in expected]


def test_rows_that_another_processor_rounded_are_found_by_their_values() -> None:
    rng = np.random.default_rng(0)
    part = Part.of(rng.normal(size=(40, 3)), rng.normal(size=40))
    disclosed = columns(part)[[3, 17]] * (1 + 1e-15)
    (places,) = shared_rows.shared_rows_of([part], [np.array([5, 6])], disclosed)
    assert places.tolist() == [3, 17]


def test_a_zero_of_the_other_sign_is_the_same_value_in_other_bytes() -> None:
    part = Part.of(np.zeros((2, 1)), np.array([1.0, 2.0]))
    (places,) = shared_rows.shared_rows_of([part], [np.array([1])], np.array([[-0.0, 1.0]]))
    assert places.tolist() == [0]
