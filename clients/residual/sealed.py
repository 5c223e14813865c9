"""What crosses sealed: asks and answers between the site that holds the outcome and the agents, and the ring.

The center relays bytes that it cannot read. Every site makes a key pair for the run; what is sealed is bound to run,
lane, round, sender and receiver, so that it can be neither delivered to another nor a second time. Sites that share a
secret (``align-key-file``) put it into the keys, so that a center which hands out keys of its own gains nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from clients.dispatch import answers, handler_of
from clients.entities import shared_secret
from clients.residual.keep import keep_file, recall_file
from clients.residual.learner import ROWS, Learner
from clients.residual.recall import predictions
from clients.residual.state import freeze, thaw
from clients.sealing import SealError, new_private_key, public_key_of, seal, unseal
from clients.site import Site
from numerics.columns import Columns
from numerics.residual.plan import Plan
from numerics.residual.rules import Rules, Split
from protocols.faults import Fault, SiteFault
from protocols.packing import pack, unpack
from protocols.payload import Payload, PayloadError
from protocols.residual import (
    Conclude,
    Concluded,
    Fit,
    Fitted,
    Fuse,
    Fused,
    KeepEnsemble,
    Lead,
    Order,
    Part,
    Pass,
    Passed,
    Present,
    Residual,
    Sealed,
    SealedAnswer,
    Show,
    Sum,
    Summed,
    Tried,
    Try,
    rounded,
)

logger = logging.getLogger("flwr")

_PRIVATE, _NAMES, _KEYS = "private-key", "others", "public-keys"
_PLAN, _OWN, _PRECISION = "plan/", "own-answer", "precision"
_LEFT, _SUM = "left", "own-sum"

_ASKS: tuple[type[Payload], ...] = (Fit, Try, Show, Conclude)
_ANSWERS: tuple[type[Payload], ...] = (Fitted, Tried, Concluded)

Body = UInt8[np.ndarray, "bytes"]


# -- keys -------------------------------------------------------------------------------------------------------------


def new_key(site: Site) -> UInt8[np.ndarray, "32"]:
    """Make the site's key pair of this run; the public half is for everybody.

    Raises
    ------
    SiteFault
        If a real site shares no secret with the others: the center could then hand out keys of its own, and read all.
    """
    if not site.simulated and not shared_secret(site.config):
        raise SiteFault(Fault.NO_SECRET)
    private = new_private_key()
    site.memory[_PRIVATE] = np.frombuffer(private, np.uint8)
    return np.frombuffer(public_key_of(private), np.uint8)


def remember_keys(site: Site, order: Order) -> None:
    """Remember the others' public keys."""
    if order.names:
        site.memory[_NAMES] = np.frombuffer(json.dumps(order.names).encode(), np.uint8)
        for place, key in enumerate(order.public_keys):
            site.memory[f"{_KEYS}/{place}"] = key


