"""Gaussian process experts driven by benchmarks/driver.py, for benchmarks/gp.py: seconds to learn and to predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.driver import Driven, Round, Settings, Spent, drive, sites_of, strategy_of
from protocols.gp.payloads import Predict

__all__ = ["learn", "sites_of", "spent"]


def learn(config: Settings, sites: Mapping[str, Any], earlier: Mapping[str, Any] | None = None) -> Driven:
    """Learn and predict; with `earlier`, the arrays of an outcome, predict with what was learnt there."""
    return drive(strategy_of(config, len(sites), earlier), sites, counted=False)


def spent(rounds: Sequence[Round]) -> tuple[Spent, Spent]:
    """Seconds to learn, and to predict: from the first round on in which query points are asked."""
    asked = [Predict.title() in each.asked for each in rounds]
    first = asked.index(True) if True in asked else len(rounds)
    return Spent.of(rounds[:first]), Spent.of(rounds[first:])
