"""Reliability of classifiers: a confusion matrix for each, beside the tables of clusterings (Dawid and Skene 1979).

A classifier's label is then an observation instead of a vote: instance n has one class ``y_n``, and classifier l labels
it ``w_nl ~ pi_l[y_n, .]``. The rows of pi_l have a Dirichlet prior that favors the diagonal. A cluster label counts as
one draw of ``theta_n ~ Dirichlet(alpha)``, the class as `draws` draws that agree. So the evidence lower bound gains

    sum_n sum_i r_ni (sum_l log pi_l[i, w_nl] - log r_ni) + draws r_ni E[log theta_ni],

``r_n`` being the responsibilities of the classes. Coordinate ascent on it:

- ``r_ni`` ∝ ``exp(draws psi(gamma_ni) + sum_l log pi_l[i, w_nl])``,
- ``gamma_n = alpha + draws r_n + sum_m phi_nm`` in place of eq. (6),
- ``pi_l[i, j]`` ∝ ``sum_n r_ni [w_nl = j]`` + prior, of the form of eq. (7).

Without clusterings and with one draw this is Dawid and Skene's model with a prior. Logarithms are put on the grid one
by one, so that their sum does not depend on which site holds which classifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.bc3e.ensemble import Counts, Labels
from numerics.bc3e.grid import add_up, from_grid, to_grid
from numerics.bc3e.m_step import initial_beta, maximize_beta, smoothing_bound
from numerics.bc3e.responsibilities import Table, max_classes, safe_log, sum_classes

_PREFIX = "confusion:"

PRIOR_LABELS, PRIOR_RIGHT = 80.0, 0.7
"""Prior of a row of a confusion matrix: number of labels, and share of right ones (docs/bc3e-evidence.md)."""

_LEAST_LOG = -1000.0
"""Smallest log probability of a label; the prior keeps true ones far above it."""


def confusion_of(classifier: str) -> str:
    """Return the name of a classifier's confusion matrix among the tables."""
    return _PREFIX + classifier


def is_confusion(table: str) -> bool:
    """Return whether a table is a classifier's confusion matrix."""
    return table.startswith(_PREFIX)


def classifier_of(table: str) -> str:
    """Return the classifier of a confusion matrix."""
    return table.removeprefix(_PREFIX)


def table_names(classifiers: Iterable[str], clusterings: Iterable[str], *, confusion: bool) -> list[str]:
    """Return the names of all tables, in their order.

    Examples
    --------
    >>> table_names(["svm"], ["kmeans"], confusion=True)
    ['confusion:svm', 'kmeans']
    """
    return sorted([*clusterings, *(map(confusion_of, classifiers) if confusion else ())])


RELATED = 0.1
"""Association (tau) below which a clustering counts as unrelated to the classes."""

GAINS = (0.2, 0.35)
"""Mean gains of clusterings at which the draws of a class fall to two, and to one (docs/bc3e-evidence.md)."""


def draws_of(gains: Iterable[float]) -> int:
    """Return the number of draws of theta that a class counts for by default.

    With fewer draws, clusterings that do not follow the classes overrule the classifiers. With more, clusterings that
    follow them help less, and bad classifiers stay undetected (docs/bc3e-evidence.md).

    Parameters
    ----------
    gains : iterable of float
        `gain` of each clustering; without any, a class counts for one draw.

    Examples
    --------
    >>> draws_of([0.0]), draws_of([0.3, 0.0]), draws_of([0.3, 0.5]), draws_of([])
    (3, 2, 1, 1)
    """
    gains = list(gains)
    return 3 - sum(mean_gain(gains) >= least for least in GAINS) if gains else 1


def mean_gain(gains: Iterable[float]) -> float:
    """Return the mean gain of the clusterings that are related to the classes; 0 if none is."""
    related = [each for each in gains if each]
    return sum(related) / len(related) if related else 0.0