@dataclass(frozen=True)
class _Seals:
    """Seals for others, and opens what they sealed for this site."""

    site: Site
    private: bytes
    secret: bytes
    peers: Mapping[str, bytes]

    @classmethod
    def of(cls, site: Site) -> _Seals:
        memory = site.memory
        if _PRIVATE not in memory or _NAMES not in memory:
            raise SiteFault(Fault.STALE_MEMORY, "the keys of the run are not in the memory")
        names = json.loads(memory[_NAMES].tobytes())
        peers = {name: memory[f"{_KEYS}/{place}"].tobytes() for place, name in enumerate(names)}
        return cls(site, memory[_PRIVATE].tobytes(), shared_secret(site.config), peers)

    def _context(self, sender: str, receiver: str, number: int) -> bytes:
        return json.dumps([self.site.session, self.site.lane, number, sender, receiver]).encode()

    def _peer(self, name: str) -> bytes:
        if name not in self.peers:
            raise SiteFault(Fault.MALFORMED_ASK, f"no key of {name!r} was told")
        return self.peers[name]

    def close(self, payload: Payload, receiver: str) -> Body:
        """A payload for one site, to be opened in the next round."""
        context = self._context(self.site.name, receiver, self.site.round)
        try:
            body = seal(
                pack(payload), private=self.private, peer=self._peer(receiver), secret=self.secret, context=context
            )
        except SealError as error:
            raise SiteFault(Fault.BROKEN_SEAL, f"{receiver}: {error}") from error
        return np.frombuffer(body, np.uint8)

    def open(self, body: Body, sender: str, *allowed: type[Payload]) -> Payload:
        """What another site sealed for this one in the round before."""
        context = self._context(sender, self.site.name, self.site.round - 1)
        try:
            plain = unseal(
                body.tobytes(), private=self.private, peer=self._peer(sender), secret=self.secret, context=context
            )
            return unpack(plain, *allowed)
        except SealError as error:
            raise SiteFault(Fault.BROKEN_SEAL, f"{sender}: {error}") from error
        except PayloadError as error:
            raise SiteFault(Fault.MALFORMED_ASK, f"{sender}: {error}") from error


@answers(Sealed)
def open_and_answer(ask: Sealed, site: Site) -> SealedAnswer:
    """Answer what another site asks, for its eyes only."""
    seals = _Seals.of(site)
    inner = seals.open(ask.body, ask.sender, *_ASKS)
    return SealedAnswer(seals.close(handler_of(type(inner))(inner, site), ask.sender))


# -- the site that holds the outcome plays the fusion center ----------------------------------------------------------


@answers(Lead)
def lead(ask: Lead, site: Site) -> Fused:
    """Begin: which agents are to fit what."""
    y = _outcome(site)
    if not 2 <= ask.n_learn <= len(y) or len(set(ask.agents)) < len(ask.agents):
        raise SiteFault(Fault.MALFORMED_ASK, f"{ask.n_learn} of {len(y)} rows to learn from")
    try:
        plan = Plan(ask.agents, y, ask.n_learn, Rules.from_json(ask.rules))
    except ValueError as error:
        raise SiteFault(Fault.MALFORMED_ASK, f"rules {ask.rules!r}: {error}") from error
    site.memory[_PRECISION] = np.array(ask.precision == "float32")
    return _go_on(plan, site)


@answers(Fuse)
def fuse(ask: Fuse, site: Site) -> Fused:
    """Take the agents' answers, and say what they are to fit next."""
    stored = {name.removeprefix(_PLAN): site.memory[name] for name in site.memory if name.startswith(_PLAN)}
    if not stored:
        raise SiteFault(Fault.STALE_MEMORY, "the plan of the run is not in the memory")
    if len(ask.agents) != len(ask.bodies):
        raise SiteFault(Fault.MALFORMED_ASK, "there is not one answer for each agent")
    plan, seals = thaw(stored), _Seals.of(site)
    asks, given, refused = plan.asks(), {}, []
    for name, body in zip(ask.agents, ask.bodies, strict=True):
        if name not in asks:
            raise SiteFault(Fault.MALFORMED_ASK, f"{name} answers, and was not asked")
        try:
            answer = seals.open(body, name, *_ANSWERS)
            plan.check(name, asks[name], answer)
            given[name] = answer
        except (SiteFault, PayloadError) as error:  # no agent's nonsense may end the others' run
            logger.warning("site %s: the answer of %s is refused: %s", site.name, name, error)
            refused.append(name)
    if _OWN in site.memory:
        given[site.name] = unpack(site.memory[_OWN].tobytes(), *_ANSWERS)
        del site.memory[_OWN]
    plan.take(dict(sorted(given.items())))
    return _go_on(plan, site, tuple(refused))


