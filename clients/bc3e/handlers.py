"""A site's answers in BC3E: E-steps on its private instances, its part of shared ones, and betas that only it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped, UInt64

from clients.bc3e import prediction
from clients.bc3e.consent import agree_on, check_places, commit_to, keeps_setup, refuse_single_model
from clients.bc3e.results import count, threads, write_theta
from clients.bc3e.saved_tables import save_tables
from clients.dispatch import answers
from clients.keys import shared_secret
from clients.memory import Memory
from clients.site import Site
from common.entity_keys import keyed_hashes
from common.files import write_arrays
from numerics.bc3e.anderson import ParameterBlock
from numerics.bc3e.e_step import EStepSettings, add_alpha, cold_start, e_step, shares
from numerics.bc3e.ensemble import Ensemble, n_values
from numerics.bc3e.grid import one_to_grid
from numerics.bc3e.m_step import initial_beta, maximize_beta, smoothing_bound
from numerics.bc3e.responsibilities import likelihood_table
from protocols.bc3e.payloads import (
    LARGEST_TABLE,
    MOST_BITS,
    MOST_CLASSES,
    MOST_SWEEPS,
    Conclude,
    EStep,
    Holdings,
    Setup,
    Shares,
    Starts,
    Statistics,
    Survey,
    Sweep,
    Tally,
)
from protocols.wire.faults import Fault, SiteFault

# -- what the site holds ----------------------------------------------------------------------------------------------


@answers(Survey)
def survey(ask: Survey, site: Site) -> Holdings:
    """Answer names and sizes and, where instances may be shared, keyed hashes of their names."""
    shard: Ensemble = site.shard
    keys = np.zeros(0, np.uint64)
    if ask.distribution != "row":
        refuse_single_model(site)
        keys = instance_keys(shard, ask.salt, shared_secret(site.config))
    return Holdings(
        instances=shard.n,
        n_classes=max((n_values(labels) for labels in shard.classifiers.values()), default=0),
        classifiers=tuple(shard.classifiers),
        clusterings=tuple(shard.clusterings),
        n_clusters=np.array([n_values(labels) for labels in shard.clusterings.values()], np.int64),
        keys=keys,
        has_truth=shard.truth is not None and bool((shard.truth >= 0).any()),
    )


def instance_keys(shard: Ensemble, salt: str, secret: bytes = b"") -> UInt64[np.ndarray, "n"]:
    """Return keyed 64-bit hashes of the instances' names, or without names of their row numbers."""
    names = np.arange(shard.n) if shard.entity is None else shard.entity
    return keyed_hashes(names, secret, salt)[:, 0].copy()


@answers(Setup)
def setup(ask: Setup, site: Site) -> Starts:
    """Remember the setup, and answer where the shared instances start."""
    shard: Ensemble = site.shard
    refuse_single_model(site)  # also if the center has sent no `Survey`
    check_places(ask.own, len(shard.clusterings), "own clusterings")
    _check_sizes(ask, shard)
    agree_on(ask.shared, site)
    own = np.zeros(len(shard.clusterings), np.int64)
    own[ask.own] = 1
    site.memory["own"] = own
    site.memory["shared"] = ask.shared
    site.memory["n_clusters"] = ask.n_clusters
    part = shard.rows(ask.shared)
    start = cold_start(part.classifiers, part.clusterings, part.n, ask.n_classes, ask.grid_bits)
    return Starts(start)


