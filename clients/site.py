"""A site as its handlers see it: private shard, memory, randomness, name, output directory."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context

from clients.commitments import Commitments, NoCommitments
from clients.consents import Consents
from clients.digest import digest_of
from clients.keys import PrivateKeys, turns_in
from clients.ledger import Ledger
from clients.memory import Arrays, Memory, MemoryStore
from clients.policy import FEWEST_ROWS, Policy, policy_of
from clients.shards import cell_settings, is_simulated, own_table, party_name, shard
from common.files import replacing
from common.results import partial_results
from protocols.settings import taken_from_run
from protocols.wire.faults import Fault, SiteFault, usable_name
from protocols.wire.message import Ask

if TYPE_CHECKING:
    from clients.data import Table


def is_simulation(context: Context) -> bool:
    """Whether this is a simulated SuperNode."""
    return is_simulated(context.node_config)


def private_files(context: Context) -> None:
    """Let what a real site writes be read by the user that its SuperNode runs as, and by nobody else."""
    if not is_simulation(context):
        os.umask(0o077)


def site_name(context: Context) -> str:
    """The name by which everybody knows this site.

    The node configuration's ``site``; in a simulation the stem of its data file or ``site-NUMBER``; else its node id.

    Raises
    ------
    SiteFault
        If the name could not be a file name everywhere.
    """
    if "site" in context.node_config:
        name = str(context.node_config["site"])
    elif is_simulation(context):
        name = party_name(context.run_config, *_partition(context.node_config))
    else:
        name = f"node-{context.node_id}"
    if not usable_name(name):
        raise SiteFault(Fault.BAD_SITE_NAME, f"{name!r} is not a usable site name")
    return name


def model_file(run: str, ending: str) -> str:
    """Where in its directory a site keeps what a run has learnt: ``models/RUN.ENDING``.

    Raises
    ------
    SiteFault
        ``MALFORMED_ASK``: the fusion center says which run, and its word must not lead to another folder.
    """
    if not usable_name(run):
        raise SiteFault(Fault.MALFORMED_ASK, f"{run!r} is no name of a run")
    return f"models/{run}.{ending}"


def _partition(node_config: Mapping[str, Any]) -> tuple[int, int]:
    return int(node_config.get("partition-id", 0)), int(node_config.get("num-partitions", 1))


def _directory(name: str, context: Context) -> Path | None:
    """The site's own directory: ``site-output-dir``, or in a simulation ``RESULTS-DIR/sites/NAME``."""
    if "site-output-dir" in context.node_config:
        return Path(str(context.node_config["site-output-dir"])).expanduser().absolute()
    if is_simulation(context) and context.run_config.get("output-dir"):
        return partial_results(context.run_config, context.run_id) / "sites" / name
    return None


def own_directory(context: Context) -> Path | None:
    """The directory that a real site has set; None: it has set none, or is simulated."""
    return None if is_simulation(context) else _directory("", context)


def ledger_of(name: str, context: Context) -> Ledger:
    """Where a site writes down what leaves it; a scenario's rows are nobody's: simulated, it keeps none of them."""
    simulated = is_simulation(context)
    directory = None if simulated and not (name and context.run_config.get("protocol")) else _directory(name, context)
    return Ledger(directory, name, context.run_id, synced=not simulated)


