"""What crosses the wire in Select-Exchange-Cluster (docs/sec.md, "What left my site").

Three asks: every learner fits a model and shows it; every learner tells how well the others' models predict its rows;
every learner is told whom it belongs with and tells how much better it predicts for it.

What that reveals: the fusion center, and through it every learner, sees the learners' fitted models. A linear model is
a line of coefficients; a forest's leaves hold means of `min_leaf` or more outcomes, and its thresholds are values that
lie between two of the site's own; nearest neighbours and support vector machines contain rows themselves, and a site
fits them only if it was allowed to. No payload holds a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt8

from protocols.wire.payload import Payload

LARGEST_ERROR = 1e100
"""A mean squared error beyond this counts as not finite: sums and squares of it would not be."""
MOST_ROWS = 10**9
"""Rows that a learner may say it learnt from: they are its weight."""


@dataclass(frozen=True)
class Fitted(Payload):
    """Up, once: what a learner may share of itself (papers/sec.txt, step 1).

    Attributes
    ----------
    method : str
        The candidate it chose.
    error : float
        ``e_i``, the mean squared error that its own rows are held against.
    n : int
        Rows it learnt from, ``n_i``.
    features : tuple of str
        Names of its inputs, in order.
    model : ndarray
        The fitted model (protocols/models/).
    mean, scatter : ndarray
        Of the columns ``[X y]``: their means ``(p + 1,)`` and their products summed about these means,
        ``(p + 1, p + 1)``; empty unless asked for.
    """

    method: str
    error: float
    n: int
    features: tuple[str, ...]
    model: UInt8[np.ndarray, "bytes"]
    mean: Float64[np.ndarray, "q"]
    scatter: Float64[np.ndarray, "q q"]


@dataclass(frozen=True)
class Select(Payload, answer=Fitted):
    """Down, once: choose a method by half-half cross validation and fit it.

    Attributes
    ----------
    candidates : str
        Methods by short name, for a learner that has no list of its own.
    standardize : str
        ``learner``, ``model`` or ``none`` (numerics/shared/regression_rows.py, clients/regressors.py).
    min_leaf : int
        Fewest rows in a leaf of a tree.
    reference : str
        Which error is ``e_i``: ``fitted`` or ``cv``.
    moments : bool
        Whether to answer `Fitted.mean` and `Fitted.scatter`, of which a pooled linear regression is made.
    """

    candidates: str = "rf lr"
    standardize: str = "model"
    min_leaf: int = 5
    reference: str = "fitted"
    moments: bool = False


@dataclass(frozen=True)
class Losses(Payload):
    """Up, once: the learner's rows under the others' models (papers/sec.txt, step 2).

    Attributes
    ----------
    losses : ndarray
        ``e_{i -> j}`` of every model i of the ask, mean squared error on the rows of this learner j; 0 where `finite`
        is False.
    finite : ndarray
        Whether the model gave a finite prediction for every row, and an error of `LARGEST_ERROR` at most.
    """

    losses: Float64[np.ndarray, "models"]
    finite: Bool[np.ndarray, "models"]


@dataclass(frozen=True)
class Exchange(Payload, answer=Losses):
    """Down, once: the learners' models. Everybody gets the same, so that it is encoded once.

    Attributes
    ----------
    learners : tuple of str
        Whose models they are.
    models : tuple of ndarray
        In the same order.
    standardize : str
        As in `Select`.
    keep : bool
        Whether their predictions of held-out rows are wanted later.
    """

    learners: tuple[str, ...]
    models: tuple[UInt8[np.ndarray, "_"], ...]
    standardize: str
    keep: bool


@dataclass(frozen=True)
class Errors(Payload):
    """Up, once: mean squared errors on the rows that this learner held out.

    Attributes
    ----------
    n_test : int
        Number of those rows; with 0 there are no errors.
    errors : ndarray
        Of every combination of the ask; 0 where `finite` is False.
    finite : ndarray
        Whether the combination gave a finite prediction for every row.
    """

    n_test: int
    errors: Float64[np.ndarray, "combinations"]
    finite: Bool[np.ndarray, "combinations"]


@dataclass(frozen=True)
class Predict(Payload, answer=Errors):
    """Down, once: whom this learner belongs with, and which predictions to try on its held-out rows.

    A combination predicts ``sum_i weights_i f_i(x) + own f(x) + [1 x] coefficients`` (papers/sec.txt, eq. 5).

    Attributes
    ----------
    cluster : int
        Its cluster, counted from 0; -1 if it belongs to none.
    combinations : tuple of str
        ``alone``, ``cluster``, ``all``, and where the scenario knows the truth ``oracle``.
    weights : ndarray
        Of the models of `Exchange`; no columns if they were not kept.
    own : ndarray
        Of the learner's own model.
    coefficients : ndarray
        Of pooled linear regressions, intercept first; no columns without `Select.moments`.
    members : tuple of str
        Learners of its cluster, and in `rows` how many rows each learnt from: its weight in eq. (5), 0 for a newcomer,
        who lends no model.
    standardize : str
        As in `Select`.
    """

    cluster: int
    combinations: tuple[str, ...]
    weights: Float64[np.ndarray, "combinations models"]
    own: Float64[np.ndarray, "combinations"]
    coefficients: Float64[np.ndarray, "combinations q"]
    members: tuple[str, ...]
    rows: Int64[np.ndarray, "members"]
    standardize: str
