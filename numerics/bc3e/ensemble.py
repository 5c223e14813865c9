"""Labels of instances by classifiers and clusterings: what a site holds in BC3E (Acharya et al. 2011, II-A)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Int, Int64, Shaped

Labels = Shaped[np.ndarray, "n ..."]
"""Labels by one model: hard, integers ``(n,)`` with -1 where the model gave none; or soft, ``float64 (n, k)`` rows of
probabilities that sum to 1, a row of zeros where the model gave none."""

Counts = Int64[np.ndarray, "n"] | None
"""Number of instances that each instance stands for; None: one."""


@dataclass(frozen=True)
class Ensemble:
    """Class and cluster labels of n instances.

    Attributes
    ----------
    n : int
        Number of instances.
    classifiers : Mapping[str, ndarray]
        Class labels by classifier name: ``(n,)`` integers 0..k-1 or -1 (none), or ``(n, k)`` probabilities.
    clusterings : Mapping[str, ndarray]
        Cluster labels by clustering name: ``(n,)`` integers 0..k_m-1 or -1 (none), or ``(n, k_m)`` probabilities.
    truth : ndarray or None
        ``(n,)`` known classes, -1 where unknown; used for evaluation only, at the site.
    entity : ndarray or None
        ``(n,)`` names of the instances (strings or integers), for the site's output file and, in column and arbitrary
        distributions, for the alignment between sites. None: row numbers.

    Examples
    --------
    >>> ensemble = Ensemble(3, classifiers={"svm": np.array([0, 1, -1])}, clusterings={"kmeans": np.array([0, 0, 1])})
    >>> ensemble.rows(np.array([True, False, True])).classifiers["svm"].tolist()
    [0, -1]
    """

    n: int
    classifiers: Mapping[str, Labels] = field(default_factory=dict)
    clusterings: Mapping[str, Labels] = field(default_factory=dict)
    truth: Shaped[np.ndarray, "n"] | None = None
    entity: Shaped[np.ndarray, "n"] | None = None

    def __post_init__(self) -> None:
        """Put the models into the order of their names, by which sites and fusion center match them."""
        for models in ("classifiers", "clusterings"):
            object.__setattr__(self, models, dict(sorted(getattr(self, models).items())))

    def rows(self, index: Shaped[np.ndarray, "i"]) -> Ensemble:
        """Return the same models' labels of some instances (`index`: integers or a mask)."""
        return Ensemble(
            n=len(np.arange(self.n)[index]),
            classifiers={name: labels[index] for name, labels in self.classifiers.items()},
            clusterings={name: labels[index] for name, labels in self.clusterings.items()},
            truth=None if self.truth is None else self.truth[index],
            entity=None if self.entity is None else self.entity[index],
        )

    @cached_property
    def distinct(self) -> Distinct:
        """The distinct combinations of labels: an E-step treats instances with equal labels as one."""
        columns = (
            np.unique(column, return_inverse=True)[1] if labels.ndim == 2 else column
            for labels in (*self.classifiers.values(), *self.clusterings.values())
            for column in (labels.T if labels.ndim == 2 else [labels])
        )
        code = combination_codes(columns, self.n)
        _, first, of_row, counts = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        return Distinct(self.rows(first), of_row.astype(np.int32), counts.astype(np.int64))


@dataclass(frozen=True)
class Distinct:
    """The distinct combinations of labels among n instances.

    Attributes
    ----------
    part : Ensemble
        One instance for every combination.
    of_row : ndarray
        ``(n,)`` index of each instance's combination in `part`.
    counts : ndarray
        Number of instances with each combination.

    Examples
    --------
    >>> ensemble = Ensemble(3, {"svm": np.array([1, 0, 1])}, {"kmeans": np.array([2, -1, 2])})
    >>> distinct = ensemble.distinct
    >>> distinct.part.classifiers["svm"].tolist(), distinct.of_row.tolist(), distinct.counts.tolist()
    ([0, 1], [1, 0, 1], [1, 2])
    """

    part: Ensemble
    of_row: Int[np.ndarray, "n"]
    counts: Int64[np.ndarray, "u"]


def combination_codes(columns: Iterable[Int[np.ndarray, "n"]], n: int) -> Int64[np.ndarray, "n"]:
    """Return a number for each row, equal for rows with equal values, which are -1 or greater, in all columns.

    Examples
    --------
    >>> combination_codes([np.array([0, -1, 0]), np.array([2, 2, 2])], 3).tolist()
    [7, 3, 7]
    """
    code, size = np.zeros(n, np.int64), 1
    for column in columns:
        radix = int(column.max(initial=0)) + 2
        if size * radix >= 2**62:
            code = np.unique(code, return_inverse=True)[1]
            size = int(code.max(initial=0)) + 1
        code *= radix
        code += column
        code += 1
        size *= radix
    return code


def n_values(labels: Labels) -> int:
    """Return the number of classes or clusters in `labels`: columns if soft, else the largest label + 1."""
    if labels.ndim == 2:
        return int(labels.shape[1])
    return int(labels.max(initial=-1)) + 1


def present(labels: Labels) -> Shaped[np.ndarray, "n"]:
    """Mask the instances for which the model gave a label."""
    return np.asarray(labels.any(axis=1) if labels.ndim == 2 else labels >= 0)
