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
    """To the center, once: what the site holds.

    Attributes
    ----------
    n : int
        Rows of the site.
    keys : ndarray
        HMAC-SHA256 of the entities' names, cut to 128 bits, in the order of the site's rows; no rows where entities
        have no names (``align="row-order"``).
    check : ndarray
        Hash of the sites' shared secret: it differs where two sites have different secrets. Empty without a secret.
    kind : str
        ``number`` or ``text``: content of the column of names; empty: there is no such column.
    n_columns : int
        Number of columns that the site learns from.
    agent : str
        Its method.
    outcome : bool
        Whether it holds the outcome.
    public_key : ndarray
        X25519 key of this run, for payloads that are sealed for this site; empty unless asked for.
    split : ndarray
        What each row is for, if the site holds the outcome and knows persons: 0 to fit, 1 to choose by, 2 to test on;
        else empty. Rows of one person are for the same, in every run: of two rows it tells at most that they are about
        two persons.
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
        ``id``, ``row-order``, or empty: by name where the site has names.
    seal : bool
        Whether a public key is wanted.
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
        Places of the common entities among the site's rows, in the order that is common to all sites; training rows
        come first.
    agent : str
        The run's method, for a site that has none of its own.
    min_leaf : int
        Fewest rows in a leaf of a tree.
    holder : str
        The site that holds the outcome. It alone may read later predictions of the models. Empty: the fusion center
        holds the outcome.
    names, public_keys
        Sites that payloads are sealed for, or that seal them, and their keys; empty where nothing is sealed.
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
        For all later rows.
    """

    fitted: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    held: Float64[np.ndarray, "m c"] | Float32[np.ndarray, "m c"]


@dataclass(frozen=True)
class Fit(Payload, answer=FittedValues):
    """To sites: asks an agent to fit these numbers.

    Attributes
    ----------
    target : ndarray
        For the first n rows of the order; every column is fitted separately.
    add : float
        0: the new fit replaces the old one. Else the fit times this is added to the old one (Zheng, Kulkarni and Poor
        2010, Algorithm 1, line 7).
    steps : int
        Number of successive fits: from the second on, to what the earlier ones leave.
    number : int
        Number of the step; an earlier step of the same number, which did not count, is discarded.
    keep : bool
        Whether the agent stores the step, for later predictions.
    """

    target: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    add: float = 0.0
    steps: int = 1
    number: int = 0
    keep: bool = False

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: self.steps * self.target.shape[1]}


@dataclass(frozen=True)
class TrialFit(Payload):
    """To the center: how well an agent can fit a residual.

    Attributes
    ----------
    error : float
        Sum of squares that would be left.
    fitted, held : ndarray
        As in `FittedValues`, times `Try.add`; no rows where `error` is not below `Try.bar`.
    """

    error: float
    fitted: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    held: Float64[np.ndarray, "m"] | Float32[np.ndarray, "m"]


@dataclass(frozen=True)
class Try(Payload, answer=TrialFit):
    """To every agent: asks how well it can fit this residual.

    Zheng, Kulkarni and Poor (2010), eq. 23, in one ask where the winner can be predicted.

    Attributes
    ----------
    residual : ndarray
        For the first n rows of the order.
    bar : float
        An agent whose error is below this sends its predictions, too.
    add, steps, number, keep
        As in `Fit`; the agent stores the last try and the step that `accepted` names.
    accepted : int
        Number of the agent's last step that was the best of all, and counts; -1: none yet.
    """

    residual: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    bar: float
    add: float
    steps: int = 1
    number: int = 0
    keep: bool = False
    accepted: int = -1

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: self.steps}


@dataclass(frozen=True)
class Show(Payload, answer=FittedValues):
    """To the agent that can fit the residual best: asks for its predictions, if it has not sent them yet."""


