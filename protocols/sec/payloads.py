"""Payloads of Select-Exchange-Cluster: what crosses the wire (docs/sec.md, "What left my site").

There are three asks. Every learner fits a model and sends it; sends the errors of the others' models on its rows; gets
its cluster and sends the errors of the cluster's predictions on rows that it held out. Before the last ask, a run may
ask for rows.

What that reveals: the fusion center, and through it every learner, sees the fitted models. A linear model is a list of
coefficients. A forest's leaves hold means of `min_leaf` or more outcomes, and its thresholds lie between two of the
site's own values. Nearest neighbors and support vector machines contain rows, and a site fits them only if its own
configuration allows it. Of all payloads only `Rows` holds rows; it is empty unless the site's own configuration allows
it (``allow-pooling``).
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
"""Largest number of rows of a learner, which is its weight."""


@dataclass(frozen=True)
class FittedModel(Payload):
    """To the center, once: a learner's fitted model (Ye, Ding and Ghanadan 2022, step 1).

    Attributes
    ----------
    method : str
        The chosen candidate.
    error : float
        ``e_i``, mean squared error of its own model on its rows, to compare others' errors on these rows with.
    variance : float
        Estimated variance of its model, in squared units of the outcome; 0 unless `Select.reference` is ``left-out``.
    n : int
        Number of rows behind `error`, the errors in `Losses`, and the moments.
    features : tuple of str
        Names of its inputs, in order.
    model : ndarray
        The fitted model (protocols/models/).
    mean, scatter : ndarray
        Means ``(p + 1,)`` of the columns ``[X y]``, and sums of products about these means, ``(p + 1, p + 1)``; empty
        unless asked for.
    sampled_from : int
        Number of rows of the site, if it uses a sample of `n` of them; else 0.
    classes : tuple of str
        The classes of its rows, in order; empty for amounts. With classes, all errors are log losses.
    held_out : int
        Number of further rows, held out to judge predictions. The model is fitted to these, too.
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
    held_out: int = 0

    @property
    def n_fitted(self) -> int:
        """Number of rows that the model was fitted to, ``n_i``."""
        return self.n + self.held_out


@dataclass(frozen=True)
class Select(Payload, answer=FittedModel, spends={MODELS: 1}):
    """To sites, once: asks for a method chosen by cross-validation, and its fitted model.

    Attributes
    ----------
    candidates : str
        Methods by short name, for a learner without a list of its own.
    selection : str
        ``k-fold`` or ``half-half``. The center learns only which method is best.
    standardize : str
        ``learner``, ``model`` or ``none`` (numerics/shared/regression_rows.py, numerics/shared/regressors.py).
    min_leaf : int
        Fewest rows in a leaf of a tree.
    reference : str
        Definition of ``e_i``: ``left-out``, ``fitted`` or ``cv``.
    moments : bool
        Whether to send `FittedModel.mean` and `FittedModel.scatter`, for a pooled linear regression.
    class_weight : str
        ``none`` or ``balanced``; no effect on amounts.
    """

    candidates: str
    selection: str
    standardize: str
    min_leaf: int
    reference: str
    moments: bool
    class_weight: str = "none"


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
        Standard deviation of the random number added to each loss, in units of the most that one row can add; 0 without
        noise. It follows from the numbers of rows and models alone.
    """

    losses: Float64[np.ndarray, "models"]
    finite: Bool[np.ndarray, "models"]
    noise: float


@dataclass(frozen=True)
class Exchange(Payload, answer=Losses):
    """To sites, once: asks for the errors of the learners' models. The ask is the same for all, and encoded once.

    Attributes
    ----------
    learners : tuple of str
        Names of the learners.
    models : tuple of ndarray
        Their models, in this order.
    standardize : str
        As in `Select`.
    keep : bool
        Whether the site keeps the models' predictions of held-out rows for `Predict`.
    classes : tuple of str
        Class list of the run, the union of the sites' lists; empty for amounts.
    places : tuple of ndarray
        For every model, the places of its classes in this list; empty for amounts.
    rows : ndarray
        For every model, the number of rows that it was fitted to; empty for amounts.
    """

    learners: tuple[str, ...]
    models: tuple[UInt8[np.ndarray, "_"], ...]
    standardize: str
    keep: bool
    classes: tuple[str, ...] = ()
    places: tuple[Int64[np.ndarray, "_"], ...] = ()
    rows: Int64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0, np.int64))

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: len(self.models)}


@dataclass(frozen=True)
class Rows(Payload):
    """To the center, once: the rows that the site did not hold out, if the site allows it; else no rows.

    Attributes
    ----------
    x, y : ndarray
        Inputs, in the order of `FittedModel.features`, and outcomes, in the units of the site's file.
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class Pool(Payload, answer=Rows):
    """To the sites of clusters of two or more, once: asks for rows, to fit one model to all rows of a cluster.

    Attributes
    ----------
    standardize : str
        As in `Select`; never ``learner``.
    """

    standardize: str


@dataclass(frozen=True)
class Errors(Payload):
    """To the center, once: mean squared errors on the rows that this learner held out.

    Its own model is fitted to these rows, too; here it is judged by fits without them.

    Attributes
    ----------
    n_test : int
        Number of these rows; with 0 there are no errors.
    errors : ndarray
        Error of every combination of the ask; 0 where `finite` is False.
    finite : ndarray
        Whether the combination's prediction is finite for every row.
    deviations : ndarray
        Standard error of each combination's error minus that of the reference, from differences row by row; 0 where
        `finite` is False. The reference is the first of ``personal``, ``cluster`` and ``alone`` with a finite error:
        the learner's default unless its rows refute it. The center uses the standard error to decide whether to
        recommend a combination.
    noise : float
        As in `Losses`, for each error.
    scores : ndarray
        For every combination, the scores of `numerics.shared.classification.SCORES`, -1 where undefined. They are
        exact, so only a site that trusts the center with its rows sends them, as simulated sites do. From other sites,
        and for amounts, `scores`, `confusion` and `reliability` are empty.
    confusion : ndarray
        Numbers of rows by true and predicted class, for the reference of `deviations`.
    reliability : ndarray
        Points of the reliability diagram of the same reference.
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
    """To sites, once: the learner's cluster, and combinations of models that predict its held-out rows.

    A combination predicts ``sum_i weights_i f_i(x) + own f(x) + [1 x] coefficients`` (Ye, Ding and Ghanadan 2022, eq.
    5), plus ``sum_m pool_model_m g_m(x)`` over models g of pooled rows. For ``personal`` the learner computes the
    weights itself, starting from `shares`, and raises probabilities of classes to a power of its own. Neither ever
    leaves it; a real site computes its answer without the power.

    Attributes
    ----------
    cluster : int
        The learner's cluster, counted from 0; -1: none.
    combinations : tuple of str
        ``alone``, ``cluster``, ``all``, where the scenario has true clusters ``oracle``, and ``personal``.
    weights : ndarray
        Weights of the models of `Exchange`; no columns if the site did not keep their predictions.
    own : ndarray
        Weight of the learner's own model.
    coefficients : ndarray
        Coefficients of pooled linear regressions, intercept first; no columns without `Select.moments`.
    members : tuple of str
        Learners of its cluster. `rows` has the number of rows that each one's model was fitted to, `shares` its share
        in eq. (5). Both are 0 for a newcomer, whose model is not used.
    pooled : ndarray
        Which members sent their rows. The sum of their shares is the weight of the model fitted to these rows.
    models : tuple of ndarray
        Models that the center fitted to pooled rows; empty unless it asked for rows.
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
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: 2 * len(self.combinations)}  # an error of each, and its standard error
