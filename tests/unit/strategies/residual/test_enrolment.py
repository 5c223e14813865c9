"""Enrolment: which rows are the same entity, who holds the outcome, and the messages if that cannot be decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from protocols.residual.payloads import Holdings
from strategies.errors import FusionError
from strategies.residual.alignment import CENTER, EntityKeys, match, match_most
from strategies.residual.enrolment import Enrolment

SECRET, OTHER = b"s" * 16, b"t" * 16


def named(names: Sequence[int], check: bytes = SECRET, kind: str = "number") -> EntityKeys:
    keys = np.array([(name, name) for name in names], np.uint64).reshape(-1, 2)
    return EntityKeys(len(names), keys, check, kind)


def by_row(n: int) -> EntityKeys:
    return EntityKeys(n, np.zeros((0, 2), np.uint64), b"", "")


def enrolled(**fields: Any) -> Holdings:
    defaults: dict[str, Any] = {
        "n": 3, "keys": np.zeros((0, 2), np.uint64), "check": np.zeros(0, np.uint8), "kind": "", "n_columns": 1,
        "agent": "", "outcome": False, "public_key": np.zeros(0, np.uint8), "split": np.zeros(0, np.uint8),
    }  # fmt: skip
    return Holdings(**{**defaults, **fields})


def test_common_entities_are_in_the_order_of_the_first_site() -> None:
    names = {CENTER: [5, 9, 7, 1], "bank": [1, 2, 9, 5], "shop": [9, 5, 1]}
    alignment = match({site: named(each) for site, each in names.items()}, CENTER)
    rows = {site: [names[site][row] for row in alignment.rows[site]] for site in names}
    assert all(each == [5, 9, 1] for each in rows.values())
    assert (alignment.n, alignment.n_distinct, alignment.n_lost) == (3, 5, 2)
    assert alignment.lost == {CENTER: 1, "bank": 1, "shop": 0}
    assert alignment.named
    assert alignment.kinds == {}


def test_kinds_of_names_are_listed_if_they_differ() -> None:
    alignment = match({"bank": named([1, 2]), "shop": named([2, 3], kind="text")}, "bank")
    assert alignment.kinds == {"bank": "number", "shop": "text"}


def test_without_names_equal_rows_are_the_same_entity() -> None:
    alignment = match({"bank": by_row(4), "shop": by_row(4)}, "bank")
    assert all(rows.tolist() == [0, 1, 2, 3] for rows in alignment.rows.values())
    assert (alignment.n_lost, alignment.named) == (0, False)


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (
            {CENTER: named([1]), "shop": by_row(1)},
            "entities go by name at the fusion center and by row at shop: set id at all of them, or"
            " residual.align=row-order",
        ),
        (
            {CENTER: by_row(4), "shop": by_row(3)},
            "entities go by row, and the numbers of rows differ (the fusion center 4, shop 3): set id to the column"
            " that names them",
        ),
        (
            {"bank": named([1]), "shop": named([1], OTHER), "telecom": named([1], OTHER)},
            "align-key-file is not the same everywhere: bank; shop, telecom",
        ),
        (
            {"bank": named([1]), "telecom": named([1], b"")},
            "align-key-file is not the same everywhere: telecom (none); bank",
        ),
        (
            {"bank": named([1, 2]), "shop": named([3])},
            "no entity is common to all (bank 2 rows; shop 1 rows): is it the same id column, and the same"
            " align-key-file, everywhere?",
        ),
        (
            {"bank": named([1]), "shop": named([2], kind="text")},
            "no entity is common to all (bank 1 rows; shop 1 rows): names are numbers at some and text at others: write"
            " them alike everywhere",
        ),
        (
            {"bank": named([1, 2, 1]), "shop": named([1])},
            "the entities cannot be matched: rows 1 and 3 of bank are the same entity; each entity may have one row",
        ),
    ],
)
def test_rows_that_cannot_be_matched(sites: dict[str, EntityKeys], message: str) -> None:
    with pytest.raises(FusionError) as refused:
        match(sites, next(iter(sites)))
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("stranger", "reason"),
    [
        (by_row(300), "left out: its entities go by row, and those of the fusion center by name: set id at both"),
        (named(range(300), OTHER), "left out: its align-key-file is not that of the fusion center"),
        (named([*range(299), 0]), "left out: two of its rows are the same entity"),
        (
            named(range(1000, 1300)),
            "left out: the fusion center knows 0 of its 300 entities: is it the same id column?",
        ),
        (
            named(range(299, 599)),
            "left out: the fusion center knows 1 of its 300 entities: is it the same id column?",
        ),
    ],
)
def test_a_site_that_cannot_be_matched_is_left_out_by_name(stranger: EntityKeys, reason: str) -> None:
    fitting = {CENTER: named(range(300)), "bank": named(range(300)[::-1])}
    alignment = match({**fitting, "shop": stranger}, CENTER)
    assert alignment.left_out == {"shop": reason}
    expected = match(fitting, CENTER)
    assert all((alignment.rows[site] == expected.rows[site]).all() for site in fitting)
    assert not expected.left_out
    of_agents = match_most({"a shop": stranger, "bank": fitting["bank"], "telecom": named(range(300))})
    assert set(of_agents.left_out) == {"a shop"}


def test_a_site_with_few_entities_of_its_own_stays() -> None:
    """Registries of few patients of a large hospital share hardly any of its rows, and learn from all they share."""
    alignment = match({"bank": named(range(3000)), "shop": named(range(25)), "town": named(range(20))}, "bank")
    assert alignment.n == 20
    assert not alignment.left_out


def test_agents_of_which_no_two_can_be_matched() -> None:
    with pytest.raises(FusionError, match="no entity is common to all"):
        match_most({"bank": named([1]), "shop": named([2]), "town": named([3])})


def test_rows_by_number_of_another_length_are_left_out() -> None:
    alignment = match({"bank": by_row(4), "shop": by_row(4), "town": by_row(9)}, "bank")
    assert alignment.left_out == {"town": "left out: it has 9 rows, and bank 4: set id to the column that names them"}
    assert (alignment.n, alignment.named) == (4, False)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            {"bank": enrolled(), "shop": enrolled()},
            "nobody holds the outcome: set labels to the fusion center's file of it, or target at one site",
        ),
        (
            {"bank": enrolled(outcome=True), "shop": enrolled(outcome=True)},
            "2 sites hold the outcome (bank, shop): one may; take target away at the others",
        ),
        ({"bank": enrolled(n_columns=0, outcome=True)}, "no site has a column to learn from"),
    ],
)
def test_sites_that_cannot_learn_together(answers: dict[str, Holdings], message: str) -> None:
    with pytest.raises(FusionError) as refused:
        Enrolment.of(answers, None)
    assert str(refused.value) == message


def test_a_site_without_columns_takes_part_only_if_it_holds_the_outcome() -> None:
    answers = {"bank": enrolled(n_columns=0, outcome=True), "shop": enrolled(), "town": enrolled(n_columns=0)}
    enrolment = Enrolment.of(answers, None)
    assert (enrolment.holder, enrolment.agents, enrolment.sites) == ("bank", ("shop",), ("bank", "shop"))
    assert enrolment.excluded == {"town": "has no column to learn from"}
    center = Enrolment.of(answers, by_row(3))
    assert (center.holder, center.sites, set(center.excluded)) == (CENTER, ("shop",), {"bank", "town"})
