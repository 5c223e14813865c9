"""Influence of each learner: the weight of its model in what the others predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int64

from strategies.influence import Influence
from strategies.sec.learners import Learners
from strategies.sec.mixtures import partners_of

WEIGHT = "mean weight of its model in the cluster predictions of the other sites"


def influence_on_predictions(
    learners: Learners, labels: Int64[np.ndarray, "L"], senders: Mapping[str, Sequence[str]]
) -> Influence:
    """Return the mean weight in eq. (5) of each learner's model in the cluster predictions of the others.

    A prediction without the learner differs by this weight times the distance of its model from the others' mixture.

    Parameters
    ----------
    learners : Learners
        All L learners.
    labels : ndarray
        ``(L,)`` clusters, -1 for none.
    senders : Mapping[str, Sequence of str]
        By present learner, those whose models it got. It mixes these and its own.

    Examples
    --------
    Learner b claims nine times the rows of a, with the same error, and c is alone in its cluster:

    >>> from protocols.sec.payloads import FittedModel
    >>> def profile(n):
    ...     empty = np.zeros(0)
    ...     return FittedModel("lr", 1.0, 0.1, n, ("x",), empty.astype(np.uint8), empty, np.zeros((0, 0)))
    >>> learners = Learners.of({"a": profile(10), "b": profile(90), "c": profile(10)}, (), {})
    >>> influence = influence_on_predictions(learners, np.array([0, 0, 1]), dict.fromkeys("abc", ("a", "b", "c")))
    >>> {name: round(weight, 2) for name, weight in influence.without.items()}
    {'a': 0.05, 'b': 0.45, 'c': 0.0}
    """
    names, everyone = learners.names, np.ones(len(labels), bool)
    total = np.zeros(len(names))
    for name, own_senders in senders.items():
        cluster = partners_of(name, learners, labels, everyone, {})["cluster"]
        lenders = cluster & np.isin(names, [*own_senders, name])
        weights = np.zeros(len(names))
        weights[lenders] = learners.shares(lenders)
        weights[names.index(name)] = 0.0
        total += weights
    n_others = len(senders) - np.isin(names, list(senders))
    if not n_others.all():
        return Influence.unknown_since("only one site took part")
    return Influence(WEIGHT, None, dict(zip(names, (total / n_others).tolist(), strict=True)))
