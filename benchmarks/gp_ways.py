"""One way to learn and predict a scenario of gp, measured, for benchmarks/gp.py.

Each way runs in a process of its own, ``python -m benchmarks.gp_ways WAY ...``, which imports what that way needs.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gp_peers import PEERS, Numbers, Peer
from benchmarks.processes import memory
from numerics.gp.metrics import coverage, msll, smse
from numerics.gp.moments import moments_of, pooled
from numerics.shared.threads import single_threaded
from protocols.settings import declared
from scenarios.registry import find
from strategies.gp import Outcome

SHARED = Path(__file__).parents[2] / "shared" / "data"
OURS: Mapping[str, Mapping[str, str]] = {
    "consilience": {},
    "consilience, knn": {"gp.gate": "knn"},
    "consilience, grbcm": {"gp.gate": "knn", "gp.aggregation": "grbcm"},
}
"""Ways of the protocol that share what is learnt, by their settings."""
_LEVEL = 0.95


@dataclass(frozen=True)
class World:
    """A draw of a scenario.

    Attributes
    ----------
    scenario : str
        Its name.
    seed : int
        Of the draw.
    rows : int
        To learn from; 0: as many as the paper.
    parts : int
        Experts, a site each.
    experts : int
        Experts that are chosen for a point.
    data : str
        The file or its directory; empty: where CONSILIENCE_DATA says.
    """

    scenario: str
    seed: int
    rows: int
    parts: int
    experts: int
    data: str

    @property
    def config(self) -> dict[str, Any]:
        """As a run configuration."""
        return {
            **declared(),
            "scenario": self.scenario,
            "seed": self.seed,
            "data": self.data or (str(SHARED) if SHARED.exists() else ""),
            "output-dir": "",
            "gp.rows": self.rows,
            "gp.parts": self.parts,
            "gp.experts": str(self.experts),
        }


SMALL = World("gp-synthetic", 0, 60, 2, 1, "")
"""Run before anything is measured, so that all is imported and ready."""


@dataclass(frozen=True)
class Seconds:
    """Of the processor, to learn or to predict.

    Attributes
    ----------
    all : float
        Of center and sites, one after the other.
    together : float
        Until the end where every site has a machine of its own: the slowest site of each round, and the center.
    center : float
        Of these the center's.
    """

    all: float
    together: float = np.nan
    center: float = np.nan


@dataclass(frozen=True)
class Found:
    """What a process told of one way.

    Attributes
    ----------
    learning, prediction : Seconds
        What it took.
    smse, msll, coverage : float
        Of the test rows; coverage of intervals of 95 %.
    peak, loaded : int
        Bytes that the process held at most, and before it began.
    rounds : float
        Asks for the hyperparameters; NaN: nobody was asked.
    """

    learning: Seconds
    prediction: Seconds
    smse: float
    msll: float
    coverage: float
    peak: int
    loaded: int
    rounds: float = np.nan

    @classmethod
    def told(cls, fields: Mapping[str, Any]) -> Found:
        """From what `asdict` made of it."""
        return cls(
            **{**fields, "learning": Seconds(**fields["learning"]), "prediction": Seconds(**fields["prediction"])}
        )


def run_way(way: str, world: World) -> dict[str, Found]:
    """A way measured, by name; ``consilience`` measures all of `OURS`, which learn once."""
    if way in OURS:
        _ours(SMALL)
        return _ours(world)
    _peer(PEERS[way], SMALL)
    return {way: _peer(PEERS[way], world)}


# -- the protocol -----------------------------------------------------------------------------------------------------


def _ours(world: World) -> dict[str, Found]:
    from benchmarks.gp_protocol import learn, sites_of, spent

    sites, loaded = sites_of(world.config, world.parts), memory("VmRSS")
    found: dict[str, Found] = {}
    learnt: Seconds | None = None
    outcome: Outcome | None = None
    for name, settings in OURS.items():
        earlier = outcome.model.arrays() if outcome else None
        driven = learn({**world.config, **settings}, sites, earlier)
        outcome = driven.outcome
        assert isinstance(outcome, Outcome)
        learning, prediction = (Seconds(each.all, each.together, each.center) for each in spent(driven.rounds))
        learnt = learnt or learning
        assert outcome.queries is not None
        assert outcome.queries.y is not None
        assert outcome.fused is not None
        units = outcome.model.federation.units
        y = units.outputs(outcome.queries.y)
        scored = _scored(y, outcome.fused.mean, outcome.fused.variance, learnt, prediction, loaded)
        found[name] = replace(scored, rounds=outcome.model.fit.rounds or found["consilience"].rounds)
    return found


# -- peers ------------------------------------------------------------------------------------------------------------


def _peer(peer: Peer, world: World) -> Found:
    scenario = find(world.scenario)
    assert scenario.queries
    shards, queries = scenario.shards(world.config, world.seed, world.parts), scenario.queries(world.config, world.seed)
    assert queries.y is not None
    rows, outputs = np.concatenate([shard.x for shard in shards]), np.concatenate([shard.y for shard in shards])
    units = pooled(moments_of(rows, outputs))
    x, y, points = units.inputs(rows), units.outputs(outputs), units.inputs(queries.x)
    loaded = memory("VmRSS")
    with single_threaded():
        marks = [time.process_time()]
        predict = peer(x, y, world.seed)
        marks.append(time.process_time())
        mean, variance = predict(points)
        marks.append(time.process_time())
    learning, prediction = (Seconds(float(seconds)) for seconds in np.diff(marks))
    return _scored(units.outputs(queries.y), mean, variance, learning, prediction, loaded)


def _scored(y: Numbers, mean: Numbers, variance: Numbers, learning: Seconds, prediction: Seconds, loaded: int) -> Found:
    return Found(
        learning=learning,
        prediction=prediction,
        smse=smse(y, mean),
        msll=msll(y, mean, variance, 0.0, 1.0),
        coverage=coverage(y, mean, variance, _LEVEL),
        peak=memory("VmHWM"),
        loaded=loaded,
    )


def main() -> None:
    """In a process of its own: measure one way, print it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gp_ways")
    parser.add_argument("way")
    parser.add_argument("world", type=json.loads, help="fields of `World`, as JSON")
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.WARNING)
    found = run_way(options.way, World(**options.world))
    print(json.dumps({name: asdict(each) for name, each in found.items()}))


if __name__ == "__main__":
    main()
