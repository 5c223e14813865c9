"""A site's answers in bc3e: E-steps on its private instances, sweeps over shared ones, and betas of own clusterings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from clients.bc3e import prediction
from clients.bc3e.consent import (
    agree_on,
    check_classes,
    check_places,
    check_step,
    commit_to,
    keeps_setup,
    labels_for_sums,
    refuse_sharing,
)
from clients.bc3e.fit_state import FitState, held_tables
from clients.bc3e.own_labels import accept_parameters, gamma_by_all_labels, keep_parameters
from clients.bc3e.results import coarse_counts, count_right, counting_of, threads, write_theta, write_unsure
from clients.bc3e.saved_tables import save_tables
from clients.dispatch import answers
from clients.keys import shared_secret
from clients.memory import Memory
from clients.site import Site
from common.entity_keys import keyed_hashes
from common.files import write_arrays
from numerics.bc3e.anderson import ParameterBlock, gamma_start, kept_gammas
from numerics.bc3e.e_step import Contribution, EStepSettings, cold_start, confusion_mass, e_step, shares
from numerics.bc3e.ensemble import Ensemble, n_values, present
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.grid import one_to_grid
from numerics.bc3e.m_step import is_alpha
from numerics.bc3e.reliability import (
    are_tables,
    class_evidence,
    class_probabilities,
    classifier_of,
    confusion_of,
    decisions,
    gain,
    is_confusion,
    maximize_table,
    prior_bound,
    share_right,
)
from numerics.bc3e.responsibilities import likelihood_table
from protocols.bc3e.payloads import (
    LARGEST_TABLE,
    LARGEST_WEIGHT,
    MOST_BITS,
    MOST_DRAWS,
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
    coarse_count,
    coarse_percent,
)
from protocols.bc3e.settings import LARGEST_SMOOTHING
from protocols.budget import RUNS
from protocols.wire.faults import Fault, SiteFault

# -- survey and setup -------------------------------------------------------------------------------------------------


@answers(Survey)
def survey(ask: Survey, site: Site) -> Holdings:
    """Answer with names and sizes, and with keyed hashes of the instances' names if instances may be shared."""
    shard: Ensemble = site.shard
    keys = np.zeros(0, np.uint64)
    if ask.distribution != "row":
        refuse_sharing(site)
        keys = instance_keys(shard, ask.salt, shared_secret(site.config))
    masked = ask.masked or (ask.distribution == "row" and site.policy.secure_aggregation)
    return Holdings(
        instances=coarse_count(shard.n) if masked else shard.n,
        n_classes=max((n_values(labels) for labels in shard.classifiers.values()), default=0),
        classifiers=tuple(shard.classifiers),
        clusterings=tuple(shard.clusterings),
        n_clusters=np.array([n_values(labels) for labels in shard.clusterings.values()], np.int64),
        keys=keys,
        has_truth=shard.truth is not None and bool((shard.truth >= 0).any()),
    )


def instance_keys(shard: Ensemble, salt: str, secret: bytes = b"") -> UInt64[np.ndarray, "n"]:
    """Return ``(n,)`` keyed 64-bit hashes of the instances' names, or of their row numbers if they have no names.

    Examples
    --------
    >>> first, second = (Ensemble(2, {}, {}, entity=np.array(names)) for names in (["ann", "bob"], ["bob", "eve"]))
    >>> instance_keys(first, "run-1")[1] == instance_keys(second, "run-1")[0]
    np.True_
    """
    names = np.arange(shard.n) if shard.entity is None else shard.entity
    return keyed_hashes(names, secret, salt)[:, 0].copy()


@answers(Setup)
def setup(ask: Setup, site: Site) -> Starts:
    """Keep the setup in the memory, and answer with the start of the shared instances."""
    shard: Ensemble = site.shard
    refuse_sharing(site)  # even if the center sent no `Survey`
    check_places(ask.own, len(ask.clusterings), "own clusterings")
    check_classes(ask.n_classes, site)
    _check_sizes(ask, shard)
    agree_on(ask.shared, site)
    own = np.zeros(len(ask.clusterings), np.int64)
    own[ask.own] = 1
    site.memory["own"] = own
    site.memory["shared"] = ask.shared
    site.memory["n_clusters"] = ask.n_clusters
    part = shard.rows(ask.shared)
    start = cold_start(part.classifiers, part.clusterings, part.n, ask.n_classes, ask.grid_bits)
    return Starts(start)


