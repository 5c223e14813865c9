"""A protocol on given shards, by the real fusion center and the real handlers, measured like its alternatives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.driver import Transcript, config_of, drive, sites_of, strategy_of, world
from benchmarks.side import Result


def run_protocol(
    protocol: str,
    shards: Sequence[Any],
    seed: int,
    settings: Mapping[str, Any],
    *,
    clock: Callable[[], float] = time.perf_counter,
    **parts: Any,
) -> Transcript:
    """Run a whole conversation.

    Parameters
    ----------
    protocol : str
        The shards' protocol.
    shards : sequence
        One shard for each site.
    seed : int
        Seed of the run.
    settings : Mapping
        Keys of the run configuration, as in `benchmarks.driver.config_of`.
    clock : callable
        Clock of the transcript's seconds.
    **parts
        Data of the center, as in `benchmarks.driver.world`.
    """
    with world(protocol, shards, **parts) as name:
        config = config_of(name, seed, **settings)
        return drive(strategy_of(config, len(shards)), sites_of(config, len(shards)), clock)


def result_of(transcript: Transcript, score: Callable[[], Mapping[str, float]]) -> Result:
    """Return rounds, bytes and seconds of a conversation; the seconds do not include the counting of bytes."""
    seconds = transcript.seconds
    return Result(
        score,
        rounds=transcript.n_rounds,
        to_sites=transcript.to_sites,
        from_sites=transcript.from_sites,
        seconds=seconds.all,
        center=seconds.center,
        slowest=seconds.slowest,
    )
