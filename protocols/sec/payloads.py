"""Payloads of Select-Exchange-Cluster: what crosses the wire (docs/sec.md, "What left my site").

Three asks: every learner fits a model and sends it; every learner sends the errors of the others' models on its rows;
every learner gets its cluster and sends the errors of the cluster's predictions on rows that it held out. Before the
last one, a run may ask for rows.

What that reveals: the fusion center, and through it every learner, sees the fitted models. A linear model is a list of
coefficients. A forest's leaves hold means of `min_leaf` or more outcomes, and its thresholds lie between two of the
site's own values. Nearest neighbors and support vector machines contain rows, and a site fits them only if its own
configuration allows it. No payload holds a row but `Rows`, which a site leaves empty unless its own configuration
allows it (``allow-pooling``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt8

from protocols.budget import MODELS
from protocols.wire.payload import Payload

LARGEST_ERROR = 1e100
"""Largest mean squared error: beyond it, sums and squares would overflow."""
LARGEST_LOG_LOSS = 14.0
"""Largest log loss: probabilities are clipped at 1e-6."""
MOST_ROWS = 10**9
"""Largest number of rows of a learner: they are its weight."""


@dataclass(frozen=True)
class FittedModel(Payload):
    """To the center, once: a learner's fitted model (Ye, Ding and Ghanadan 2022, step 1).

    Attributes
    ----------
    method : str
        The candidate that it chose.
    error : float
        ``e_i``, the mean squared error that others' errors on its rows are compared with.
    variance : float
        Estimated variance of its model, in squared units of the outcome; 0 unless `Select.reference` is ``left-out``.
    n : int
        Rows that it learned from, ``n_i``.
    features : tuple of str
        Names of its inputs, in order.
    model : ndarray
        The fitted model (protocols/models/).
    mean, scatter : ndarray
        Of the columns ``[X y]``: their means ``(p + 1,)`` and their products summed about these means,
        ``(p + 1, p + 1)``; empty unless asked for.
    sampled_from : int
        Rows of the site, if they are so many that a sample of them is used, and `n` counts rows of the sample; else 0.
    classes : tuple of str
        The classes that its rows have, in order; empty for amounts. Errors are then log losses everywhere.
    """

    method: str
    error: float
    variance: float
    n: int
    features: tuple[str, ...]
    model: UInt8[np.ndarray, "bytes"]
    mean: Float64[np.ndarray, "q"]
    scatter: Float64[np.ndarray, "q q"]
    sampled_from: int = 0
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Select(Payload, answer=FittedModel):
    """To sites, once: asks for a method chosen by cross-validation, and its fitted model.

    Attributes
    ----------
    candidates : str
        Methods by short name, for a learner that has no list of its own.
    selection : str
        ``k-fold`` or ``half-half``. Either tells the center which method is best, and nothing else.
    standardize : str
        ``learner``, ``model`` or ``none`` (numerics/shared/regression_rows.py, numerics/shared/regressors.py).
    min_leaf : int
        Fewest rows in a leaf of a tree.
    reference : str
        Definition of ``e_i``: ``left-out``, ``fitted`` or ``cv``.
    moments : bool
        Whether `FittedModel.mean` and `FittedModel.scatter` are wanted, for a pooled linear regression.
    class_weight : str
        ``none`` or ``balanced``; of no effect on amounts.
    """

    candidates: str
    selection: str
    standardize: str
    min_leaf: int
    reference: str
    moments: bool
    class_weight: str = "none"

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1}


@dataclass(frozen=True)
class Losses(Payload):
    """To the center, once: errors of the others' models on the learner's rows (Ye, Ding and Ghanadan 2022, step 2).

    Attributes
    ----------
    losses : ndarray
        ``e_{i -> j}`` of every model i of the ask, mean squared error, or log loss, on the rows of this learner j; 0
        where `finite` is False.
    finite : ndarray
        Whether the model's prediction is finite for every row, and the error at most `LARGEST_ERROR`.
    noise : float
        Standard deviation of the random number in each loss, in what a row can count for; 0 if there is none. It
        follows from the numbers of rows and models, and tells nothing of the rows.
    """

    losses: Float64[np.ndarray, "models"]
    finite: Bool[np.ndarray, "models"]
    noise: float


@dataclass(frozen=True)
class Exchange(Payload, answer=Losses):
    """To sites, once: the learners' models. All sites get the same, so that it is encoded once.

    Attributes
    ----------
    learners : tuple of str
        Names of their learners.
    models : tuple of ndarray
        In the same order.
    standardize : str
        As in `Select`.
    keep : bool
        Whether their predictions of held-out rows are needed later.
    classes : tuple of str
        The class list of the run, the union of the sites'; empty for amounts.
    places : tuple of ndarray
        Of every model, the places of its classes in this list; none for amounts.
    rows : ndarray
        Of every model, the rows that it was fitted to; none for amounts.
    """

    learners: tuple[str, ...]
    models: tuple[UInt8[np.ndarray, "_"], ...]
    standardize: str
    keep: bool
    classes: tuple[str, ...] = ()
    places: tuple[Int64[np.ndarray, "_"], ...] = ()
    rows: Int64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0, np.int64))

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: len(self.models)}


@dataclass(frozen=True)
class Rows(Payload):
    """To the center, once, from a site that allows it: the rows that its model learned from.

    Attributes
    ----------
    x, y : ndarray
        Inputs, in the order of `FittedModel.features`, and outcomes, in the units of the site's file. No rows from a
        site that keeps them.
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class Pool(Payload, answer=Rows):
    """To the sites of clusters of several, once: asks for the rows, to fit one model to those of a cluster.

    Attributes
    ----------
    standardize : str
        As in `Select`; never ``learner``.
    """

    standardize: str