def _check_sizes(ask: Setup, shard: Ensemble) -> None:
    """Refuse sizes out of range: an ask of a few bytes could demand tables of terabytes."""
    k, widths = ask.n_classes, ask.n_clusters
    in_range = (
        0 <= ask.grid_bits <= MOST_BITS
        and len(widths) == len(ask.clusterings)
        and any(list(ask.clusterings) == held_tables(shard, confusion=confusion) for confusion in (False, True))
        and ((widths >= 1) & (widths <= LARGEST_TABLE // k)).all()
    )
    if not in_range:
        raise SiteFault(Fault.MALFORMED_ASK, "the numbers of classes, clusters or bits are out of range")


# -- E-step -----------------------------------------------------------------------------------------------------------


@answers(EStep)
def start_e_step(ask: EStep, site: Site) -> Statistics:
    """Iterate the E-step of the private instances, and answer with their sums for the M-step.

    The E-step is eqs. (5) and (6), and the sums are those of eqs. (7) to (9), of Acharya et al. (2011).
    """
    _check_parameters(ask)
    check_classes(len(ask.alpha), site)
    state = FitState.of(site)
    tables = {name: likelihood_table(beta) for name, beta in zip(ask.clusterings, ask.beta, strict=True)}
    held = held_tables(site.shard, confusion=ask.draws > 0)
    if not set(tables) | set(state.own) >= set(held):
        raise SiteFault(Fault.STALE_MEMORY, "the ask lacks a clustering that this site holds")
    tables = {name: table for name, table in tables.items() if name in held}
    k, classes = len(ask.alpha), ask.classes
    mass_of_shared = _confusion_mass(classes, k, state, state.own, ask.grid_bits) if len(classes) else {}
    for name in state.own:
        block = state.load_block(name, ask)
        if ask.step > 0:
            _finish_step(state, name, block, ask, mass_of_shared.get(name, 0))
        state.store_block(name, block)
        tables[name] = likelihood_table(block.x)
    for name, table in tables.items():
        site.memory[f"table/{name}"] = table
    site.memory["settings"] = np.array([ask.grid_bits, ask.smoothing, ask.draws, ask.alone])

    distinct = state.private_part().distinct
    part = labels_for_sums(distinct.part, distinct.counts, site)
    settings = EStepSettings(ask.grid_bits, ask.tolerance, ask.max_sweeps, ask.draws, ask.alone)
    start = _initial_gamma(ask, site, part)
    # This check comes after those for a lost memory, so that the center can send the setup again.
    if not keeps_setup(state.shared, site):
        raise SiteFault(Fault.STALE_MEMORY, "the setup of the run is not in the memory")
    check_step(ask, site)
    if part is not distinct.part:
        keep_parameters(site.memory, ask.alpha, tables)
    gamma, contribution = e_step(
        ask.alpha, tables, part.classifiers, part.clusterings, start, settings, threads(), distinct.counts
    )
    site.memory["gamma"] = gamma
    site.memory["decisions"] = decisions(gamma, ask.alpha if ask.draws else np.zeros(0))
    for name in state.own:
        site.memory[f"own/{name}/mass-private"] = contribution.mass[name]
        site.memory[f"own/{name}/mass"] = contribution.mass[name]
        site.memory[f"own/{name}/squares-private"] = np.array(contribution.squares.get(name, 0))
    return Statistics(
        contribution.n,
        tuple(
            contribution.mass[name] if name in tables else np.zeros(beta.shape, np.int64)
            for name, beta in zip(ask.clusterings, ask.beta, strict=True)
        ),
        contribution.log_theta,
        contribution.bound,
        int(distinct.counts[site.memory["decisions"] != site.memory["decisions-before"]].sum()),
        _squares(contribution, ask.clusterings if ask.alone else ()),
    )


def _check_parameters(ask: EStep) -> None:
    """Refuse parameters and settings that are out of range: sums would leave their grid."""
    in_range = (
        0 <= ask.grid_bits <= MOST_BITS
        and 0 <= ask.max_sweeps <= MOST_SWEEPS
        and 0 <= ask.draws <= MOST_DRAWS
        and 0 <= ask.smoothing <= LARGEST_SMOOTHING
        and ask.start >= 0
        and is_alpha(ask.alpha)
        and are_tables(ask.clusterings, ask.beta)
        and (np.abs(ask.weights) <= LARGEST_WEIGHT).all()
    )
    if not in_range or (ask.alone and (ask.step or not ask.draws)):
        raise SiteFault(Fault.MALFORMED_ASK, "alpha, beta or the settings of the E-step are out of range")


def _squares(sums: Contribution, names: Iterable[str]) -> Int64[np.ndarray, "_"]:
    """Return the sums of squares by table; zeros for tables that have none."""
    return np.array([sums.squares.get(name, 0) for name in names], np.int64)


def _finish_step(
    state: FitState, name: str, block: ParameterBlock, ask: EStep, more: Int64[np.ndarray, "k _"] | int
) -> None:
    """Do the M-step of an own table (eq. 7), and combine it with earlier ones by the fusion center's weights.

    `more` is the mass of a confusion matrix on shared instances, whose classes came with this ask.
    """
    if ask.accepted:
        block.accept(maximize_table(name, state.recall(f"own/{name}/mass") + more, ask.grid_bits, ask.smoothing))
    else:
        block.forget()
    block.move(ask.weights)


def _confusion_mass(
    classes: Int64[np.ndarray, "k s"], k: int, state: FitState, names: Iterable[str], bits: int
) -> dict[str, Int64[np.ndarray, "k k"]]:
    """Return the masses of the confusion matrices in `names` on the shared instances."""
    part = state.shared_part()
    if classes.shape != (k, part.n) or ((classes < 0) | (classes > 1 << bits)).any():
        raise SiteFault(Fault.MALFORMED_ASK, "the classes of the ask are none of the shared instances")
    held = {name: labels for name, labels in part.classifiers.items() if confusion_of(name) in names}
    return confusion_mass(classes.astype(np.float64), held, len(classes), bits)


def _initial_gamma(ask: EStep, site: Site, part: Ensemble) -> Float64[np.ndarray, "k n"]:
    """Return the start of the private instances: cold, or by gamma of the last E-steps that were accepted.

    If the center repeats an ask, as with secure aggregation, the start is the same again. A site that joins late starts
    cold: its instances reach the same fixed point, up to the tolerance.

    Raises
    ------
    SiteFault
        If the site took part before and has lost its memory, as far as it can tell.
    """
    memory = site.memory
    if ask.step > 0 and "gamma" not in memory and not site.with_history:
        raise SiteFault(Fault.STALE_MEMORY, f"gamma is not in the memory of lane {site.lane}")
    repeated = "step" in memory and ask.step == memory["step"]
    memory["step"] = np.array(ask.step)
    if ask.step > 0 and (repeated or not ask.accepted) and "gammas" in memory:
        if not ask.accepted:
            memory["gammas"] = memory["gammas"][-1:]
    elif ask.step > 0 and "gamma" in memory:
        gammas = np.concatenate([memory["gammas"], memory["gamma"][np.newaxis]])
        memory["gammas"] = gammas[-kept_gammas(ask.max_sweeps) :]
        memory["decisions-before"] = memory["decisions"]
        accept_parameters(memory)
    else:
        start = cold_start(part.classifiers, part.clusterings, part.n, len(ask.alpha), ask.grid_bits)
        memory["gammas"] = add_alpha(ask.alpha, start, ask.grid_bits)[np.newaxis]
        memory["decisions-before"] = np.full(part.n, -1)
    return gamma_start(list(memory["gammas"]), ask.weights, ask.max_sweeps)


@answers(Sweep)
def sweep(ask: Sweep, site: Site) -> Shares:
    """Do one sweep over the shared instances, and answer with the site's part of gamma and of the E-step's sums."""
    state = FitState.of(site)
    memory = site.memory
    if not state.set_up:
        raise SiteFault(Fault.STALE_MEMORY, "the setup of the run is not in the memory")
    if prediction.is_predicting(site):
        return prediction.sweep_fixed(ask, site, state.shared)
    part = state.shared_part()
    check_places(ask.active, part.n, "active instances")
    k = len(state.recall("gamma"))
    if len(ask.log_weights) != k:
        raise SiteFault(Fault.MALFORMED_ASK, f"the ask has scores of {len(ask.log_weights)} classes; there are {k}")
    log_weights = _updated_weights(ask, memory, part.n)
    bits, smoothing = int(state.recall("settings")[0]), float(memory["settings"][1])
    draws, alone = memory["settings"][2:].astype(bool)
    tables = {name: state.recall(f"table/{name}") for name in held_tables(site.shard, confusion=draws)}
    voters = {} if draws else part.classifiers
    common = [name for name in sorted(tables) if name not in state.own]
    mass, ends = {name: np.zeros((len(log_weights), tables[name].shape[1] - 1), np.int64) for name in common}, False
    if len(ask.classes):
        ends, mass = alone, mass | _confusion_mass(ask.classes, k, state, common, bits)
    share, sums = shares(tables, voters, part.clusterings, log_weights, bits, ask.classes if ends else None)
    mass, bound = mass | sums.mass, sums.bound
    products, gains = np.zeros(0, np.int64), []
    for name in state.own:
        block = state.stored_block(name)
        bound += one_to_grid(prior_bound(name, block.x, smoothing), bits)
        if is_confusion(name):  # its step needs the classes of this E-step
            continue
        total = state.recall(f"own/{name}/mass-private") + mass[name]
        memory[f"own/{name}/mass"] = total
        newest = block.products(maximize_table(name, total, bits, smoothing))
        products = newest if not products.size else products + newest
        if ends:
            squares = int(state.recall(f"own/{name}/squares-private")) + sums.squares.get(name, 0)
            gains.append(gain(total, squares, bits))
    answer = Shares(
        share[:, ask.active],
        tuple(mass[name] for name in common),
        bound,
        products,
        squares=_squares(sums, common if ends else ()),
        gains=np.array(gains, np.float64),
    )
    if draws and ask.first:
        evidence = class_evidence(tables, part.classifiers, part.n, len(log_weights), bits)
        answer = replace(answer, evidence=evidence[:, ask.active])
    return answer


def _updated_weights(ask: Sweep, memory: Memory, n: int) -> Float64[np.ndarray, "k n"]:
    """Return the log weights of all `n` shared instances, after those of the active ones have changed."""
    known = memory.get("log-weights")
    weights = np.zeros((len(ask.log_weights), n)) if known is None or known.shape[1] != n else known.copy()
    weights[:, ask.active] = ask.log_weights
    memory["log-weights"] = weights
    return weights


# -- conclusion -------------------------------------------------------------------------------------------------------


@answers(Conclude)
def conclude(ask: Conclude, site: Site) -> Tally:
    """Write the class probabilities of the site's instances, and answer with counts of right decisions."""
    state = FitState.of(site)
    predicts = prediction.is_predicting(site)
    shard: Ensemble = prediction.known_labels(site) if predicts else site.shard
    if ask.gamma.shape[1] != state.shared.size:
        raise SiteFault(
            Fault.STALE_MEMORY, f"the ask has {ask.gamma.shape[1]} shared instances; the memory has {state.shared.size}"
        )
    check_places(ask.counted, state.shared.size, "counted instances")
    if len(ask.alpha) not in (0, len(ask.gamma)) or not is_alpha(ask.alpha):
        raise SiteFault(Fault.MALFORMED_ASK, "alpha of the ask is not one of its classes")
    if not 0 <= ask.doubt < 1:
        raise SiteFault(Fault.MALFORMED_ASK, "the doubt of the ask is no share")
    private = state.recall("gamma") if ask.accepted else state.recall("gammas")[-1]
    if not predicts and (by_all_labels := gamma_by_all_labels(state, accepted=ask.accepted)) is not None:
        private = by_all_labels
    if len(ask.gamma) != len(private):
        raise SiteFault(Fault.MALFORMED_ASK, f"the ask has {len(ask.gamma)} classes; there are {len(private)}")
    gamma = np.empty((len(private), shard.n))
    mask = state.private()
    gamma[:, mask] = private if predicts else private[:, state.private_part().distinct.of_row]
    gamma[:, state.shared] = ask.gamma
    commit_to(f"conclude {site.repetition}", site, ask, gamma)
    if site.repetition:  # else a center would count right decisions in any number of repetitions of one run
        site.charge(amounts={RUNS: 1})
    theta = class_probabilities(gamma, ask.alpha, ask.doubt)
    write_theta(site, shard, theta, prediction.FILE if predicts else "theta.csv")
    counting = counting_of(site)
    unsure = coarse_counts(np.array([write_unsure(site, shard, theta, ask.abstain)]), shard.n, counting["step"])
    reliability = np.zeros(0)
    if not predicts:
        tables = _write_own_tables(site, state, accepted=ask.accepted)
        confusion = {name: table for name, table in sorted(tables.items()) if is_confusion(name)}
        labels = {name: int(present(shard.classifiers[classifier_of(name)]).sum()) for name in confusion}
        reliability = np.array([share_right(ask.alpha, table, labels[name]) for name, table in confusion.items()])

    counted = mask.copy()
    counted[state.shared[ask.counted]] = True
    tally = count_right(shard, theta, private=mask, counted=counted, **counting)
    withheld = 0 if predicts else coarse_percent(float(site.memory.get("withheld", 0.0)))
    return replace(tally, withheld=withheld, reliability=reliability, unsure=int(unsure[0]))


def _write_own_tables(site: Site, state: FitState, *, accepted: bool) -> dict[str, Float64[np.ndarray, "k _"]]:
    """Write ``beta.npz``, the ``(k, k_m)`` tables of models that this site alone holds, save them by run, return them.

    If the last E-step was not accepted, the tables are those of the E-step before.
    """
    blocks = {name: state.stored_block(name) for name in state.own}
    tables = {name: block.x if accepted else block.points[-1] for name, block in blocks.items()}
    if tables:
        site.write("beta.npz", lambda temporary: write_arrays(temporary, tables))
    if state.set_up:
        save_tables(site, site.session, tables)
    return tables
