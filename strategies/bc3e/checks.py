"""Checks of answers at the fusion center, beyond types and shapes that the payloads declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from numerics.bc3e.anderson import PRODUCT_BITS
from numerics.bc3e.limits import Limits, private_limits, shared_limits
from numerics.bc3e.reliability import is_confusion, least_evidence
from protocols.bc3e.payloads import (
    LARGEST_TABLE,
    LEVELS,
    MOST_CLASSES,
    MOST_INSTANCES,
    Holdings,
    PredictionTally,
    Shares,
    Starts,
    Statistics,
    Sweep,
    Tally,
)
from protocols.wire.payload import Payload, PayloadError
from strategies.bc3e.layout import Layout

_COUNTED = ("bc3e", "vote")
"""Methods whose decisions every site counts."""


def check_holdings(distribution: str, classes: int, site: str, answer: Holdings) -> None:
    """Refuse impossible sizes, more classes than the run has (0: any number), names out of order, and equal keys."""
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
    if classes and answer.n_classes > classes:
        raise PayloadError(answer.title(), "n_classes", f"is {answer.n_classes}, and bc3e.classes is {classes}")
    if answer.n_classes and not answer.classifiers:
        raise PayloadError(answer.title(), "n_classes", "the site has labels of classes, and no classifier")
    if max(2, classes, answer.n_classes) * int(answer.n_clusters.max(initial=0)) > LARGEST_TABLE:
        raise PayloadError(answer.title(), "n_clusters", f"a table of the classes would exceed {LARGEST_TABLE} entries")
    if len(np.unique(answer.keys)) < len(answer.keys):
        raise PayloadError(answer.title(), "keys", "two of its instances have one name")
    for name in ("classifiers", "clusterings"):
        names = getattr(answer, name)
        if sorted(set(names)) != list(names) or not all(names):
            raise PayloadError(answer.title(), name, "names are not in order, empty, or one comes twice")


def check_starts(layout: Layout, site: str, answer: Starts) -> None:
    """Refuse starts of another number of instances than the site shares, and starts that its models cannot give."""
    _expect(answer, "start", answer.start.shape, (layout.k, len(layout.shared_rows[site])))
    _check_labels(layout, site, answer, "start", answer.start)


def check_statistics(
    layout: Layout,
    alpha: Float64[np.ndarray, "k"],
    names: Iterable[str],
    n: int,
    answer: Statistics,
    *,
    draws: int = 0,
    alone: bool = False,
) -> None:
    """Refuse statistics of one site, or of a sum over sites, that no labels can have.

    Parameters
    ----------
    layout : Layout
        Labels and instances of the sites.
    alpha : ndarray
        ``(k,)`` alpha of the ask.
    names : iterable of str
        Clusterings of the answer, in order.
    n : int
        Number of instances.
    answer : Statistics
        The statistics.
    draws : int
        Draws of theta that an instance's class counts for.
    alone : bool
        Whether they are of an E-step of the classifiers alone.
    """
    _expect(answer, "n", answer.n, n)
    _expect(answer, "log_theta", answer.log_theta.shape, (layout.k,))
    limits = private_limits(alpha, n, max(layout.n_classifiers, draws), len(layout.n_clusters), layout.bits)
    _check_mass(layout, names, answer, limits)
    if (answer.log_theta > 0).any():
        raise PayloadError(answer.title(), "log_theta", "is positive; no sum of logarithms of probabilities is")
    if (answer.log_theta < limits.log_theta).any():
        raise PayloadError(answer.title(), "log_theta", f"is smaller than labels of {n} instances allow")
    _check_bound(answer, limits, n)
    if not 0 <= answer.changed <= n:
        raise PayloadError(answer.title(), "changed", f"is no number of {n} instances")
    _check_squares(answer, names, n if alone else None, layout)


def check_columns(before: Sequence[Int64[np.ndarray, "k _"]], n: int, answer: Statistics) -> None:
    """Refuse sums over other labels than those of an earlier round: each label counts 1, over all classes together.

    Parameters
    ----------
    before : sequence of ndarray
        Mass of the site in an earlier round, of the same tables.
    n : int
        Its number of private instances; each entry of each of them is rounded to the grid.
    answer : Statistics
        The site's sums of this round.
    """
    for old, new in zip(before, answer.mass, strict=True):
        change = new.sum(axis=0, dtype=float) - old.sum(axis=0, dtype=float)
        if (np.abs(change) > n * len(new)).any():
            raise PayloadError(answer.title(), "mass", "counts other labels than in an earlier round")


def check_number(most: int, answer: Statistics) -> None:
    """Refuse a masked sum over no instance, or over more than its sites can have."""
    if not 0 < answer.n <= most:
        raise PayloadError(answer.title(), "n", f"expected 1 to {most} instances")


def check_shares(
    layout: Layout, names: Iterable[str], ask: Sweep, history: int, site: str, answer: Shares, *, alone: bool = False
) -> None:
    """Refuse shares that no labels can have, and shares of other instances than those of the ask.

    Parameters
    ----------
    layout : Layout
        Labels and instances of the sites.
    names : iterable of str
        Clusterings of the answer, in order.
    ask : Sweep
        The ask.
    history : int
        Number of products in the answer of a site with own clusterings.
    site : str
        The site.
    answer : Shares
        Its shares.
    alone : bool
        Whether they are of an E-step of the classifiers alone.
    """
    _expect(answer, "share", answer.share.shape, (layout.k, len(ask.active)))
    _check_labels(layout, site, answer, "share", answer.share)
    _check_evidence(layout, ask, answer)
    n, own, ends = len(layout.shared_rows[site]), layout.own_of(site), alone and len(ask.classes) > 0
    clusterings = [name for name in own if not is_confusion(name)]
    limits = shared_limits(layout.k, n, len(layout.clusterings_of(site)), layout.bits)
    _check_mass(layout, names, answer, limits)
    # With an own clustering, the prior adds smoothing * sum log beta, which has no lower bound.
    _check_bound(answer, limits, n, least=not own)
    _expect(answer, "products", len(answer.products), history if clusterings else 0)
    # Rows of beta are probabilities, so the squared distance of two rows is at most 2.
    entries = layout.k * sum(layout.n_clusters[name] for name in clusterings)
    if (np.abs(answer.products.astype(float)) > 2.0 * layout.k * len(clusterings) * 2.0**PRODUCT_BITS + entries).any():
        raise PayloadError(answer.title(), "products", "are larger than products of differences of probabilities")
    _expect(answer, "gains", len(answer.gains), len(clusterings) if ends else 0)
    if not ((answer.gains >= 0) & (answer.gains <= 1)).all():
        raise PayloadError(answer.title(), "gains", "expected shares")
    _check_squares(answer, names, n if ends else None, layout)


def check_plain_shares(layout: Layout, asks: Mapping[str, Sweep], site: str, answer: Shares) -> None:
    """Refuse shares of other instances than those of the ask, and sums that only learning needs."""
    _expect(answer, "share", answer.share.shape, (layout.k, len(asks[site].active)))
    _check_labels(layout, site, answer, "share", answer.share)
    _check_evidence(layout, asks[site], answer)
    if answer.mass or answer.bound or len(answer.products) or len(answer.gains) or len(answer.squares):
        raise PayloadError(answer.title(), "mass", "expected no sums for an M-step")


def _check_evidence(layout: Layout, ask: Sweep, answer: Shares) -> None:
    """Refuse sums of log probabilities that no labels can have."""
    wanted = ask.log_weights.shape if ask.first else (0, 0)
    _expect(answer, "evidence", answer.evidence.shape, wanted)
    if (answer.evidence > 0).any() or (answer.evidence < least_evidence(layout.n_classifiers, layout.bits)).any():
        raise PayloadError(answer.title(), "evidence", "is no sum of logarithms of probabilities of labels")


def _check_labels(layout: Layout, site: str, answer: Payload, field: str, counts: Int64[np.ndarray, "k n"]) -> None:
    """Refuse more votes for an instance than the site has models: a label counts 1 over all classes."""
    if (counts < 0).any():
        raise PayloadError(answer.title(), field, "holds a negative number")
    models = layout.n_classifiers + len(layout.clusterings_of(site))
    # Sums of floats, because integers from a malicious site could overflow.
    if (counts.sum(axis=0, dtype=float) > models * (2.0**layout.bits + layout.k)).any():
        raise PayloadError(answer.title(), field, f"counts more than one label of each of {models} models")


def _check_mass(layout: Layout, names: Iterable[str], answer: Statistics | Shares, limits: Limits) -> None:
    shapes = [(layout.k, layout.n_clusters[name]) for name in names]
    _expect(answer, "mass", [table.shape for table in answer.mass], shapes)
    for table in answer.mass:
        if (table < 0).any():
            raise PayloadError(answer.title(), "mass", "holds a negative number")
        # Soft labels are rounded in every entry, hard labels in their column only.
        if table.sum(dtype=float) > limits.mass * (1 + table.size / 2.0**layout.bits):
            raise PayloadError(answer.title(), "mass", "counts more labels than there are instances")


def _check_squares(answer: Statistics | Shares, names: Iterable[str], n: int | None, layout: Layout) -> None:
    """Refuse sums of squares that n instances' probabilities cannot have; None: there are none.

    The squared probabilities of an instance add up to 1/k to 1, and its mass to 1.
    """
    _expect(answer, "squares", len(answer.squares), 0 if n is None else len(answer.mass))
    if n is None:
        return
    slack = 4.0 * n * layout.k
    for name, table, squares in zip(names, answer.mass, answer.squares.tolist(), strict=True):
        most = 0.0 if is_confusion(name) else table.sum(dtype=float) + slack
        if not 0 <= squares <= most or (most and squares < table.sum(dtype=float) / layout.k - slack):
            raise PayloadError(answer.title(), "squares", f"is no sum over probabilities of {n} instances")


def _check_bound(answer: Statistics | Shares, limits: Limits, n: int, *, least: bool = True) -> None:
    low, high = limits.bound
    if answer.bound > high or (least and answer.bound < low):
        raise PayloadError(answer.title(), "bound", f"is out of the range that labels of {n} instances allow")


def _expect(payload: Payload, name: str, got: object, expected: object) -> None:
    if got != expected:
        raise PayloadError(payload.title(), name, f"expected {expected}, got {got}")


def check_conclusion(layout: Layout, site: str, answer: Tally) -> None:
    """Refuse what `check_counts` refuses, and shares of right labels of other classifiers than the site's own."""
    check_counts(layout, site, answer)
    _expect(answer, "sure", len(answer.sure), len(LEVELS))
    total = answer.total[answer.methods.index("bc3e")]
    if ((answer.sure_correct < 0) | (answer.sure_correct > answer.sure) | (answer.sure > total)).any():
        raise PayloadError(answer.title(), "sure", "expected counts of decisions, and of right ones among them")
    if not 0 <= answer.unsure <= layout.instances[site]:
        raise PayloadError(answer.title(), "unsure", "is no number of the site's instances")
    _expect(answer, "reliability", len(answer.reliability), sum(map(is_confusion, layout.own_of(site))))


