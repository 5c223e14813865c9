"""Agents that raise the error on validation rows, alone or two together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from numerics.residual.robust import harmful_agents


def left_out(factors: Sequence[float], common: Sequence[float] | None = None) -> set[int]:
    """The agents left out where each predicts its part of the outcome times a factor, plus a share of one error."""
    rng = np.random.default_rng(0)
    parts, error = rng.normal(size=(len(factors), 120)), rng.standard_t(3, size=120)
    predictions = np.array(factors)[:, np.newaxis] * parts + np.outer(common or np.zeros(len(factors)), error)

    def residual_without(out: Collection[int]) -> np.ndarray:
        return np.asarray(parts.sum(axis=0) - np.delete(predictions, list(out), axis=0).sum(axis=0))

    return set(harmful_agents(residual_without, range(len(factors))))


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((1.0, 1.0, 0.7, 1.2, 1.0), set()), ((3.5, 1.0, 1.0, 1.0, 1.0), {0}), ((3.5, 1.0, 3.5, 1.0, 1.0), {0, 2})],
)
def test_agents_that_raise_the_error_are_left_out(factors: Sequence[float], expected: set[int]) -> None:
    assert left_out(factors) == expected


def test_two_of_five_that_err_alike_are_left_out_and_two_of_four_are_no_minority() -> None:
    """Without either one the error is hardly lower."""
    assert left_out((2.5, 2.5, 1.0, 1.0, 1.0), (0.5, 0.5, 0.0, 0.0, 0.0)) == {0, 1}
    assert left_out((2.5, 2.5, 1.0, 1.0), (0.5, 0.5, 0.0, 0.0)) == set()


def test_an_honest_agent_beside_one_that_errs_is_no_pair() -> None:
    assert left_out((2.5, 1.0, 1.0, 1.0, 1.0), (0.5, 0.0, 0.0, 0.0, 0.0)) == {0}
