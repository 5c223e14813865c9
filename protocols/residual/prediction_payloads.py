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
        ``f_j(x)``, a number for each row; of boosting a number for each row and step. The center has the coefficients
        and computes ``sum_j beta_j f_j(x)``. At worst the steps tell of a new row what they told of the training rows:
        by each tree, in which leaf it is. Of a site that has given bins, those of the row: its rank in each column, to
        one of the bins.
    """

    keys: UInt64[np.ndarray, "rows 2"]
    check: UInt8[np.ndarray, "_"]
    kind: str
    part: Float64[np.ndarray, "n c"] | UInt8[np.ndarray, "n c"]


@dataclass(frozen=True)
class Predict(Payload, answer=AgentPredictions):
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

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1}
