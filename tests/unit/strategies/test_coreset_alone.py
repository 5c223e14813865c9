"""What sites say their rows cost alone: what no rows can cost is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from protocols.coreset.payloads import CostsAlone
from protocols.wire.payload import PayloadError
from strategies.coreset.alone import _check, paired_difference

ROWS, MOST = 10, 100.0
HONEST = CostsAlone(ROWS, alone=50.0, together=40.0, squares=12.0)


def check(answer: CostsAlone, sites: tuple[str, ...] = ("a",)) -> None:
    """As the center does that has ten rows of each site, which cost 100 at most."""
    outcome: Any = SimpleNamespace(
        pool=SimpleNamespace(rows_of=lambda names: np.full(len(names), ROWS)),
        possible_costs=lambda: {site: np.array([[0.0, MOST]]) for site in ("a", "b")},
        squares_by_site=lambda: dict.fromkeys(("a", "b"), MOST),
    )
    _check(outcome)({"answer": sites})("answer", answer)


@pytest.mark.parametrize(
    "answer",
    [
        HONEST,
        CostsAlone.nothing(),
        replace(HONEST, rows=4, squares=30.0),
        replace(HONEST, together=4 * MOST, alone=4 * MOST, squares=0.0),
        replace(HONEST, squares=10.0 * 0.97),  # all rows differ alike, and three digits are sent
    ],
)
def test_what_rows_can_cost_is_taken(answer: CostsAlone) -> None:
    check(answer)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rows": ROWS + 1}, "rows"),
        ({"rows": -1}, "rows"),
        ({"rows": 0}, "rows"),
        ({"together": -1.0}, "together"),
        ({"together": 4.1 * MOST}, "together"),
        ({"together": float("nan")}, "together"),
        ({"alone": -1.0}, "alone"),
        ({"alone": 6.1 * MOST, "squares": (6.1 * MOST) ** 2 / ROWS}, "alone"),
        ({"alone": 1e50, "squares": 1e100 / ROWS}, "alone"),
        ({"squares": 5.0}, "squares"),
        ({"squares": 95.0**2}, "squares"),
    ],
)
def test_what_no_rows_can_cost_is_refused(changes: dict[str, float], field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        check(replace(HONEST, **changes))
    assert caught.value.field == field


def test_a_masked_sum_may_be_as_large_as_its_sites_are_together() -> None:
    both = CostsAlone(2 * ROWS, alone=100.0, together=2 * 4 * MOST, squares=700.0**2 / (2 * ROWS))
    check(both, ("a", "b"))
    with pytest.raises(PayloadError):
        check(both)


def test_the_standard_error_is_that_of_paired_differences() -> None:
    together, alone = np.random.default_rng(0).uniform(0, 1, (2, 50))
    d = together - alone
    [found] = paired_difference(CostsAlone(50, alone.sum(), together.sum(), (d**2).sum())).values()
    np.testing.assert_allclose(found, [d.mean(), d.std(ddof=1) / np.sqrt(50), 50])
    assert paired_difference(CostsAlone(1, 1.0, 1.0, 0.0)) == {}
