"""What is asked of an agent, and what it answers: in the clear by the fusion center, or sealed by another site."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt8, UInt64

from protocols.wire.payload import Payload, specs

# -- who is there, and which rows are whose ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Enrolled(Payload):
    """Up, once.

    Attributes
    ----------
    n : int
        Rows that the site has.
    keys : ndarray
        HMAC-SHA256 of the entities' names, cut to 128 bits, in the order of the site's rows; no rows where entities
        have no names (``align="row-order"``).
    check : ndarray
        Of the sites' shared secret, by a key that names nothing: differs where two sites have different secrets. Empty
        without a secret.
    kind : str
        ``number`` or ``text``: what the column of names holds; empty: there is none.
    n_columns : int
        How many columns the site learns from.
    agent : str
        Its method.
    outcome : bool
        Whether it holds the outcome.
    public_key : ndarray
        X25519, of this run alone, for what is sealed for this site; empty unless asked for.
    """

    n: int
    keys: UInt64[np.ndarray, "rows 2"]
    check: UInt8[np.ndarray, "_"]
    kind: str
    n_columns: int
    agent: str
    outcome: bool
    public_key: UInt8[np.ndarray, "_"]


@dataclass(frozen=True)
class Enrol(Payload, answer=Enrolled):
    """Down, once: say what you hold.

    Attributes
    ----------
    salt : str
        Of this run: keyed hashes of two runs cannot be matched.
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
    """Up, once: the order is understood."""


@dataclass(frozen=True)
class Order(Payload, answer=Ready):
    """Down, once: the common entities, and how the agent is to learn.

    Attributes
    ----------
    rows : ndarray
        Places of the common entities among the site's rows, in the order that all sites agree on: those learnt from
        come first.
    agent : str
        The run's method, for a site that has none of its own.
    min_leaf : int
        Fewest rows in a leaf of a tree.
    holder : str
        The site that holds the outcome, which alone may read what the models say of other rows later; empty: the
        fusion center holds it.
    names, public_keys
        Sites that things may be sealed for or come sealed from, and their keys; empty where nothing is sealed.
    """

    rows: Int64[np.ndarray, "n"]
    agent: str
    min_leaf: int
    holder: str = ""
    names: tuple[str, ...] = ()
    public_keys: tuple[UInt8[np.ndarray, "_"], ...] = ()


# -- learning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted(Payload):
    """Up: an agent's predictions.

    Attributes
    ----------
    fitted : ndarray
        Of the rows it fitted, a column for every column of `Fit.target`; of a step times `Fit.add`.
    held : ndarray
        Of all rows behind them.
    """

    fitted: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    held: Float64[np.ndarray, "m c"] | Float32[np.ndarray, "m c"]


@dataclass(frozen=True)
class Fit(Payload, answer=Fitted):
    """Down: fit these numbers as well as you can.

    Attributes
    ----------
    target : ndarray
        For the first n rows of the order; every column is fitted by itself.
    add : float
        0: what is fitted takes the place of what was. Else it is added to what the agent fitted before, times this
        (papers/attribute_distributed.txt, Algorithm 1, line 7).
    steps : int
        How often: from the second time on what the times before have left is fitted.
    number : int
        Of the step: one of the same number that did not count is forgotten.
    keep : bool
        Whether the agent is to keep the step, which may have a part in predictions to come.
    """

    target: Float64[np.ndarray, "n c"] | Float32[np.ndarray, "n c"]
    add: float = 0.0
    steps: int = 1
    number: int = 0
    keep: bool = False


@dataclass(frozen=True)
class Tried(Payload):
    """Up: how well an agent could fit a residual.

    Attributes
    ----------
    error : float
        Sum of squares that it would leave.
    fitted, held : ndarray
        As in `Fitted`, times `Try.add`; no rows where `error` is not below `Try.bar`.
    """

    error: float
    fitted: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    held: Float64[np.ndarray, "m"] | Float32[np.ndarray, "m"]


@dataclass(frozen=True)
class Try(Payload, answer=Tried):
    """Down, to every agent: say how well you could fit this residual.

    papers/attribute_distributed.txt, eq. 23, in one ask where the likely winner is foreseen.

    Attributes
    ----------
    residual : ndarray
        For the first n rows of the order.
    bar : float
        Predictions come along where the error is below this.
    add, steps, number, keep
        As in `Fit`; what is kept is the last try, and what `accepted` names.
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


@dataclass(frozen=True)
class Show(Payload, answer=Fitted):
    """Down, to the agent that could fit the residual best, if its predictions did not come along: send them."""


@dataclass(frozen=True)
class Concluded(Payload):
    """Up, once: the agent has kept its model, or has no directory to keep it in."""

    kept: bool


@dataclass(frozen=True)
class Conclude(Payload, answer=Concluded):
    """Down, once: keep this model for predictions to come.

    Attributes
    ----------
    target : ndarray
        What it is to be fitted to once more; empty: the model is a sum of steps.
    numbers : ndarray
        Of these steps; none and no target: the agent has no part in the prediction.
    """

    target: Float64[np.ndarray, "n"] | Float32[np.ndarray, "n"]
    numbers: Int64[np.ndarray, "steps"]


# -- predicting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predicted(Payload):
    """Up: the agent's part of the predictions of its present rows.

    Attributes
    ----------
    keys, check, kind
        As in `Enrolled`.
    part : ndarray
        ``f_j(x)``, a number a row; the center, who holds the coefficients, sums ``beta_j f_j(x)``.
    """

    keys: UInt64[np.ndarray, "rows 2"]
    check: UInt8[np.ndarray, "_"]
    kind: str
    part: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class Predict(Payload, answer=Predicted):
    """Down: predict the rows that you have now.

    Attributes
    ----------
    run : str
        Whose model.
    salt, align
        As in `Enrol`.
    """

    run: str
    salt: str
    align: str


# -- precision --------------------------------------------------------------------------------------------------------


def rounded(payload: Payload, dtype: np.dtype) -> Payload:
    """The payload with the numbers that may cross in less precision in that one."""
    changes = {
        name: getattr(payload, name).astype(dtype)
        for name, spec in specs(type(payload)).items()
        if len(spec.dtypes) > 1 and getattr(payload, name).dtype != dtype
    }
    changed: Payload = replace(cast("Any", payload), **changes) if changes else payload
    return changed