def gain(mass: Int64[np.ndarray, "k size"], squares: int, bits: int) -> float:
    """Estimate the share of the classes' variance that the classifiers leave open and a clustering explains.

    Let r be calibrated class probabilities by classifiers that err independently, and p their mean. The classifiers
    settle the share ``rho = sum_i var r_i / (1 - sum_i p_i^2)`` of the classes' variance. A clustering that explains
    the share eta of the variance of r explains ``tau = eta / rho`` of that of the classes: Goodman and Kruskal's tau
    (1954), corrected for attenuation (Spearman 1904). The gain is ``tau (1 - rho)``. Classifiers that err together have
    a larger rho, and so a smaller gain.

    Parameters
    ----------
    mass : ndarray
        ``sum_n r_ni [w_nm = j]``: ``T_m`` of the E-step of the classifiers alone.
    squares : int
        ``sum_n sum_i r_ni^2`` of the same instances, on the grid.
    bits : int
        Fineness of the grid.

    Returns
    -------
    float
        0 to 1; 0 if tau is below `RELATED`.

    Examples
    --------
    The classifiers give each instance one of two classes with a probability of .8; each class has a cluster of its own:

    >>> gain(np.array([[80, 20], [20, 80]]), squares=136, bits=0).__round__(6)
    0.64
    >>> gain(np.array([[50, 50], [50, 50]]), squares=136, bits=0)
    0.0
    """
    counts = from_grid(mass[:, mass.any(axis=0)], bits)
    sizes = counts.sum(axis=0)
    n, clusters = sizes.sum(), len(sizes)
    if n <= clusters:
        return 0.0
    even = ((counts.sum(axis=1) / n) ** 2).sum()
    variance = from_grid(np.array(squares), bits) / n - even
    if variance <= 0 or even >= 1:
        return 0.0
    between = (counts**2 / sizes).sum() / n - even
    explained = 1 - (1 - between / variance) * (n - 1) / (n - clusters)  # beyond chance, as adjusted R^2
    rho = variance / (1 - even)
    tau = min(explained / rho, 1.0)
    return float(tau * max(1 - rho, 0.0)) if tau >= RELATED else 0.0


# -- tables -----------------------------------------------------------------------------------------------------------


def prior_counts(k: int) -> Float64[np.ndarray, "k k"]:
    """Return the prior of a confusion matrix, in numbers of labels; row i is class i.

    Examples
    --------
    >>> prior_counts(3)[0].round(6).tolist()
    [56.0, 12.0, 12.0]
    """
    wrong = PRIOR_LABELS * (1 - PRIOR_RIGHT) / max(k - 1, 1)
    return np.where(np.eye(k, dtype=bool), PRIOR_LABELS * PRIOR_RIGHT, wrong)


def are_tables(names: Sequence[str], tables: Sequence[Float64[np.ndarray, "k _"]]) -> bool:
    """Return whether no entry is negative, and none of a confusion matrix, whose logarithms are summed, is 0.

    Examples
    --------
    >>> are_tables(["kmeans"], [np.eye(2)]), are_tables(["confusion:svm"], [np.eye(2)])
    (True, False)
    """
    least = (0.0 if not is_confusion(name) else np.finfo(np.float64).tiny for name in names)
    return all((table >= lowest).all() for table, lowest in zip(tables, least, strict=True))


def first_table(name: str, k: int, size: int, start: int) -> Float64[np.ndarray, "k size"]:
    """Return a table's start: the prior mean of a confusion matrix, `initial_beta` of a clustering."""
    if is_confusion(name):
        counts = prior_counts(k)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))
    return initial_beta(name, k, size, start)


def maximize_table(
    name: str, mass: Int64[np.ndarray, "k size"], bits: int, smoothing: float
) -> Float64[np.ndarray, "k size"]:
    """Apply the M-step to a table: eq. (7), with the prior if it is a confusion matrix.

    Examples
    --------
    >>> maximize_table("confusion:svm", np.array([[80, 0], [20, 0]]), bits=0, smoothing=0.0).round(6).tolist()
    [[0.85, 0.15], [0.44, 0.56]]
    """
    if not is_confusion(name):
        return maximize_beta(mass, bits, smoothing)
    counts = from_grid(mass, bits) + prior_counts(len(mass))
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def prior_bound(name: str, table: Float64[np.ndarray, "k size"], smoothing: float) -> float:
    """Compute what a table's prior adds to the bound: the sum of its counts times log probabilities."""
    if not is_confusion(name):
        return smoothing_bound(table, smoothing)
    return float((prior_counts(len(table)) * np.log(np.maximum(table, 1e-300))).sum())


