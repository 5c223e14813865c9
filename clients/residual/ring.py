"""One agent's turn of the ring: between two other sites, and the center relays what it cannot read (section VI-B)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from clients.dispatch import answers
from clients.residual.learner import Learner
from clients.residual.sealed_handlers import PRECISION, SPLIT, Seals, check_kinds, course, outcome_of
from clients.site import Site
from numerics.residual.rules import Split
from protocols.residual.payloads import Pass, Passed, Residual
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.packing import unpack
from protocols.wire.payload import PayloadError

_CAME, _LEFT = "came", "left"
_NUMBER, _SUM, _BEFORE = "own-number", "own-sum", "own-sum-before"


@answers(Pass)
def pass_on(ask: Pass, site: Site) -> Passed:
    """Take the residual, fit it, hand on what is left."""
    seals, learner = Seals.of(site), Learner.of(site)
    split = Split(ask.n_fit, ask.n_validation, len(learner.x) - ask.n_fit - ask.n_validation)
    _check_split(ask, site, split)
    left = site.memory[_CAME] = _received(ask, learner, seals, split)
    step = total = 0.0
    if ask.steps:
        taken = learner.step(left[: split.n_fit], ask.add, ask.steps, ask.number, keep=ask.keep)
        left = left - taken
        step = float(taken[: split.n_fit] @ taken[: split.n_fit] / split.n_fit)
        total = float(_own_sum(ask, site, taken[: split.n_fit]).var())
    site.memory[_LEFT] = left
    train, validation, test = np.nan_to_num(split.errors(left)).tolist()
    return Passed(seals.close(Residual(left), ask.receiver), train, validation, test, step, total)


def _check_split(ask: Pass, site: Site, split: Split) -> None:
    """One split in a run, and the same without validation rows: errors of others would tell of single rows."""
    if min(split.n_fit - 1, split.n_validation, split.n_test) < 0:
        raise SiteFault(Fault.MALFORMED_ASK, "the kinds of rows do not add up to the rows agreed on")
    check_kinds(split, site)
    if PRECISION in site.memory:
        raise SiteFault(Fault.MALFORMED_ASK, "this run goes by the site's own plan: others' errors would tell of rows")
    asked = np.array([split.n_fit + split.n_validation, split.n_validation, ask.intercept])
    agreed = site.memory.get(SPLIT, asked)
    if not np.array_equal(asked, agreed) and not np.array_equal(asked, agreed * [1, 0, 1]):
        raise SiteFault(Fault.MALFORMED_ASK, "the rows of this run are split otherwise")
    learn = split.n_fit + split.n_validation
    kept = course(site, "ring") and site.commitments.keeps(f"split {site.lane}", learn, ask.intercept)
    if split.n_validation:
        kept = site.commitments.keeps(f"validation {site.lane}", split.n_validation) and kept
    if not kept:
        raise SiteFault(Fault.MALFORMED_ASK, "the rows of this run are split otherwise")
    site.memory[SPLIT] = agreed


def _own_sum(ask: Pass, site: Site, taken: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """The agent's sum of steps with this one; the last one is taken out again if it did not count."""
    memory = site.memory
    before = np.zeros(len(taken))
    if ask.accepted >= 0:
        before = memory.get(_SUM if _counts(ask, site) else _BEFORE, before)
    if len(before) != len(taken):
        raise SiteFault(Fault.MALFORMED_ASK, "the agent has no such step of these rows")
    memory[_NUMBER], memory[_BEFORE], memory[_SUM] = np.array(ask.number), before, before + taken
    return memory[_SUM]


def _counts(ask: Pass, site: Site) -> bool:
    """Whether the site's last step is known to who asks."""
    return _NUMBER in site.memory and int(site.memory[_NUMBER]) == ask.accepted


def _received(ask: Pass, learner: Learner, seals: Seals, split: Split) -> Float64[np.ndarray, "n"]:
    """The residual that this site is to take."""
    site = learner.site
    if ask.sender == site.name and not len(ask.body):
        if _LEFT not in site.memory:
            raise SiteFault(Fault.STALE_MEMORY, "what was handed on last is not in the memory")
        return site.memory[_LEFT if _counts(ask, site) else _CAME]
    if not ask.sender and not len(ask.body):
        y = outcome_of(site)
        return y - y[: split.n_fit].mean() if ask.intercept else y
    if not ask.sender:
        if learner.holder:
            raise SiteFault(Fault.SEALED_ONLY, f"{learner.holder} holds the outcome, and this residual is not sealed")
        try:
            payload = unpack(ask.body.tobytes(), Residual)
        except PayloadError as error:
            raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    else:
        payload = seals.open(ask.body, ask.sender, Residual)
    if not isinstance(payload, Residual) or len(payload.residual) != split.n:
        raise SiteFault(Fault.MALFORMED_ASK, "the residual has another number of rows than were agreed on")
    return payload.residual
