"""What crosses the wire in attribute-distributed regression (docs/residual.md, "What left my site").

Every site is an agent that holds other columns of the same entities. An agent is sent numbers to fit, one a row - the
outcome, a residual, or a prediction that would have been better - and answers with what it predicts for these rows.

What that reveals: whoever does the fusion center's arithmetic sees, for every entity, what each agent's columns say of
the outcome, and nothing else of the columns; with a tree, rows of one leaf show as equal numbers. The agents see the
outcome's residual of every entity. Rows are matched by keyed hashes of the entities' names. Where a site holds the
outcome, and where the residual travels from agent to agent, all of this crosses sealed (`Sealed`, `Pass`): what is in
them is one of the payloads declared here, encrypted for the site that it is meant for, and the center relays bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, UInt8, UInt64

from protocols.payload import Payload, specs

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


# -- sealed -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SealedAnswer(Payload):
    """Up: the answer to what was sealed, sealed for who asked. `body` as in `Sealed`."""

    body: UInt8[np.ndarray, "bytes"]


@dataclass(frozen=True)
class Sealed(Payload, answer=SealedAnswer):
    """Down: a payload of this module, encrypted by another site for this one; the center relays it.

    Attributes
    ----------
    sender : str
        The site that it comes from.
    body : ndarray
        Nonce and ciphertext (X25519, HKDF-SHA256, ChaCha20-Poly1305).
    """

    sender: str
    body: UInt8[np.ndarray, "bytes"]


@dataclass(frozen=True)
class Fused(Payload):
    """Up: what the site that holds the outcome asks of the agents next, and when it has ended what came out.

    Attributes
    ----------
    agents : tuple of str
        Who is asked; empty: the run has ended.
    bodies : tuple of ndarray
        What, sealed for each of them.
    refused : tuple of str
        Agents whose last answer could not be used, and counts as none.
    train, validation, test : float
        Mean squared errors of the newest ensemble; 0 where there are no such rows.
    beta : ndarray
        Coefficients, an agent each; here and below empty until the run has ended.
    iteration : int
        Which iterate was chosen.
    power : float
        p of eq. (37).
    curve : ndarray
        Mean squared errors on the rows learnt from, validation and test rows by iteration; 0 where there are none.
    parts : ndarray
        Variances of the agents' parts of the prediction by iteration.
    seen : ndarray
        Which agents gave any prediction.
    unkept : tuple of str
        Agents that have a part in the result and did not say that their model is kept.
    last : bool
        Whether what is asked is to keep what was learnt.
    """

    agents: tuple[str, ...]
    bodies: tuple[UInt8[np.ndarray, "_"], ...]
    refused: tuple[str, ...]
    train: float
    validation: float
    test: float
    beta: Float64[np.ndarray, "D"]
    iteration: int
    power: float
    curve: Float64[np.ndarray, "t 3"]
    parts: Float64[np.ndarray, "t D"]
    seen: Bool[np.ndarray, "D"]
    unkept: tuple[str, ...]
    last: bool


@dataclass(frozen=True)
class Lead(Payload, answer=Fused):
    """Down, once, to the site that holds the outcome: do the fusion center's arithmetic.

    Attributes
    ----------
    agents : tuple of str
        All agents.
    n_learn : int
        The first rows of the order are learnt from, the others are test rows.
    rules : str
        How to learn (numerics/residual/rules.py), as JSON.
    precision : str
        ``float64`` or ``float32``: of the numbers it sends.
    """

    agents: tuple[str, ...]
    n_learn: int
    rules: str
    precision: str


@dataclass(frozen=True)
class Fuse(Payload, answer=Fused):
    """Down, to the site that holds the outcome: the agents' answers to what it asked.

    Attributes
    ----------
    agents : tuple of str
        Who answered.
    bodies : tuple of ndarray
        Their answers, sealed for this site.
    """

    agents: tuple[str, ...]
    bodies: tuple[UInt8[np.ndarray, "_"], ...]


@dataclass(frozen=True)
class KeepEnsemble(Payload, answer=Concluded):
    """Down, once, to the site that holds the outcome, after the ring: what it takes to sum up predictions to come.

    Attributes
    ----------
    agents : tuple of str
        Who has a part in them.
    n_learn : int
        The first rows of the order, whose mean outcome is the intercept.
    intercept : bool
        Whether there is one.
    """

    agents: tuple[str, ...]
    n_learn: int
    intercept: bool


@dataclass(frozen=True)
class Present(Payload, answer=SealedAnswer):
    """Down: predict the common rows with the model of an earlier run, sealed for the site that held the outcome.

    Attributes
    ----------
    run : str
        Whose model.
    receiver : str
        Who sums up.
    """

    run: str
    receiver: str


@dataclass(frozen=True)
class Part(Payload):
    """Inside the answer to `Present`: ``f_j(x)`` of every row of the order."""

    part: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class Summed(Payload):
    """Up: the predictions are made, and stay at the site.

    Attributes
    ----------
    n : int
        How many.
    missing : tuple of str
        Agents whose part should have come, and did not.
    """

    n: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Sum(Payload, answer=Summed):
    """Down, to the site that held the outcome: the agents' parts. `run` as in `Predict`, the others as in `Fuse`."""

    run: str
    agents: tuple[str, ...]
    bodies: tuple[UInt8[np.ndarray, "_"], ...]


@dataclass(frozen=True)
class Residual(Payload):
    """Inside `Pass`: what is left of the outcome on all rows of the order."""

    residual: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class Passed(Payload):
    """Up: what is left of the outcome after this agent's step, sealed for the next.

    Attributes
    ----------
    body : ndarray
        As in `Sealed`.
    train, validation, test : float
        Mean squares of what is left, by kind of row; 0 where there are none.
    step, total : float
        Mean square of the step; variance of the agent's sum of steps.
    """

    body: UInt8[np.ndarray, "bytes"]
    train: float
    validation: float
    test: float
    step: float
    total: float


@dataclass(frozen=True)
class Pass(Payload, answer=Passed):
    """Down: take the residual, fit it, hand on what is left (section VI-B, without a fusion center).

    Attributes
    ----------
    sender : str
        Who sealed `body`. This site itself: what it handed on last is to be sealed for another, since the one that
        was next is silent. Empty: a new course begins, with the outcome, or with what is left of it in the clear where
        the center holds it.
    body : ndarray
        As in `Sealed`; empty where this site is to take what it has.
    receiver : str
        Who is next.
    n_fit, n_validation : int
        Rows learnt from and validation rows; the others are test rows.
    add, steps, number, keep
        As in `Fit`; with 0 steps what came is handed on as it is.
    intercept : bool
        Whether the outcome is taken about its mean.
    accepted : int
        Number of this agent's last step that counts; -1: none yet. Of a later one the answer was lost.
    """

    sender: str
    body: UInt8[np.ndarray, "bytes"]
    receiver: str
    n_fit: int
    n_validation: int
    add: float
    steps: int
    number: int
    keep: bool
    intercept: bool
    accepted: int = -1


def rounded(payload: Payload, dtype: np.dtype) -> Payload:
    """The payload with the numbers that may cross in less precision in that one."""
    changes = {
        name: getattr(payload, name).astype(dtype)
        for name, spec in specs(type(payload)).items()
        if len(spec.dtypes) > 1 and getattr(payload, name).dtype != dtype
    }
    changed: Payload = replace(cast("Any", payload), **changes) if changes else payload
    return changed