def _check_sizes(ask: Setup, shard: Ensemble) -> None:
    """Refuse sizes out of range: a few bytes could ask for tables of terabytes."""
    k, widths = ask.n_classes, ask.n_clusters
    sound = (
        1 <= k <= MOST_CLASSES
        and 0 <= ask.grid_bits <= MOST_BITS
        and len(widths) == len(shard.clusterings)
        and ((widths >= 1) & (widths <= LARGEST_TABLE // k)).all()
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the numbers of classes, clusters or bits are out of range")


# -- the E-step -------------------------------------------------------------------------------------------------------


@dataclass
class _FitState:
    """The state of a fit in one lane, unpacked from the site's memory.

    A setup belongs to the repetition, and a fit to one of its lanes (the restarts). So the setup is looked up in the
    repetition's memory.

    Attributes
    ----------
    site : Site
        In the lane.
    own : list of str
        Clusterings that this site alone holds.
    shared : ndarray
        ``(s,)`` places of the shared instances, in the agreed order.
    n_clusters : dict of int
        By clustering, its number of clusters.
    set_up : bool
        Whether the setup is in the memory.
    """

    site: Site
    own: list[str]
    shared: Int64[np.ndarray, "s"]
    n_clusters: dict[str, int]
    set_up: bool = True

    @classmethod
    def of(cls, site: Site) -> _FitState:
        agreed = site.in_lane(str(site.repetition)).memory
        names = list(site.shard.clusterings)
        if "own" not in agreed:
            return cls(site, [], np.zeros(0, np.int64), {}, set_up=False)
        own = [name for name, mine in zip(names, agreed["own"], strict=True) if mine]
        return cls(site, own, agreed["shared"], dict(zip(names, agreed["n_clusters"].tolist(), strict=True)))

    @property
    def memory(self) -> Memory:
        return self.site.memory

    def private(self) -> Shaped[np.ndarray, "n"]:
        """Return the mask of the instances that this site alone holds."""
        mask = np.ones(self.site.shard.n, bool)
        mask[self.shared] = False
        return mask

    def private_part(self) -> Ensemble:
        """Return the labels of the instances that this site alone holds."""
        shard: Ensemble = self.site.shard
        return shard.rows(self.private()) if self.shared.size else shard

    def shared_part(self) -> Ensemble:
        """Return the labels of the instances that other sites hold too, in the agreed order."""
        shard: Ensemble = self.site.shard
        return shard.rows(self.shared)

    def load_block(self, name: str, ask: EStep) -> ParameterBlock:
        """Return the block of an own clustering; at the first step, its start."""
        if ask.step == 0:
            return ParameterBlock(initial_beta(name, len(ask.alpha), self.n_clusters[name], ask.start))
        return self.stored_block(name)

    def stored_block(self, name: str) -> ParameterBlock:
        points, images = self.recall(f"own/{name}/points"), self.recall(f"own/{name}/images")
        return ParameterBlock(self.recall(f"own/{name}/x"), points=list(points), images=list(images))

    def store_block(self, name: str, block: ParameterBlock) -> None:
        empty = np.zeros((0, *block.x.shape))
        self.memory[f"own/{name}/x"] = block.x
        self.memory[f"own/{name}/points"] = np.stack(block.points) if block.points else empty
        self.memory[f"own/{name}/images"] = np.stack(block.images) if block.images else empty

    def recall(self, name: str) -> np.ndarray:
        """Return a remembered array; a `SiteFault` if it is lost, because the site cannot go on without it."""
        if name not in self.memory:
            raise SiteFault(Fault.STALE_MEMORY, f"{name} is not in the memory of lane {self.site.lane}")
        return self.memory[name]


@answers(EStep)
def start_e_step(ask: EStep, site: Site) -> Statistics:
    """Take new parameters and iterate the E-step of the private instances; answer their parts of the M-step.

    These are eqs. (5) and (6), and eqs. (7) to (9), of Acharya et al. (2011).
    """
    if not (0 <= ask.grid_bits <= MOST_BITS and 0 <= ask.max_sweeps <= MOST_SWEEPS and ask.smoothing >= 0):
        raise SiteFault(Fault.MALFORMED_ASK, "the settings of the E-step are out of range")
    state = _FitState.of(site)
    tables = {name: likelihood_table(beta) for name, beta in zip(ask.clusterings, ask.beta, strict=True)}
    if not set(tables) | set(state.own) >= set(site.shard.clusterings):
        raise SiteFault(Fault.STALE_MEMORY, "the ask lacks a clustering that this site holds")
    tables = {name: table for name, table in tables.items() if name in site.shard.clusterings}
    for name in state.own:
        block = state.load_block(name, ask)
        if ask.step > 0:
            _finish_step(state, name, block, ask)
        state.store_block(name, block)
        tables[name] = likelihood_table(block.x)
    for name, table in tables.items():
        site.memory[f"table/{name}"] = table
    site.memory["settings"] = np.array([ask.grid_bits, ask.smoothing])

    part = state.private_part()
    settings = EStepSettings(ask.grid_bits, ask.tolerance, ask.max_sweeps)
    start = _initial_gamma(ask, site, part)
    # After all checks for a lost memory: the site can then still be sent its setup again.
    if not keeps_setup(state.shared, site):
        raise SiteFault(Fault.STALE_MEMORY, "the setup of the run is not in the memory")
    gamma, contribution = e_step(ask.alpha, tables, part.classifiers, part.clusterings, start, settings, threads())
    site.memory["gamma"] = gamma
    for name in state.own:
        site.memory[f"own/{name}/mass-private"] = contribution.mass[name]
        site.memory[f"own/{name}/mass"] = contribution.mass[name]
    return Statistics(
        contribution.n,
        tuple(
            contribution.mass[name] if name in tables else np.zeros(beta.shape, np.int64)
            for name, beta in zip(ask.clusterings, ask.beta, strict=True)
        ),
        contribution.log_theta,
        contribution.bound,
    )


def _finish_step(state: _FitState, name: str, block: ParameterBlock, ask: EStep) -> None:
    """Do the M-step of an own clustering (eq. 7), combined with earlier ones by the fusion center's weights."""
    if ask.accepted:
        block.accept(maximize_beta(state.recall(f"own/{name}/mass"), ask.grid_bits, ask.smoothing))
    else:
        block.forget()
    block.move(ask.weights)


def _initial_gamma(ask: EStep, site: Site, part: Ensemble) -> Float64[np.ndarray, "k n"]:
    """Return the start of the private instances: cold, or from the newest E-step that counts.

    A step that is asked again, as a masked sum may be, has the same start as before. A site that joins late starts
    cold: its instances reach the same fixed point to the tolerance.

    Raises
    ------
    SiteFault
        If the site may have taken part before and has lost its memory.
    """
    memory = site.memory
    if ask.step > 0 and "gamma" not in memory and not site.with_history:
        raise SiteFault(Fault.STALE_MEMORY, f"gamma is not in the memory of lane {site.lane}")
    once_more = "step" in memory and ask.step == memory["step"]
    memory["step"] = np.array(ask.step)
    if ask.step > 0 and (once_more or not ask.accepted) and "gamma-before" in memory:
        return memory["gamma-before"]
    if ask.step > 0 and "gamma" in memory:
        memory["gamma-before"] = memory["gamma"]
        return memory["gamma"]
    start = cold_start(part.classifiers, part.clusterings, part.n, len(ask.alpha), ask.grid_bits)
    gamma = add_alpha(ask.alpha, start, ask.grid_bits)
    memory["gamma-before"] = gamma
    return gamma


@answers(Sweep)
def sweep(ask: Sweep, site: Site) -> Shares:
    """Do one sweep over the shared instances; answer the site's part of gamma, and of the sums that end the E-step."""
    state = _FitState.of(site)
    memory = site.memory
    if not state.set_up:
        raise SiteFault(Fault.STALE_MEMORY, "the setup of the run is not in the memory")
    if prediction.predicting(site):
        return prediction.sweep_fixed(ask, site, state.shared)
    part = state.shared_part()
    check_places(ask.active, part.n, "active instances")
    if "log-weights" not in memory or memory["log-weights"].shape[1] != part.n:
        memory["log-weights"] = np.zeros((len(ask.log_weights), part.n))
    log_weights = memory["log-weights"].copy()
    log_weights[:, ask.active] = ask.log_weights
    memory["log-weights"] = log_weights

    tables = {name: state.recall(f"table/{name}") for name in site.shard.clusterings}
    bits, smoothing = int(state.recall("settings")[0]), float(memory["settings"][1])
    share, mass, bound = shares(tables, part.classifiers, part.clusterings, log_weights, bits)
    products = np.zeros(0, np.int64)
    for name in state.own:
        block = state.stored_block(name)
        total = state.recall(f"own/{name}/mass-private") + mass[name]
        memory[f"own/{name}/mass"] = total
        newest = block.products(maximize_beta(total, bits, smoothing))
        products = newest if not products.size else products + newest
        bound += one_to_grid(smoothing_bound(block.x, smoothing), bits)
    common = tuple(table for name, table in mass.items() if name not in state.own)
    return Shares(share[:, ask.active], common, bound, products)


# -- the end ----------------------------------------------------------------------------------------------------------


@answers(Conclude)
def conclude(ask: Conclude, site: Site) -> Tally:
    """Write the class probabilities of the site's instances, and count right decisions."""
    state = _FitState.of(site)
    later = prediction.predicting(site)
    shard: Ensemble = prediction.known_labels(site) if later else site.shard
    if ask.gamma.shape[1] != state.shared.size:
        raise SiteFault(
            Fault.STALE_MEMORY, f"the ask has {ask.gamma.shape[1]} shared instances, the memory {state.shared.size}"
        )
    check_places(ask.counted, state.shared.size, "counted instances")
    private = state.recall("gamma" if ask.accepted else "gamma-before")
    gamma = np.empty((len(private), shard.n))
    mask = state.private()
    gamma[:, mask] = private
    gamma[:, state.shared] = ask.gamma
    commit_to(f"conclude {site.repetition}", site, ask, gamma)
    theta = (gamma / gamma.sum(axis=0)).T
    write_theta(site, shard, theta, prediction.FILE if later else "theta.csv")
    if not later:
        _write_own_beta(site, state, accepted=ask.accepted)

    counted = mask.copy()
    counted[state.shared[ask.counted]] = True
    return count(shard, theta, private=mask, counted=counted, fewest=site.policy.min_rows)


def _write_own_beta(site: Site, state: _FitState, *, accepted: bool) -> None:
    """Write ``beta.npz``, the ``(k, k_m)`` tables of the clusterings that this site alone holds, and save them by run.

    If the newest E-step does not count, they are those of the one before.
    """
    blocks = {name: state.stored_block(name) for name in state.own}
    tables = {name: block.x if accepted else block.points[-1] for name, block in blocks.items()}
    if tables:
        site.write("beta.npz", lambda temporary: write_arrays(temporary, tables))
    if state.set_up:
        save_tables(site, site.session, tables)
