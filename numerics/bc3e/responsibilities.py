"""Responsibilities of classes for cluster labels (Acharya et al. 2011, eq. 5).

Arrays are laid out ``(k, n)``, classes first, so that every operation runs along contiguous instances; instances are
picked with ``take`` and ``compress``, because ``a[:, index]`` returns the transposed layout. Sums over classes are
loops over the few classes: the order of additions, and with it the last bit, then cannot depend on how many instances
happen to be in the array. That, and the grid of `numerics.bc3e.grid`, make an instance's result independent of the site
and of the block it is computed in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.bc3e.ensemble import Labels, present

Table = Float64[np.ndarray, "k k_m+1"]

_UNDERFLOW = 1e-200
"""A normalizer below this has lost digits to underflow; the logarithm is taken instead."""

_FORBIDDEN = -1e4
"""Log 0 under a soft label: far below every psi(gamma) and log beta, yet negligible times a probability of 1e-12."""


def likelihood_table(beta: Float64[np.ndarray, "k k_m"]) -> Table:
    """Prepare `beta` to be indexed by cluster labels.

    A label that no class can produce says nothing: its column becomes ones. A last column of zeros, which the label -1
    selects, makes the responsibilities of a missing label vanish.

    Examples
    --------
    >>> likelihood_table(np.array([[0.9, 0.1], [0.2, 0.8]])).tolist()
    [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]
    """
    table = np.zeros((beta.shape[0], beta.shape[1] + 1))
    table[:, :-1] = np.where(beta.any(axis=0), beta, 1.0)
    return table


def safe_log(values: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    """Take logarithms with log 0 = -1e300, so that 0 log 0 = 0 and no infinity enters a product."""
    return np.where(values > 0, np.log(np.maximum(values, 1e-300)), -1e300)


def sum_classes(values: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "n"]:
    """Add up the classes, in their order."""
    total = values[0].copy()
    for row in values[1:]:
        total += row
    return np.asarray(total)


def max_classes(values: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "n"]:
    """Return the largest value over the classes."""
    top = values[0].copy()
    for row in values[1:]:
        np.maximum(top, row, out=top)
    return np.asarray(top)


@dataclass(frozen=True)
class LabeledBlock:
    """One clustering's labels of a block of instances.

    Attributes
    ----------
    table : ndarray
        `likelihood_table` of the clustering's beta.
    labels : ndarray
        Labels of the n instances.
    """

    table: Table
    labels: Labels

    def likelihood(self) -> Float64[np.ndarray, "k n"]:
        """Return beta_{m,i,w}; for a soft label exp of the averaged log beta, up to a factor common to the classes."""
        if self.labels.ndim == 1:
            return self.table.take(self.labels, axis=1)
        averaged = self.log_likelihood()
        averaged -= max_classes(averaged)
        labeled = present(self.labels)
        return np.asarray(np.where(labeled, np.exp(averaged), 0.0))

    def log_likelihood(self) -> Float64[np.ndarray, "k n"]:
        """Return log beta_{m,i,w}, averaged under a soft label; finite (very negative) where beta is 0."""
        log_table = safe_log(self.table)
        if self.labels.ndim == 1:
            return log_table.take(self.labels, axis=1)
        np.maximum(log_table, _FORBIDDEN, out=log_table)
        averaged = np.zeros((len(log_table), len(self.labels)))
        for cluster in range(self.labels.shape[1]):  # one column at a time: the same order of additions in any block
            averaged += log_table[:, cluster, None] * self.labels[:, cluster]
        # A label with a cluster that no class can produce says nothing.
        averaged[:, max_classes(averaged) <= 0.01 * _FORBIDDEN] = 0.0
        return averaged

    def responsibilities(
        self,
        weights: Float64[np.ndarray, "k n"],
        log_weights: Float64[np.ndarray, "k n"],
        likelihood: Float64[np.ndarray, "k n"],
        bits: int,
    ) -> Float64[np.ndarray, "k n"]:
        """Apply eq. (5), in units of the grid: phi_nmi ~ exp(psi(gamma_ni)) beta_{m,i,w}; 0 without a label."""
        phi = weights * likelihood
        total = sum_classes(phi)
        if total.min(initial=1.0) < _UNDERFLOW:
            thin = np.flatnonzero(total < _UNDERFLOW)
            labeled = thin[present(self.labels[thin])]
            if labeled.size:
                part = LabeledBlock(self.table, self.labels[labeled])
                logs = log_weights[:, labeled] + part.log_likelihood()
                phi[:, labeled] = np.exp(logs - max_classes(logs))
                total[labeled] = sum_classes(phi[:, labeled])
            total[total == 0.0] = 1.0
        phi *= np.ldexp(1.0, bits) / total
        return np.asarray(np.rint(phi, out=phi))


def relative_weights(log_weights: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "k n"]:
    """Return exp(psi(gamma_ni)) relative to the largest class of each instance."""
    return np.asarray(np.exp(log_weights - max_classes(log_weights)))
