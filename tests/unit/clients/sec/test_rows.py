"""How a real site fits the methods that a run asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.site
from clients.sec.rows import but_last_of_classes, fit_settings
from clients.site import Site
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Select
from protocols.wire.message import Ask


@pytest.mark.parametrize(
    ("asked", "own", "fitted"), [(1, {}, 5), (5, {}, 5), (6, {}, 10), (20, {}, 20), (1, {"min-leaf": 8}, 8)]
)
def test_leaves_have_the_rows_that_the_site_demands(
    monkeypatch: pytest.MonkeyPatch, asked: int, own: dict[str, int], fitted: int
) -> None:
    """Or so many times two, so that few different trees can be asked for."""
    rows = RegressionRows(np.eye(9), np.zeros(9), np.zeros((0, 9)), np.zeros(0), tuple("abcdefghi"))
    monkeypatch.setattr(clients.site, "shard", lambda *_, **__: rows)
    context = Context(1, 7, {"site": "a", **own}, RecordDict(), {"protocol": "sec"})
    site = Site.open("a", context, Ask("1", 1, 0, ())).in_lane("0")
    ask = Select("rf", standardize="model", min_leaf=asked, selection="k-fold", reference="left-out", moments=False)
    assert fit_settings(site, ask)["min_leaf"] == fitted


def test_one_row_of_each_class_is_learned_from() -> None:
    """Of persons, all rows of one."""
    x, y = np.zeros((7, 1)), np.array([0.0, 1, 0, 2, 2, 0, 1])
    rows = RegressionRows(x, y, x[:0], y[:0], ("age",), classes=("a", "b", "c"))
    assert but_last_of_classes(rows, np.array([1, 2, 6])).tolist() == [2, 6]
    assert but_last_of_classes(rows, np.array([0, 4])).tolist() == [0, 4]
    persons = replace(rows, person=np.array([0, 0, 1, 2, 2, 3, 4]))
    assert but_last_of_classes(persons, np.array([2, 4])).tolist() == [4]
    assert but_last_of_classes(replace(rows, classes=()), np.array([1, 6])).tolist() == [1, 6]
