"""Sealed payloads, which the center relays and cannot read, and asks to the site that holds the outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from protocols.budget import MODELS
from protocols.residual.learning_payloads import Receipt
from protocols.wire.payload import Payload

# -- between sites ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SealedAnswer(Payload):
    """To the center: the answer to a sealed ask, sealed for the asking site; `body` as in `SealedAsk`."""

    body: UInt8[np.ndarray, "bytes"]


@dataclass(frozen=True)
class SealedAsk(Payload, answer=SealedAnswer):
    """To sites: a payload of this module, encrypted by another site for this one; the center relays it.

    Attributes
    ----------
    sender : str
        Site that sealed it.
    body : ndarray
        Nonce and ciphertext (X25519, HKDF-SHA256, ChaCha20-Poly1305).
    """

    sender: str
    body: UInt8[np.ndarray, "bytes"]


@dataclass(frozen=True)
class FusionStep(Payload):
    """To the center: the next sealed asks of the site that holds the outcome, and at the end the result.

    Attributes
    ----------
    agents : tuple of str
        Agents to ask; empty: the run has ended.
    bodies : tuple of ndarray
        The asks, each sealed for its agent.
    refused : tuple of str
        Agents whose last answer was unusable and counts as missing.
    train, validation, test : float
        Mean squared errors, or log losses, of the newest ensemble; 0 where there are no such rows.
    last : bool
        Whether these asks tell agents to store their models.
    beta : ndarray
        Coefficients, one for each agent; this and the following fields are empty until the run has ended.
    iteration : int
        Number of the chosen iterate.
    power : float
        p of eq. (37).
    curve : ndarray
        Mean squared errors on training, validation and test rows by iteration; 0 where there are none.
    parts : ndarray
        Variances of the agents' parts of the prediction by iteration.
    seen : ndarray
        Agents that sent any prediction.
    without_receipt : tuple of str
        Agents with a part in the result that did not confirm that they stored their model.
    left_out : tuple of str
        Agents that raised the error on validation rows (``residual.robust``).
    alone : tuple of str
        Agents with a known error of their own predictions (`Compare`).
    alone_errors : ndarray
        For each of them, its own mean squared error (or log loss) on the test rows, the joint error minus this, and the
        standard error of the difference.
    own_site : str
        Agent whose own prediction has a share in the result; empty: none.
    own_share : float
        The share.
    scores : ndarray
        For classes, scores on the test rows and their standard errors, joint and of each of `alone`
        (`numerics.shared.classification.score_row`); empty for amounts.
    threshold : float
        For two classes, the probability from which on to predict the second; else -1.
    """

    agents: tuple[str, ...]
    bodies: tuple[UInt8[np.ndarray, "_"], ...]
    refused: tuple[str, ...]
    train: float
    validation: float
    test: float
    last: bool
    beta: Float64[np.ndarray, "D"] = field(default_factory=lambda: np.zeros(0))
    iteration: int = 0
    power: float = 0.0
    curve: Float64[np.ndarray, "t 3"] = field(default_factory=lambda: np.zeros((0, 3)))
    parts: Float64[np.ndarray, "t D"] = field(default_factory=lambda: np.zeros((0, 0)))
    seen: Bool[np.ndarray, "D"] = field(default_factory=lambda: np.zeros(0, bool))
    without_receipt: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    alone_errors: Float64[np.ndarray, "k 3"] = field(default_factory=lambda: np.zeros((0, 3)))
    own_site: str = ""
    own_share: float = 0.0
    scores: Float64[np.ndarray, "w s"] = field(default_factory=lambda: np.zeros((0, 0)))
    threshold: float = -1.0


@dataclass(frozen=True)
class Lead(Payload, answer=FusionStep):
    """To the site that holds the outcome, once: asks it to do the fusion center's arithmetic.

    Attributes
    ----------
    agents : tuple of str
        All agents.
    n_learn : int
        Number of training rows, the first ones of the order; the others are test rows.
    rules : str
        Rules of learning (numerics/residual/rules.py), as JSON.
    precision : str
        Precision of the numbers that it sends: ``float64`` or ``float32``.
    """

    agents: tuple[str, ...]
    n_learn: int
    rules: str
    precision: str


@dataclass(frozen=True)
class Fuse(Payload, answer=FusionStep):
    """To the site that holds the outcome: the agents' answers to its asks.

    Attributes
    ----------
    agents : tuple of str
        Agents that answered.
    bodies : tuple of ndarray
        Their answers, sealed for this site.
    """

    agents: tuple[str, ...]
    bodies: tuple[UInt8[np.ndarray, "_"], ...]


@dataclass(frozen=True)
class KeepEnsemble(Payload, answer=Receipt):
    """To the site that holds the outcome, once, after the ring: asks it to store what later predictions need.

    Attributes
    ----------
    agents : tuple of str
        Agents with a part in later predictions.
    n_learn : int
        Number of training rows, the first ones of the order; their mean outcome is the intercept.
    intercept : bool
        Whether there is an intercept.
    """

    agents: tuple[str, ...]
    n_learn: int
    intercept: bool


@dataclass(frozen=True)
class Present(Payload, answer=SealedAnswer, spends={MODELS: 1}):
    """To sites: asks for predictions of the common rows, sealed for the site that held the outcome of an earlier run.

    Attributes
    ----------
    run : str
        Run whose model predicts.
    receiver : str
        Site that adds the predictions.
    """

    run: str
    receiver: str


@dataclass(frozen=True)
class Part(Payload):
    """Inside the answer to `Present`: `part` of `AgentPredictions`, of every row of the order."""

    part: Float64[np.ndarray, "n c"] | UInt8[np.ndarray, "n c"]


@dataclass(frozen=True)
class PredictionCount(Payload):
    """To the center: the predictions are complete, and stay at the site.

    Attributes
    ----------
    n : int
        Number of predictions.
    missing : tuple of str
        Agents whose part is missing.
    """

    n: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Sum(Payload, answer=PredictionCount):
    """To the site that held the outcome: the agents' parts. `run` as in `Predict`, the others as in `Fuse`."""

    run: str
    agents: tuple[str, ...]
    bodies: tuple[UInt8[np.ndarray, "_"], ...]


