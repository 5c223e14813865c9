"""Small random ensembles for the tests of BC3E."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from common.value_ranges import Value
from numerics.bc3e.ensemble import Ensemble, Labels


def draw_labels(
    rng: np.random.Generator, truth: np.ndarray, n_values: int, *, noise: float, missing: float, soft: bool = False
) -> Labels:
    """Labels that follow `truth` (taken modulo `n_values`) but for a share `noise`, and are missing for another share.

    Soft labels are probabilities; some of them are 0.
    """
    n = len(truth)
    hard = np.where(rng.random(n) < noise, rng.integers(n_values, size=n), truth % n_values)
    gone = rng.random(n) < missing
    if not soft:
        return np.where(gone, -1, hard).astype(np.int64)
    weights = rng.dirichlet(np.full(n_values, 0.5), size=n) + 3.0 * np.eye(n_values)[hard]
    weights[(weights < 1e-3) | (rng.random(weights.shape) < 0.2)] = 0.0
    weights += np.eye(n_values)[hard]
    weights /= weights.sum(axis=1, keepdims=True)
    return np.where(gone[:, None], 0.0, weights)


def draw_ensemble(
    rng: np.random.Generator,
    n: int,
    *,
    k: int = 3,
    r1: int = 2,
    n_clusters: tuple[int, ...] = (3, 5),
    missing: float = 0.0,
    soft: float = 0.0,
    noise: float = 0.25,
) -> Ensemble:
    """`n` instances with `r1` classifiers and a clustering for each of `n_clusters`; a share `soft` of soft models.

    Hard models show all their values when there are enough instances, so that sizes can be read off the labels.
    """
    truth = rng.integers(k, size=n)

    def model(size: int, following: np.ndarray) -> Labels:
        labels = draw_labels(rng, following, size, noise=noise, missing=missing, soft=rng.random() < soft)
        if labels.ndim == 1 and n >= size:
            labels[rng.permutation(n)[:size]] = np.arange(size)
        return labels

    # A clustering with more clusters than classes splits the classes.
    split = truth + k * rng.integers(4, size=n)
    return Ensemble(
        n=n,
        classifiers={f"class_{place}": model(k, truth) for place in range(r1)},
        clusterings={f"cluster_{place}": model(size, split) for place, size in enumerate(n_clusters)},
        truth=truth,
        entity=rng.permutation(10 * n)[:n].astype(np.int64),
    )


def draw_beta(rng: np.random.Generator, k: int, k_m: int, zeros: float = 0.0) -> np.ndarray:
    """Rows of probabilities; a share `zeros` of the entries is 0, never all of a row or of a column."""
    beta = rng.dirichlet(np.ones(k_m), size=k)
    beta[rng.random(beta.shape) < zeros] = 0.0
    beta[np.arange(k), rng.integers(k_m, size=k)] += 0.1
    beta[rng.integers(k, size=k_m), np.arange(k_m)] += 0.1
    return np.asarray(beta / beta.sum(axis=1, keepdims=True))


def write_sites_of_labels(folder: Path, sizes: Mapping[str, int]) -> dict[str, dict[str, Value]]:
    """Write a file of labels for each site, with so many rows; return the node configurations of real sites."""
    rng = np.random.default_rng(0)
    nodes: dict[str, dict[str, Value]] = {}
    for name, n in sizes.items():
        truth = rng.integers(0, 3, n)
        columns = {"case": [f"{name}-{i}" for i in range(n)], "cluster_x": 2 - truth, "diagnosis": truth}
        columns |= {f"class_{i}": np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth) for i in range(3)}
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
        nodes[name] = {"site": name, "data": str(folder / f"{name}.csv"), "id": "case", "truth": "diagnosis"}
        nodes[name]["site-output-dir"] = str(folder / "out" / name)
    return nodes
