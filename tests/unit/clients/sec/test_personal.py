"""Where a learner's own weights start from, and where they and the own power stay if nothing else is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from clients.sec.classes import own_power
from clients.sec.handlers import _personal_weights
from numerics.sec.personal_weights import residual_factor


def found(senders: str, shares: dict[str, float], **memory: np.ndarray) -> list[float]:
    site = SimpleNamespace(name="b", memory={"senders": np.frombuffer(senders.encode(), np.uint8), **memory})
    ask = SimpleNamespace(members=tuple(shares), shares=np.array(list(shares.values())))
    return _personal_weights(ask, site, 20).tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("senders", "shares", "weights"),
    [
        ("a\nb\nc", {"b": 0.25, "c": 0.75}, [0, 0.25, 0.75, 0]),
        ("a\nc", {"b": 0.25, "c": 0.75}, [0, 0.75, 0.25]),  # the landmarks are others
        ("a\nc", {"b": 0.2, "c": 0.4, "d": 0.4}, [0, 2 / 3, 1 / 3]),  # a member that is no landmark
        ("a\nc", {"b": 0.0, "c": 1.0}, [0, 1, 0]),  # a newcomer
        ("a\nb", {}, [0, 1, 0]),
        ("a\nc", {}, [0, 0, 1]),
    ],
)
def test_without_errors_of_rows_left_out_the_cluster_decides(
    senders: str, shares: dict[str, float], weights: list[float]
) -> None:
    assert found(senders, shares) == pytest.approx(weights)


def test_the_rows_move_the_weights_away_from_the_cluster() -> None:
    y, first, second = np.random.default_rng(0).normal(size=(3, 20))
    factor = residual_factor(np.stack([y + first, y + second, np.full(20, np.nan)]), y)
    starts = [found("a\nb", {"a": 1.0}, factor=factor), found("a\nb", {"b": 1.0}, factor=factor)]
    assert 0 < starts[1][0] < starts[0][0] < 1
    assert [weights[2] for weights in starts] == [0, 0]


@pytest.mark.parametrize(("weights", "has_power"), [([0.95, 0.0, 0.05], False), ([0.0, 0.2, 0.8], True)])
def test_only_a_mixture_with_others_models_has_a_power(weights: list[float], has_power: bool) -> None:
    senders, learned = np.frombuffer(b"b\na", np.uint8), np.full((3, 50, 2), [0.8, 0.2])
    memory = {"senders": senders, "learned": learned, "learned_places": np.zeros(50, np.int64)}
    site = SimpleNamespace(name="b", memory=memory)
    assert (own_power(site, np.array(weights)) > 1) == has_power  # type: ignore[arg-type]