def _go_on(plan: Plan, site: Site, refused: tuple[str, ...] = ()) -> Fused:
    """Ask until some other site has to answer; this one answers itself at once."""
    dtype = np.dtype(np.float32 if site.memory[_PRECISION] else np.float64)
    asks = plan.asks()
    while set(asks) == {site.name}:
        plan.take({site.name: _answer_oneself(asks[site.name], site, dtype)})
        asks = plan.asks()
    if site.name in asks:
        own = _answer_oneself(asks.pop(site.name), site, dtype)
        site.memory[_OWN] = np.frombuffer(pack(own), np.uint8)
    for name in [name for name in site.memory if name.startswith(_PLAN)]:
        del site.memory[name]
    if asks:
        site.memory.update({f"{_PLAN}{name}": array for name, array in freeze(plan).items()})
    else:
        _keep_ensemble(plan, site)
    return _fused(plan, asks, site, dtype, refused)


def _answer_oneself(ask: Payload, site: Site, dtype: np.dtype[Any]) -> Payload:
    """Answer as an agent, with numbers rounded as if they had crossed."""
    answer: Payload = handler_of(type(ask))(rounded(ask, dtype), site)
    return answer


def _fused(
    plan: Plan, asks: Mapping[str, Payload], site: Site, dtype: np.dtype[Any], refused: tuple[str, ...]
) -> Fused:
    seals = _Seals.of(site)
    bodies = {name: seals.close(rounded(ask, dtype), name) for name, ask in asks.items()}
    train, validation, test = np.nan_to_num(plan.newest).tolist()
    ended = plan.result if not asks else None
    return Fused(
        agents=tuple(bodies),
        bodies=tuple(bodies.values()),
        refused=refused,
        train=train,
        validation=validation,
        test=test,
        beta=np.zeros(0) if ended is None else ended.beta,
        iteration=0 if ended is None else ended.iteration,
        power=0.0 if ended is None else ended.p,
        curve=np.zeros((0, 3)) if ended is None else np.nan_to_num(ended.curve),
        parts=np.zeros((0, 0)) if ended is None else ended.power,
        seen=np.zeros(0, bool) if ended is None else ended.seen,
    )


def _outcome(site: Site) -> Float64[np.ndarray, "n"]:
    """The outcomes of the agreed rows, in their order."""
    columns: Columns = site.shard
    if columns.y is None:
        raise SiteFault(Fault.NO_OUTCOME)
    y: Float64[np.ndarray, "n"] = columns.y[_rows(site)]
    return y


def _rows(site: Site) -> Int64[np.ndarray, "n"]:
    if ROWS not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the agreed order of the rows is not in the memory")
    return site.memory[ROWS]


# -- predictions that only the holder of the outcome sees -------------------------------------------------------------


def _keep_ensemble(plan: Plan, site: Site) -> None:
    """What it takes to sum up later: the agents' coefficients, and the mean outcome."""
    result = plan.result
    assert result is not None
    if plan.rules.keep:
        _write_ensemble(site, result.names, result.beta, result.mean, result.model)


@answers(KeepEnsemble)
def keep_ensemble(ask: KeepEnsemble, site: Site) -> Concluded:
    """The same after the ring, whose agents all have the coefficient 1."""
    y = _outcome(site)
    mean = float(y[: ask.n_learn].mean()) if ask.intercept else 0.0
    _write_ensemble(site, ask.agents, np.ones(len(ask.agents)), mean, None)
    return Concluded()


def _write_ensemble(site: Site, names: Sequence[str], beta: np.ndarray, mean: float, model: object) -> None:
    about = {"names": list(names), "beta": beta.tolist(), "mean": mean, "model": model}
    keep_file(site, f"{site.session}-ensemble", about)


@answers(Present)
def present(ask: Present, site: Site) -> SealedAnswer:
    """What this agent's model says of the common rows, for the holder of the outcome alone."""
    return SealedAnswer(_Seals.of(site).close(Part(predictions(site, ask.run)[1][_rows(site)]), ask.receiver))