def check_counts(layout: Layout, site: str, answer: Tally) -> None:
    """Refuse what `check_tally` refuses, and counts of more instances or other classifiers than the site holds."""
    check_tally(site, answer)
    if not set(answer.methods) <= {*_COUNTED, *layout.classifiers[site]}:
        raise PayloadError(answer.title(), "methods", "names a classifier that the site does not hold")
    most = layout.instances[site] if site in layout.sites_with_truth else 0
    if (answer.total > most).any():
        raise PayloadError(answer.title(), "total", f"is more than the {most} instances of which it knows the class")


def check_tally(site: str, answer: Tally | PredictionTally) -> None:
    """Refuse impossible counts."""
    if len(answer.methods) != len(answer.total):
        raise PayloadError(answer.title(), "methods", f"expected {len(answer.total)} names, got {len(answer.methods)}")
    if len(set(answer.methods)) < len(answer.methods) or not set(_COUNTED) <= set(answer.methods):
        raise PayloadError(answer.title(), "methods", f"expected every name once, {' and '.join(_COUNTED)} among them")
    if ((answer.correct < 0) | (answer.correct > answer.total)).any():
        raise PayloadError(answer.title(), "correct", "expected counts between 0 and those of total")
    if isinstance(answer, Tally) and not 0 <= answer.withheld <= 100:
        raise PayloadError(answer.title(), "withheld", "is no percentage")
    if isinstance(answer, Tally) and ((answer.reliability < 0) | (answer.reliability > 1 + 1e-9)).any():
        raise PayloadError(answer.title(), "reliability", "expected shares")


def check_predicted(site: str, answer: PredictionTally) -> None:
    """Refuse what `check_tally` refuses, and more counted instances than predicted ones."""
    check_tally(site, answer)
    if not 0 <= answer.instances <= MOST_INSTANCES or (answer.total > answer.instances).any():
        raise PayloadError(answer.title(), "instances", f"expected up to {MOST_INSTANCES}, and no more counted")
