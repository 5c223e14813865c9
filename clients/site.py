"""A site as its handlers see it: private shard, memory, randomness, policy, commitments, output files."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context, RecordDict

from clients.budget import Budget
from clients.commitments import Commitments
from clients.consents import Consents
from clients.data.source import partition_of
from clients.keys import PrivateKeys, turns_in
from clients.memory import Arrays, Memory, MemoryStore
from clients.places import directory_of, earlier_directory, is_simulation
from clients.policy import FEWEST_ROWS, Policy, policy_of
from clients.shards import cell_settings, has_own_data, own_table, persons_or_rows, shard
from common.csv_text import csv_text
from common.files import encode_text, replacing
from numerics.shared.folds import rows_that_hold
from protocols.settings import taken_from_run
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask
from protocols.wire.payload import Payload

if TYPE_CHECKING:
    from clients.data import Table


@dataclass
class Site:
    """One site in one lane, as its handlers see it.

    Attributes
    ----------
    name : str
        Name of the site.
    config : Mapping
        The run configuration overridden by the node configuration.
    simulated : bool
        Whether it is a simulated SuperNode.
    directory : Path or None
        The site's own directory, for output files; None: the site has set none.
    earlier_directory : Path or None
        Directory of the site's files of an earlier run.
    seed, round : int
        Seed and round of the ask.
    session : str
        The fusion center's name of the run.
    lane : str
        Number of the conversation among those of the run.
    with_history : bool
        Whether the ask brings all earlier asks, so that the site's memory is complete.
    commitments : Commitments
        Values that the center may not change during the run, and counters of the run.
    policy : Policy
        The site's policy: which asks it answers.
    budget : Budget
        Account of the site's data over all runs.
    keys : PrivateKeys
        Private keys of the run, which are in no file.
    replaying : bool
        True while replaying an earlier round; the answer is discarded.
    masked : bool
        Whether the answer will be masked, so that the center sees a sum only.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> node, run = {"partition-id": 0, "num-partitions": 2}, {"scenario": "sec-simulation1", "output-dir": ""}
    >>> context = Context(run_id=1, node_id=5, node_config=node, state=RecordDict(), run_config=run)
    >>> site = Site.open("north", context, Ask("session", round=2, seed=0, parcels=()))
    >>> site.name, site.round, site.repetition, site.policy.trusts_center
    ('north', 2, 0, True)
    >>> site.of_repetition("theta.csv")
    'theta.csv'
    """

    name: str
    config: Mapping[str, Any]
    simulated: bool
    directory: Path | None
    earlier_directory: Path | None
    seed: int
    round: int
    session: str
    lane: str
    with_history: bool
    commitments: Commitments
    policy: Policy
    budget: Budget
    _arrays: Arrays
    _store: MemoryStore
    keys: PrivateKeys
    replaying: bool = False
    masked: bool = False

    @classmethod
    def open(cls, name: str, context: Context, ask: Ask) -> Site:
        """Return the site with its memory of the run."""
        directory = directory_of(name, context)
        state, run_id, simulated = context.state, context.run_id, is_simulation(context)
        of_run = context.run_config if simulated else taken_from_run(context.run_config)
        config = {**of_run, **context.node_config}
        policy = policy_of(context.node_config, simulated=simulated)
        if context.run_config.get("secure-aggregation"):  # whoever starts the run relies on masks
            policy = replace(policy, secure_aggregation=True)
        session, earlier = ask.session, earlier_directory(name, context)
        own = has_own_data(config)
        if not own:
            policy = policy.for_public_rows()
            if not simulated:  # what leaves unprotected must not have come from the site's own rows
                session, earlier = f"scenario.{session}", None
        store, own = MemoryStore(state, directory, session), own and not simulated
        return cls(
            name=name,
            config=config,
            simulated=simulated,
            directory=directory,
            earlier_directory=earlier,
            seed=ask.seed,
            round=ask.round,
            session=ask.session,
            lane="0",
            with_history=bool(ask.history),
            commitments=Commitments(RecordDict(), 0, binding=False)
            if simulated
            else Commitments(state, run_id, directory, binding=own),
            policy=policy,
            budget=Budget(
                directory if own else None, context.node_config, policy.budget, run_id, policy.fewest_new_rows
            ),
            _arrays=_recall(store, ask),
            _store=store,
            keys=PrivateKeys(state, run_id, None if simulated else turns_in(directory)),
        )

    def charge(self, *asks: Payload, amounts: Mapping[str, int] | None = None) -> None:
        """Charge the budget of the site's data; a replay charges nothing.

        Parameters
        ----------
        *asks : Payload
            Each is charged what its `spends` says.
        amounts : Mapping or None
            Further amounts by kind (`protocols.budget.KINDS`).

        Raises
        ------
        SiteFault
            If the budget is spent.
        """
        if self.replaying:
            return
        total = Counter(amounts)
        for ask in asks:
            total.update({kind: max(amount, 0) for kind, amount in ask.spends().items()})
        self.budget.charge(total)

    def in_earlier_round(self, number: int) -> Site:
        """Return the same site while it replays an earlier round of the run."""
        return replace(self, round=number, replaying=True, commitments=self.commitments.uncounted())

    def settle_round(self, number: int) -> None:
        """Take the present memory as that after a replayed round."""
        self._store.settle(number, self._arrays)

    def in_lane(self, lane: str) -> Site:
        """Return the same site in another lane, with the settings of that lane's cell of the scenario's table."""
        return replace(self, lane=lane, config={**self.config, **cell_settings(self.config, lane)})

    def close(self) -> None:
        """Store the commitments and the memory."""
        self.commitments.save()
        self._store.store(self.round, self._arrays)

    @property
    def consents(self) -> Consents:
        """The site's consents, from its own configuration."""
        return Consents(self.config, self.policy, self.rows_that_hold)

    @property
    def has_private_rows(self) -> bool:
        """Whether the rows are a real site's own, neither simulated nor from a scenario."""
        return not self.policy.trusts_center

    @property
    def repetition(self) -> int:
        """Number of the scenario's draw in this lane: the first number of the lane."""
        return int(self.lane.partition(".")[0] or 0)

    @property
    def memory(self) -> Memory:
        """The site's memory between asks, of this lane."""
        return Memory(self._arrays, self.lane)

    @cached_property
    def shard(self) -> Any:
        """The site's data of this lane's repetition, as the protocol uses them.

        Raises
        ------
        SiteFault
            If the data cannot be used, or own data have fewer rows than the policy demands.
        """
        own = shard(self.config, *partition_of(self.config), self.seed + self.repetition, simulated=self.simulated)
        n_rows = persons_or_rows(own)
        if n_rows is not None and self.config.get("protocol"):
            least = self.policy.to_take_part(Consents(self.config, self.policy).number("min-rows", FEWEST_ROWS))
            if n_rows < least:
                raise SiteFault(Fault.FEW_ROWS_FOR_POLICY, f"{n_rows} rows or persons, min-rows is {least}")
        return own

    def rows_that_hold(self, least: int) -> int:
        """Return a floor of rows, raised to the policy's; if rows belong to persons, it is also one of persons.

        Any rows of that number are of as many persons as the floor demands (docs/own-data.md).
        """
        least = self.policy.at_least(least)
        return least if least <= 1 else rows_that_hold(least, getattr(self.shard, "person", None))

    @property
    def table(self) -> Table:
        """The site's own table."""
        return own_table(self.config, *partition_of(self.config), simulated=self.simulated)

    @property
    def medians(self) -> Mapping[str, float]:
        """Medians that fill empty cells of the site's own table, by column; empty unless ``missing=impute``."""
        return self.table.medians if self.config.get("missing") == "impute" and self.config.get("protocol") else {}

    def write_medians(self) -> None:
        """Write ``medians.csv``, for the preparation of rows to predict later; nothing without medians."""
        if medians := self.medians:
            columns: dict[str, Sequence[object]] = {"column": list(medians), "median": list(medians.values())}
            self.write("medians.csv", lambda path: path.write_bytes(encode_text(csv_text(columns))))

    def rng_of(self, digest: Sequence[int]) -> np.random.Generator:
        """Return a generator that depends on seed, repetition and digest of rows: the same in every ask and cell."""
        return np.random.default_rng([self.seed, self.repetition, *digest])

    def write(self, name: str, save: Callable[[Path], object]) -> None:
        """Write an output file in the site's own directory, whole or not at all; nothing if there is no directory.

        Parameters
        ----------
        name : str
            Name of the file, perhaps with a folder; as in `of_repetition`.
        save : Callable
            Writes the content to a path.

        Raises
        ------
        SiteFault
            If the file cannot be written.
        """
        if self.directory is None:
            return
        path = self.directory / self.of_repetition(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                save(temporary)
        except OSError as error:
            raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, str(error)) from error

    def of_repetition(self, name: str) -> str:
        """Return the name of a file in this repetition, with the repetition's number unless it is 0.

        Examples
        --------
        In repetition 2, ``theta.csv`` is ``theta-2.csv`` and ``models/run.npz`` is ``models-2/run.npz``.
        """
        first, slash, rest = name.partition("/")
        stem, dot, ending = first.partition(".")
        return name if self.repetition == 0 else f"{stem}-{self.repetition}{dot}{ending}{slash}{rest}"

    def log_failure(self, number: int) -> bool:
        """Write the current exception to the site's own log file; False if that fails, or there is no directory."""
        if self.directory is None:
            return False
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            # Names of files, and what others sent, may hold what UTF-8 does not.
            with (self.directory / "errors.log").open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"round {number}\n{traceback.format_exc()}\n")
        except OSError:
            return False  # a full disk must not keep the site from refusing
        return True


def _recall(store: MemoryStore, ask: Ask) -> Arrays:
    """Return the memory that an ask starts from; none if the ask brings its history."""
    if ask.history:
        return store.forget()
    return store.load(ask.round) if ask.parcels else {}
