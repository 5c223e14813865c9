"""A site's randomness: from the run, the repetition and the data, not from names or places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import clients.site
from clients.digest import digest_of
from clients.site import Site
from numerics.bc3e.ensemble import Ensemble
from protocols.wire.message import Ask


def draw(monkeypatch: pytest.MonkeyPatch, labels: list[int], name: str = "a", lane: str = "0") -> list[float]:
    """Return what a site with these labels draws at random."""
    shard = Ensemble(len(labels), {"tree": np.array(labels)}, entity=np.array(["x"] * len(labels), object))
    monkeypatch.setattr(clients.site, "shard", lambda *_, **__: shard)
    context = Context(1, 7, {"site": name}, RecordDict(), {"scenario": "any"})
    site = Site.open(name, context, Ask("1", 1, 0, ())).in_lane(lane)
    return site.rng_of(digest_of(site.shard)).random(4).tolist()


def test_same_data_same_randomness_whatever_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw(monkeypatch, [0, 1, 1], "a") == draw(monkeypatch, [0, 1, 1], "b")


@pytest.mark.parametrize("other", [{"labels": [1, 0, 1]}, {"lane": "1"}])
def test_other_data_or_repetition_other_randomness(monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]) -> None:
    assert draw(monkeypatch, [0, 1, 1]) != draw(monkeypatch, **{"labels": [0, 1, 1], **other})
