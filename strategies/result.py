"""The fusion center's own knowledge before a run, and the result of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Result


@dataclass
class FusionResult(Result):
    """Flower's own result, with the conversation's outcomes and the record of the run.

    Attributes
    ----------
    outcomes : list
        Outcomes of the conversation, one for every repetition.
    sites : list of str
        Names of the sites with usable answers, in order.
    missing : dict[str, list[str]]
        By site, its failures to answer.
    lost : list of str
        Sites that did not answer their last ask, in order.
    rebuilt : dict[str, list[int]]
        By site, the rounds in which it rebuilt a lost memory from repeated asks.
    rounds : int
        Number of rounds.
    seconds : float
        Seconds from the first message to the last answer.
    ledger : list of dict
        A line for every payload.
    convergence : list of dict
        A row for every round: its number, the strategy's measures, bytes and seconds.

    Examples
    --------
    >>> result = FusionResult(sites=["bank", "shop"], missing={"ward": ["round 2: no answer within 5 s"]})
    >>> result.sites, result.missing["ward"]
    (['bank', 'shop'], ['round 2: no answer within 5 s'])
    """

    outcomes: list[Any] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    rebuilt: dict[str, list[int]] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0
    ledger: list[dict[str, Any]] = field(default_factory=list)
    convergence: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Reference:
    """The center's knowledge beside the answers of this run's sites. Parts that a protocol does not use are empty.

    Attributes
    ----------
    truth : Callable or None
        ``truth(repetition)``: by site, the truth that only the scenario knows.
    outcome : Callable or None
        ``outcome(repetition)``: outcomes of the rows, if the center holds them.
    queries : Callable or None
        ``queries(repetition)``: query points of the center.
    test : Mapping[str, ndarray]
        Columns ``(t,)`` of the center's own test rows, by name.
    earlier : Mapping[str, ndarray]
        Arrays of an earlier run's results that this run uses.

    Examples
    --------
    >>> reference = Reference(test={"y": np.array([0.5, 1.5])})
    >>> reference.test["y"].tolist(), reference.truth is None
    ([0.5, 1.5], True)
    """

    truth: Callable[[int], Mapping[str, int]] | None = None
    outcome: Callable[[int], Any] | None = None
    queries: Callable[[int], Any] | None = None
    test: Mapping[str, np.ndarray] = field(default_factory=dict)
    earlier: Mapping[str, np.ndarray] = field(default_factory=dict)