def share_right(alpha: Float64[np.ndarray, "k"], confusion: Float64[np.ndarray, "k k"], n_labels: int) -> float:
    """Estimate a classifier's share of right labels, with the class frequencies that alpha implies.

    The prior's labels are subtracted: with them, a classifier that is right in .9 of 400 labels would be reported as
    .84, and one that guesses between two classes as .56 (docs/bc3e-evidence.md).

    Parameters
    ----------
    alpha : ndarray
        ``(k,)``, of the fit.
    confusion : ndarray
        ``(k, k)`` confusion matrix, as `maximize_table` returns it.
    n_labels : int
        Number of instances that the classifier labels; 0: the prior's share is returned.

    Examples
    --------
    >>> table = maximize_table("confusion:svm", np.array([[180, 20], [20, 180]]), bits=0, smoothing=0.0)
    >>> share_right(np.array([1.0, 1.0]), table, n_labels=400).__round__(6), table[0, 0].__round__(3)
    (0.9, np.float64(0.843))
    """
    if not n_labels:
        return PRIOR_RIGHT
    labels = n_labels * alpha / alpha.sum()
    right = np.diagonal(confusion) * (labels + PRIOR_LABELS) - PRIOR_LABELS * PRIOR_RIGHT
    # No matrix product, whose last digit differs between processors.
    return min(float(np.clip(right, 0.0, labels).sum() / n_labels), 1.0)


# -- classes ----------------------------------------------------------------------------------------------------------


def class_evidence(
    tables: Mapping[str, Table], classifiers: Mapping[str, Labels], n: int, k: int, bits: int
) -> Int64[np.ndarray, "k n"]:
    """Sum the log probabilities of the classifiers' labels under each class, on the grid.

    Parameters
    ----------
    tables : Mapping[str, ndarray]
        `numerics.bc3e.responsibilities.likelihood_table` of every classifier's confusion matrix, by its name.
    classifiers : Mapping[str, ndarray]
        Labels of the n instances; with soft labels, logarithms are averaged.
    n, k, bits : int
        Numbers of instances and classes, and fineness of the grid.

    Returns
    -------
    ndarray
        ``(k, n)``; all zeros where an instance has no label.
    """
    total = np.zeros((k, n), np.int64)
    for name, labels in classifiers.items():
        logs = np.maximum(safe_log(tables[confusion_of(name)][:, :-1]), _LEAST_LOG)
        if labels.ndim == 1:
            total += np.hstack([to_grid(logs, bits), np.zeros((k, 1), np.int64)]).take(labels, axis=1)
            continue
        averaged = np.zeros((k, n))
        for column in range(labels.shape[1]):  # one at a time: the same order of additions in any block
            averaged += logs[:, column, None] * labels[:, column]
        total += to_grid(averaged, bits)
    return total


def least_evidence(n_classifiers: int, bits: int) -> float:
    """Return the smallest sum of `class_evidence` over `n_classifiers` classifiers."""
    return n_classifiers * (_LEAST_LOG * 2.0**bits - 1)


def class_responsibilities(
    log_weights: Float64[np.ndarray, "k n"], evidence: Int64[np.ndarray, "k n"], draws: int, bits: int
) -> Float64[np.ndarray, "k n"]:
    """Compute r_n, in units of the grid; 0 for an instance that no classifier labels.

    Parameters
    ----------
    log_weights : ndarray
        ``psi(gamma_ni)``.
    evidence : ndarray
        `class_evidence` of all classifiers.
    draws, bits : int
        Draws of theta that the class counts for, and fineness of the grid.
    """
    logs = draws * log_weights + from_grid(evidence, bits)
    share = np.exp(logs - max_classes(logs))
    share *= np.ldexp(1.0, bits) / sum_classes(share)
    np.rint(share, out=share)
    share[:, ~evidence.any(axis=0)] = 0.0
    return np.asarray(share)


