"""The base class of all fusion centers: a conversation carried through Flower's own hooks."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from strategies.checkpoint import Checkpoint
from strategies.conversation import Conversation, together
from strategies.errors import FusionError
from strategies.exchange import Stopwatch, wait_for_nodes
from strategies.influence import Influence
from strategies.result import FusionResult, Reference
from strategies.round_callbacks import OnRound, RoundCallbacks
from strategies.run import ConversationRun

__all__ = ["FusionResult", "FusionStrategy", "Influence", "Reference"]

logger = logging.getLogger("flwr")

_SESSIONS: WeakKeyDictionary[Grid, int] = WeakKeyDictionary()
"""Number of sessions that each grid's run has named."""


class FusionStrategy(Strategy):
    """A fusion center: it asks the sites, fuses their answers, and decides when to stop.

    A subclass implements `conversation`. `start` runs it: each round sends the asks that the conversation yields, and
    returns the decoded and checked answers to it, by site in the order of names.

    After the run ``server.evaluation`` calls the other hooks with the conversation's outcome: `metrics`, `costs` and
    `excluded` once for each repetition; `arrays`, `diagnostics`, `influence`, `table`, `notes` and `files` once for the
    first one. All of them are optional. They only hand over results; `diagnostics` and `influence` may compute for
    seconds.

    Parameters
    ----------
    seed : int
        Seed of everything random, here and at the sites.
    repetitions : int
        Number of conversations side by side in the same rounds, each on its own draw of the scenario.
    min_sites : int
        Fewest sites: the run stops if fewer have answered their last ask.
    n_sites : int
        Number of sites to wait for at the start (0: `min_sites`).
    session : str
        Name under which the sites keep their memory of this conversation; empty: every `start` makes a new one from the
        number of Flower's run.
    checkpoint : Checkpoint or None
        Store of the answers. Rounds that it already holds are replayed first.
    masked : bool
        Whether sites mask answers that are only summed (``secure-aggregation``).
    max_payload : int
        Most bytes of an answer; larger ones are refused. 0: no limit.
    at_once : int
        Number of repetitions that share rounds, and so a site's message; 0: all.
    reference : Reference
        The center's own knowledge: earlier results, and data to judge results by.
    message_type : str
        Flower's type of all messages, which chooses the function of the sites' ClientApp: ``train``, or for example
        ``query.consilience``.
    on_round : Callable, or sequence of them
        Called after every round with its row of `FusionResult.convergence`; after a resume, also with the rows of the
        saved rounds. An exception in a callback is logged once and does not stop the run.

    Examples
    --------
    A fusion center that counts the sites that answer one ask:

    >>> from protocols.secure_aggregation.payloads import Join
    >>> from strategies.conversation import Broadcast
    >>> class Count(FusionStrategy):
    ...     def conversation(self, repetition=0):
    ...         answers = yield Broadcast(Join("count"))
    ...         return len(answers)
    ...
    ...     def metrics(self, outcome):
    ...         return {"n_sites": float(outcome)}

    A conversation needs no grid to be tested: take its request and send it answers.

    >>> type(next(Count().conversation())).__name__
    'Broadcast'
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        repetitions: int = 1,
        min_sites: int = 1,
        n_sites: int = 0,
        session: str = "",
        checkpoint: Checkpoint | None = None,
        masked: bool = False,
        max_payload: int = 0,
        at_once: int = 0,
        reference: Reference | None = None,
        message_type: str = "train",
        on_round: OnRound | Sequence[OnRound] = (),
    ) -> None:
        self.seed = seed
        self.at_once = at_once
        self.reference = reference or Reference()
        self.repetitions = repetitions
        self.min_sites = min_sites
        self.n_sites = n_sites
        self.session = checkpoint.session if checkpoint else session
        self.named_by_run = not self.session
        self.message_type = message_type
        self.on_round = on_round
        self.checkpoint = checkpoint
        self.masked, self.max_payload = masked, max_payload
        self.in_table = False
        self._run: ConversationRun | None = None

    @abstractmethod
    def conversation(self, repetition: int = 0) -> Conversation[Any]:
        """Yield the asks of this fusion center, and return its outcome.

        Parameters
        ----------
        repetition : int
            Number of the repetition; its seed is ``self.seed + repetition``.
        """

    def metrics(self, outcome: Any) -> dict[str, float]:
        """Return numbers of `report.json` by name, of one repetition's outcome."""
        return {}

    def costs(self, lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Return further `metrics` of one repetition, computed from its lines of the ledger.

        Parameters
        ----------
        lines : Sequence of Mapping
            The repetition's lines of the ledger (`protocols.wire.message.ledger_lines`), in the order of the rounds,
            with those of inner lanes. Envelopes belong to no repetition and are not included.
        """
        return {}

    def arrays(self, outcome: Any) -> dict[str, np.ndarray]:
        """Return arrays of `arrays.npz` by name, from the first repetition's outcome; never a site's private rows."""
        return {}

    def diagnostics(self, outcome: Any) -> dict[str, np.ndarray]:
        """Compute optional arrays of `arrays.npz` by name, for figures, from the first repetition's outcome.

        Called once, after the run. Unlike `arrays`, it may compute for a few seconds.
        """
        return {}

    def influence(self, outcome: Any) -> Influence | None:
        """Compute the first repetition's result without each site; None: the protocol does not define it.

        The center asks no site for it. If it lacks the answers, it returns `Influence.unknown_since` with the reason.
        """
        return None

    def curves(self, outcome: Any) -> dict[str, np.ndarray]:
        """Return arrays ``(t,)`` by name, from one outcome: a table has them for every cell and repetition."""
        return {}

    def table(self, metrics: Mapping[str, float], outcome: Any) -> list[dict[str, Any]]:
        """Return rows of the result table, from the metrics of all repetitions and the first repetition's outcome."""
        return []

    def excluded(self, outcome: Any) -> Mapping[str, str]:
        """Return the sites that answered but were left out of one repetition, and why."""
        return {}

    def files(self, outcome: Any) -> dict[str, bytes]:
        """Return files to write beside `report.json`, by name, of the first repetition's outcome."""
        return {}

    def notes(self, outcome: Any) -> list[str]:
        """Return warnings to read before using one repetition's result, a sentence each."""
        return []

    @property
    def sites(self) -> list[str]:
        """Names of the sites that have answered so far, in order."""
        return sorted(self._run.registry.sites) if self._run else []

    # -- the run ------------------------------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> FusionResult:
        """Carry the conversation to its end.

        Parameters
        ----------
        grid : Grid
            Flower's connection to the nodes.
        num_rounds : int
            Most rounds; 0: no limit.
        timeout : float
            Seconds to wait for the nodes at the start, and for the answers of a round.
        initial_arrays, train_config, evaluate_config, evaluate_fn
            Part of Flower's signature, and not used.

        Returns
        -------
        FusionResult
            The conversation's outcomes, and the record of the run.

        Raises
        ------
        FusionError
            When fewer than `min_sites` sites answer, two sites have one name, or `num_rounds` do not suffice.
        """
        if self.named_by_run:
            self.session = next_session(grid)
        callbacks = RoundCallbacks(self.on_round)
        run = self._begin()
        number = run.replay()
        callbacks.call(run.result.convergence)
        if run.request is not None:
            wait_for_nodes(grid, max(self.n_sites, self.min_sites), timeout)
        stopwatch = Stopwatch()
        while run.request is not None:
            if num_rounds and number >= num_rounds:
                raise FusionError(f"the conversation did not end within num_rounds={num_rounds}")
            run.greet_if_needed(grid, timeout)
            number += 1
            messages = list(self.configure_train(number, ArrayRecord(), ConfigRecord(), grid))
            replies = run.exchange(grid, messages, timeout)
            self.aggregate_train(number, run.remind(grid, number, replies, timeout))
            callbacks.call(run.result.convergence[-1:])
        run.result.seconds = stopwatch.seconds
        run.result.rounds = number
        run.result.sites = self.sites
        run.result.lost = run.lost
        return run.result

    def _begin(self) -> ConversationRun:
        """Start the repetitions' conversations; nothing is sent yet."""
        lanes = {str(r): self.conversation(r) for r in range(self.repetitions)}
        self._run = ConversationRun(
            together(lanes, self.at_once),
            session=self.session,
            seed=self.seed,
            min_sites=self.min_sites,
            max_payload=self.max_payload,
            checkpoint=self.checkpoint,
            message_type=self.message_type,
            shows_first_lane=not self.at_once,
        )
        return self._run

    # -- Flower's hooks -----------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Turn what the conversation yielded into messages."""
        assert self._run is not None  # noqa: S101 - start has made it
        return self._run.messages(server_round, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode the replies and resume the conversation."""
        assert self._run is not None  # noqa: S101 - start has made it
        self._run.receive(server_round, replies)
        return None, MetricRecord(dict(self._run.result.convergence[-1]))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return no message: a conversation evaluates by asking."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return nothing; see `configure_evaluate`."""
        return None

    def summary(self) -> None:
        """Log the strategy's name, seed and fewest sites."""
        logger.info("%s: seed %d, min-sites %d", type(self).__name__, self.seed, self.min_sites)


def next_session(grid: Grid) -> str:
    """Return a new name for a session: the number of Flower's run, with a counter from the second session on.

    Two consecutive strategies of one ServerApp must not share the sites' memory.
    """
    number = _SESSIONS[grid] = _SESSIONS.get(grid, 0) + 1
    return f"{grid.run.run_id}" if number == 1 else f"{grid.run.run_id}-{number}"