@dataclass
class Site:
    """One site in one lane, as its handlers see it.

    Attributes
    ----------
    name : str
        Its name.
    config : Mapping
        The run configuration overridden by the node configuration.
    simulated : bool
        Whether it is a simulated SuperNode.
    directory : Path or None
        Its own directory, for output files; None: the site has set none.
    seed, round : int
        Of the ask.
    session : str
        The fusion center's name of the run.
    lane : str
        Which of the conversations that the run leads at once.
    with_history : bool
        Whether the ask brings all earlier asks: what the site does not remember now, it has never known.
    commitments : Commitments
        Values that the center may not change during the run, and counters of the run.
    policy : Policy
        Which asks it answers.
    keys : PrivateKeys
        Private keys of the run, which are in no file.
    replaying : bool
        True while replaying an earlier round; the answer is discarded.
    masked : bool
        Whether the answer will be masked, so that the center sees a sum only.
    """

    name: str
    config: Mapping[str, Any]
    simulated: bool
    directory: Path | None
    seed: int
    round: int
    session: str
    lane: str
    with_history: bool
    commitments: Commitments
    policy: Policy
    _arrays: Arrays
    _store: MemoryStore
    keys: PrivateKeys
    replaying: bool = False
    masked: bool = False

    @classmethod
    def open(cls, name: str, context: Context, ask: Ask) -> Site:
        """Return the site with what it remembers of the run."""
        directory = _directory(name, context)
        store = MemoryStore(context.state, directory, ask.session)
        state, run_id, simulated = context.state, context.run_id, is_simulation(context)
        of_run = context.run_config if simulated else taken_from_run(context.run_config)
        return cls(
            name=name,
            config={**of_run, **context.node_config},
            simulated=simulated,
            directory=directory,
            seed=ask.seed,
            round=ask.round,
            session=ask.session,
            lane="0",
            with_history=bool(ask.history),
            commitments=NoCommitments() if simulated else Commitments(state, run_id, directory),
            policy=policy_of(context.node_config, simulated=simulated),
            _arrays=_remembered(store, ask),
            _store=store,
            keys=PrivateKeys(state, run_id, None if simulated else turns_in(directory)),
        )

    def in_earlier_round(self, number: int) -> Site:
        """Return the same site in an earlier round of the run, which it replays."""
        return replace(self, round=number, replaying=True, commitments=self.commitments.uncounted())

    def settle_round(self, number: int) -> None:
        """Take the memory as that after an earlier round, which has been replayed."""
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
        """What the site agrees to in its own configuration."""
        return Consents(self.config, self.policy)

    @property
    def repetition(self) -> int:
        """Which draw of the scenario this lane works on: the first number of the lane."""
        return int(self.lane.partition(".")[0] or 0)

    @property
    def memory(self) -> Memory:
        """What the site remembers between asks in this lane."""
        return Memory(self._arrays, self.lane)

    @cached_property
    def shard(self) -> Any:
        """The site's data of this lane's repetition, as the protocol uses them.

        Raises
        ------
        SiteFault
            With the code of what is wrong with the data; or if own data have fewer rows than the policy demands.
        """
        own = shard(self.config, *_partition(self.config), self.seed + self.repetition, simulated=self.simulated)
        n_rows = getattr(own, "n", None)  # None: read in blocks, and the protocol has a floor of its own
        if n_rows is not None and self.config.get("protocol"):
            least = self.policy.to_take_part(self.consents.number("min-rows", FEWEST_ROWS))
            if n_rows < least:
                raise SiteFault(Fault.FEW_ROWS_FOR_POLICY, f"{n_rows} rows, min-rows is {least}")
        return own

    @property
    def table(self) -> Table:
        """The site's own table as it is read now."""
        return own_table(self.config, *_partition(self.config), simulated=self.simulated)

    @property
    def rng(self) -> np.random.Generator:
        """Randomness of this ask: it depends on seed, lane, round and the shard, not on the site's name or place."""
        lane = [int(part) for part in self.lane.split(".") if part]
        return np.random.default_rng([self.seed, self.round, *lane, *digest_of(self.shard)])

    @property
    def shard_rng(self) -> np.random.Generator:
        """Randomness that depends on seed, repetition and the shard only: the same in every ask and every cell."""
        return self.rng_of(digest_of(self.shard))

    def rng_of(self, digest: Sequence[int]) -> np.random.Generator:
        """Return randomness that depends on seed, repetition and the digest of a part of the shard."""
        return np.random.default_rng([self.seed, self.repetition, *digest])

    def earlier_files(self, key: str) -> Path:
        """Where its files of an earlier run lie: its own directory, or, simulated, in the results that `key` names.

        Raises
        ------
        SiteFault
            ``NO_SAVED_MODEL`` if it has no directory.
        """
        if self.simulated:
            return Path(str(self.config.get(key, "")).strip()).expanduser() / "sites" / self.name
        if self.directory is None:
            raise SiteFault(Fault.NO_SAVED_MODEL, "site-output-dir is not set, so no model was kept")
        return self.directory

    def write(self, name: str, save: Callable[[Path], object]) -> None:
        """Have an output file in the site's own directory, whole or not at all; nothing when the site has set none.

        Parameters
        ----------
        name : str
            Of the file, which may lie in a folder; a repetition other than 0 puts its number behind the folder's name,
            or before the file's ending.
        save : Callable
            Writes the content to the path that it is given.

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
        """What a file or folder is called in this repetition."""
        first, slash, rest = name.partition("/")
        stem, dot, ending = first.partition(".")
        return name if self.repetition == 0 else f"{stem}-{self.repetition}{dot}{ending}{slash}{rest}"

    def log_failure(self, number: int) -> None:
        """Write the exception being handled to the site's own log file."""
        if self.directory is None:
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            # Names of files, and what others sent, may hold what UTF-8 does not.
            with (self.directory / "errors.log").open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"round {number}\n{traceback.format_exc()}\n")
        except OSError:
            pass  # a full disk must not keep the site from saying that it failed


def _remembered(store: MemoryStore, ask: Ask) -> Arrays:
    """What an ask starts from; of one that brings its history, nothing."""
    if ask.history:
        return store.forget()
    return store.load(ask.round) if ask.parcels else {}