def even_where_unknown(share: Float64[np.ndarray, "k n"], bits: int) -> Float64[np.ndarray, "k n"]:
    """Return class responsibilities in units of the grid; uniform for an instance that no classifier labels."""
    return np.where(share.any(axis=0), share, np.rint(np.ldexp(1.0, bits) / len(share)))


def sum_of_squares(
    share: Float64[np.ndarray, "k n"], labeled: Shaped[np.ndarray, "n"], bits: int, counts: Counts = None
) -> int:
    """Compute sum_n sum_i r_ni^2 over the labeled instances, on the grid: see `gain`; `counts` as in `e_step`."""
    squares = np.where(labeled, sum_classes(np.ldexp(share, -bits) ** 2), 0.0)
    return int(add_up(to_grid(squares, bits), counts))


def class_bound(
    share: Float64[np.ndarray, "k n"],
    evidence: Int64[np.ndarray, "k n"],
    bits: int,
    counts: Counts = None,
) -> int:
    """Compute sum_i r_ni (evidence_ni - log r_ni), each instance's term on the grid; `counts` as in `e_step`."""
    probability = np.ldexp(share, -bits)
    logs = np.where(share > 0, from_grid(evidence, bits) - safe_log(probability), 0.0)
    return int(add_up(to_grid(sum_classes(probability * logs), bits), counts))


DOUBT = 0.2
"""Weight of the uniform distribution in class probabilities by confusion matrices and clusterings
(docs/bc3e-evidence.md)."""


def doubt_of(draws: int, tables: Iterable[str]) -> float:
    """Return the `doubt` of `class_probabilities`, which makes up for an overconfident posterior.

    The posterior is overconfident for two reasons: the variational responsibilities of classes and clusters strengthen
    each other, and labels are not independent given the class. Without clusterings neither was found: doubt is 0.

    Examples
    --------
    >>> doubt_of(2, ["confusion:svm", "kmeans"]), doubt_of(1, ["confusion:svm"]), doubt_of(0, ["kmeans"])
    (0.2, 0.0, 0.0)
    """
    return DOUBT if draws and not all(map(is_confusion, tables)) else 0.0


def class_probabilities(
    gamma: Float64[np.ndarray, "k n"], alpha: Float64[np.ndarray, "_"], doubt: float = 0.0
) -> Float64[np.ndarray, "n k"]:
    """Return the class probabilities of instances.

    Parameters
    ----------
    gamma : ndarray
        ``(k, n)``.
    alpha : ndarray
        Empty: theta = gamma / sum gamma, the posterior mean of eq. (2). With confusion matrices ``(k,)``: gamma -
        alpha, normalized, since alpha only holds the class frequencies; alpha, normalized, for an instance without a
        label.
    doubt : float
        Weight of the uniform distribution in the result; the likeliest class is the same.

    Examples
    --------
    >>> class_probabilities(np.array([[4.0, 3.0], [2.0, 1.0]]), np.array([3.0, 1.0])).tolist()
    [[0.5, 0.5], [0.75, 0.25]]
    """
    if not alpha.size:
        return np.asarray((gamma / gamma.sum(axis=0)).T)
    counts = np.maximum(gamma - alpha[:, np.newaxis], 0.0)
    counts = np.where(counts.sum(axis=0) < 0.5, alpha[:, np.newaxis], counts)  # each label counts 1
    return np.asarray(((1 - doubt) * (counts / counts.sum(axis=0)) + doubt / len(counts)).T)


def decisions(gamma: Float64[np.ndarray, "k n"], alpha: Float64[np.ndarray, "_"]) -> Int64[np.ndarray, "n"]:
    """Return the likeliest class of every instance; parameters are those of `class_probabilities`."""
    return np.asarray(class_probabilities(gamma, alpha).argmax(axis=1))
