"""Interface of a protocol's ``predict`` module.

Only a protocol whose ``PREDICTION`` (`protocols.prediction`) is at the fusion center has this module. It has

``Options``
    A class of `common.settings.Settings`: the protocol's keys for ``--set``. It may be missing.
``predict(run, table, options) -> Predictions``
    The predictions of new rows; `run` is a `LearnedRun`, `table` a `clients.data.Table`, `options` is an
    ``Options``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from common.csv_text import csv_text


class RequestError(ValueError):
    """Error: these results do not allow the prediction. The message says what to type instead."""


@dataclass(frozen=True)
class LearnedRun:
    """A finished run.

    Attributes
    ----------
    folder : Path
        Results directory, for messages.
    config : Mapping
        Settings of the run; ``id``, ``target`` and ``sensitive`` as the user sets them now.
    arrays : Mapping[str, ndarray]
        Arrays of the run.
    """

    folder: Path
    config: Mapping[str, Any]
    arrays: Mapping[str, Shaped[np.ndarray, "..."]]


@dataclass(frozen=True)
class Predictions:
    """Predictions of new rows.

    Attributes
    ----------
    columns : Mapping[str, ndarray]
        By name, in the order of the file's columns.
    lines : list of str
        Lines that the command prints beside them.

    Examples
    --------
    >>> print(Predictions({"entity": np.arange(2), "cluster": np.array([1, 0])}).csv())
    entity,cluster
    0,1
    1,0
    <BLANKLINE>
    """

    columns: Mapping[str, Shaped[np.ndarray, "n"]]
    lines: list[str] = field(default_factory=list)

    def csv(self) -> str:
        """Return the text of a CSV file, a line for every row; every number is read back exactly."""
        return csv_text(self.columns)
