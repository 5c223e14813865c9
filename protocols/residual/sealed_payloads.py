"""What crosses sealed, and what is asked of the site that holds the outcome: the center relays bytes it cannot read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from protocols.residual.learning_payloads import Concluded
from protocols.wire.payload import Payload

# -- between sites ----------------------------------------------------------------------------------------------------


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
