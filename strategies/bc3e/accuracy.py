"""Accuracy over all sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from protocols.bc3e.payloads import Predicted, Tally


def add_up(tallies: Mapping[str, Tally | Predicted]) -> tuple[dict[str, int], dict[str, int]]:
    """Add up the right decisions, and those that could be checked, by method."""
    correct: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for tally in tallies.values():
        for method, right, of in zip(tally.methods, tally.correct.tolist(), tally.total.tolist(), strict=True):
            correct[method] += right
            total[method] += of
    return dict(correct), dict(total)


def accuracies(correct: Mapping[str, int], total: Mapping[str, int]) -> dict[str, float]:
    """Return names and numbers of `report.json`: of BC3E, the vote, the classifiers, and the best of these.

    Examples
    --------
    >>> accuracies({"bc3e": 9, "vote": 8, "svm": 7}, {"bc3e": 10, "vote": 10, "svm": 10})
    {'accuracy': 0.9, 'accuracy_majority': 0.8, 'accuracy_svm': 0.7, 'accuracy_best_component': 0.7}
    """
    names = {"bc3e": "accuracy", "vote": "accuracy_majority"}
    # Where only some of the instances could be counted, the vote is not comparable: it is left out.
    accuracy = {
        names.get(method, f"accuracy_{method}"): correct[method] / of
        for method, of in total.items()
        if of and (method != "vote" or of == total["bc3e"])
    }
    components = [value for name, value in accuracy.items() if name not in names.values()]
    return accuracy | ({"accuracy_best_component": max(components)} if components else {})