@answers(Sum)
def sum_up(ask: Sum, site: Site) -> Summed:
    """The predictions of the common rows, into this site's own ``predictions.csv``."""
    about = recall_file(site, f"{ask.run}-ensemble")
    names, beta, model = list(about["names"]), np.array(about["beta"], float), about["model"]
    rows, seals = _rows(site), _Seals.of(site)
    F = np.zeros((len(names), len(rows)))
    heard = set()
    for name, body in zip(ask.agents, ask.bodies, strict=True):
        part = seals.open(body, name, Part)
        if not isinstance(part, Part) or part.part.shape != rows.shape or name not in names:
            raise SiteFault(Fault.MALFORMED_ASK, f"the part of {name} does not fit")
        F[names.index(name)] = part.part
        heard.add(name)
    columns: Columns = site.shard
    if site.name in names:
        F[names.index(site.name)] = predictions(site, ask.run)[1][rows]
        heard.add(site.name)
    predicted = about["mean"] + (beta @ F if model is None else model.predict(F.T))
    _write_predictions(site, columns, rows, predicted)
    used = beta != 0 if model is None else np.ones(len(names), bool)
    return Summed(
        len(rows), tuple(name for name, wanted in zip(names, used, strict=True) if wanted and name not in heard)
    )


def _write_predictions(site: Site, columns: Columns, rows: np.ndarray, predicted: np.ndarray) -> None:
    import pandas as pd

    names = rows if columns.entity is None else columns.entity[rows]
    frame = pd.DataFrame({"entity": names, "prediction": predicted})
    site.write("predictions.csv", lambda temporary: frame.to_csv(temporary, index=False))


# -- the ring ---------------------------------------------------------------------------------------------------------


@answers(Pass)
def pass_on(ask: Pass, site: Site) -> Passed:
    """One agent's turn of Simple Iterative Projection, between two other sites (section VI-B)."""
    seals, learner = _Seals.of(site), Learner.of(site)
    split = Split(ask.n_fit, ask.n_validation, len(learner.x) - ask.n_fit - ask.n_validation)
    if min(split.n_fit - 1, split.n_validation, split.n_test) < 0:
        raise SiteFault(Fault.MALFORMED_ASK, "the kinds of rows do not add up to the rows agreed on")
    left = _received(ask, site, seals, split)
    step = total = 0.0
    if ask.steps:
        taken = learner.step(left[: split.n_fit], ask.add, ask.steps, ask.number)
        left = left - taken
        own = site.memory.get(_SUM, np.zeros(0))
        # The course on all rows begins anew: it has more rows to fit than the one that chose the end.
        own = taken[: split.n_fit] + (own if len(own) == split.n_fit else 0.0)
        site.memory[_SUM] = own
        step = float(taken[: split.n_fit] @ taken[: split.n_fit] / split.n_fit)
        total = float(own.var())
    site.memory[_LEFT] = left
    train, validation, test = np.nan_to_num(split.errors(left)).tolist()
    return Passed(seals.close(Residual(left), ask.receiver), train, validation, test, step, total)


def _received(ask: Pass, site: Site, seals: _Seals, split: Split) -> Float64[np.ndarray, "n"]:
    """The residual that this site is to take."""
    if ask.sender == site.name and not len(ask.body):
        if _LEFT not in site.memory:
            raise SiteFault(Fault.STALE_MEMORY, "what was handed on last is not in the memory")
        return site.memory[_LEFT]
    if not ask.sender and not len(ask.body):
        y = _outcome(site)
        return y - y[: split.n_fit].mean() if ask.intercept else y
    if not ask.sender:
        try:
            payload = unpack(ask.body.tobytes(), Residual)
        except PayloadError as error:
            raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    else:
        payload = seals.open(ask.body, ask.sender, Residual)
    if not isinstance(payload, Residual) or len(payload.residual) != split.n:
        raise SiteFault(Fault.MALFORMED_ASK, "the residual has another number of rows than were agreed on")
    return payload.residual
