"""Prediction at a site: classes of new instances, by the parameters of an earlier run."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from jaxtyping import Float64, Int64

from clients.bc3e.consent import agree_on, check_classes, check_places, commit_to, refuse_sharing
from clients.bc3e.results import count_right, counting_of, threads, write_theta
from clients.bc3e.saved_tables import Tables, load_tables
from clients.dispatch import answers
from clients.site import Site
from numerics.bc3e.e_step import EStepSettings, cold_start, e_step, shares
from numerics.bc3e.ensemble import Ensemble, Labels
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.grid import MAX_BITS
from numerics.bc3e.m_step import is_alpha
from numerics.bc3e.reliability import (
    are_tables,
    class_evidence,
    class_probabilities,
    confusion_of,
    doubt_of,
    is_confusion,
    table_names,
)
from numerics.bc3e.responsibilities import likelihood_table
from protocols.bc3e.payloads import (
    MOST_BITS,
    MOST_DRAWS,
    MOST_SWEEPS,
    EarlierParameters,
    Predict,
    PredictionTally,
    PredictShared,
    Shares,
    Starts,
    Sweep,
)
from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")

FILE = "predictions.csv"


@answers(Predict)
def predict(ask: Predict, site: Site) -> PredictionTally:
    """Write the class probabilities of new instances, by alpha and beta of an earlier run; answer with their number.

    One E-step runs from the cold start to convergence. The result of every instance depends on its own labels only.
    """
    _check_parameters(ask)
    check_classes(len(ask.alpha), site)
    commit_to("predict", site, ask)
    tables = dict(zip(ask.clusterings, ask.beta, strict=True))
    shard = _known_part(site.shard, len(ask.alpha), tables)
    settings = EStepSettings(MAX_BITS, ask.tolerance, ask.max_sweeps, ask.draws)
    gamma = _converge(shard, ask.alpha, tables, settings)
    theta = class_probabilities(gamma, ask.alpha if ask.draws else np.zeros(0), doubt_of(ask.draws, tables))
    write_theta(site, shard, theta, FILE)
    every_instance = np.ones(shard.n, bool)
    tally = count_right(shard, theta, private=every_instance, counted=every_instance, **counting_of(site))
    return PredictionTally(shard.n, tally.methods, tally.correct, tally.total)


# -- shared instances -------------------------------------------------------------------------------------------------


@answers(PredictShared)
def start_prediction(ask: PredictShared, site: Site) -> Starts:
    """Predict the private instances by the parameters of an earlier run, and answer with the start of the shared ones.

    The center then asks for sweeps and for the conclusion, as in a run that learns. The key ``predicting`` in the
    memory marks a run that predicts.
    """
    refuse_sharing(site)
    _check_parameters(ask)
    check_classes(len(ask.alpha), site)
    agree_on(ask.shared, site)
    commit_to("predict", site, ask)
    k, settings = len(ask.alpha), EStepSettings(ask.grid_bits, ask.tolerance, ask.max_sweeps, ask.draws)
    tables: dict[str, Float64[np.ndarray, "k _"]] = dict(zip(ask.clusterings, ask.beta, strict=True))
    if set(table_names(site.shard.classifiers, site.shard.clusterings, confusion=ask.draws > 0)) - tables.keys():
        # The center has no table of a model that only one site held in the earlier run.
        tables = {**load_tables(site, ask.session, k), **tables}
    shard = _known_part(site.shard, k, tables)
    private = np.ones(shard.n, bool)
    private[ask.shared] = False
    memory = site.memory
    memory["own"] = np.zeros(len(site.shard.clusterings), np.int64)
    memory["n_clusters"] = np.zeros(len(site.shard.clusterings), np.int64)
    memory["shared"] = ask.shared
    memory["predicting"] = np.array([k, ask.grid_bits, ask.draws])
    for name in table_names(shard.classifiers, shard.clusterings, confusion=ask.draws > 0):
        memory[f"known/{name}"] = tables[name]
    memory["gamma"] = _converge(shard.rows(private), ask.alpha, tables, settings)
    part = shard.rows(ask.shared)
    return Starts(cold_start(part.classifiers, part.clusterings, part.n, k, ask.grid_bits))


def is_predicting(site: Site) -> bool:
    """Return whether this run predicts by the parameters of an earlier run."""
    return "predicting" in site.memory


def known_labels(site: Site) -> Ensemble:
    """Return those of the site's labels that the earlier run had."""
    k, *_ = site.memory["predicting"].tolist()
    return _known_part(site.shard, k, _known_tables(site), level=logging.DEBUG)


