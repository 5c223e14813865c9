"""Consent of a site to share instances, and refusals of asks that would reveal single instances."""

from __future__ import annotations

import zlib

import numpy as np
from jaxtyping import Int64

from clients.site import Site
from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.support import share_withheld, without_rare_combinations, without_rare_labels
from protocols.bc3e.payloads import FEW_CLASSES, LARGEST_TABLE, MOST_CLASSES, EStep
from protocols.wire.faults import Fault, SiteFault

MOST_STEPS = 300
"""Steps of a fit that a real site takes, unless its node configuration allows more (max-steps)."""

FEWEST_IN_CLUSTER = 5
"""Fewest instances of a cluster whose sums a real site sends, unless its policy demands more (min-rows)."""

FEWEST_PRIVATE = 2
"""Fewest instances that a real site sums over, unless its policy demands more: a sum over one reveals it."""


def refuse_sharing(site: Site) -> None:
    """Refuse to share instances without consent: their votes would leave the site; of a single model these are labels.

    Only the fusion center knows which instances other sites hold too. A real site consents in its node configuration. A
    simulated site always consents, but to labels of a single model only by the run's key.

    Raises
    ------
    SiteFault
        ``INSTANCES_NOT_ALLOWED``, or ``TOO_FEW_MODELS``.
    """
    shard: Ensemble = site.shard
    single = site.consents.allows("allow-single-model", run_key="bc3e.allow-single-model")
    if not (single or site.consents.allows("allow-shared-instances")):
        raise SiteFault(Fault.INSTANCES_NOT_ALLOWED)
    if len(shard.classifiers) + len(shard.clusterings) < 2 and not single:
        raise SiteFault(Fault.TOO_FEW_MODELS)


def check_classes(k: int, site: Site) -> None:
    """Refuse so many classes that the instances would take gigabytes for an ask of a few megabytes."""
    most = max(FEW_CLASSES, min(MOST_CLASSES, LARGEST_TABLE // max(1, site.shard.n)))
    if not 1 <= k <= most:
        raise SiteFault(
            Fault.MALFORMED_ASK, f"the ask has {k} classes; of {site.shard.n} instances {most} are possible"
        )


def agree_on(shared: Int64[np.ndarray, "s"], site: Site) -> None:
    """Accept instances as shared with other sites.

    Raises
    ------
    SiteFault
        If an instance does not exist, if too few private instances remain to sum over, or if the run has shared other
        instances before.
    """
    shard: Ensemble = site.shard
    check_places(shared, shard.n, "shared instances")
    private = shard.n - len(shared)
    if 0 < private < site.policy.private_floor(FEWEST_PRIVATE):
        raise SiteFault(
            Fault.TOO_FEW_ROWS, f"{private} instances would be private, and sums over so few would reveal them"
        )
    if not keeps_setup(shared, site):
        raise SiteFault(
            Fault.MALFORMED_ASK,
            "the run has shared other instances before: sums over two sets could reveal a single instance",
        )


def labels_for_sums(part: Ensemble, counts: Int64[np.ndarray, "n"], site: Site) -> Ensemble:
    """Return the labels of private instances that may enter sums; those of few instances count as missing.

    Nothing is to be learnt of fewer instances than `min-combination` from equations for the joint counts of all labels.
    The labels are the same in all asks: two sets of labels of a row could tell more of it than either. The memory keeps
    the share of the labels that are withheld. A scenario's sites withhold nothing.

    Parameters
    ----------
    part : Ensemble
        Labels of the private instances; instances with equal labels count as one row.
    counts : ndarray
        ``(n,)`` number of instances of each row.
    site : Site
        The site.

    Returns
    -------
    Ensemble
        The labels; `part` itself if nothing is withheld.
    """
    if not site.config.get("protocol"):
        return part
    common = without_rare_labels(part, site.policy.private_floor(FEWEST_IN_CLUSTER), counts)
    fewest = site.consents.number("min-combination", FEWEST_IN_CLUSTER)
    remainder = without_rare_combinations(common, fewest, counts, seed=zlib.crc32(site.name.encode()))
    site.memory["withheld"] = np.array(share_withheld(remainder, part, counts))
    return remainder


def check_step(ask: EStep, site: Site) -> None:
    """Refuse a step back, a second set of parameters for a step, and more steps of a fit than the site takes.

    A scenario's sites refuse nothing.

    Raises
    ------
    SiteFault
        ``MALFORMED_ASK`` or ``TOO_MANY_ROUNDS``.
    """
    if not site.config.get("protocol"):
        return
    most = site.policy.private_limit(site.consents.number("max-steps", MOST_STEPS))
    if not 0 <= ask.step < most:
        raise SiteFault(Fault.TOO_MANY_ROUNDS, f"step {ask.step}; max-steps is {most}")
    if site.replaying:  # the answer does not leave
        return
    name, counter = f"step {ask.step} {site.lane}", f"steps {site.lane}"
    taken = site.commitments.count(counter, 0)
    if ask.step + 1 < taken or not site.commitments.keeps(
        name, ask.alpha, ask.clusterings, *ask.beta, ask.accepted, ask.draws, ask.classes
    ):
        raise SiteFault(Fault.MALFORMED_ASK, "steps of a fit only rise, each with one set of parameters")
    site.commitments.count(counter, ask.step + 1 - taken)


def keeps_setup(shared: Int64[np.ndarray, "s"], site: Site) -> bool:
    """Return whether all sums of the run leave out the same instances; a scenario's sites always return True.

    Sums over all instances and over all but one reveal that one. So the set is fixed even if it is empty, and it is
    the same in all repetitions, which have the same own data.
    """
    return not site.config.get("protocol") or site.commitments.keeps("setup", shared)


def check_places(places: Int64[np.ndarray, "_"], n: int, what: str) -> None:
    """Refuse places that are repeated or not among `n`: NumPy counts negative places from the end."""
    if ((places < 0) | (places >= n)).any() or len(np.unique(places)) < len(places):
        raise SiteFault(Fault.MALFORMED_ASK, f"the {what} of the ask are repeated, or not among {n}")


def commit_to(name: str, site: Site, *parameters: object) -> None:
    """Refuse a second set of parameters in a run: two accuracies reveal the instances whose decisions differ.

    Raises
    ------
    SiteFault
        If the center sent other parameters under this name in this run.
    """
    if not site.commitments.keeps(name, *parameters):
        raise SiteFault(Fault.MALFORMED_ASK, "accuracy was already counted with other parameters in this run")
