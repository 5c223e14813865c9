"""Asks for predictions of later rows, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, UInt8, UInt64

from protocols.budget import MODELS
from protocols.wire.payload import Payload


@dataclass(frozen=True)
class AgentPredictions(Payload):
    """To the center: the agent's part of the predictions of its present rows.

    Attributes
    ----------
    keys, check, kind
        As in `Holdings`.
    part : ndarray
        ``f_j(x)`` of each row, for boosting a column for each step: the center computes ``sum_j beta_j f_j(x)``. A site
        that sent bins sends the bins of each row. At worst this reveals the same about a new row as learning about the
        training rows: its leaf in each tree, or its rank in each column to within a bin.
    """

    keys: UInt64[np.ndarray, "rows 2"]
    check: UInt8[np.ndarray, "_"]
    kind: str
    part: Float64[np.ndarray, "n c"] | UInt8[np.ndarray, "n c"]


@dataclass(frozen=True)
class Predict(Payload, answer=AgentPredictions, spends={MODELS: 1}):
    """To sites: asks for predictions of the present rows.

    Attributes
    ----------
    run : str
        Run whose model predicts.
    salt, align
        As in `Enrol`.
    """

    run: str
    salt: str
    align: str
