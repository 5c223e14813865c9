"""What the fusion center knows before a run, beside the sites' answers, and the result of the run."""

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
        What the conversation returned, one for every repetition.
    sites : list of str
        Names of the sites that gave an answer the run could use, in order.
    missing : dict[str, list[str]]
        By site, what happened in the rounds that it did not answer.
    rebuilt : dict[str, list[int]]
        By site, the rounds in which it had lost its memory and went through the earlier asks again.
    rounds : int
        Rounds of messages.
    seconds : float
        From the first message to the last answer, without waiting for the first nodes.
    ledger : list of dict
        A line for every payload that crossed.
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
    rebuilt: dict[str, list[int]] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0
    ledger: list[dict[str, Any]] = field(default_factory=list)
    convergence: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Reference:
    """What the center knows beside the answers of this run's sites. What a protocol has no use for stays empty.

    Attributes
    ----------
    truth : Callable or None
        ``truth(repetition)``: by site name, what only the maker of a scenario knows of it.
    outcome : Callable or None
        ``outcome(repetition)``: the outcomes of the rows, where the center holds them.
    queries : Callable or None
        ``queries(repetition)``: the points at which the center wants predictions; None: there are none.
    test : Mapping[str, ndarray]
        Columns ``(t,)`` of the center's own test rows, by name; empty: it has none.
    earlier : Mapping[str, ndarray]
        Arrays of an earlier run's results, which this run goes on from; empty: it does not.

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
