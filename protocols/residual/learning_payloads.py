"""Asks to an agent and their answers: in the clear from the fusion center, or sealed from another site."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt8, UInt64

from numerics.residual.chosen_boosting import MOST_FITS
from protocols.budget import MODELS
from protocols.wire.payload import Payload, specs

# -- enrolment and alignment ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holdings(Payload):
    """To the center, once: the rows, columns and outcome that the site holds.

    Attributes
    ----------
    n : int
        Number of rows.
    keys : ndarray
        HMAC-SHA256 of the entities' names, cut to 128 bits, in the order of the site's rows; empty if entities have no
        names (``align="row-order"``).
    check : ndarray
        Hash of the sites' shared secret, which shows whether all sites have the same; empty without a secret.
    kind : str
        Content of the column of names, ``number`` or ``text``; empty: there is no such column.
    n_columns : int
        Number of columns that the site learns from.
    agent : str
        The site's method.
    outcome : bool
        Whether the site holds the outcome.
    public_key : ndarray
        X25519 key of this run, for payloads that are sealed for this site; empty unless asked for.
    split : ndarray
        Use of each row: 0 training, 1 validation, 2 test; empty unless the site holds the outcome and knows persons.
        Rows of one person have the same use in every run, so two rows of different use belong to two persons.
    classes : tuple of str
        Names of the outcome's classes, at the site that holds it; empty for amounts.
    """

    n: int
    keys: UInt64[np.ndarray, "rows 2"]
    check: UInt8[np.ndarray, "_"]
    kind: str
    n_columns: int
    agent: str
    outcome: bool
    public_key: UInt8[np.ndarray, "_"]
    split: UInt8[np.ndarray, "_"]
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Enrol(Payload, answer=Holdings):
    """To sites, once: asks what a site holds.

    Attributes
    ----------
    salt : str
        Salt of this run: keyed hashes of two runs cannot be matched.
    align : str
        ``id``, ``row-order``, or empty: by name if the site has names.
    seal : bool
        Whether to send a public key.
    """

    salt: str
    align: str = ""
    seal: bool = False


@dataclass(frozen=True)
class Ready(Payload):
    """To the center, once: the site is ready."""


@dataclass(frozen=True)
class Order(Payload, answer=Ready):
    """To sites, once: the common entities, and how the agent learns.

    Attributes
    ----------
    rows : ndarray
        Places of the common entities among the site's rows, in an order that all sites share; training rows first.
    agent : str
        The run's method, for a site without a method of its own.
    min_leaf : int
        Fewest rows in a leaf of a tree.
    holder : str
        Site that holds the outcome, and alone may read later predictions of the models; empty: the fusion center does.
    names, public_keys
        Names and keys of the sites that exchange sealed payloads; empty if nothing is sealed.
    """

    rows: Int64[np.ndarray, "n"]
    agent: str
    min_leaf: int
    holder: str = ""
    names: tuple[str, ...] = ()
    public_keys: tuple[UInt8[np.ndarray, "_"], ...] = ()


# -- learning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedValues(Payload):
    """To the center: an agent's predictions.

    Attributes
    ----------
    fitted : ndarray
        For the rows that it fitted, a column for every column of `Fit.target`; a step is multiplied by `Fit.add`.
    held : ndarray
        The same for all later rows.
    """

    fitted: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    held: Float64[np.ndarray, "m c"] | Float32[np.ndarray, "m c"]


@dataclass(frozen=True)
class Fit(Payload, answer=FittedValues):
    """To sites: asks an agent to fit these numbers.

    Attributes
    ----------
    target : ndarray
        Targets of the first n rows of the order; every column is fitted separately.
    add : float
        0: the new fit replaces the old one. Else `add` times the fit is added to the old one (Zheng, Kulkarni and Poor
        2010, Algorithm 1, line 7).
    steps : int
        Number of successive fits, each to the residual of the earlier ones.
    number : int
        Number of the step. It replaces an earlier step of the same number, which was not accepted.
    keep : bool
        Whether the agent stores the step for later predictions.
    """

    target: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    add: float = 0.0
    steps: int = 1
    number: int = 0
    keep: bool = False

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: self.steps * self.target.shape[1]}


@dataclass(frozen=True)
class TrialFit(Payload):
    """To the center: an agent's fit of a residual.

    Attributes
    ----------
    error : float
        Residual sum of squares after the fit.
    fitted, held : ndarray
        As in `FittedValues`, times `Try.add`; no rows unless `error` is below `Try.bar`.
    """

    error: float
    fitted: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    held: Float64[np.ndarray, "m"] | Float32[np.ndarray, "m"]


@dataclass(frozen=True)
class Try(Payload, answer=TrialFit):
    """To every agent: asks for the error of its fit of this residual (Zheng, Kulkarni and Poor 2010, eq. 23).

    One ask is enough if the winner can be predicted.

    Attributes
    ----------
    residual : ndarray
        Residual of the first n rows of the order.
    bar : float
        An agent with an error below this sends its predictions, too.
    add, steps, number, keep
        As in `Fit`; the agent stores the last try, and the step that `accepted` names.
    accepted : int
        Number of the agent's last accepted step, the best of all agents; -1: none yet.
    """

    residual: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    bar: float
    add: float
    steps: int = 1
    number: int = 0
    keep: bool = False
    accepted: int = -1

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: self.steps}


@dataclass(frozen=True)
class Show(Payload, answer=FittedValues):
    """To the agent with the best fit of the residual: asks for its predictions, if it has not sent them yet."""


@dataclass(frozen=True)
class PredictionsAlone(Payload):
    """To the center, once: predictions by the agent's own columns alone.

    At worst they reveal the same as the steps of learning: which rows are alike in these columns. A group of like rows
    may be a single row.

    Attributes
    ----------
    fitted : ndarray
        For the rows of `Compare.target`, by a model of them: one column, or the probability of each class. No rows
        unless `Compare.beside`.
    held : ndarray
        For all later rows, by a model of the whole target. With `Compare.beside`, the target's rows from
        `Compare.n_fit` on come first, by a model of the rows before them.
    """

    fitted: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    held: Float64[np.ndarray, "m c"] | Float32[np.ndarray, "m c"]


@dataclass(frozen=True)
class Compare(Payload, answer=PredictionsAlone, spends={MODELS: MOST_FITS}):
    """To every agent, once, after learning: asks for predictions by boosting of its own columns alone.

    At worst an agent learns the outcome, minus the mean, of every training and validation row; if outcomes are classes,
    the class of each row by number.

    Attributes
    ----------
    target : ndarray
        Outcomes minus their mean, or the places of classes, of the training and validation rows.
    n_fit : int
        Number of training rows, which come first.
    n_classes : int
        Number of classes; 0: the outcomes are amounts.
    balanced : bool
        Whether rows have weights that make the classes equally heavy.
    beside : bool
        Whether to send predictions of the target's rows, too.
    """

    target: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    n_fit: int
    n_classes: int = 0
    balanced: bool = False
    beside: bool = True


@dataclass(frozen=True)
class EntityBins(Payload):
    """To the holder of the outcome, once: the bin of each common entity in each of the site's columns.

    A site sends bins only with its own consent. At worst they reveal the rank of every entity, test rows included, in
    every column to within a bin, and which entities share a category; randomized response reveals less. Edges of the
    bins, and names of columns and categories, stay at the site. A bin has `min-rows` rows of the site or more.

    Attributes
    ----------
    bins : ndarray
        A row for every entity of the order, a column for every column of the site; empty without consent.
    levels : ndarray
        Number of bins of each column.
    epsilon : float
        eps of the randomized response of each column; 0: the bins are exact.
    """

    bins: UInt8[np.ndarray, "n c"]
    levels: UInt8[np.ndarray, "c"]
    epsilon: float


@dataclass(frozen=True)
class Bin(Payload, answer=EntityBins, spends={MODELS: 1}):
    """To every agent, once, before learning: asks for the bins of its columns.

    Attributes
    ----------
    levels : int
        Largest number of bins of a column of numbers: 16, 32 or 64.
    epsilon : float
        eps of the randomized response of each column; 0: none. A site may use a smaller one.
    """

    levels: int
    epsilon: float


@dataclass(frozen=True)
class Receipt(Payload):
    """To the center, once: whether the agent has stored its model; False if it has no directory."""

    stored: bool


@dataclass(frozen=True)
class Conclude(Payload, answer=Receipt):
    """To sites, once: asks an agent to store this model for later predictions.

    Attributes
    ----------
    target : ndarray
        Target of the model's last fit; empty: the model is a sum of steps.
    numbers : ndarray
        Numbers of these steps; empty, like the target, if the agent has no part in the prediction.
    separate : bool
        Whether later predictions have a column for every step, instead of their sum.
    bins : bool
        Whether the site stores the edges of its bins, to send the bins of new rows later.
    own : ndarray
        Target of `Compare` if the site's own prediction has a share in the result; its columns then come last. Else
        empty.
    n_fit, n_classes, balanced
        As in `Compare`.
    """

    target: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    numbers: Int64[np.ndarray, "steps"]
    separate: bool = False
    bins: bool = False
    own: Float64[np.ndarray, "m"] | Float32[np.ndarray, "m"] = field(default_factory=lambda: np.zeros(0))
    n_fit: int = 0
    n_classes: int = 0
    balanced: bool = False


# -- precision --------------------------------------------------------------------------------------------------------


def rounded(payload: Payload, dtype: np.dtype) -> Payload:
    """Return the payload with this dtype in all fields that may have it."""
    changes = {
        name: getattr(payload, name).astype(dtype)
        for name, spec in specs(type(payload)).items()
        if len(spec.dtypes) > 1 and getattr(payload, name).dtype != dtype
    }
    changed: Payload = replace(cast("Any", payload), **changes) if changes else payload
    return changed
