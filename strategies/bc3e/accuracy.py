"""Accuracy over all sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float64

from protocols.bc3e.payloads import LEVELS, PredictionTally, Tally

_NOTABLE, _STANDARD_ERRORS = 0.1, 4.0
"""Difference from the others' share of correct decisions, and its standard errors, beyond which a site is named."""
_ROUNDED = 2.5
"""Largest rounding error of a site's number of correct decisions, which it rounds to a multiple of five."""


def add_up(tallies: Mapping[str, Tally | PredictionTally]) -> tuple[dict[str, int], dict[str, int]]:
    """Add up the numbers of right decisions, and of decisions with known truth, by method.

    Examples
    --------
    >>> import numpy as np
    >>> tally = Tally(("bc3e", "vote"), np.array([9, 8]), np.array([10, 10]))
    >>> add_up({"a": tally, "b": tally})
    ({'bc3e': 18, 'vote': 16}, {'bc3e': 20, 'vote': 20})
    """
    correct: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for tally in tallies.values():
        for method, right, of in zip(tally.methods, tally.correct.tolist(), tally.total.tolist(), strict=True):
            correct[method] += right
            total[method] += of
    return dict(correct), dict(total)


def rivals(total: Mapping[str, int]) -> list[str]:
    """Return the classifiers that label half of the instances of known class at least: the single ones one could use.

    Examples
    --------
    >>> rivals({"bc3e": 100, "vote": 100, "svm": 80, "expert": 3})
    ['svm']
    """
    most = total.get("bc3e", 0)
    return [method for method, of in total.items() if method not in ("bc3e", "vote") and of and 2 * of >= most]


def contrasts(tallies: Mapping[str, Tally | PredictionTally]) -> dict[str, tuple[float, float]]:
    """Return the site whose share of correct decisions is notably unlike the others', and both shares; empty: none.

    A notable difference is above a tenth, and above four standard errors plus the rounding of counts. Only the farthest
    of several such sites is returned, because it moves the share of the others.

    Examples
    --------
    >>> import numpy as np
    >>> right = {"a": 90, "b": 92, "c": 9}
    >>> contrasts({site: Tally(("bc3e",), np.array([n]), np.array([100])) for site, n in right.items()})
    {'c': (0.09, 0.91)}
    """
    counts = {}
    for site, tally in tallies.items():
        place = tally.methods.index("bc3e")
        if of := int(tally.total[place]):
            counts[site] = int(tally.correct[place]), of
    if len(counts) < 3:  # with two sites, nobody knows which one is wrong
        return {}
    right_of_all, of_all = (sum(each) for each in zip(*counts.values(), strict=True))
    shares = {}
    for site, (right, of) in counts.items():
        n = of_all - of
        own, usual = right / of, (right_of_all - right) / n
        error = np.sqrt(max(usual * (1 - usual), 1 / n) * (1 / of + 1 / n))
        if abs(own - usual) > max(_NOTABLE, _STANDARD_ERRORS * error + _ROUNDED / of):
            shares[site] = own, usual
    return dict(sorted(shares.items(), key=lambda each: -abs(each[1][0] - each[1][1]))[:1])


def coverage(tallies: Iterable[Tally]) -> Float64[np.ndarray, "levels 3"]:
    """Return levels of the class probability, the share of decisions that reach each, and the accuracy of these.

    Levels at which no site counts a decision are left out. A site that counts none at a level has no part in its
    shares.

    Examples
    --------
    >>> counts = {"sure": np.array([10, 9, 8, 8, 8, 5, 4, 0]), "sure_correct": np.array([8, 8, 7, 7, 7, 5, 4, 0])}
    >>> tally = Tally(("bc3e", "vote"), np.array([8, 8]), np.array([10, 10]), **counts)
    >>> coverage([tally])[5].tolist()
    [0.85, 0.5, 1.0]
    """
    tallies = [tally for tally in tallies if len(tally.sure)]
    totals = np.array([tally.total[tally.methods.index("bc3e")] for tally in tallies])
    sure = np.array([tally.sure for tally in tallies]).reshape(-1, len(LEVELS))
    right = np.array([tally.sure_correct for tally in tallies]).reshape(-1, len(LEVELS)).sum(axis=0)
    counting = np.where(sure > 0, totals[:, np.newaxis], 0).sum(axis=0)
    levels = np.flatnonzero(counting)
    counts = sure.sum(axis=0)[levels]
    return np.column_stack([np.array(LEVELS)[levels], counts / counting[levels], right[levels] / counts])


def paired(correct: Mapping[str, int], total: Mapping[str, int]) -> dict[str, Float64[np.ndarray, "_"]]:
    """Compare BC3E with the vote and the best classifier: difference of accuracies, its standard error, and instances.

    The fusion center knows numbers of correct decisions, but not their instances. So the standard error is that of two
    independent samples. It is too large, since both methods are right about the easy instances. The best classifier is
    chosen by these numbers; a fourth number has the number of classifiers.

    Examples
    --------
    >>> paired({"bc3e": 90, "vote": 80}, {"bc3e": 100, "vote": 100})["paired_accuracy_majority"].round(3).tolist()
    [0.1, 0.05, 100.0]
    """
    if not (n := total.get("bc3e", 0)):
        return {}

    def compared(method: str, *chosen_from: int) -> Float64[np.ndarray, "_"]:
        own, other = correct["bc3e"] / n, correct[method] / total[method]
        variance = own * (1 - own) / n + other * (1 - other) / total[method]
        return np.array([own - other, np.sqrt(variance), n, *chosen_from], float)

    pairs = {}
    if total.get("vote") == n:
        pairs["paired_accuracy_majority"] = compared("vote")
    if classifiers := rivals(total):
        best = max(classifiers, key=lambda method: correct[method] / total[method])
        pairs["paired_accuracy_best_component"] = compared(best, len(classifiers))
    return pairs


def accuracies(correct: Mapping[str, int], total: Mapping[str, int]) -> dict[str, float]:
    """Return the accuracies of `report.json` by name: of BC3E, the vote, each classifier, and the best of `rivals`.

    Examples
    --------
    >>> accuracies({"bc3e": 9, "vote": 8, "svm": 7}, {"bc3e": 10, "vote": 10, "svm": 10})
    {'accuracy': 0.9, 'accuracy_majority': 0.8, 'accuracy_svm': 0.7, 'accuracy_best_component': 0.7}
    """
    names = {"bc3e": "accuracy", "vote": "accuracy_majority"}
    # If the vote was counted on fewer instances than BC3E, the two cannot be compared, and the vote is left out.
    accuracy = {
        names.get(method, f"accuracy_{method}"): correct[method] / of
        for method, of in total.items()
        if of and (method != "vote" or of == total["bc3e"])
    }
    components = [accuracy[f"accuracy_{method}"] for method in rivals(total)]
    return accuracy | ({"accuracy_best_component": max(components)} if components else {})