@dataclass(frozen=True)
class Errors(Payload):
    """To the center, once: mean squared errors on the rows that this learner held out.

    Attributes
    ----------
    n_test : int
        Number of those rows; with 0 there are no errors.
    errors : ndarray
        Of every combination of the ask; 0 where `finite` is False.
    finite : ndarray
        Whether the combination's prediction is finite for every row.
    deviations : ndarray
        Standard error of the difference to the error of ``personal``, or else of ``cluster``, or else of ``alone``:
        the first one that is finite, which is what the learner should use unless its rows refute it. From the
        differences row by row; 0 where `finite` is False. By it the center says whether to join.
    noise : float
        As in `Losses`, of each error.
    scores : ndarray
        Of every combination, the scores of `numerics.shared.classification.SCORES`, -1 where undefined. They are exact,
        so a site sends them only to a center that it trusts with its rows, as those of simulations do; else, and for
        amounts, there are none.
    confusion : ndarray
        Of the combination that `deviations` compare with, rows by true and predicted class; under the same condition.
    reliability : ndarray
        Of the same, the points of the reliability diagram.
    """

    n_test: int
    errors: Float64[np.ndarray, "combinations"]
    finite: Bool[np.ndarray, "combinations"]
    deviations: Float64[np.ndarray, "combinations"]
    noise: float
    scores: Float64[np.ndarray, "scored scores"] = field(default_factory=lambda: np.zeros((0, 0)))
    confusion: Int64[np.ndarray, "k k"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    reliability: Float64[np.ndarray, "fields bins"] = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class Predict(Payload, answer=Errors):
    """To sites, once: the learner's cluster, and the combinations of models to predict its held-out rows by.

    A combination predicts ``sum_i weights_i f_i(x) + own f(x) + [1 x] coefficients`` (Ye, Ding and Ghanadan 2022, eq.
    5), plus ``sum_m pool_model_m g_m(x)`` over models g of pooled rows. The combination ``personal`` has no numbers
    here: the learner mixes the models that it was sent by weights of its own, which start from `shares`, and of classes
    takes the probabilities to a power of its own. Neither ever leaves it.

    Attributes
    ----------
    cluster : int
        Its cluster, counted from 0; -1 if it belongs to none.
    combinations : tuple of str
        ``alone``, ``cluster``, ``all``, where the scenario has true clusters ``oracle``, and ``personal``.
    weights : ndarray
        Weights of the models of `Exchange`; no columns if they were not kept.
    own : ndarray
        Weight of the learner's own model.
    coefficients : ndarray
        Coefficients of pooled linear regressions, intercept first; no columns without `Select.moments`.
    members : tuple of str
        Learners of its cluster; `rows` has the number of rows that each learned from, and `shares` its share in eq.
        (5). A newcomer has 0 of both, and lends no model.
    pooled : ndarray
        Which of them sent their rows: their shares together are the weight of the model that was fitted to these rows.
    models : tuple of ndarray
        Models that the center fitted to pooled rows; none unless rows were asked for.
    pool_weights : ndarray
        Their weights.
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
    shares: Float64[np.ndarray, "members"]
    pooled: Bool[np.ndarray, "members"]
    models: tuple[UInt8[np.ndarray, "_"], ...]
    pool_weights: Float64[np.ndarray, "combinations pool_models"]
    standardize: str

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 2 * len(self.combinations)}  # an error of each, and its standard error
