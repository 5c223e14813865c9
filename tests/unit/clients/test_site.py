"""A site's randomness: from the run, the round and the data, not from names or places."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.site
from clients.site import Site
from numerics.bc3e.ensemble import Ensemble
from protocols.wire.message import Ask


def site(monkeypatch: pytest.MonkeyPatch, labels: list[int], name: str = "a", number: int = 1, lane: str = "0") -> Site:
    shard = Ensemble(len(labels), {"tree": np.array(labels)}, entity=np.array(["x"] * len(labels), object))
    monkeypatch.setattr(clients.site, "shard", lambda *_, **__: shard)
    context = Context(1, 7, {"site": name}, RecordDict(), {"scenario": "any"})
    return Site.open(name, context, Ask("1", number, 0, ())).in_lane(lane)


def test_same_data_same_randomness_whatever_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [site(monkeypatch, [0, 1, 1], name).rng.random(4) for name in ("a", "b")]
    np.testing.assert_array_equal(draws[0], draws[1])


@pytest.mark.parametrize("other", [{"labels": [1, 0, 1]}, {"number": 2}, {"lane": "1"}, {"lane": "0.0"}])
def test_other_data_round_or_lane_other_randomness(monkeypatch: pytest.MonkeyPatch, other: dict[str, object]) -> None:
    one = site(monkeypatch, [0, 1, 1]).rng.random(4)
    another = site(monkeypatch, **{"labels": [0, 1, 1], **other}).rng.random(4)  # type: ignore[arg-type]
    assert not np.array_equal(one, another)
