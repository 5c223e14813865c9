"""A site's consent to sharing instances, and what it refuses."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from clients.site import Site
from numerics.bc3e.ensemble import Ensemble
from protocols.wire.faults import Fault, SiteFault

FEWEST_PRIVATE = 2
"""Fewest instances that a real site sums over, unless its policy demands more: the sum over one is that instance."""


def refuse_single_model(site: Site) -> None:
    """Refuse to share instances of a single model without consent: its labels would be given away (docs/bc3e.md).

    A real site consents in its node configuration. For a simulated site the run's key counts.

    Raises
    ------
    SiteFault
        ``TOO_FEW_MODELS``.
    """
    shard: Ensemble = site.shard
    allowed = site.consents.allows("allow-single-model", run_key="bc3e.allow-single-model")
    if len(shard.classifiers) + len(shard.clusterings) < 2 and not allowed:
        raise SiteFault(Fault.TOO_FEW_MODELS)


def agree_on(shared: Int64[np.ndarray, "s"], site: Site) -> None:
    """Accept that other sites hold these instances, too.

    Raises
    ------
    SiteFault
        If some do not exist, too few others are left to sum over, or other instances were agreed on in this run.
    """
    shard: Ensemble = site.shard
    check_places(shared, shard.n, "shared instances")
    private = shard.n - len(shared)
    if 0 < private < site.policy.private_floor(FEWEST_PRIVATE):
        raise SiteFault(
            Fault.TOO_FEW_ROWS, f"{private} instances would be private, and sums over so few reveal each of them"
        )
    if not keeps_setup(shared, site):
        raise SiteFault(
            Fault.MALFORMED_ASK,
            "another setup was agreed on: sums over two sets of instances could reveal a single one",
        )


def keeps_setup(shared: Int64[np.ndarray, "s"], site: Site) -> bool:
    """Whether the same instances are left out of the sums all through the run; of a scenario any may be.

    This holds for all repetitions, in which own data are the same, and also if no instance is left out: sums over all
    instances and over all but one reveal that one.
    """
    return not site.config.get("protocol") or site.commitments.keeps("setup", shared)


def check_places(places: Int64[np.ndarray, "_"], n: int, what: str) -> None:
    """Refuse places that are not among `n`, each once: NumPy would count negative ones from the end."""
    if ((places < 0) | (places >= n)).any() or len(np.unique(places)) < len(places):
        raise SiteFault(Fault.MALFORMED_ASK, f"the {what} of the ask are not among {n}, each once")


def commit_to(name: str, site: Site, *parameters: object) -> None:
    """Hold the center to one set of parameters in a run: accuracy with two sets reveals the instances between them.

    Raises
    ------
    SiteFault
        If the center has sent other parameters under this name in this run.
    """
    if not site.commitments.keeps(name, *parameters):
        raise SiteFault(Fault.MALFORMED_ASK, "accuracy was already counted with other parameters in this run")
