"""What a site agrees to before instances are shared, and what it refuses."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from clients.site import Site
from numerics.bc3e.ensemble import Ensemble
from protocols.wire.faults import Fault, SiteFault

FEWEST_PRIVATE = 2
"""Instances that a real site sums over, where the policy says no more: of one the sum is what it holds."""


def refuse_single_model(site: Site) -> None:
    """A site with one model gives its labels away where instances are shared (docs/bc3e.md): only on its own consent.

    Consent is the site's: it stands in the node configuration. A simulated site has none: there the run's key counts.
    """
    shard: Ensemble = site.shard
    allowed = site.consents.allows("allow-single-model", run_key="bc3e.allow-single-model")
    if len(shard.classifiers) + len(shard.clusterings) < 2 and not allowed:
        raise SiteFault(Fault.TOO_FEW_MODELS)


def agree_on(shared: Int64[np.ndarray, "s"], site: Site) -> None:
    """Take it that these instances are other sites', too; what was refused is not agreed on.

    Raises
    ------
    SiteFault
        If some are not there, too few others are left to sum over, or others were agreed on in this run.
    """
    shard: Ensemble = site.shard
    check_places(shared, shard.n, "shared instances")
    private = shard.n - len(shared)
    if 0 < private < site.policy.private_floor(FEWEST_PRIVATE):
        raise SiteFault(Fault.TOO_FEW_ROWS, f"{private} instances would be its own, and sums over them tell of each")
    if not keeps_to(shared, site):
        raise SiteFault(Fault.MALFORMED_ASK, "another setup was agreed on: sums over other instances would tell of one")


def keeps_to(shared: Int64[np.ndarray, "s"], site: Site) -> bool:
    """Whether these instances are those that were to be left out of the sums all along; a scenario's are nobody's.

    In every repetition, which a party's own data are the same in, and also where none was named: sums over all
    instances, and over all but one, tell of that one.
    """
    return not site.config.get("protocol") or site.commitments.keeps("setup", shared)


def check_places(places: Int64[np.ndarray, "_"], n: int, what: str) -> None:
    """Hold what the center counts within to `n`, each once: NumPy would take negative places from the end."""
    if ((places < 0) | (places >= n)).any() or len(np.unique(places)) < len(places):
        raise SiteFault(Fault.MALFORMED_ASK, f"the {what} of the ask are not among {n}, each once")


def hold_to(what: str, site: Site, *words: object) -> None:
    """Count right decisions once in a run: those counted by other parameters tell of the instances between them.

    Raises
    ------
    SiteFault
        If other words were said under this name in this run.
    """
    if not site.commitments.keeps(what, *words):
        raise SiteFault(Fault.MALFORMED_ASK, "right ones were counted by other parameters in this run")
