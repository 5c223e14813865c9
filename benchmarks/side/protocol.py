"""Our protocols on shards at hand, by the real fusion center and the real handlers, measured as the peers are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.driver import Driven, config_of, drive, sites_of, strategy_of, world
from benchmarks.side import Ran


def played(protocol: str, shards: Sequence[Any], seed: int, settings: Mapping[str, Any], **parts: Any) -> Driven:
    """A whole conversation.

    Parameters
    ----------
    protocol : str
        Whose shards they are.
    shards : sequence
        One a site.
    seed : int
        Of the run.
    settings : Mapping
        Keys of the run configuration, as `benchmarks.driver.config_of` takes them.
    **parts
        What the center knows, as of `benchmarks.driver.world`.
    """
    with world(protocol, shards, **parts) as name:
        config = config_of(name, seed, **settings)
        strategy, sites = strategy_of(config, len(shards)), sites_of(config, len(shards))
        return drive(strategy, sites, clock=time.perf_counter)


def ran(driven: Driven, score: Callable[[], Mapping[str, float]]) -> Ran:
    """Rounds, bytes and seconds of a conversation; seconds are everybody's, without the counting of bytes.

    Parameters
    ----------
    driven : Driven
        As `played` gives it.
    score : Callable
        As of `Ran`.
    """
    spent = driven.spent
    return Ran(
        score,
        rounds=driven.n_rounds,
        to_sites=driven.to_sites,
        from_sites=driven.from_sites,
        seconds=spent.all,
        center=spent.center,
        slowest=spent.slowest,
    )