def sweep_fixed(ask: Sweep, site: Site, shared: Int64[np.ndarray, "s"]) -> Shares:
    """Return the site's part of gamma at fixed parameters, without the sums that only an M-step needs."""
    check_places(ask.active, len(shared), "active instances")
    k, bits, draws = site.memory["predicting"].tolist()
    if len(ask.log_weights) != k:
        raise SiteFault(Fault.MALFORMED_ASK, f"the ask has scores of {len(ask.log_weights)} classes; there are {k}")
    tables = _known_tables(site)
    part = _known_part(site.shard.rows(shared[ask.active]), k, tables, level=logging.DEBUG)
    likelihoods = {name: likelihood_table(table) for name, table in tables.items()}
    share, _ = shares(likelihoods, {} if draws else part.classifiers, part.clusterings, ask.log_weights, bits)
    answer = Shares(share, (), 0, np.zeros(0, np.int64))
    if draws and ask.first:
        evidence = class_evidence(likelihoods, part.classifiers, part.n, k, bits)
        answer = replace(answer, evidence=evidence)
    return answer


def _known_tables(site: Site) -> Tables:
    """Return the tables of the earlier run that the site keeps in its memory."""
    prefix = "known/"
    return {name.removeprefix(prefix): table for name, table in site.memory.items() if name.startswith(prefix)}


# -- private and shared instances -------------------------------------------------------------------------------------


def _check_parameters(ask: EarlierParameters) -> None:
    """Refuse parameters and settings that are out of range."""
    k = len(ask.alpha)
    in_range = (
        is_alpha(ask.alpha)
        and len(set(ask.clusterings)) == len(ask.clusterings) == len(ask.beta)
        and all(table.shape[1] >= 1 for table in ask.beta)
        and are_tables(ask.clusterings, ask.beta)
        and all(
            table.shape[1] == k for name, table in zip(ask.clusterings, ask.beta, strict=True) if is_confusion(name)
        )
        and ask.tolerance >= 0
        and 1 <= ask.max_sweeps <= MOST_SWEEPS
        and 0 <= getattr(ask, "grid_bits", 0) <= MOST_BITS
        and 0 <= ask.draws <= MOST_DRAWS
    )
    if not in_range:
        raise SiteFault(Fault.MALFORMED_ASK, "alpha, beta or the settings of the E-step are out of range")


def _converge(
    shard: Ensemble, alpha: Float64[np.ndarray, "k"], tables: Tables, settings: EStepSettings
) -> Float64[np.ndarray, "k n"]:
    """Iterate the E-step at fixed parameters from the cold start, and return gamma."""
    distinct = shard.distinct
    part = distinct.part
    start = cold_start(part.classifiers, part.clusterings, part.n, len(alpha), settings.bits)
    names = table_names(part.classifiers, part.clusterings, confusion=settings.draws > 0)
    likelihoods = {name: likelihood_table(tables[name]) for name in names}
    gamma = add_alpha(alpha, start, settings.bits)
    gamma, _ = e_step(alpha, likelihoods, part.classifiers, part.clusterings, gamma, settings, threads())
    return gamma[:, distinct.of_row]


def _known_part(shard: Ensemble, k: int, tables: Tables, *, level: int = logging.WARNING) -> Ensemble:
    """Return the labels that the earlier run had, and ignore any class, cluster or clustering that it did not have.

    Log ignored labels at `level`, so that a run can report them once.

    Raises
    ------
    SiteFault
        If the site has clusterings, and the earlier run had none of them.
    """
    sizes = {name: table.shape[1] for name, table in tables.items() if not is_confusion(name)}
    clusterings = {
        name: _within(labels, sizes[name], name, level) for name, labels in shard.clusterings.items() if name in sizes
    }
    if shard.clusterings and not clusterings:
        raise SiteFault(
            Fault.MISSING_COLUMN,
            f"the earlier run (from) had none of the clusterings {', '.join(shard.clusterings)}; it had"
            f" {', '.join(sizes) or 'no clustering'}",
        )
    for name in shard.clusterings.keys() - sizes.keys():
        logger.log(level, "%s is ignored: the earlier run (from) had no such clustering", name)
    classifiers = {name: _within(labels, k, name, level) for name, labels in shard.classifiers.items()}
    if any(map(is_confusion, tables)):
        for name in [name for name in classifiers if confusion_of(name) not in tables]:
            logger.log(level, "%s is ignored: the earlier run (from) had no such classifier", name)
            del classifiers[name]
    return replace(shard, classifiers=classifiers, clusterings=clusterings)


def _within(labels: Labels, size: int, name: str, level: int) -> Labels:
    """Keep the labels below `size`, and remove any other label, or the probabilities of an instance with another."""
    soft = labels.ndim == 2
    beyond = np.asarray(labels[:, size:].any(axis=1) if soft else labels >= size)
    if beyond.any():
        logger.log(
            level,
            "%s: %d labels of %d or above are ignored, because the earlier run (from) had none",
            name,
            beyond.sum(),
            size,
        )
    if not soft:
        return np.where(beyond, -1, labels)
    return np.where(beyond[:, np.newaxis], 0.0, labels[:, :size])
