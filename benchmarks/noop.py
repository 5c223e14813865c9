"""A Flower app whose rounds do nothing: what `benchmarks.rounds` times.

One ServerApp starts three fusion centers in turn on the same nodes: Flower's own FedAvg, a `FusionStrategy`, and a
`FusionStrategy` that keeps a checkpoint, as every run of ours does. All three move one number to each site and back. It
is staged beside the project's own packages, of which it uses what every protocol uses: payload codec, dispatch, site.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy
from jaxtyping import Float64

from clients.dispatch import answers, handle
from clients.site import Site
from protocols.wire.message import ENVELOPE
from protocols.wire.payload import Payload
from strategies.checkpoint import Checkpoint
from strategies.conversation import Answers, Broadcast, Conversation
from strategies.fusion import FusionStrategy, connected_nodes

START_SECONDS = 300.0


@dataclass(frozen=True)
class Pong(Payload):
    """Up: the number, as it came."""

    number: Float64[np.ndarray, "1"]


@dataclass(frozen=True)
class Ping(Payload, answer=Pong):
    """Down: a number."""

    number: Float64[np.ndarray, "1"]


# -- the site ---------------------------------------------------------------------------------------------------------

client = ClientApp()


@answers(Ping)
def pong(ask: Ping, site: Site) -> Pong:
    """Nothing to do."""
    return Pong(ask.number)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer whichever fusion center asks."""
    if ENVELOPE in message.content.config_records:
        return handle(message, context)
    content = RecordDict({"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)


# -- the fusion centers -----------------------------------------------------------------------------------------------


class Clock:
    """When each round ended, and how long the fusion center's own hooks took in it.

    The first interval is left out: it holds what a strategy does once.
    """

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.hooks: list[float] = []
        self._in_hooks = 0.0

    def round_ended(self) -> None:
        """To be called once a round, at the same place of each."""
        self.ends.append(time.perf_counter())
        self.hooks.append(self._in_hooks)
        self._in_hooks = 0.0

    def add(self, started: float) -> None:
        """A hook that began at `started` has ended."""
        self._in_hooks += time.perf_counter() - started

    def rounds(self) -> list[tuple[float, float]]:
        """Seconds of each round, and of its hooks."""
        return list(zip(np.diff(self.ends).tolist(), self.hooks[1:], strict=True))[1:]


class _Timed(Strategy):
    """Times the hooks of the strategy that it is mixed into, and changes nothing else."""

    clock: Clock

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy's own."""
        started = time.perf_counter()
        messages = super().configure_train(server_round, arrays, config, grid)  # type: ignore[safe-super]
        self.clock.add(started)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """As the strategy's own."""
        started = time.perf_counter()
        aggregated = super().aggregate_train(server_round, replies)  # type: ignore[safe-super]
        self.clock.add(started)
        return aggregated


class TimedFedAvg(_Timed, FedAvg):
    """Flower's FedAvg."""

    def __init__(self, clock: Clock, n_sites: int) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=n_sites, min_available_nodes=n_sites)
        self.clock = clock


class TimedFusion(_Timed, FusionStrategy):
    """A fusion center that asks for nothing, `rounds` times."""

    def __init__(self, clock: Clock, n_sites: int, rounds: int, checkpoint: Checkpoint | None) -> None:
        super().__init__(min_sites=n_sites, n_sites=n_sites, session="noop", checkpoint=checkpoint)
        self.clock, self.rounds = clock, rounds

    def conversation(self, repetition: int = 0) -> Conversation[None]:
        """Ping, pong."""
        number = np.zeros(1)
        self.clock.round_ended()
        for _ in range(self.rounds):
            answered: Answers = yield Broadcast(Ping(number))
            number = np.mean([each.number for each in answered.values()], axis=0)
            self.clock.round_ended()


def time_fedavg(grid: Grid, n_sites: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds of each round of FedAvg, and of its hooks."""
    clock = Clock()
    TimedFedAvg(clock, n_sites).start(
        grid,
        ArrayRecord([np.zeros(1)]),
        num_rounds=rounds,
        evaluate_fn=lambda number, arrays: clock.round_ended(),
    )
    return clock.rounds()


def time_fusion(grid: Grid, n_sites: int, rounds: int, *, saved: bool) -> list[tuple[float, float]]:
    """Seconds of each round of our base class, and of its hooks; `saved`: with a checkpoint."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder), {}, "noop") if saved else None
        TimedFusion(clock, n_sites, rounds, checkpoint).start(grid)
    return clock.rounds()


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """The three in turn, several times over; writes their seconds to ``noop.output``."""
    config = context.run_config
    n_sites, rounds = int(config["noop.sites"]), int(config["noop.rounds"])
    connected_nodes(grid, n_sites, START_SECONDS)
    timed: dict[str, list[tuple[float, float]]] = {"FedAvg": [], "FusionStrategy": [], "with checkpoint": []}
    for repetition in range(int(config["noop.repetitions"]) + 1):
        found = {
            "FedAvg": time_fedavg(grid, n_sites, rounds),
            "FusionStrategy": time_fusion(grid, n_sites, rounds, saved=False),
            "with checkpoint": time_fusion(grid, n_sites, rounds, saved=True),
        }
        if repetition:  # the first is the warm-up
            for name, seconds in found.items():
                timed[name] += seconds
    Path(str(config["noop.output"])).write_text(json.dumps(timed))
