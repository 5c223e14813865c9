"""How a real site fits the methods that a run asks for."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.site
from clients.sec.rows import fit_settings
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
