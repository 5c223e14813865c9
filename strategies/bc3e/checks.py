"""The fusion center's checks of answers, beyond the payloads' own contracts."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.bc3e.payloads import MOST_CLASSES, MOST_INSTANCES, Holdings, Predicted, Shares, Starts, Sweep, Tally
from protocols.wire.payload import PayloadError
from strategies.bc3e.layout import Layout

_COUNTED = ("bc3e", "vote")
"""Methods whose right decisions every site counts."""


def check_holdings(distribution: str, site: str, answer: Holdings) -> None:
    """Refuse impossible sizes, and names out of order."""
    expected = {
        "n_clusters": (len(answer.clusterings), len(answer.n_clusters)),
        "keys": (0 if distribution == "row" else answer.instances, len(answer.keys)),
    }
    for name, (wanted, got) in expected.items():
        if got != wanted:
            raise PayloadError(answer.title(), name, f"expected {wanted} numbers, got {got}")
    if answer.instances < 0 or answer.n_classes < 0 or (answer.n_clusters < 0).any():
        raise PayloadError(answer.title(), "instances", "a size is negative")
    if answer.instances > MOST_INSTANCES or answer.n_classes > MOST_CLASSES:
        raise PayloadError(
            answer.title(), "instances", f"expected up to {MOST_INSTANCES} of up to {MOST_CLASSES} classes"
        )
    if sorted(set(answer.clusterings)) != list(answer.clusterings):
        raise PayloadError(answer.title(), "clusterings", "names are not in order, or one comes twice")


def check_starts(layout: Layout, site: str, answer: Starts) -> None:
    """Refuse starts of other instances than those that the site shares."""
    expected = (layout.k, len(layout.shared_rows[site]))
    if answer.start.shape != expected:
        raise PayloadError(answer.title(), "start", f"expected shape {expected}, got {answer.start.shape}")
    if (answer.start < 0).any():
        raise PayloadError(answer.title(), "start", "holds a negative number")


def check_plain_shares(k: int, asks: Mapping[str, Sweep], site: str, answer: Shares) -> None:
    """Refuse shares of other instances than a prediction asked for, and what only learning needs."""
    expected = (k, len(asks[site].active))
    if answer.share.shape != expected:
        raise PayloadError(answer.title(), "share", f"expected shape {expected}, got {answer.share.shape}")
    if (answer.share < 0).any():
        raise PayloadError(answer.title(), "share", "holds a negative number")
    if answer.mass or answer.bound or len(answer.products):
        raise PayloadError(answer.title(), "mass", "expected nothing that an M-step needs")


def check_tally(site: str, answer: Tally | Predicted) -> None:
    """Refuse impossible counts."""
    if len(answer.methods) != len(answer.total):
        raise PayloadError(answer.title(), "methods", f"expected {len(answer.total)} names, got {len(answer.methods)}")
    if len(set(answer.methods)) < len(answer.methods) or not set(_COUNTED) <= set(answer.methods):
        raise PayloadError(answer.title(), "methods", f"expected every name once, {' and '.join(_COUNTED)} among them")
    if ((answer.correct < 0) | (answer.correct > answer.total)).any():
        raise PayloadError(answer.title(), "correct", "expected counts between 0 and those of total")


def check_predicted(site: str, answer: Predicted) -> None:
    """Check as `check_tally`; also refuse more counted instances than predicted ones."""
    check_tally(site, answer)
    if not 0 <= answer.instances <= MOST_INSTANCES or (answer.total > answer.instances).any():
        raise PayloadError(answer.title(), "instances", f"expected up to {MOST_INSTANCES}, and no more counted")