@dataclass(frozen=True)
class PredictionsAlone(Payload):
    """To the center, once: predictions by the agent's own columns alone.

    At worst they tell of a row what the steps of learning tell of it: which rows are alike in these columns, where such
    a group may be a single row.

    Attributes
    ----------
    fitted : ndarray
        For the rows of `Compare.target`, by a model of them: a column, or of classes the probability of each. No rows
        unless they are wanted (`Compare.beside`).
    held : ndarray
        For all later rows, by a model of the whole target; before them, if they are wanted, those of the target after
        `Compare.n_fit`, by a model of the rows before.
    """

    fitted: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    held: Float64[np.ndarray, "m c"] | Float32[np.ndarray, "m c"]


@dataclass(frozen=True)
class Compare(Payload, answer=PredictionsAlone):
    """To every agent, once, after learning: asks how well it predicts alone, by boosting of its own columns.

    At worst an agent learns the outcome of all rows to learn from, validation rows among them, less their mean; of
    classes, the class of each of these rows by its number.

    Attributes
    ----------
    target : ndarray
        Outcomes minus their mean, or the places of classes, for the rows to learn from.
    n_fit : int
        Number of these before those that only judge.
    n_classes : int
        Number of classes; 0: the outcomes are amounts.
    balanced : bool
        Whether rows have weights such that every class has the same.
    beside : bool
        Whether predictions of the target's rows are wanted, too.
    """

    target: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    n_fit: int
    n_classes: int = 0
    balanced: bool = False
    beside: bool = True

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: MOST_FITS}


@dataclass(frozen=True)
class EntityBins(Payload):
    """To whoever holds the outcome, once: in which bin each common entity lies, in each of the site's columns.

    A site that does not allow it sends none. At worst they tell the rank of every entity in every column to one of the
    bins, test rows among them, and which entities share a category; with randomized response less. Edges of the bins,
    and names of columns and categories, stay at the site. A bin has `min-rows` rows of the site or more.

    Attributes
    ----------
    bins : ndarray
        A row for every entity of the order, a column for every column; no rows and columns where the site sends none.
    levels : ndarray
        Number of bins of each column.
    epsilon : float
        eps of the randomized response to each column; 0: these are the bins.
    """

    bins: UInt8[np.ndarray, "n c"]
    levels: UInt8[np.ndarray, "c"]
    epsilon: float


@dataclass(frozen=True)
class Bin(Payload, answer=EntityBins):
    """To every agent, once, before learning: asks for the bins of its columns, if it allows that.

    Attributes
    ----------
    levels : int
        Most bins of a column of numbers: 16, 32 or 64.
    epsilon : float
        eps of randomized response to each column, 0: none. A site may want a smaller one.
    """

    levels: int
    epsilon: float

    def spends(self) -> dict[str, int]:
        """Return what it takes of a site's budget."""
        return {MODELS: 1}


@dataclass(frozen=True)
class Receipt(Payload):
    """To the center, once: whether the agent has stored its model; false where it has no directory."""

    stored: bool


@dataclass(frozen=True)
class Conclude(Payload, answer=Receipt):
    """To sites, once: asks an agent to store this model for later predictions.

    Attributes
    ----------
    target : ndarray
        Target that the model is fitted to once more; empty: the model is a sum of steps.
    numbers : ndarray
        Numbers of these steps; none, and no target: the agent has no part in the prediction.
    separate : bool
        Whether later predictions have a column for every step, not their sum.
    bins : bool
        Whether the bins of new rows are wanted later, as the site has given them; it stores their edges.
    own : ndarray
        Target of `Compare` where the site's own prediction has a share in the result, as last columns; else empty.
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
    """Return the payload with the numbers that may cross in lower precision in this one."""
    changes = {
        name: getattr(payload, name).astype(dtype)
        for name, spec in specs(type(payload)).items()
        if len(spec.dtypes) > 1 and getattr(payload, name).dtype != dtype
    }
    changed: Payload = replace(cast("Any", payload), **changes) if changes else payload
    return changed
