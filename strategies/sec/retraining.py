"""Models that the center fits anew to the rows of several learners, which have agreed to it (Ye, Ding and Ghanadan
2022, section VI-A: "a random forest is retrained on the pooled data").
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped, UInt8

from numerics.sec.selection import SelectionError, select
from numerics.shared.candidates import ROW_MODELS, parse_candidates
from protocols.models import encode_model
from protocols.sec.payloads import Rows
from protocols.sec.settings import Settings
from strategies.sec.learners import Learners

FEWEST = 2
"""Fewest learners whose rows are pooled: a model of one learner's rows is its own."""


@dataclass(frozen=True)
class Retraining:
    """Models of pooled rows.

    Attributes
    ----------
    pooled : ndarray
        ``(L,)`` mask of the learners whose rows the center has.
    models : dict of bytes to ndarray
        Encoded models, by the bytes of the ``(L,)`` mask of the learners whose rows each was fitted to.

    Examples
    --------
    >>> Retraining.none(2).among(np.ones(2, bool))
    array([False, False])
    """

    pooled: Bool[np.ndarray, "L"]
    models: dict[bytes, UInt8[np.ndarray, "_"]] = field(default_factory=dict)

    @classmethod
    def none(cls, n: int) -> Retraining:
        """Return no models, for `n` learners that sent no rows."""
        return cls(np.zeros(n, bool))

    def among(self, members: Bool[np.ndarray, "L"]) -> Bool[np.ndarray, "L"]:
        """Return which of the members predict by one model of their pooled rows; nobody if only one sent rows."""
        both: Bool[np.ndarray, "L"] = members & self.pooled
        return both if both.tobytes() in self.models else np.zeros_like(both)

    def arrays(self, learners: Learners, labels: Int64[np.ndarray, "L"]) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays that `retraining_of` reads: who sent rows, and the model of each cluster that has one."""
        if not self.models:
            return {}
        arrays: dict[str, Shaped[np.ndarray, "..."]] = {"pool_member": self.pooled}
        for cluster in range(int(labels.max(initial=-1)) + 1):
            pooled = self.among(~learners.newcomer & (labels == cluster))
            if pooled.any():
                arrays[f"pool_model_{cluster}"] = self.models[pooled.tobytes()]
        return arrays


def retrain(
    learners: Learners,
    rows: Mapping[str, Rows],
    groups: Iterable[Bool[np.ndarray, "L"]],
    settings: Settings,
    seed: int,
) -> Retraining:
    """Fit a model to the pooled rows of every group of learners.

    Its method is the run's candidate that predicts the pooled rows best by cross-validation. Methods whose models hold
    rows are left out, because the model goes to every member. A group without a candidate that can be fitted gets no
    model.

    Parameters
    ----------
    learners : Learners
        All L learners.
    rows : Mapping of str to Rows
        What each learner sent; no rows from one that keeps them.
    groups : iterable of ndarray
        ``(L,)`` masks.
    settings : Settings
        Settings of the run.
    seed : int
        Seed of the fits, below 2**32.
    """
    pooled = np.array([name in rows and len(rows[name].y) > 0 for name in learners.names], bool)
    candidates = [each for each in parse_candidates(settings.candidates) if each.method not in ROW_MODELS]
    models: dict[bytes, UInt8[np.ndarray, "_"]] = {}
    for group in groups:
        mask = group & pooled
        key = mask.tobytes()
        if mask.sum() < FEWEST or key in models or not candidates:
            continue
        sent = [rows[name] for name, member in zip(learners.names, mask, strict=True) if member]
        with contextlib.suppress(SelectionError):
            chosen = select(
                candidates,
                np.concatenate([each.x for each in sent]),
                np.concatenate([each.y for each in sent]),
                selection=settings.selection,
                standardize=settings.standardize,
                min_leaf=settings.min_leaf,
                rng_seed=seed,
            )
            models[key] = encode_model(chosen.model)
    return Retraining(pooled, models)


def retraining_of(arrays: Mapping[str, Any]) -> Retraining:
    """Read the models of an earlier run's clusters from its ``arrays.npz``."""
    labels = arrays["labels"]
    pooled = arrays.get("pool_member", np.zeros(len(labels), bool))
    models = {}
    for cluster in range(int(labels.max(initial=-1)) + 1):
        if f"pool_model_{cluster}" in arrays:
            mask = pooled & ~arrays["newcomer"] & (labels == cluster)
            models[mask.tobytes()] = arrays[f"pool_model_{cluster}"]
    return Retraining(pooled, models)