@dataclass(frozen=True)
class Residual(Payload):
    """Inside `Pass`: the residual of the outcome on all rows of the order."""

    residual: Float64[np.ndarray, "n"]


@dataclass(frozen=True)
class NextResidual(Payload):
    """To the center: the residual after this agent's step, sealed for the next agent.

    Attributes
    ----------
    body : ndarray
        As in `SealedAsk`.
    train, validation, test : float
        Mean squares of the residual, by kind of row; 0 where there are none.
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
class Pass(Payload, answer=NextResidual):
    """To sites: asks an agent to fit the residual and pass on the next one (section VI-B, without a fusion center).

    Attributes
    ----------
    sender : str
        Site that sealed `body`. If it is the site's own name, the site seals its last residual once more, for another
        agent, because the next one did not answer. If it is empty, a new course begins with the outcome, or with a
        residual in the clear if the center holds the outcome.
    body : ndarray
        As in `SealedAsk`; empty if this site takes its own residual.
    receiver : str
        The next agent.
    n_fit, n_validation : int
        Numbers of training and validation rows; the others are test rows.
    add, steps, number, keep
        As in `Fit`; with 0 steps the agent passes the residual on unchanged.
    intercept : bool
        Whether to subtract the mean of the outcome.
    accepted : int
        Number of this agent's last accepted step; -1: none yet. Answers to later steps were lost.
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

    def spends(self) -> dict[str, int]:
        """Return the amounts that the ask takes from a site's budget."""
        return {MODELS: self.steps}
