"""New instances at a site: their classes by what an earlier run has learnt."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from clients.bc3e.telling import count, threads, write_theta
from clients.dispatch import answers
from clients.site import Site
from numerics.ensemble import Ensemble, Labels
from numerics.fixed_point import MAX_BITS
from numerics.variational import EStepSettings, add_alpha, cold_start, e_step, likelihood_table
from protocols.bc3e import MOST_CLASSES, MOST_SWEEPS, Predict, Predicted
from protocols.faults import Fault, SiteFault

logger = logging.getLogger("flwr")


@answers(Predict)
def predict(ask: Predict, site: Site) -> Predicted:
    """Write the class probabilities of new instances, by an earlier run's alpha and beta; say how many there are.

    One E-step from the cold start, to convergence: what every instance is told depends on its own labels alone.
    """
    _check_parameters(ask)
    if not site.keeps("predict", ask.alpha, ask.clusterings, ask.beta):
        raise SiteFault(Fault.MALFORMED_ASK, "right ones were counted by other parameters in this run")
    shard = _as_then(site.shard, ask)
    tables = {
        name: likelihood_table(beta)
        for name, beta in zip(ask.clusterings, ask.beta, strict=True)
        if name in shard.clusterings
    }
    start = cold_start(shard.classifiers, shard.clusterings, shard.n, len(ask.alpha), MAX_BITS)
    gamma = add_alpha(ask.alpha, start, MAX_BITS)
    settings = EStepSettings(MAX_BITS, ask.tolerance, ask.max_sweeps)
    gamma, _ = e_step(ask.alpha, tables, shard.classifiers, shard.clusterings, gamma, settings, threads())
    theta = (gamma / gamma.sum(axis=0)).T
    write_theta(site, shard, theta, "predictions.csv")
    everything = np.ones(shard.n, bool)
    tally = count(shard, theta, private=everything, counted=everything, fewest=site.policy.min_rows)
    return Predicted(shard.n, tally.methods, tally.correct, tally.total)


def _check_parameters(ask: Predict) -> None:
    k = len(ask.alpha)
    sound = (
        1 <= k <= MOST_CLASSES
        and bool((ask.alpha > 0).all())
        and len(set(ask.clusterings)) == len(ask.clusterings) == len(ask.beta)
        and all(table.shape[1] >= 1 and (table >= 0).all() for table in ask.beta)
        and ask.tolerance >= 0
        and 1 <= ask.max_sweeps <= MOST_SWEEPS
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "alpha, beta or the settings of the E-step are out of range")


def _as_then(shard: Ensemble, ask: Predict) -> Ensemble:
    """The labels that the earlier run knew; a class, cluster or clustering that it had not seen is none.

    Raises
    ------
    SiteFault
        If the site has clusterings, and that run knew none of them.
    """
    sizes = {name: table.shape[1] for name, table in zip(ask.clusterings, ask.beta, strict=True)}
    clusterings = {
        name: _within(labels, sizes[name], name) for name, labels in shard.clusterings.items() if name in sizes
    }
    if shard.clusterings and not clusterings:
        raise SiteFault(
            Fault.MISSING_COLUMN,
            f"of the clusterings {', '.join(shard.clusterings)} the run that has learnt knew none; it knew"
            f" {', '.join(sizes) or 'none at all'}",
        )
    for name in shard.clusterings.keys() - sizes.keys():
        logger.warning("%s: the run that has learnt knew no such clustering; it is passed over", name)
    classifiers = {name: _within(labels, len(ask.alpha), name) for name, labels in shard.classifiers.items()}
    return replace(shard, classifiers=classifiers, clusterings=clusterings)


def _within(labels: Labels, size: int, name: str) -> Labels:
    """The labels below `size`; an instance that has another, or some probability of one, has no label."""
    soft = labels.ndim == 2
    beyond = np.asarray(labels[:, size:].any(axis=1) if soft else labels >= size)
    if beyond.any():
        logger.warning("%s: %d labels that were not seen then, %d or above; they are none", name, beyond.sum(), size)
    if not soft:
        return np.where(beyond, -1, labels)
    return np.where(beyond[:, np.newaxis], 0.0, labels[:, :size])
