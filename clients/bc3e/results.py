"""Results at a site: its file of class probabilities, and how many decisions are right."""

from __future__ import annotations

import os

import numpy as np
from jaxtyping import Float64, Shaped

from clients.site import Site
from numerics.bc3e.e_step import votes
from numerics.bc3e.ensemble import Ensemble, Labels, present
from protocols.bc3e.payloads import Tally


def threads() -> int:
    """Return the number of blocks of instances that an E-step works on at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_theta(site: Site, shard: Ensemble, theta: Float64[np.ndarray, "n k"], name: str) -> None:
    """Write a CSV file: entity (or row number), the probability of every class, and the likeliest class."""
    if site.directory is None:
        return
    import pandas as pd

    frame = pd.DataFrame(theta, columns=[f"theta_{i}" for i in range(theta.shape[1])])
    frame.insert(0, "entity", np.arange(shard.n) if shard.entity is None else shard.entity)
    frame["class"] = theta.argmax(axis=1)
    site.write(name, lambda temporary: frame.to_csv(temporary, index=False))


def count(
    shard: Ensemble,
    theta: Float64[np.ndarray, "n k"],
    *,
    private: Shaped[np.ndarray, "n"],
    counted: Shaped[np.ndarray, "n"],
    fewest: int,
) -> Tally:
    """Count right labels; of fewer instances than `fewest` the counts are 0.

    Parameters
    ----------
    shard : Ensemble
        Labels and known classes.
    theta : ndarray
        ``(n, k)`` class probabilities.
    private, counted : ndarray
        ``(n,)`` masks: instances that the vote, and that BC3E's decision is counted on.
    fewest : int
        Fewest instances of a count.
    """
    truth = np.full(shard.n, -1) if shard.truth is None else shard.truth
    known = truth >= 0
    k = theta.shape[1]
    tallies: dict[str, tuple[int, int]] = {}

    def add(method: str, decided: Labels, mask: Shaped[np.ndarray, "n"]) -> None:
        total = int(mask.sum())
        tallies[method] = (int((decided == truth)[mask].sum()), total) if total >= fewest else (0, 0)

    add("bc3e", theta.argmax(axis=1), known & counted)
    add("vote", votes(shard.classifiers, shard.n, k, 20).argmax(axis=0), known & private)
    for name, labels in shard.classifiers.items():
        decided = labels.argmax(axis=1) if labels.ndim == 2 else labels
        add(name, decided, known & present(labels))
    return Tally(
        tuple(tallies),
        np.array([correct for correct, _ in tallies.values()], np.int64),
        np.array([total for _, total in tallies.values()], np.int64),
    )
