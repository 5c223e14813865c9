"""Results at a site: its file of class probabilities, and its counts of right decisions."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.site import Site
from common.csv_text import csv_text
from common.files import encode_text
from numerics.bc3e.e_step import votes
from numerics.bc3e.ensemble import Ensemble, Labels, present
from protocols.bc3e.payloads import LEVELS, Tally

FEWEST_APART, _PARTS = 5, 20
"""Least step, and number of steps, of rounded counts: exact counts of ten runs would reveal classes of rare labels."""


def threads() -> int:
    """Return the number of blocks of instances that an E-step works on at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_theta(site: Site, shard: Ensemble, theta: Float64[np.ndarray, "n k"], name: str) -> None:
    """Write a CSV file with the entity (or row number), the probability of every class, and the likeliest class."""
    if site.directory is None:
        return
    entity = np.arange(shard.n) if shard.entity is None else shard.entity
    probabilities = {f"theta_{i}": column for i, column in enumerate(theta.T)}
    text = csv_text({"entity": entity, **probabilities, "class": theta.argmax(axis=1)})
    site.write(name, partial(Path.write_bytes, data=encode_text(text)))


UNSURE = "unsure.csv"


def write_unsure(site: Site, shard: Ensemble, theta: Float64[np.ndarray, "n k"], below: float) -> int:
    """Write a CSV file with the instances whose class has a smaller probability than `below`; return their number.

    If `below` is 0 no file is written.
    """
    sure = theta.max(axis=1, initial=0.0)
    unsure = np.flatnonzero(sure < below)
    if below > 0 and site.directory is not None:
        entity = np.arange(shard.n) if shard.entity is None else shard.entity
        columns = {"entity": entity[unsure], "class": theta.argmax(axis=1)[unsure], "probability": sure[unsure]}
        site.write(UNSURE, partial(Path.write_bytes, data=encode_text(csv_text(columns))))
    return len(unsure)


def _count_sure(
    theta: Float64[np.ndarray, "n k"], truth: Labels, counted: Shaped[np.ndarray, "n"], fewest: int, step: int
) -> tuple[Int64[np.ndarray, "levels"], Int64[np.ndarray, "levels"]]:
    """Count decisions, and right ones, at each of `LEVELS`; 0 if too few lie at or above the level, or below it.

    Both are rounded: a center that lies can have parameters by which only instances with certain labels are sure.
    """
    sure = theta[counted].max(axis=1, initial=0.0)
    right = theta[counted].argmax(axis=1) == truth[counted]
    above = sure >= np.array(LEVELS)[:, np.newaxis]
    counts, rest = above.sum(axis=1), (~above).sum(axis=1)
    sufficient = ((counts == 0) | (counts >= fewest)) & ((rest == 0) | (rest >= fewest))
    counts = coarse_counts(np.where(sufficient, counts, 0), len(sure), step)
    return counts, coarse_counts(np.where(sufficient, (above & right).sum(axis=1), 0), counts, step)


def counting_of(site: Site) -> dict[str, int]:
    """Return the fewest decisions that the site counts, and the step to which it rounds right ones (`count_right`).

    Labels of a scenario are public: right ones are counted exactly.
    """
    step = site.policy.private_floor(FEWEST_APART) if site.has_private_rows else 1
    return {"fewest": site.policy.min_rows, "step": step}


def coarse_counts(
    decisions: Int64[np.ndarray, "levels"], of: Int64[np.ndarray, "levels"] | int, step: int
) -> Int64[np.ndarray, "levels"]:
    """Round numbers of decisions to multiples of `step`, or of a twentieth of all if that is more; a step of 1: exact.

    Examples
    --------
    >>> coarse_counts(np.array([7, 8, 100]), 100, step=5), coarse_counts(np.array([7]), 100, step=1)
    (array([  5,  10, 100]), array([7]))
    """
    unit = max(step, int(np.max(of, initial=0)) // _PARTS) if step > 1 else 1
    return np.asarray(np.minimum((decisions + unit // 2) // unit * unit, of))


def count_right(
    shard: Ensemble,
    theta: Float64[np.ndarray, "n k"],
    *,
    private: Shaped[np.ndarray, "n"],
    counted: Shaped[np.ndarray, "n"],
    fewest: int,
    step: int = 1,
) -> Tally:
    """Count right decisions of BC3E, of the vote, and of every classifier.

    Over many runs with other parameters, exact counts are equations for the known class of each combination of labels.

    Parameters
    ----------
    shard : Ensemble
        Labels and known classes.
    theta : ndarray
        ``(n, k)`` class probabilities.
    private, counted : ndarray
        ``(n,)`` masks of the instances on which decisions of the vote, and of BC3E, are counted.
    fewest : int
        Fewest instances of a count; a count over fewer is reported as 0 of 0.
    step : int
        Counts of right decisions are rounded to multiples of it, or of a twentieth of the decisions if that is more; 1:
        they are exact.

    Examples
    --------
    >>> shard = Ensemble(2, {"svm": np.array([0, 1])}, {}, truth=np.array([0, 0]))
    >>> both = np.ones(2, bool)
    >>> tally = count_right(shard, np.array([[0.9, 0.1], [0.6, 0.4]]), private=both, counted=both, fewest=1)
    >>> dict(zip(tally.methods, zip(tally.correct.tolist(), tally.total.tolist())))
    {'bc3e': (2, 2), 'vote': (1, 2), 'svm': (1, 2)}
    """
    truth = np.full(shard.n, -1) if shard.truth is None else shard.truth
    known = truth >= 0
    k = theta.shape[1]
    tallies: dict[str, tuple[int, int]] = {}

    def add(method: str, decided: Labels, mask: Shaped[np.ndarray, "n"]) -> None:
        total = int(mask.sum())
        right = coarse_counts(np.array([(decided == truth)[mask].sum()]), np.array([total]), step)
        tallies[method] = (int(right[0]), total) if total >= fewest else (0, 0)

    add("bc3e", theta.argmax(axis=1), known & counted)
    add("vote", votes(shard.classifiers, shard.n, k, 20).argmax(axis=0), known & private)
    for name, labels in shard.classifiers.items():
        decided = labels.argmax(axis=1) if labels.ndim == 2 else labels
        add(name, decided, known & present(labels))
    sure, sure_right = _count_sure(theta, truth, known & counted, fewest, step)
    return Tally(
        tuple(tallies),
        np.array([correct for correct, _ in tallies.values()], np.int64),
        np.array([total for _, total in tallies.values()], np.int64),
        sure=sure,
        sure_correct=sure_right,
    )
